/* Pairs of ranks exchange 8 bytes, then all ranks reduce, N times or until stopped. The result is known.
 *
 *   mpirun -n EVEN pingpong DIRECTORY ITERATIONS        0: until DIRECTORY/stop exists
 *
 * Prints {"event":"ready",...} per rank, waits for DIRECTORY/go, and at the end prints {"event":"result",...}
 * on rank 0. The checksum depends only on the numbers of ranks and iterations. */
#include "gates.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size;
static const char *directory;

static uint64_t mixed(uint64_t value)
{
    return value * 6364136223846793005u + 1442695040888963407u;
}

/* The even rank of a pair sends its value; the odd one mixes it and sends it back. */
static uint64_t exchange(uint64_t value)
{
    int partner = rank ^ 1;
    if (rank % 2 == 0) {
        MPI_Send(&value, 1, MPI_UINT64_T, partner, 0, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_UINT64_T, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&value, 1, MPI_UINT64_T, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value = mixed(value);
        MPI_Send(&value, 1, MPI_UINT64_T, partner, 0, MPI_COMM_WORLD);
    }
    return value;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || size % 2 != 0) {
        fprintf(stderr, "usage: mpirun -n EVEN pingpong DIRECTORY ITERATIONS\n");
        return 2;
    }
    directory = argv[1];
    long wanted = atol(argv[2]), done = 0;
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank,
                          getpid(), size);
    if (write(1, ready, length) != length)
        return 4;
    pass_gate(directory, "go");

    uint64_t value = rank / 2 + 1;
    uint64_t sum = 0;
    for (int go_on = 1; go_on; done++) {
        value = exchange(value);
        /* The last bit of the sum says whether rank 0 continues, so that this needs no additional call. */
        uint64_t wish = rank == 0 ? (wanted > 0 ? done + 1 < wanted : !exists(directory, "stop")) : 0;
        uint64_t mine = (value & ~UINT64_C(1)) + wish, total;
        MPI_Allreduce(&mine, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        go_on = total & 1;
        sum = mixed(sum ^ (total & ~UINT64_C(1)));
    }
    if (rank == 0) {
        printf("{\"event\":\"result\",\"iterations\":%ld,\"checksum\":\"%016" PRIx64 "\"}\n", done, sum);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
