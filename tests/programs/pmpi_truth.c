/* What a program's MPI calls carry, counted by the profiling interface of MPI itself: the truth that the agent is compared with.
 *
 *   PMPI_TRUTH=DIRECTORY LD_PRELOAD=pmpi_truth.so program
 *
 * At the end of MPI_Init each rank prints {"event":"ready",...} and waits until DIRECTORY/go exists; from then on everything counts.
 * At MPI_Finalize it writes DIRECTORY/truth.RANK.json: of each function its calls, how long they took by the monotonic clock, what
 * they carried; of each rank what went to it and came from it. Calls inside other calls are not counted. A function without a wrapper
 * here is not known here. Before, it makes some calls of MPI_Bsend to nobody of its own: they tell what a call costs that does nothing.
 *
 * It is written from the MPI standard alone: sizes by PMPI_Type_size, ranks by PMPI_Group_translate_ranks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- what is counted ---- */

#define BUCKETS 32
#define RANKS 256
#define REQUESTS 1024

struct entry {
    const char *name;
    struct entry *next;
    long calls, bytes, ns, sizes[BUCKETS];
    int has_bytes;
};

struct pair { long messages, bytes; };

/* A persistent request: what each start of it carries. Or a message that was found: from whom it is. */
struct request { uintptr_t handle; long bytes; int is_sent, rank, in_use; };

enum { NOBODY = -1, UNTOLD = RANKS };

static struct entry *entries;
static struct pair pairs_sent[RANKS + 1], pairs_received[RANKS + 1];
static struct request requests[REQUESTS];
static __thread int depth;
static int counting, world_rank, world_size;

static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int begin(struct entry *e)
{
    int counts = depth++ == 0 && counting;
    if (counts && e->calls++ == 0) {
        e->next = entries;
        entries = e;
    }
    return counts;
}

static void end(struct entry *e, int counts, long since)
{
    depth--;
    if (counts)
        e->ns += now_ns() - since;
}

/* ---- sizes ---- */

static long bytes_of(long count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return count * size;
}

static int ranks_of(MPI_Comm comm)
{
    int size, is_inter;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return size;
}

static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static long bytes_of_all(const int counts[], MPI_Datatype type, MPI_Comm comm)
{
    long all = 0;
    for (int k = 0; k < ranks_of(comm); k++)
        all += counts[k];
    return bytes_of(all, type);
}

static long bytes_of_types(const int counts[], const MPI_Datatype types[], MPI_Comm comm)
{
    long all = 0;
    for (int k = 0; k < ranks_of(comm); k++)
        all += bytes_of(counts[k], types[k]);
    return all;
}

static void sized(struct entry *e, long bytes)
{
    int bucket = bytes > 0;
    for (long up_to = 1; bytes > up_to && bucket < BUCKETS - 1; up_to *= 2)
        bucket++;
    e->sizes[bucket]++;
}

static void carries(struct entry *e, long bytes)
{
    e->has_bytes = 1;
    e->bytes += bytes;
    sized(e, bytes);
}

/* ---- who is who ---- */

static int in_world(MPI_Comm comm, int rank)
{
    MPI_Group theirs, all;
    int is_inter, there = UNTOLD;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_group(comm, &theirs);
    else
        PMPI_Comm_group(comm, &theirs);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(theirs, 1, &rank, all, &there);
    PMPI_Group_free(&theirs);
    PMPI_Group_free(&all);
    return there >= 0 && there < RANKS ? there : UNTOLD;
}

static void pass(struct pair pairs[], int rank, long bytes)
{
    pairs[rank].messages++;
    pairs[rank].bytes += bytes;
}

static void sends(struct entry *e, long bytes, int to, MPI_Comm comm)
{
    e->has_bytes = 1;
    if (to == MPI_PROC_NULL)
        return;
    carries(e, bytes);
    pass(pairs_sent, in_world(comm, to), bytes);
}

/* Somebody who is not named is known when the message is there and its status is wanted. */
static void receives(long bytes, int from, MPI_Comm comm, const MPI_Status *status)
{
    int is_told = from != MPI_ANY_SOURCE || (status && status != MPI_STATUS_IGNORE);
    if (from == MPI_ANY_SOURCE && is_told)
        from = status->MPI_SOURCE;
    if (from != MPI_PROC_NULL)
        pass(pairs_received, is_told ? in_world(comm, from) : UNTOLD, bytes);
}

/* What is posted: the function's bytes. */
static void posts(struct entry *e, long bytes, int from)
{
    e->has_bytes = 1;
    if (from != MPI_PROC_NULL)
        carries(e, bytes);
}

/* ---- persistent requests, and messages that were found ---- */

static struct request *find(uintptr_t handle)
{
    for (int k = 0; k < REQUESTS; k++)
        if (requests[k].in_use && requests[k].handle == handle)
            return &requests[k];
    return NULL;
}

static void makes(uintptr_t handle, int is_sent, long bytes, int rank, MPI_Comm comm)
{
    for (int k = 0; k < REQUESTS; k++)
        if (!requests[k].in_use) {
            int other = rank == MPI_PROC_NULL ? NOBODY : rank == MPI_ANY_SOURCE ? UNTOLD : in_world(comm, rank);
            requests[k] = (struct request){handle, rank == MPI_PROC_NULL ? 0 : bytes, is_sent, other, 1};
            return;
        }
    fprintf(stderr, "pmpi_truth: too many persistent requests\n");
    _exit(4);
}

static void starts(struct entry *e, uintptr_t handle)
{
    struct request *made = find(handle);
    e->has_bytes = 1;
    if (!made) {
        fprintf(stderr, "pmpi_truth: a request that nobody made is started\n");
        _exit(4);
    }
    if (made->rank == NOBODY)
        return;
    pass(made->is_sent ? pairs_sent : pairs_received, made->rank, made->bytes);
    if (made->is_sent)
        carries(e, made->bytes);
}

static void frees(uintptr_t handle)
{
    struct request *made = find(handle);
    if (made)
        made->in_use = 0;
}

/* Who is not named is known where the status is wanted. */
static void finds(MPI_Message message, int from, MPI_Comm comm, const MPI_Status *status)
{
    int is_told = from != MPI_ANY_SOURCE || (status && status != MPI_STATUS_IGNORE);
    makes((uintptr_t)message, 0, 0, from == MPI_ANY_SOURCE && is_told ? status->MPI_SOURCE : from, comm);
}

static void receives_found(struct entry *e, long bytes, MPI_Message message)
{
    struct request *found = find((uintptr_t)message);
    int from = found ? found->rank : UNTOLD;
    frees((uintptr_t)message);
    e->has_bytes = 1;
    if (from == NOBODY)
        return;
    carries(e, bytes);
    pass(pairs_received, from, bytes);
}

/* ---- begin and end ---- */

static void in_directory(char path[4096], const char *name)
{
    const char *directory = getenv("PMPI_TRUTH");
    snprintf(path, 4096, "%s/%s", directory ? directory : ".", name);
}

static void wait_for_go(void)
{
    char path[4096], line[200];
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_size > RANKS) {
        fprintf(stderr, "pmpi_truth: too many ranks\n");
        _exit(4);
    }
    int length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", world_rank, getpid());
    if (write(1, line, length) != length)
        _exit(4);
    in_directory(path, "go");
    while (access(path, F_OK) != 0)
        usleep(1000);
    counting = 1;
}

static void write_pairs(FILE *file, const char *name, const struct pair pairs[])
{
    const char *comma = "";
    fprintf(file, "\"%s\":[", name);
    for (int k = 0; k <= RANKS; k++)
        if (pairs[k].messages) {
            fprintf(file, "%s{\"rank\":%d,\"messages\":%ld,\"bytes\":%ld}", comma, k == UNTOLD ? -1 : k, pairs[k].messages,
                    pairs[k].bytes);
            comma = ",";
        }
    fprintf(file, "],");
}

static void write_truth(void)
{
    char path[4096], name[40];
    counting = 0;
    snprintf(name, sizeof name, "truth.%d.json", world_rank);
    in_directory(path, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        _exit(4);
    }
    fprintf(file, "{\"rank\":%d,\"pid\":%d,", world_rank, getpid());
    write_pairs(file, "sent", pairs_sent);
    write_pairs(file, "received", pairs_received);
    fprintf(file, "\"functions\":[");
    for (struct entry *e = entries; e; e = e->next) {
        fprintf(file, "%s{\"name\":\"%s\",\"calls\":%ld,\"ns\":%ld,\"bytes\":", e == entries ? "" : ",", e->name, e->calls, e->ns);
        if (e->has_bytes)
            fprintf(file, "%ld,\"sizes\":[", e->bytes);
        else
            fprintf(file, "null,\"sizes\":[");
        for (int k = 0; k < BUCKETS; k++)
            fprintf(file, "%s%ld", k ? "," : "", e->sizes[k]);
        fprintf(file, "]}");
    }
    fprintf(file, "]}\n");
    fclose(file);
}

int MPI_Init(int *argc, char ***argv)
{
    depth++;
    int result = PMPI_Init(argc, argv);
    depth--;
    if (depth == 0)
        wait_for_go();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    depth++;
    int result = PMPI_Init_thread(argc, argv, required, provided);
    depth--;
    if (depth == 0)
        wait_for_go();
    return result;
}

static void call_nothing(void);

int MPI_Finalize(void)
{
    if (depth == 0)
        call_nothing();
    if (depth++ == 0)
        write_truth();
    return PMPI_Finalize();
}

/* ---- the wrappers: parameters, arguments, what is counted before the call, what after it ---- */

/* Around the call of the function that a wrapper stands for. The entry has the name under which the agent counts it. */
#define COUNTED(label, before, call, after) \
    static struct entry entry = {.name = label}; \
    struct entry *e = &entry; \
    int counts = begin(e); \
    if (counts) { \
        before; \
    } \
    long since = now_ns(); \
    call; \
    end(e, counts, since); \
    if (counts) { \
        after; \
    }
#define WRAP(function, parameters, arguments, before, after) \
    int function parameters \
    { \
        int result; \
        COUNTED(#function, before, result = P##function arguments, after) \
        return result; \
    }
#define NOTHING (void)e

#define SEND(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm), \
         (buf, count, type, to, tag, comm), sends(e, bytes_of(count, type), to, comm), NOTHING)
#define ISEND(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request), \
         (buf, count, type, to, tag, comm, request), sends(e, bytes_of(count, type), to, comm), NOTHING)
#define SEND_INIT(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request), \
         (buf, count, type, to, tag, comm, request), NOTHING, makes((uintptr_t)*request, 1, bytes_of(count, type), to, comm))

SEND(MPI_Send)
SEND(MPI_Bsend)
SEND(MPI_Ssend)
SEND(MPI_Rsend)
ISEND(MPI_Isend)
ISEND(MPI_Ibsend)
ISEND(MPI_Issend)
ISEND(MPI_Irsend)
SEND_INIT(MPI_Send_init)
SEND_INIT(MPI_Bsend_init)
SEND_INIT(MPI_Ssend_init)
SEND_INIT(MPI_Rsend_init)
WRAP(MPI_Recv, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status),
     (buf, count, type, from, tag, comm, status), posts(e, bytes_of(count, type), from),
     receives(bytes_of(count, type), from, comm, status))
WRAP(MPI_Irecv, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
     (buf, count, type, from, tag, comm, request), posts(e, bytes_of(count, type), from),
     receives(bytes_of(count, type), from, comm, NULL))
WRAP(MPI_Recv_init, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
     (buf, count, type, from, tag, comm, request), NOTHING, makes((uintptr_t)*request, 0, bytes_of(count, type), from, comm))
WRAP(MPI_Sendrecv,
     (const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in, int in_count, MPI_Datatype in_type,
      int from, int in_tag, MPI_Comm comm, MPI_Status *status),
     (out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status),
     sends(e, bytes_of(out_count, out_type), to, comm), receives(bytes_of(in_count, in_type), from, comm, status))
WRAP(MPI_Sendrecv_replace,
     (void *buf, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag, MPI_Comm comm, MPI_Status *status),
     (buf, count, type, to, out_tag, from, in_tag, comm, status), sends(e, bytes_of(count, type), to, comm),
     receives(bytes_of(count, type), from, comm, status))
WRAP(MPI_Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status), NOTHING, NOTHING)
WRAP(MPI_Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (from, tag, comm, flag, status), NOTHING,
     NOTHING)
WRAP(MPI_Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), (from, tag, comm, message, status),
     NOTHING, finds(*message, from, comm, status))
WRAP(MPI_Improbe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
     (from, tag, comm, flag, message, status), NOTHING, if (*flag) finds(*message, from, comm, status))
WRAP(MPI_Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
     (buf, count, type, message, status), receives_found(e, bytes_of(count, type), *message), NOTHING)
WRAP(MPI_Imrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
     (buf, count, type, message, request), receives_found(e, bytes_of(count, type), *message), NOTHING)

WRAP(MPI_Start, (MPI_Request *request), (request), starts(e, (uintptr_t)*request), NOTHING)
WRAP(MPI_Startall, (int count, MPI_Request list[]), (count, list), for (int k = 0; k < count; k++) starts(e, (uintptr_t)list[k]), NOTHING)
WRAP(MPI_Request_free, (MPI_Request *request), (request), frees((uintptr_t)*request), NOTHING)
WRAP(MPI_Wait, (MPI_Request *request, MPI_Status *status), (request, status), NOTHING, NOTHING)
WRAP(MPI_Waitall, (int count, MPI_Request list[], MPI_Status statuses[]), (count, list, statuses), NOTHING, NOTHING)
WRAP(MPI_Waitany, (int count, MPI_Request list[], int *index, MPI_Status *status), (count, list, index, status), NOTHING, NOTHING)
WRAP(MPI_Waitsome, (int count, MPI_Request list[], int *done, int indices[], MPI_Status statuses[]),
     (count, list, done, indices, statuses), NOTHING, NOTHING)
WRAP(MPI_Test, (MPI_Request *request, int *flag, MPI_Status *status), (request, flag, status), NOTHING, NOTHING)
WRAP(MPI_Testall, (int count, MPI_Request list[], int *flag, MPI_Status statuses[]), (count, list, flag, statuses), NOTHING,
     NOTHING)

WRAP(MPI_Barrier, (MPI_Comm comm), (comm), NOTHING, NOTHING)
WRAP(MPI_Bcast, (void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm), (buf, count, type, root, comm),
     carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Reduce, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
     (out, in, count, type, op, root, comm), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Iallreduce,
     (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
     (out, in, count, type, op, comm, request), carries(e, bytes_of(count, type)), NOTHING)

#define REDUCED(function) \
    WRAP(function, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
         (out, in, count, type, op, comm), carries(e, bytes_of(count, type)), NOTHING)
REDUCED(MPI_Allreduce)
REDUCED(MPI_Scan)
REDUCED(MPI_Exscan)

#define IN_PLACE(buffer, then, otherwise) carries(e, (buffer) == MPI_IN_PLACE ? (then) : (otherwise))
WRAP(MPI_Gather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm), IN_PLACE(out, 0, bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Gatherv,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, const int counts_in[], const int places[],
      MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, counts_in, places, in_type, root, comm), IN_PLACE(out, 0, bytes_of(out_count, out_type)),
     NOTHING)
WRAP(MPI_Scatter,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm), IN_PLACE(in, 0, bytes_of(in_count, in_type)), NOTHING)
WRAP(MPI_Scatterv,
     (const void *out, const int counts_out[], const int places[], MPI_Datatype out_type, void *in, int in_count,
      MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, counts_out, places, out_type, in, in_count, in_type, root, comm), IN_PLACE(in, 0, bytes_of(in_count, in_type)), NOTHING)
WRAP(MPI_Allgather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     IN_PLACE(out, bytes_of(in_count, in_type), bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Allgatherv,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, const int counts_in[], const int places[],
      MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, counts_in, places, in_type, comm),
     IN_PLACE(out, bytes_of(counts_in[rank_in(comm)], in_type), bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Alltoall,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     IN_PLACE(out, ranks_of(comm) * bytes_of(in_count, in_type), ranks_of(comm) * bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Alltoallv,
     (const void *out, const int counts_out[], const int places_out[], MPI_Datatype out_type, void *in, const int counts_in[],
      const int places_in[], MPI_Datatype in_type, MPI_Comm comm),
     (out, counts_out, places_out, out_type, in, counts_in, places_in, in_type, comm),
     IN_PLACE(out, bytes_of_all(counts_in, in_type, comm), bytes_of_all(counts_out, out_type, comm)), NOTHING)
WRAP(MPI_Alltoallw,
     (const void *out, const int counts_out[], const int places_out[], const MPI_Datatype types_out[], void *in,
      const int counts_in[], const int places_in[], const MPI_Datatype types_in[], MPI_Comm comm),
     (out, counts_out, places_out, types_out, in, counts_in, places_in, types_in, comm),
     IN_PLACE(out, bytes_of_types(counts_in, types_in, comm), bytes_of_types(counts_out, types_out, comm)), NOTHING)
WRAP(MPI_Reduce_scatter,
     (const void *out, void *in, const int counts_in[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (out, in, counts_in, type, op, comm), carries(e, bytes_of_all(counts_in, type, comm)), NOTHING)
WRAP(MPI_Reduce_scatter_block, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (out, in, count, type, op, comm), carries(e, ranks_of(comm) * bytes_of(count, type)), NOTHING)

#define ONE_SIDED(function, buffer) \
    WRAP(function, \
         (buffer origin, int count, MPI_Datatype type, int target, MPI_Aint place, int there, MPI_Datatype type_there, MPI_Win win), \
         (origin, count, type, target, place, there, type_there, win), carries(e, bytes_of(count, type)), NOTHING)
ONE_SIDED(MPI_Put, const void *)
ONE_SIDED(MPI_Get, void *)
WRAP(MPI_Accumulate,
     (const void *origin, int count, MPI_Datatype type, int target, MPI_Aint place, int there, MPI_Datatype type_there, MPI_Op op,
      MPI_Win win),
     (origin, count, type, target, place, there, type_there, op, win), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Fetch_and_op, (const void *origin, void *in, MPI_Datatype type, int target, MPI_Aint place, MPI_Op op, MPI_Win win),
     (origin, in, type, target, place, op, win), carries(e, bytes_of(1, type)), NOTHING)
WRAP(MPI_Win_fence, (int assert, MPI_Win win), (assert, win), NOTHING, NOTHING)

WRAP(MPI_File_open, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file), (comm, name, mode, info, file),
     NOTHING, NOTHING)
WRAP(MPI_File_close, (MPI_File *file), (file), NOTHING, NOTHING)
WRAP(MPI_File_write, (MPI_File file, const void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_File_write_at_all, (MPI_File file, MPI_Offset at, const void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, at, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_File_read_at, (MPI_File file, MPI_Offset at, void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, at, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)

WRAP(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made), NOTHING, NOTHING)
WRAP(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made), NOTHING, NOTHING)
WRAP(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made), NOTHING,
     NOTHING)
WRAP(MPI_Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made), NOTHING, NOTHING)
WRAP(MPI_Cart_create,
     (MPI_Comm comm, int dimensions, const int sizes[], const int periods[], int reorder, MPI_Comm *made),
     (comm, dimensions, sizes, periods, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Cart_sub, (MPI_Comm comm, const int kept[], MPI_Comm *made), (comm, kept, made), NOTHING, NOTHING)
WRAP(MPI_Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *made),
     (comm, nodes, index, edges, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Dist_graph_create_adjacent,
     (MPI_Comm comm, int from, const int sources[], const int weights_from[], int to, const int destinations[],
      const int weights_to[], MPI_Info info, int reorder, MPI_Comm *made),
     (comm, from, sources, weights_from, to, destinations, weights_to, info, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made), NOTHING, NOTHING)
WRAP(MPI_Intercomm_create, (MPI_Comm local, int leader, MPI_Comm peers, int remote, int tag, MPI_Comm *made),
     (local, leader, peers, remote, tag, made), NOTHING, NOTHING)

/* Calls that last nothing, each after a while: what our clock has of them is what else stands around a call. They count as any. */
static void call_nothing(void)
{
    for (int k = 0; k < 200; k++) {
        usleep(50);
        MPI_Bsend(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    }
}

/* ---- Fortran: Open MPI's bindings call PMPI functions, so they have wrappers of their own. MPICH's call those above, but for what has
 * no buffer in the module mpi_f08 ---- */

#ifdef OPEN_MPI
#define TYPE(fortran) PMPI_Type_f2c(*(fortran))
#define COMM(fortran) PMPI_Comm_f2c(*(fortran))
#define REQUEST(fortran) (uintptr_t)PMPI_Request_f2c(*(fortran))

#define FORTRAN(function, profiled, label, parameters, arguments, before, after) \
    void profiled parameters; \
    void function parameters \
    { \
        COUNTED(label, before, profiled arguments, after) \
    }
#define BOTH(function, label, parameters, arguments, before, after) \
    FORTRAN(function##_, p##function##_, label, parameters, arguments, before, after) \
    FORTRAN(function##_f08_, p##function##_f08_, label, parameters, arguments, before, after)

#define STARTS(function, profiled) \
    void profiled(int *error); \
    void function(int *error) \
    { \
        depth++; \
        profiled(error); \
        depth--; \
        wait_for_go(); \
    }
STARTS(mpi_init_, pmpi_init_)
STARTS(mpi_init_f08_, pmpi_init_f08_)
#define ENDS(function, profiled) \
    void profiled(int *error); \
    void function(int *error) \
    { \
        call_nothing(); \
        depth++; \
        write_truth(); \
        profiled(error); \
    }
ENDS(mpi_finalize_, pmpi_finalize_)
ENDS(mpi_finalize_f08_, pmpi_finalize_f08_)

BOTH(mpi_send, "MPI_Send", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *error),
     (buf, count, type, to, tag, comm, error), sends(e, bytes_of(*count, TYPE(type)), *to, COMM(comm)), NOTHING)
BOTH(mpi_recv, "MPI_Recv", (void *buf, int *count, int *type, int *from, int *tag, int *comm, int *status, int *error),
     (buf, count, type, from, tag, comm, status, error), posts(e, bytes_of(*count, TYPE(type)), *from),
     receives(bytes_of(*count, TYPE(type)), *from, COMM(comm), *from == MPI_ANY_SOURCE ? (MPI_Status *)status : NULL))
BOTH(mpi_isend, "MPI_Isend", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *request, int *error),
     (buf, count, type, to, tag, comm, request, error), sends(e, bytes_of(*count, TYPE(type)), *to, COMM(comm)), NOTHING)
BOTH(mpi_irecv, "MPI_Irecv", (void *buf, int *count, int *type, int *from, int *tag, int *comm, int *request, int *error),
     (buf, count, type, from, tag, comm, request, error), posts(e, bytes_of(*count, TYPE(type)), *from),
     receives(bytes_of(*count, TYPE(type)), *from, COMM(comm), NULL))
BOTH(mpi_send_init, "MPI_Send_init", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *request, int *error),
     (buf, count, type, to, tag, comm, request, error), NOTHING,
     makes(REQUEST(request), 1, bytes_of(*count, TYPE(type)), *to, COMM(comm)))
BOTH(mpi_start, "MPI_Start", (int *request, int *error), (request, error), starts(e, REQUEST(request)), NOTHING)
BOTH(mpi_request_free, "MPI_Request_free", (int *request, int *error), (request, error), frees(REQUEST(request)), NOTHING)
BOTH(mpi_wait, "MPI_Wait", (int *request, int *status, int *error), (request, status, error), NOTHING, NOTHING)
BOTH(mpi_waitall, "MPI_Waitall", (int *count, int *list, int *statuses, int *error), (count, list, statuses, error), NOTHING,
     NOTHING)
BOTH(mpi_barrier, "MPI_Barrier", (int *comm, int *error), (comm, error), NOTHING, NOTHING)
BOTH(mpi_bcast, "MPI_Bcast", (void *buf, int *count, int *type, int *root, int *comm, int *error),
     (buf, count, type, root, comm, error), carries(e, bytes_of(*count, TYPE(type))), NOTHING)
BOTH(mpi_allreduce, "MPI_Allreduce", (void *out, void *in, int *count, int *type, int *op, int *comm, int *error),
     (out, in, count, type, op, comm, error), carries(e, bytes_of(*count, TYPE(type))), NOTHING)
BOTH(mpi_alltoall, "MPI_Alltoall",
     (void *out, int *out_count, int *out_type, void *in, int *in_count, int *in_type, int *comm, int *error),
     (out, out_count, out_type, in, in_count, in_type, comm, error),
     carries(e, ranks_of(COMM(comm)) * bytes_of(*out_count, TYPE(out_type))), NOTHING)
BOTH(mpi_comm_split, "MPI_Comm_split", (int *comm, int *color, int *key, int *made, int *error),
     (comm, color, key, made, error), NOTHING, NOTHING)
#endif

#ifdef MPICH
static void *following(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "pmpi_truth: nobody has %s\n", name);
        _exit(4);
    }
    return found;
}

/* A handle in Fortran's type is the integer that it is in C. */
#define FORTRAN_08(function, label, parameters, arguments, before) \
    void function parameters; \
    void function parameters \
    { \
        static void(*profiled) parameters; \
        if (!profiled) \
            profiled = following(#function); \
        COUNTED(label, before, profiled arguments, NOTHING) \
    }

FORTRAN_08(mpi_start_f08_, "MPI_Start", (MPI_Request *request, int *error), (request, error), starts(e, (uintptr_t)*request))
FORTRAN_08(mpi_request_free_f08_, "MPI_Request_free", (MPI_Request *request, int *error), (request, error),
           frees((uintptr_t)*request))
FORTRAN_08(mpi_wait_f08_, "MPI_Wait", (MPI_Request *request, MPI_Status *status, int *error), (request, status, error), NOTHING)
FORTRAN_08(mpi_waitall_f08_, "MPI_Waitall", (int *count, MPI_Request *list, MPI_Status *statuses, int *error),
           (count, list, statuses, error), NOTHING)
FORTRAN_08(mpi_barrier_f08_, "MPI_Barrier", (MPI_Comm *comm, int *error), (comm, error), NOTHING)
FORTRAN_08(mpi_comm_split_f08_, "MPI_Comm_split", (MPI_Comm *comm, int *color, int *key, MPI_Comm *made, int *error),
           (comm, color, key, made, error), NOTHING)

void mpi_init_f08_(int *error);
void mpi_init_f08_(int *error)
{
    void (*profiled)(int *) = following("mpi_init_f08_");
    depth++;
    profiled(error);
    depth--;
    wait_for_go();
}

void mpi_finalize_f08_(int *error);
void mpi_finalize_f08_(int *error)
{
    void (*profiled)(int *) = following("mpi_finalize_f08_");
    call_nothing();
    depth++;
    write_truth();
    profiled(error);
}
#endif
