/* An OpenMP program as many are: short parallel loops, one after the other, until it is told to end.
 *
 *   teams DIRECTORY SIZE
 *
 * Prints {"event":"ready",...}, then twenty times a second {"event":"pace","seconds":...,"count":...,"sum":...}, where
 * the sum is the result of all regions so far over their number and does not depend on who did what; ends when
 * DIRECTORY/end is there. */
#include "gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: teams DIRECTORY SIZE\n");
        return 2;
    }
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
        long sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (long i = 0; i < size; i++) {
            squares[i] = i * i + regions;
            sum += squares[i] - regions;
        }
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld}\n", now - began, regions, sum);
        fflush(stdout);
        if (access(end, F_OK) == 0)
            return 0;
    }
}
