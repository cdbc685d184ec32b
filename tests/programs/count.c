/* An MPI program that counts its own MPI calls, as a reference for profiles.
 *
 *   mpirun -n N count DIRECTORY [--iterations N] [--seconds S] [--recursion DEPTH]
 *
 * Every rank prints {"event":"ready",...}, waits without MPI calls until DIRECTORY/go exists, makes a fixed
 * set of varied calls, prints {"event":"tally",...}, waits for DIRECTORY/end, and ends. Calls before the
 * first gate and after the tally are not counted (MPI_Init, MPI_Finalize). Received data is checked; on a
 * wrong byte the program exits with 3.
 *
 * Bytes are count x size of type as passed to the call, for all-to-all summed over all ranks, for receives as
 * posted; 0 to and from MPI_PROC_NULL. */
#include "gates.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the tally ---- */

struct entry { const char *name; long calls; long bytes; int has_bytes; };
static struct entry entries[64];

static void tally(const char *name, int has_bytes, long bytes)
{
    struct entry *e = entries;
    while (e->name && strcmp(e->name, name) != 0)
        e++;
    e->name = name;
    e->calls++;
    e->bytes += bytes;
    e->has_bytes = has_bytes;
}

static long size_of(long count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return count * size;
}

#define BYTES(name, count, type, ...) (tally(#name, 1, size_of(count, type)), name(__VA_ARGS__))
#define PLAIN(name, ...) (tally(#name, 0, 0), name(__VA_ARGS__))

/* ---- little things ---- */

static int rank, size, left, right;
static const char *directory;

static void say(const char *format, ...)
{
    /* One write per line, so that lines of several ranks do not mix. */
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(1, line, length) != length)
        _exit(4);
}

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "rank %d: wrong data after %s\n", rank, what);
        _exit(3);
    }
}

/* ---- the calls ---- */

static void blocking(int i)
{
    int out[64], in[64];
    int count = 1 + (rank + i) % 60, expected = 1 + (left + i) % 60;
    for (int k = 0; k < count; k++)
        out[k] = rank * 1000 + i + k;
    if (rank % 2 == 0) {
        BYTES(MPI_Send, count, MPI_INT, out, count, MPI_INT, right, 1, MPI_COMM_WORLD);
        BYTES(MPI_Recv, 64, MPI_INT, in, 64, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        BYTES(MPI_Recv, 64, MPI_INT, in, 64, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        BYTES(MPI_Send, count, MPI_INT, out, count, MPI_INT, right, 1, MPI_COMM_WORLD);
    }
    check(in[0] == left * 1000 + i && in[expected - 1] == left * 1000 + i + expected - 1, "MPI_Recv");

    /* Calls with no data, and calls to MPI_PROC_NULL. */
    BYTES(MPI_Send, 0, MPI_DOUBLE, NULL, 0, MPI_DOUBLE, right, 2, MPI_COMM_WORLD);
    BYTES(MPI_Recv, 0, MPI_DOUBLE, NULL, 0, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    BYTES(MPI_Send, 0, MPI_LONG, out, 5, MPI_LONG, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    BYTES(MPI_Recv, 0, MPI_CHAR, in, 7, MPI_CHAR, MPI_PROC_NULL, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    float there[9] = {(float)rank}, back[9];
    BYTES(MPI_Sendrecv, 9, MPI_FLOAT, there, 9, MPI_FLOAT, left, 4, back, 9, MPI_FLOAT, right, 4, MPI_COMM_WORLD,
          MPI_STATUS_IGNORE);
    check(back[0] == (float)right, "MPI_Sendrecv");
}

static void other_send_modes(int i)
{
    short value = (short)(rank + i), got = -1;
    int partner = rank ^ 1;
    if (partner < size && rank < partner)
        BYTES(MPI_Ssend, 1, MPI_SHORT, &value, 1, MPI_SHORT, partner, 5, MPI_COMM_WORLD);
    else if (partner < size) {
        BYTES(MPI_Recv, 1, MPI_SHORT, &got, 1, MPI_SHORT, partner, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(got == (short)(partner + i), "MPI_Ssend");
    }

    static char space[4096 + MPI_BSEND_OVERHEAD];
    char word[11] = "buffered", heard[11];
    void *detached;
    int detached_size;
    PMPI_Buffer_attach(space, sizeof space);
    BYTES(MPI_Bsend, 11, MPI_CHAR, word, 11, MPI_CHAR, right, 6, MPI_COMM_WORLD);
    BYTES(MPI_Recv, 11, MPI_CHAR, heard, 11, MPI_CHAR, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    PMPI_Buffer_detach(&detached, &detached_size);
    check(strcmp(heard, "buffered") == 0, "MPI_Bsend");
}

static void nonblocking(int i)
{
    double out[32] = {rank + 0.5}, in[32];
    MPI_Request one, requests[4];
    MPI_Status statuses[4];
    BYTES(MPI_Irecv, 32, MPI_DOUBLE, in, 32, MPI_DOUBLE, left, 7, MPI_COMM_WORLD, &one);
    BYTES(MPI_Isend, 3 + i % 5, MPI_DOUBLE, out, 3 + i % 5, MPI_DOUBLE, right, 7, MPI_COMM_WORLD, &requests[0]);
    PLAIN(MPI_Wait, &one, MPI_STATUS_IGNORE);
    PLAIN(MPI_Wait, &requests[0], MPI_STATUS_IGNORE);
    check(in[0] == left + 0.5, "MPI_Wait");

    char letters[100], letters_in[100];
    long numbers[10], numbers_in[10];
    memset(letters, 'a' + rank % 20, sizeof letters);
    numbers[0] = rank * 7L;
    BYTES(MPI_Irecv, 100, MPI_CHAR, letters_in, 100, MPI_CHAR, left, 8, MPI_COMM_WORLD, &requests[0]);
    BYTES(MPI_Irecv, 10, MPI_LONG, numbers_in, 10, MPI_LONG, right, 9, MPI_COMM_WORLD, &requests[1]);
    BYTES(MPI_Isend, 100, MPI_CHAR, letters, 100, MPI_CHAR, right, 8, MPI_COMM_WORLD, &requests[2]);
    BYTES(MPI_Isend, 10, MPI_LONG, numbers, 10, MPI_LONG, left, 9, MPI_COMM_WORLD, &requests[3]);
    PLAIN(MPI_Waitall, 4, requests, statuses);
    check(letters_in[99] == 'a' + left % 20 && numbers_in[0] == right * 7L, "MPI_Waitall");
}

static void polling(int i)
{
    unsigned value = 40u + rank, got = 0;
    int flag = 0, count = 0;
    MPI_Request request;
    MPI_Status status;
    BYTES(MPI_Irecv, 1, MPI_UNSIGNED, &got, 1, MPI_UNSIGNED, left, 10, MPI_COMM_WORLD, &request);
    BYTES(MPI_Send, 1, MPI_UNSIGNED, &value, 1, MPI_UNSIGNED, right, 10, MPI_COMM_WORLD);
    while (!flag)
        PLAIN(MPI_Test, &request, &flag, MPI_STATUS_IGNORE);
    check(got == 40u + left, "MPI_Test");

    unsigned char bytes[200] = {(unsigned char)i}, room[200];
    int length = 1 + (rank * 13 + i) % 200;
    BYTES(MPI_Send, length, MPI_BYTE, bytes, length, MPI_BYTE, right, 11, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        PLAIN(MPI_Iprobe, left, 11, MPI_COMM_WORLD, &flag, &status);
    PLAIN(MPI_Probe, left, 11, MPI_COMM_WORLD, &status);
    PMPI_Get_count(&status, MPI_BYTE, &count);
    check(count == 1 + (left * 13 + i) % 200, "MPI_Probe");
    BYTES(MPI_Recv, count, MPI_BYTE, room, count, MPI_BYTE, left, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(room[0] == (unsigned char)i, "MPI_Recv after MPI_Probe");
}

static void collectives(int i)
{
    int64_t word[6] = {0};
    if (rank == i % size)
        word[5] = 1000 + i;
    BYTES(MPI_Bcast, 6, MPI_INT64_T, word, 6, MPI_INT64_T, i % size, MPI_COMM_WORLD);
    check(word[5] == 1000 + i, "MPI_Bcast");

    double mine[4] = {rank, 1}, sum[4] = {0};
    BYTES(MPI_Reduce, 4, MPI_DOUBLE, mine, sum, 4, MPI_DOUBLE, MPI_SUM, (i + 1) % size, MPI_COMM_WORLD);
    check(rank != (i + 1) % size || sum[1] == size, "MPI_Reduce");

    int highest = rank + i, all = 0;
    BYTES(MPI_Allreduce, 1, MPI_INT, &highest, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    check(all == size - 1 + i, "MPI_Allreduce");
    long total[3] = {1, 2, 3};
    BYTES(MPI_Allreduce, 3, MPI_LONG, MPI_IN_PLACE, total, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(total[2] == 3L * size, "MPI_Allreduce in place");

    unsigned gathered[2 * 64], pair[2] = {(unsigned)rank, (unsigned)i};
    BYTES(MPI_Gather, 2, MPI_UNSIGNED, pair, 2, MPI_UNSIGNED, gathered, 2, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    check(rank != 0 || gathered[2 * (size - 1)] == (unsigned)(size - 1), "MPI_Gather");
    unsigned char scattered[3 * 64], part[3];
    memset(scattered, i & 0x7f, sizeof scattered);
    BYTES(MPI_Scatter, 3, MPI_BYTE, scattered, 3, MPI_BYTE, part, 3, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(part[2] == (i & 0x7f), "MPI_Scatter");
    short everyone[64], me = (short)rank;
    BYTES(MPI_Allgather, 1, MPI_SHORT, &me, 1, MPI_SHORT, everyone, 1, MPI_SHORT, MPI_COMM_WORLD);
    check(everyone[size - 1] == size - 1, "MPI_Allgather");
    int from_all[64], to_all[64];
    for (int k = 0; k < size; k++)
        to_all[k] = rank * 100 + k;
    BYTES(MPI_Alltoall, size, MPI_INT, to_all, 1, MPI_INT, from_all, 1, MPI_INT, MPI_COMM_WORLD);
    check(from_all[size - 1] == (size - 1) * 100 + rank, "MPI_Alltoall");
    PLAIN(MPI_Barrier, MPI_COMM_WORLD);
}

static void round_of_calls(int i)
{
    blocking(i);
    other_send_modes(i);
    nonblocking(i);
    polling(i);
    collectives(i);
}

/* The same calls from increasing stack depths: pairing of entry and return by depth must not lose any. */
static __attribute__((noinline)) int deeper(int depth, int i)
{
    volatile char frame[200] = {(char)depth};
    round_of_calls(i);
    int below = depth > 1 ? deeper(depth - 1, i + 1) : 0;
    PLAIN(MPI_Barrier, MPI_COMM_WORLD);
    return below + frame[0];
}

/* ---- the program ---- */

static void print_tally(void)
{
    char text[6000];
    int at = 0;
    for (struct entry *e = entries; e->name; e++) {
        at += snprintf(text + at, sizeof text - at, "%s{\"name\":\"%s\",\"calls\":%ld,\"bytes\":", at ? "," : "", e->name,
                       e->calls);
        at += e->has_bytes ? snprintf(text + at, sizeof text - at, "%ld}", e->bytes)
                           : snprintf(text + at, sizeof text - at, "null}");
    }
    say("{\"event\":\"tally\",\"rank\":%d,\"pid\":%d,\"functions\":[%s]}\n", rank, getpid(), text);
}

int main(int argc, char **argv)
{
    int iterations = 10, depth = 0;
    double seconds = 0;
    MPI_Init(&argc, &argv);
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: count DIRECTORY [--iterations N] [--seconds S] [--recursion DEPTH]\n");
        return 2;
    }
    directory = argv[1];
    for (int k = 2; k + 1 < argc; k += 2) {
        if (strcmp(argv[k], "--iterations") == 0)
            iterations = atoi(argv[k + 1]);
        else if (strcmp(argv[k], "--seconds") == 0)
            seconds = atof(argv[k + 1]);
        else if (strcmp(argv[k], "--recursion") == 0)
            depth = atoi(argv[k + 1]);
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    if (size < 2 || size > 64) {
        fprintf(stderr, "count runs on 2 to 64 ranks\n");
        return 2;
    }

    say("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), size);
    pass_gate(directory, "go");
    for (int i = 0; i < iterations; i++)
        round_of_calls(i);
    if (depth > 0)
        deeper(depth, 0);
    double start = PMPI_Wtime();
    for (int go_on = seconds > 0, i = 0; go_on; i++) {
        round_of_calls(i);
        /* Rank 0 decides when to stop, by its clock, because all ranks must agree. */
        go_on = PMPI_Wtime() - start < seconds;
        BYTES(MPI_Bcast, 1, MPI_INT, &go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    print_tally();
    pass_gate(directory, "end");
    MPI_Finalize();
    return 0;
}
