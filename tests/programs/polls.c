/* A rank that polls for messages that never come, with a little work in between, and counts its polls.
 *
 *   mpirun -n 1 polls DIRECTORY NANOSECONDS
 *
 * Prints {"event":"ready",...}, waits for DIRECTORY/go, then polls until DIRECTORY/tally exists, with about
 * NANOSECONDS of work between two polls; prints {"event":"tally",...} with its count, and ends when
 * DIRECTORY/end exists. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH 2000

/* Timed by the clock, because the duration of a fixed number of rounds varies threefold with the surrounding
 * code. */
static void work(double nanoseconds)
{
    double until = seconds() + nanoseconds / 1e9;
    while (seconds() < until) {
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: mpirun -n 1 polls DIRECTORY NANOSECONDS\n");
        return 2;
    }
    double nanoseconds = atof(argv[2]);
    printf("{\"event\":\"ready\",\"rank\":0,\"pid\":%d}\n", getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    unsigned long asked = 0;
    while (!exists(argv[1], "tally")) {
        for (int batch = 0; batch < BATCH; batch++) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            if (nanoseconds > 0)
                work(nanoseconds);
        }
        asked += BATCH;
    }
    printf("{\"event\":\"tally\",\"rank\":0,\"asked\":%lu}\n", asked);
    fflush(stdout);
    pass_gate(argv[1], "end");
    MPI_Finalize();
    return 0;
}
