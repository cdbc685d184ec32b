/* Ranks that sleep their compute time and do not wait for each other, so that many fit on few cores.
 *
 *   mpirun -n RANKS sleepers DIRECTORY MICROSECONDS
 *
 * Prints {"event":"ready",...}, then repeats a sleep and a call that involves no other rank, until
 * DIRECTORY/end exists; then prints {"event":"done",...} with the number of its calls. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char gate[4096], line[200];
    int rank, length;
    long calls = 0;
    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: mpirun -n RANKS sleepers DIRECTORY MICROSECONDS\n");
        return 2;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(gate, sizeof gate, "%s/end", argv[1]);
    length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    if (write(1, line, length) != length)
        return 4;
    while (access(gate, F_OK) != 0) {
        double mine = rank, sum;
        usleep((useconds_t)atol(argv[2]));
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        calls++;
    }
    length = snprintf(line, sizeof line, "{\"event\":\"done\",\"rank\":%d,\"pid\":%d,\"calls\":%ld}\n", rank, getpid(), calls);
    if (write(1, line, length) != length)
        return 4;
    MPI_Finalize();
    return 0;
}
