/* A library between a program and its MPI, as preloaded profilers are: counts each call and its time, and
 * passes it on.
 *
 *   LD_PRELOAD=LIBRARY mpirun -n RANKS PROGRAM
 *
 * COPY 1 passes calls on to PMPI_*, as the standard intends (mpiP, IPM). Other values of COPY pass them to
 * the next library with the function (as Darshan does), so that several can be preloaded. In MPI_Finalize
 * each rank prints {"event":"preload","copy":...,"rank":...,"functions":[...]}. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct entry { const char *name; atomic_long calls; atomic_long ns; };

static struct entry *entries[128];
static atomic_int known;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void note(struct entry *entry, long began)
{
    atomic_fetch_add(&entry->ns, now() - began);
    if (atomic_fetch_add(&entry->calls, 1) == 0)
        entries[atomic_fetch_add(&known, 1)] = entry;
}

#if COPY == 1
#define NEXT(name, parameters) int(*const next) parameters = P##name
#else
#define NEXT(name, parameters)                   \
    static int(*next) parameters;                \
    if (!next)                                   \
        *(void **)&next = dlsym(RTLD_NEXT, #name)
#endif

#define CALL(name, parameters, ...)              \
    int name parameters                          \
    {                                            \
        static struct entry entry = {#name, 0, 0}; \
        NEXT(name, parameters);                  \
        long began = now();                      \
        int result = next(__VA_ARGS__);          \
        note(&entry, began);                     \
        return result;                           \
    }

#define SEND (const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
#define ISEND (const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)

CALL(MPI_Send, SEND, data, count, type, to, tag, comm)
CALL(MPI_Ssend, SEND, data, count, type, to, tag, comm)
CALL(MPI_Bsend, SEND, data, count, type, to, tag, comm)
CALL(MPI_Rsend, SEND, data, count, type, to, tag, comm)
CALL(MPI_Isend, ISEND, data, count, type, to, tag, comm, request)
CALL(MPI_Recv, (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status), data, count, type,
     from, tag, comm, status)
CALL(MPI_Irecv, (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request), data, count, type,
     from, tag, comm, request)
CALL(MPI_Sendrecv,
     (const void *out, int count, MPI_Datatype type, int to, int tag, void *in, int room, MPI_Datatype as, int from, int wanted,
      MPI_Comm comm, MPI_Status *status),
     out, count, type, to, tag, in, room, as, from, wanted, comm, status)
CALL(MPI_Wait, (MPI_Request *request, MPI_Status *status), request, status)
CALL(MPI_Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), count, requests, statuses)
CALL(MPI_Waitany, (int count, MPI_Request requests[], int *which, MPI_Status *status), count, requests, which, status)
CALL(MPI_Test, (MPI_Request *request, int *flag, MPI_Status *status), request, flag, status)
CALL(MPI_Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), from, tag, comm, status)
CALL(MPI_Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status), from, tag, comm, flag, status)
CALL(MPI_Barrier, (MPI_Comm comm), comm)
CALL(MPI_Bcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm), data, count, type, root, comm)
CALL(MPI_Reduce, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), in, out, count, type,
     op, root, comm)
CALL(MPI_Allreduce, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), in, out, count, type, op,
     comm)
CALL(MPI_Scan, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), in, out, count, type, op, comm)
CALL(MPI_Gather,
     (const void *in, int count, MPI_Datatype type, void *out, int room, MPI_Datatype as, int root, MPI_Comm comm), in, count, type,
     out, room, as, root, comm)
CALL(MPI_Scatter,
     (const void *in, int count, MPI_Datatype type, void *out, int room, MPI_Datatype as, int root, MPI_Comm comm), in, count, type,
     out, room, as, root, comm)
CALL(MPI_Allgather, (const void *in, int count, MPI_Datatype type, void *out, int room, MPI_Datatype as, MPI_Comm comm), in, count,
     type, out, room, as, comm)
CALL(MPI_Alltoall, (const void *in, int count, MPI_Datatype type, void *out, int room, MPI_Datatype as, MPI_Comm comm), in, count,
     type, out, room, as, comm)

int MPI_Finalize(void)
{
    static char text[16384];
    int rank, at = 0;
    NEXT(MPI_Finalize, (void));
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    at += snprintf(text, sizeof text, "{\"event\":\"preload\",\"copy\":%d,\"rank\":%d,\"functions\":[", COPY, rank);
    for (int i = 0; i < atomic_load(&known); i++)
        at += snprintf(text + at, sizeof text - at, "%s{\"name\":\"%s\",\"calls\":%ld,\"ns\":%ld}", i ? "," : "", entries[i]->name,
                       atomic_load(&entries[i]->calls), atomic_load(&entries[i]->ns));
    at += snprintf(text + at, sizeof text - at, "]}\n");
    /* One write per line, so that lines of several ranks do not mix. */
    if (write(1, text, at) != at)
        _exit(4);
    return next();
}
