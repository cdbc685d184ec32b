/* An OpenMP program with known losses of threads.
 *
 *   losses DIRECTORY HOW SEQUENTIAL WORK IMBALANCE INFLATION [THREADS...]
 *
 * With P threads an iteration takes SEQUENTIAL us outside of its region, and in it WORK * (1 + INFLATION / 1000 *
 * (P - 1)) / P us in each thread and IMBALANCE us more in the first. 60 iterations with each number of threads,
 * again and again. HOW sets the number: clause, call (omp_set_num_threads), library (nothing: what the environment
 * says). Compute times are slept. As root it has real-time priority, so that times are nearly exact on a busy
 * machine. Prints {"event":"ready"}, and ends once DIRECTORY/stop exists. */
#include "gates.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take(double us)
{
    struct timespec time = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000L};
    nanosleep(&time, NULL);
}

static double work, imbalance, inflation;

/* How far the program is. */
long iteration, iterations = 100000;

static void body(void)
{
    int threads = omp_get_num_threads();
    take(work * (1 + inflation / 1000 * (threads - 1)) / threads + (omp_get_thread_num() == 0 ? imbalance : 0));
}

int main(int argc, char **argv)
{
    struct sched_param lowest = {1};
    if (argc < 7)
        return 2;
    const char *how = argv[2];
    double sequential = atof(argv[3]);
    work = atof(argv[4]);
    imbalance = atof(argv[5]);
    inflation = atof(argv[6]);
    sched_setscheduler(0, SCHED_FIFO, &lowest);
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    for (; !exists(argv[1], "stop"); iteration++) {
        int threads = argc > 7 ? atoi(argv[7 + iteration / 60 % (argc - 7)]) : 1;
        take(sequential);
        if (strcmp(how, "clause") == 0) {
#pragma omp parallel num_threads(threads)
            body();
            continue;
        }
        if (strcmp(how, "call") == 0)
            omp_set_num_threads(threads);
#pragma omp parallel
        body();
    }
    return 0;
}
