/* Programs with known loops, which the agent must detect.
 *
 *   mpirun -n N loops DIRECTORY nested INNER
 *       each iteration: INNER times two calls, then one
 *   mpirun -n N loops DIRECTORY none
 *       one of eight calls at random: no loop of calls
 *   mpirun -n 2 loops DIRECTORY turns LONG SHORT TRANSFER
 *       each iteration: one rank sleeps LONG ms and the other SHORT ms, in turns; then all ranks reduce with
 *       an operation that sleeps TRANSFER ms, which simulates a network of that latency
 *   mpirun -n N loops DIRECTORY balance MS ...
 *       each iteration: rank R sleeps the R-th number of milliseconds, then all reduce. As root the ranks
 *       have real-time priority, so that times are exact on a busy machine (their MPI must yield)
 *   mpirun -n N loops DIRECTORY uneven MS ...
 *       the same with normal priority
 *
 * Every rank prints {"event":"ready",...} and runs until DIRECTORY/stop exists, which rank 0 checks. At the
 * end each prints {"event":"end","rank":R,"iterations":N,"seconds":S,"computed":C}: the time from its first
 * iteration to its last, and its time outside MPI, by its own clock. */
#include "gates.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

static int rank, size;
static const char *directory;
static double computed;

static void say(const char *text, int length)
{
    /* One write per line, so that lines of several ranks do not mix. */
    if (write(1, text, length) != length)
        _exit(4);
}

static int is_wanted(void)
{
    return !exists(directory, "stop");
}

FUNCTION void compute(double length)
{
    double begin = seconds();
    struct timespec time = {(time_t)length, (long)((length - (time_t)length) * 1e9)};
    nanosleep(&time, NULL);
    computed += seconds() - begin;
}

FUNCTION int nested(int inner)
{
    int go_on = is_wanted(), sum;
    for (int round = 0; round < inner; round++) {
        compute(0.0003);
        MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return go_on;
}

/* Random choices that are the same in every rank. */
FUNCTION int chance(void)
{
    static unsigned long long state = 1;
    int mine[8] = {rank == 0 && is_wanted()}, all[8];
    state = state * 6364136223846793005u + 1442695040888963407u;
    compute(0.0003);
    switch (state >> 61) {
    case 0: MPI_Allreduce(mine, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 1: MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 2: MPI_Allreduce(mine, all, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 3: MPI_Allreduce(mine, all, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 4: MPI_Allreduce(mine, all, 5, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 5: MPI_Allreduce(mine, all, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 6: MPI_Allreduce(mine, all, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    default: MPI_Allreduce(mine, all, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    }
    return all[0];
}

FUNCTION int balance(double milliseconds)
{
    int wish = rank == 0 && is_wanted(), go_on;
    compute(milliseconds / 1e3);
    MPI_Allreduce(&wish, &go_on, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return go_on;
}

static double transfer;

static void slow_maximum(void *from, void *into, int *count, MPI_Datatype *type)
{
    struct timespec time = {0, (long)(transfer * 1e6)};
    (void)type;
    nanosleep(&time, NULL);
    for (int i = 0; i < *count; i++)
        if (((int *)from)[i] > ((int *)into)[i])
            ((int *)into)[i] = ((int *)from)[i];
}

FUNCTION int turns(double longer, double shorter)
{
    static MPI_Op slow;
    static long round;
    int wish = rank == 0 && is_wanted(), go_on;
    if (round == 0)
        MPI_Op_create(slow_maximum, 1, &slow);
    compute((round++ + rank) % 2 ? longer / 1e3 : shorter / 1e3);
    MPI_Allreduce(&wish, &go_on, 1, MPI_INT, slow, MPI_COMM_WORLD);
    return go_on;
}

static int iterate(int count, char **words)
{
    if (strcmp(words[0], "nested") == 0)
        return nested(count > 1 ? atoi(words[1]) : 1);
    if (strcmp(words[0], "none") == 0)
        return chance();
    if (strcmp(words[0], "turns") == 0) {
        transfer = count > 3 ? atof(words[3]) : 0;
        return turns(count > 1 ? atof(words[1]) : 1, count > 2 ? atof(words[2]) : 1);
    }
    return balance(atof(words[1 + rank % (count - 1)]));
}

int main(int argc, char **argv)
{
    char line[256];
    long iterations = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || (strcmp(argv[2], "balance") == 0 && argc < 4))
        MPI_Abort(MPI_COMM_WORLD, 2);
    directory = argv[1];
    if (strcmp(argv[2], "balance") == 0 || strcmp(argv[2], "turns") == 0) {
        struct sched_param lowest = {1};
        sched_setscheduler(0, SCHED_FIFO, &lowest);
    }
    say(line, snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid()));
    double begin = seconds();
    do
        iterations++;
    while (iterate(argc - 2, argv + 2));
    say(line, snprintf(line, sizeof line, "{\"event\":\"end\",\"rank\":%d,\"iterations\":%ld,\"seconds\":%.6f,\"computed\":%.6f}\n", rank,
                       iterations, seconds() - begin, computed));
    MPI_Finalize();
    return 0;
}
