/* What the sources of pmpi_truth share. Nothing of it is seen outside the library: a program may have functions of these names. */
#ifndef PMPI_TRUTH_H
#define PMPI_TRUTH_H

#include "gates.h"

#include <mpi.h>
#include <stdint.h>

#define BUCKETS 32

/* What is known of a function. */
struct entry {
    const char *name;
    struct entry *next;
    long calls, bytes, ns, sizes[BUCKETS];
    int has_bytes;
};

#pragma GCC visibility push(hidden)

/* Calls of MPI that this thread is inside of. */
extern __thread int depth;

/* Whether a call counts that begins now; and its end. */
int enter(struct entry *e);
void leave(struct entry *e, int counts, long since);

long bytes_of(long count, MPI_Datatype type);
int ranks_of(MPI_Comm comm);
int rank_in(MPI_Comm comm);
long bytes_of_all(const int counts[], MPI_Datatype type, MPI_Comm comm);
long bytes_of_types(const int counts[], const MPI_Datatype types[], MPI_Comm comm);

void carries(struct entry *e, long bytes);
void sends(struct entry *e, long bytes, int to, MPI_Comm comm);
/* Somebody who is not named is known when the message is there and its status is wanted. */
void receives(long bytes, int from, MPI_Comm comm, const MPI_Status *status);
/* What is posted: the function's bytes. */
void posts(struct entry *e, long bytes, int from);

/* A persistent request, by its handle. */
void makes(uintptr_t handle, int is_sent, long bytes, int rank, MPI_Comm comm);
void starts(struct entry *e, uintptr_t handle);
void frees(uintptr_t handle);
/* A message that was found: who is not named is known where the status is wanted. */
void finds(MPI_Message message, int from, MPI_Comm comm, const MPI_Status *status);
void receives_found(struct entry *e, long bytes, MPI_Message message);

void wait_for_go(void);
void write_truth(void);
/* Calls that last nothing, each after a while: what our clock has of them is what else stands around a call. They count as any. */
void call_nothing(void);

#pragma GCC visibility pop

/* Around the call of the function that a wrapper stands for. The entry has the name under which the agent counts it. */
#define COUNTED(label, before, call, after) \
    static struct entry entry = {.name = label}; \
    struct entry *e = &entry; \
    int counts = enter(e); \
    if (counts) { \
        before; \
    } \
    long since = now_ns(); \
    call; \
    leave(e, counts, since); \
    if (counts) { \
        after; \
    }
#define NOTHING (void)e

#endif
