/* An OpenMP program with short parallel loops, until it is ended.
 *
 *   teams DIRECTORY SIZE [THREADS]
 *
 * With THREADS it states its team size, in loops of two schedules.
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...,"teams":[...]}. The sum is the result of all regions so
 * far divided by their number, and does not depend on the distribution of work; the teams are the team sizes
 * of each loop. Ends when DIRECTORY/end exists. */
#include "gates.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OTHERS 1000

/* Team size of each loop. */
static int teams[2];

/* One iteration of a loop; the first one records the team size. */
static long step(long *squares, long i, long number, int *team)
{
    if (team)
        *team = omp_get_num_threads();
    squares[i] = i * i + number;
    return squares[i] - number;
}

static long by_library(long *squares, long size, long number)
{
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < size; i++)
        sum += step(squares, i, number, i == 0 ? &teams[0] : 0);
    return sum;
}

static long stated(long *squares, long size, long number, int threads)
{
    static long others[OTHERS];
    long sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
    for (long i = 0; i < size; i++)
        sum += step(squares, i, number, i == 0 ? &teams[0] : 0);
    /* Constant bounds and no reduction: compilers start team and loop in one call. */
#pragma omp parallel for num_threads(threads) schedule(dynamic, 100)
    for (long i = 0; i < OTHERS; i++)
        step(others, i, number, i == 0 ? &teams[1] : 0);
    for (long i = 0; i < OTHERS; i++)
        sum += others[i] - number;
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: teams DIRECTORY SIZE [THREADS]\n");
        return 2;
    }
    int threads = argc == 4 ? atoi(argv[3]) : 0;
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    long size = atol(argv[2]);
    long *squares = calloc(size, sizeof *squares);
    if (!squares)
        return 1;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    for (long regions = 1;; regions++) {
        long sum = threads ? stated(squares, size, regions, threads) : by_library(squares, size, regions);
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld,\"teams\":[%d,%d]}\n", now - began, regions, sum,
               teams[0], teams[1]);
        fflush(stdout);
        if (access(end, F_OK) == 0)
            return 0;
    }
}
