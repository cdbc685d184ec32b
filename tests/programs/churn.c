/* A program that allocates large blocks from the C library, uses them and frees them in every iteration,
 * until it is ended.
 *
 *   churn DIRECTORY BLOCKS MEGABYTES
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...}. The sum is that of one iteration and constant. Ends
 * when DIRECTORY/end exists. */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4 || atol(argv[2]) < 1 || atol(argv[2]) > 64) {
        fprintf(stderr, "usage: churn DIRECTORY BLOCKS MEGABYTES\n");
        return 2;
    }
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    long blocks = atol(argv[2]), bytes = atol(argv[3]) << 20;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    for (long iterations = 1;; iterations++) {
        char *block[64];
        long sum = 0;
        for (long i = 0; i < blocks; i++) {
            block[i] = malloc(bytes);
            if (!block[i])
                return 1;
            /* One word per page, as in a sparse pass over an array. */
            for (long at = 0; at < bytes; at += 4096)
                *(long *)(block[i] + at) = at + i;
        }
        for (long i = 0; i < blocks; i++) {
            for (long at = 0; at < bytes; at += 4096)
                sum += *(long *)(block[i] + at);
            free(block[i]);
        }
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld}\n", now - began, iterations, sum);
        fflush(stdout);
        if (access(end, F_OK) == 0)
            return 0;
    }
}
