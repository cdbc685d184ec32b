/* A rank that executes another program (execve) before MPI_Init, as wrappers do.
 *
 *   mpirun -n RANKS become DIRECTORY PROGRAM ARGUMENTS...
 *
 * Prints {"event":"ready",...}, waits for DIRECTORY/become or DIRECTORY/become-RANK, and executes PROGRAM; or
 * ends, if DIRECTORY/end exists. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int version, subversion, length;
    char line[200], gate[64];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank)
        rank = getenv("PMI_RANK");
    if (argc < 3 || !rank) {
        fprintf(stderr, "usage: mpirun -n RANKS become DIRECTORY PROGRAM ARGUMENTS...\n");
        return 2;
    }
    MPI_Get_version(&version, &subversion);
    length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%s,\"pid\":%d}\n", rank, getpid());
    if (write(1, line, length) != length)
        return 4;
    snprintf(gate, sizeof gate, "become-%s", rank);
    while (!exists(argv[1], "become") && !exists(argv[1], gate)) {
        if (exists(argv[1], "end"))
            return 0;
        usleep(1000);
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 3;
}
