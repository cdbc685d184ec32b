/* Shared by the sources of pmpi_truth. Symbols are hidden, because a program may have functions of these
 * names. */
#ifndef PMPI_TRUTH_H
#define PMPI_TRUTH_H

#include "gates.h"

#include <mpi.h>
#include <stdint.h>

#define BUCKETS 32

/* Counters of one function. */
struct entry {
    const char *name;
    struct entry *next;
    long calls, bytes, ns, sizes[BUCKETS];
    int has_bytes;
};

#pragma GCC visibility push(hidden)

/* Number of MPI calls that this thread is inside of. */
extern __thread int depth;

/* `enter` returns whether the call is counted; `leave` ends it. */
int enter(struct entry *e);
void leave(struct entry *e, int counts, long since);

long bytes_of(long count, MPI_Datatype type);
int ranks_of(MPI_Comm comm);
int rank_in(MPI_Comm comm);
long bytes_of_all(const int counts[], MPI_Datatype type, MPI_Comm comm);
long bytes_of_types(const int counts[], const MPI_Datatype types[], MPI_Comm comm);

void carries(struct entry *e, long bytes);
void sends(struct entry *e, long bytes, int to, MPI_Comm comm);
/* MPI_ANY_SOURCE is resolved from the status, if the caller requested one. */
void receives(long bytes, int from, MPI_Comm comm, const MPI_Status *status);
/* Posted bytes, which are the bytes of the function. */
void posts(struct entry *e, long bytes, int from);

/* Persistent requests, by handle. */
void makes(uintptr_t handle, int is_sent, long bytes, int rank, MPI_Comm comm);
void starts(struct entry *e, uintptr_t handle);
void frees(uintptr_t handle);
/* A probed message; MPI_ANY_SOURCE is resolved from the status, if the caller requested one. */
void finds(MPI_Message message, int from, MPI_Comm comm, const MPI_Status *status);
void receives_found(struct entry *e, long bytes, MPI_Message message);

void wait_for_go(void);
void write_truth(void);
/* Calls without communication, at intervals, which show the overhead around a call. They are counted as any
 * other. */
void call_nothing(void);

#pragma GCC visibility pop

/* Wraps a call. The entry has the name under which the agent counts the function. */
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
