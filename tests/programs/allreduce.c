/* An MPI program that alternates between a little work and a reduction over all ranks, until it is ended.
 *
 *   allreduce DIRECTORY
 *
 * The work of an iteration is divided, so its sum does not depend on the number of ranks. Rank 0 prints
 * {"event":"pace","seconds":...,"count":...,"sum":...} about four times per second. All ranks end in the same
 * iteration after DIRECTORY/end exists. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2) {
        fprintf(stderr, "usage: allreduce DIRECTORY\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    double began = MPI_Wtime(), told = began;
    for (long iterations = 1, ends = 0; !ends; iterations++) {
        /* Whether rank 0 has seen the gate, and the result of the work. */
        long mine[2] = {0, 0}, all[2];
        for (volatile long i = rank; i < 6000; i += ranks)
            mine[1] += i * i;
        double now = MPI_Wtime();
        if (rank == 0 && now - told >= 0.25)
            mine[0] = access(end, F_OK) == 0;
        MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        ends = all[0];
        if (rank == 0 && now - told >= 0.25) {
            told = now;
            printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld}\n", now - began, iterations, all[1]);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
