/* An OpenMP program that scales as those of chapter 4 of Corbalan's thesis, section 4.6.
 *
 *   shapes DIRECTORY SEQUENTIAL WORK INNER TWO MORE ITERATIONS THREADS...
 *
 * An iteration has SEQUENTIAL microseconds outside parallel regions, and WORK microseconds inside if there is one thread.
 * With INNER > 0 half of the work is done in an inner loop that runs INNER times. The work is multiplied by TWO if
 * there are two threads, and by MORE if there are more. ITERATIONS with each number of threads, again and again; with
 * the number 0 it is left to the library.
 * Compute times are slept. As root it has real-time priority, so that times are nearly exact on a busy machine. Prints
 * {"event":"ready"}, and {"event":"team",...} when the team has another size than before, with the value of
 * omp_get_max_threads; ends once DIRECTORY/stop exists, or after as many iterations as the environment's LIMIT says, and
 * prints {"event":"end",...} with its run time, its iterations and a sum over them, which does not depend on the teams. */
#include "gates.h"

#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* What each iteration sums up, divided among the team. */
#define PARTS 100

static void take(double us)
{
    struct timespec time = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000L};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    struct sched_param lowest = {1};
    if (argc < 9)
        return 2;
    double sequential = atof(argv[2]), work = atof(argv[3]);
    int inner = atoi(argv[4]);
    double two = atof(argv[5]), more = atof(argv[6]);
    double share = inner > 0 ? 0.5 : 1;
    int team = 0, last = 0;
    const char *limit = getenv("LIMIT");
    long iterations = limit ? atol(limit) : LONG_MAX, iteration = 0, sum = 0;
    struct timespec since, now;
    sched_setscheduler(0, SCHED_FIFO, &lowest);
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &since);
    for (; iteration < iterations && !exists(argv[1], "stop"); iteration++) {
        int threads = atoi(argv[8 + iteration / atol(argv[7]) % (argc - 8)]);
        if (threads > 0)
            omp_set_num_threads(threads);
        threads = omp_get_max_threads();
        double each = work * (threads < 2 ? 1 : threads < 3 ? two : more) / threads;
        take(sequential);
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp master
            team = omp_get_num_threads();
#pragma omp for schedule(static) nowait
            for (int part = 0; part < PARTS; part++)
                sum += part * iteration;
            take(share * each);
        }
        if (team != last) {
            printf("{\"event\":\"team\",\"threads\":%d,\"most\":%d}\n", team, omp_get_max_threads());
            fflush(stdout);
        }
        last = team;
        for (int pass = 0; pass < inner; pass++) {
#pragma omp parallel
            take((1 - share) * each / inner);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("{\"event\":\"end\",\"seconds\":%.6f,\"iterations\":%ld,\"sum\":%ld}\n",
           (double)(now.tv_sec - since.tv_sec) + (double)(now.tv_nsec - since.tv_nsec) / 1e9, iteration, sum);
    return 0;
}
