/* Threads that call MPI concurrently (MPI_THREAD_MULTIPLE), with counts per rank.
 *
 *   mpirun -n EVEN many DIRECTORY THREADS ROUNDS
 *
 * Prints {"event":"ready",...} per rank and waits for DIRECTORY/go. In each round every thread sends to the
 * thread of the same number in the partner rank, receives from it, and reduces over its own communicator. The
 * data is checked; on a wrong number the program exits with 3. Prints {"event":"tally",...}, waits for
 * DIRECTORY/end, and ends. Bytes are those of the buffers passed to each call. */
#include "gates.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 16, NUMBERS_MAX = 4096 };
enum { ISEND, RECV, WAIT, ALLREDUCE, FUNCTIONS };

static const char *const names[FUNCTIONS] = {"MPI_Isend", "MPI_Recv", "MPI_Wait", "MPI_Allreduce"};
static atomic_long calls[FUNCTIONS], bytes[FUNCTIONS];
static MPI_Comm own[THREADS_MAX];
static int rank, ranks, threads, rounds;

static void tally(int function, long of)
{
    atomic_fetch_add(&calls[function], 1);
    atomic_fetch_add(&bytes[function], of);
}

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *work(void *argument)
{
    int thread = (int)(long)argument, beside = rank ^ 1;
    int there[NUMBERS_MAX], here[NUMBERS_MAX];
    for (int round = 0; round < rounds; round++) {
        MPI_Request request;
        int count = 1 + (thread * 100 + round) % NUMBERS_MAX, one = 1, all;
        for (int i = 0; i < count; i++)
            there[i] = rank + round;
        tally(ISEND, count * (long)sizeof *there);
        MPI_Isend(there, count, MPI_INT, beside, thread, MPI_COMM_WORLD, &request);
        tally(RECV, count * (long)sizeof *here);
        MPI_Recv(here, count, MPI_INT, beside, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        tally(WAIT, 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        tally(ALLREDUCE, sizeof one);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, own[thread]);
        check(here[0] == beside + round && here[count - 1] == beside + round && all == ranks);
    }
    return NULL;
}

static void say_tally(void)
{
    char line[1024];
    int length = snprintf(line, sizeof line, "{\"event\":\"tally\",\"rank\":%d,\"pid\":%d,\"functions\":[", rank, getpid());
    for (int function = 0; function < FUNCTIONS; function++) {
        length += snprintf(line + length, sizeof line - length, "%s{\"name\":\"%s\",\"calls\":%ld", function ? "," : "", names[function],
                           atomic_load(&calls[function]));
        if (function != WAIT)
            length += snprintf(line + length, sizeof line - length, ",\"bytes\":%ld", atomic_load(&bytes[function]));
        length += snprintf(line + length, sizeof line - length, "}");
    }
    length += snprintf(line + length, sizeof line - length, "]}\n");
    check(write(1, line, length) == length);
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t started[THREADS_MAX];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    threads = argc == 4 ? atoi(argv[2]) : 0;
    rounds = argc == 4 ? atoi(argv[3]) : 0;
    if (provided != MPI_THREAD_MULTIPLE || ranks % 2 != 0 || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: mpirun -n EVEN many DIRECTORY THREADS ROUNDS, and an MPI that threads may share\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int thread = 0; thread < threads; thread++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[thread]);
    char line[200];
    int length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    check(write(1, line, length) == length);
    pass_gate(argv[1], "go");
    for (long thread = 0; thread < threads; thread++)
        pthread_create(&started[thread], NULL, work, (void *)thread);
    for (int thread = 0; thread < threads; thread++)
        pthread_join(started[thread], NULL);
    say_tally();
    pass_gate(argv[1], "end");
    MPI_Finalize();
    return 0;
}
