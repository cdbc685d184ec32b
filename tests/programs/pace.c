/* Makes MPI calls at a fixed rate, in 100 iterations per second. An iteration makes its calls at once and
 * then sleeps.
 *
 *   mpirun -n RANKS pace CALLS_PER_SECOND DIRECTORY
 *
 * Prints {"event":"ready",...} per rank, then runs until DIRECTORY/end exists. The calls involve no other
 * rank. If they take longer than an iteration, the next one begins late and no iteration is made up for, so
 * the rate is lower. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PER_SECOND 100

volatile long iterations;

__attribute__((noinline, used)) void begin_iteration(void) { iterations++; }
__attribute__((noinline, used)) void end_iteration(void) { __asm__ volatile(""); }

int main(int argc, char **argv)
{
    char gate[4096], line[200];
    int rank, length;
    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: mpirun -n RANKS pace CALLS_PER_SECOND DIRECTORY\n");
        return 2;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(gate, sizeof gate, "%s/end", argv[2]);
    length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    if (write(1, line, length) != length)
        return 4;
    long calls = atol(argv[1]) / PER_SECOND, next = now_ns();
    while (access(gate, F_OK) != 0) {
        begin_iteration();
        for (long call = 0; call < calls; call++) {
            double mine = rank, sum;
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        }
        end_iteration();
        next += 1000000000L / PER_SECOND;
        long late = now_ns() - next;
        if (late >= 0) {
            next += late;
            continue;
        }
        struct timespec until = {next / 1000000000L, next % 1000000000L};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    MPI_Finalize();
    return 0;
}
