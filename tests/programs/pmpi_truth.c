/* Counts what a program's MPI calls carry, through MPI's profiling interface, as a reference for the agent.
 *
 *   PMPI_TRUTH=DIRECTORY LD_PRELOAD=pmpi_truth.so program
 *
 * At the end of MPI_Init each rank prints {"event":"ready",...} and waits until DIRECTORY/go exists; counting
 * begins then. In MPI_Finalize it writes DIRECTORY/truth.RANK.json: for each function the number of calls,
 * their duration by the monotonic clock, and the data they carried; for each partner the data sent and
 * received. Calls inside other calls and functions without a wrapper are not counted. Before that, it makes
 * some calls of MPI_Bsend to MPI_PROC_NULL, which show the overhead of a call.
 *
 * It is written from the MPI standard alone: sizes by PMPI_Type_size, ranks by PMPI_Group_translate_ranks.
 * This file has the counters and the output; the wrappers are in pmpi_truth_calls.c, those of Fortran in
 * pmpi_truth_fortran.c. */
#include "pmpi_truth.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what is counted ---- */

#define RANKS 256
#define REQUESTS 1024

struct pair { long messages, bytes; };

/* A persistent request with the data of each start, or a probed message with its sender. */
struct request { uintptr_t handle; long bytes; int is_sent, rank, in_use; };

enum { NOBODY = -1, UNTOLD = RANKS };

static struct entry *entries;
static struct pair pairs_sent[RANKS + 1], pairs_received[RANKS + 1];
static struct request requests[REQUESTS];
__thread int depth;
static int counting, world_rank, world_size;

int enter(struct entry *e)
{
    int counts = depth++ == 0 && counting;
    if (counts && e->calls++ == 0) {
        e->next = entries;
        entries = e;
    }
    return counts;
}

void leave(struct entry *e, int counts, long since)
{
    depth--;
    if (counts)
        e->ns += now_ns() - since;
}

/* ---- sizes ---- */

long bytes_of(long count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return count * size;
}

int ranks_of(MPI_Comm comm)
{
    int size, is_inter;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return size;
}

int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

long bytes_of_all(const int counts[], MPI_Datatype type, MPI_Comm comm)
{
    long all = 0;
    for (int k = 0; k < ranks_of(comm); k++)
        all += counts[k];
    return bytes_of(all, type);
}

long bytes_of_types(const int counts[], const MPI_Datatype types[], MPI_Comm comm)
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

void carries(struct entry *e, long bytes)
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

void sends(struct entry *e, long bytes, int to, MPI_Comm comm)
{
    e->has_bytes = 1;
    if (to == MPI_PROC_NULL)
        return;
    carries(e, bytes);
    pass(pairs_sent, in_world(comm, to), bytes);
}

void receives(long bytes, int from, MPI_Comm comm, const MPI_Status *status)
{
    int is_told = from != MPI_ANY_SOURCE || (status && status != MPI_STATUS_IGNORE);
    if (from == MPI_ANY_SOURCE && is_told)
        from = status->MPI_SOURCE;
    if (from != MPI_PROC_NULL)
        pass(pairs_received, is_told ? in_world(comm, from) : UNTOLD, bytes);
}

void posts(struct entry *e, long bytes, int from)
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

void makes(uintptr_t handle, int is_sent, long bytes, int rank, MPI_Comm comm)
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

void starts(struct entry *e, uintptr_t handle)
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

void frees(uintptr_t handle)
{
    struct request *made = find(handle);
    if (made)
        made->in_use = 0;
}

void finds(MPI_Message message, int from, MPI_Comm comm, const MPI_Status *status)
{
    int is_told = from != MPI_ANY_SOURCE || (status && status != MPI_STATUS_IGNORE);
    makes((uintptr_t)message, 0, 0, from == MPI_ANY_SOURCE && is_told ? status->MPI_SOURCE : from, comm);
}

void receives_found(struct entry *e, long bytes, MPI_Message message)
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

static const char *directory(void)
{
    const char *given = getenv("PMPI_TRUTH");
    return given ? given : ".";
}

void wait_for_go(void)
{
    char line[200];
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_size > RANKS) {
        fprintf(stderr, "pmpi_truth: too many ranks\n");
        _exit(4);
    }
    int length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", world_rank, getpid());
    if (write(1, line, length) != length)
        _exit(4);
    pass_gate(directory(), "go");
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

void write_truth(void)
{
    char path[4096];
    counting = 0;
    snprintf(path, sizeof path, "%s/truth.%d.json", directory(), world_rank);
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

int MPI_Finalize(void)
{
    if (depth == 0)
        call_nothing();
    if (depth++ == 0)
        write_truth();
    return PMPI_Finalize();
}
