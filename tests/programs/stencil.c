/* Heat in a ring of cells (SPMD): every rank exchanges boundary cells with its neighbours, then computes.
 *
 *   mpirun -n RANKS stencil DIRECTORY [NAME=VALUE ...]
 *     steps=2000    time steps        block=1     steps between two exchanges, and width of the boundary
 *     cells=1024    per rank          step_us=0   slept per step, and for the neighbours' cells in proportion
 *     exchange_us=0 slept per exchange            slow_rank=-1 slow=1   a rank that is slower
 *
 * `block` must be changed in all ranks at the same exchange: a rank whose neighbour has another value waits
 * for a message that is never sent. Prints {"event":"iteration",...} on rank 0 for each exchange, and
 * {"event":"result",...} with a checksum that is the same for every block. Waits for DIRECTORY/go. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMED __attribute__((noinline, used))
#define MOST_CELLS 65536
#define MOST_BLOCK 64

/* Variables that a rule reads and writes. */
int block = 1; /* read at the top of the loop */
int width;     /* in use until the next exchange */
int iteration; /* exchanges so far */

static struct {
    double steps, cells, step_us, exchange_us, slow_rank, slow;
} given = {2000, 1024, 0, 0, -1, 1};

static double heat[MOST_CELLS + 2 * MOST_BLOCK], warmer[MOST_CELLS + 2 * MOST_BLOCK];
static int rank, ranks;
static const char *directory;

NAMED void begin_iteration(void) { __asm__ volatile("" ::: "memory"); }
NAMED void end_iteration(void) { __asm__ volatile("" ::: "memory"); }

/* The tag is the number of values, so a message from a neighbour with another block is not received. */
NAMED void exchange(int cells)
{
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    double *own = heat + MOST_BLOCK;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    usleep((useconds_t)given.exchange_us);
    MPI_Irecv(own - width, width, MPI_DOUBLE, left, width, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(own + cells, width, MPI_DOUBLE, right, MOST_BLOCK + width, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(own, width, MPI_DOUBLE, left, MOST_BLOCK + width, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(own + cells - width, width, MPI_DOUBLE, right, width, MPI_COMM_WORLD, &requests[3]);
    for (int done = 0; !done;) {
        MPI_Testall(4, requests, &done, statuses);
        if (!done)
            usleep(100);
    }
}

/* Steps until the boundary cells are used up: each step needs one cell more on either side. */
NAMED void compute(int cells)
{
    double *own = heat + MOST_BLOCK, *moved = warmer + MOST_BLOCK;
    for (int margin = width - 1; margin >= 0; margin--) {
        for (int i = -margin; i < cells + margin; i++)
            moved[i] = own[i] + 0.25 * (own[i - 1] - 2 * own[i] + own[i + 1]);
        memcpy(own - margin, moved - margin, (cells + 2 * margin) * sizeof *own);
    }
    double times = rank == (int)given.slow_rank ? given.slow : 1, computed = (double)width * (cells + width - 1) / cells;
    usleep((useconds_t)(given.step_us * computed * times));
}

static void run(int cells)
{
    for (int done = 0; done < given.steps; done += width, iteration++) {
        double began = seconds();
        int wanted = block, left = (int)given.steps - done;
        width = wanted < 1 ? 1 : wanted > MOST_BLOCK ? MOST_BLOCK : wanted;
        width = width < left ? width : left;
        begin_iteration();
        exchange(cells);
        compute(cells);
        end_iteration();
        if (rank == 0) {
            printf("{\"event\":\"iteration\",\"number\":%d,\"block\":%d,\"seconds\":%.6f}\n", iteration, width, seconds() - began);
            fflush(stdout);
        }
    }
}

static int arguments(int argc, char **argv)
{
    double wanted = block;
    const struct {
        const char *name;
        double *value;
    } names[] = {{"steps", &given.steps},         {"cells", &given.cells}, {"step_us", &given.step_us}, {"exchange_us", &given.exchange_us},
                 {"slow_rank", &given.slow_rank}, {"slow", &given.slow},   {"block", &wanted}};
    if (argc < 2)
        return 0;
    directory = argv[1];
    for (int i = 2; i < argc; i++) {
        char name[32];
        double value;
        size_t known = 0, count = sizeof names / sizeof *names;
        if (sscanf(argv[i], "%31[a-z_]=%lf", name, &value) != 2)
            return 0;
        while (known < count && strcmp(names[known].name, name) != 0)
            known++;
        if (known == count)
            return 0;
        *names[known].value = value;
    }
    block = (int)wanted;
    return given.cells >= MOST_BLOCK && given.cells <= MOST_CELLS;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!arguments(argc, argv)) {
        fprintf(stderr, "usage: mpirun -n RANKS stencil DIRECTORY [NAME=VALUE ...]; names as at the top of stencil.c\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int cells = (int)given.cells;
    for (int i = 0; i < cells; i++)
        heat[MOST_BLOCK + i] = (rank * cells + i) % 97 == 0 ? 1000.0 : 0.0;
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), ranks);
    if (write(1, ready, length) != length)
        MPI_Abort(MPI_COMM_WORLD, 4);
    pass_gate(directory, "go");
    run(cells);
    unsigned long sum = 14695981039346656037UL, all; /* FNV-1a */
    for (size_t i = 0; i < cells * sizeof *heat; i++)
        sum = (sum ^ ((unsigned char *)(heat + MOST_BLOCK))[i]) * 1099511628211UL;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"event\":\"result\",\"iterations\":%d,\"checksum\":\"%016lx\"}\n", iteration, all);
    MPI_Finalize();
    return 0;
}
