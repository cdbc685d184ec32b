/* Calls of known duration, to be run with pmpi_truth preloaded.
 *
 *   mpirun -n 2 lengths ROUNDS
 *
 * Both ranks meet at a barrier. Then rank 0 comes late to a call, by the microseconds given before it, and
 * rank 1 waits for it there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void late(int rank, long microseconds)
{
    struct timespec begin, now;
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (rank == 0 && (now.tv_sec - begin.tv_sec) * 1000000L + (now.tv_nsec - begin.tv_nsec) / 1000 < microseconds);
}

int main(int argc, char **argv)
{
    int rank, size, mine = 1, all;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size != 2) {
        fprintf(stderr, "usage: mpirun -n 2 lengths ROUNDS\n");
        return 2;
    }
    for (int round = 0; round < atoi(argv[1]); round++) {
        late(rank, 100);
        if (rank == 0)
            MPI_Send(&mine, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(&mine, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        late(rank, 200);
        if (rank == 0)
            MPI_Isend(&mine, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
        else
            MPI_Irecv(&mine, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        late(rank, 400);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        late(rank, 800);
        MPI_Bcast(&mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
