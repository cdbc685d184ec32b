/* Pairs of ranks exchange one byte, or BYTES, as fast as they can: the maximum rate of MPI calls.
 *
 *   mpirun -n EVEN bounce DIRECTORY [BYTES]
 *
 * Prints {"event":"ready",...} per rank and waits for DIRECTORY/go. Then rank 0 prints {"event":"pace",...}
 * with the number of its round trips a few times per second, until DIRECTORY/end exists. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TRIPS 20000
#define BYTES_MAX 4096

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc == 3 ? atoi(argv[2]) : 1;
    if (argc < 2 || argc > 3 || bytes < 1 || bytes > BYTES_MAX || size % 2 != 0) {
        fprintf(stderr, "usage: mpirun -n EVEN bounce DIRECTORY [BYTES]\n");
        return 2;
    }
    printf("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    double printed = seconds();
    int partner = rank ^ 1, go_on = 1;
    char message[BYTES_MAX] = {1};
    for (long trips = 0; go_on; trips += TRIPS) {
        for (int trip = 0; trip < TRIPS; trip++) {
            if (rank % 2 == 0)
                MPI_Send(message, bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(message, bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank % 2 == 1)
                MPI_Send(message, bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
        }
        if (rank == 0 && seconds() - printed > 0.2) {
            printed = seconds();
            printf("{\"event\":\"pace\",\"seconds\":%.6f,\"count\":%ld,\"sum\":0}\n", printed, trips + TRIPS);
            fflush(stdout);
        }
        int mine = rank == 0 ? !exists(argv[1], "end") : 1;
        MPI_Allreduce(&mine, &go_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
