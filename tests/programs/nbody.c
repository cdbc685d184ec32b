/* Bodies in a plane that attract each other, as a master/worker program: the program that MATE (2007) tuned.
 *
 *   mpirun -n RANKS nbody DIRECTORY [NAME=VALUE ...]   names: mw_load in mw.h; workers, factor, minimum,
 *                                                      first_chunk, later_chunk
 *
 * Waits for DIRECTORY/go, prints {"event":"iteration",...} for each iteration and {"event":"result",...} with
 * a checksum that does not depend on the distribution of work. Compute time is slept: `work_us` for all
 * bodies together. */
#include "mw.h"

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Divisible by many numbers of workers, and small enough for one eager message. */
#define BODIES 120
#define STEP 1e-3
#define SOFTENING 1e-2

struct body {
    double x, y, vx, vy;
};

static struct body bodies[BODIES];

static void start(void)
{
    for (int i = 0; i < BODIES; i++) {
        double angle = 2 * M_PI * i / BODIES, radius = 1.0 + 0.3 * sin(7 * angle);
        bodies[i] = (struct body){radius * cos(angle), radius * sin(angle), -0.5 * sin(angle), 0.5 * cos(angle)};
    }
}

/* Sums over all other bodies in a fixed order, so that the result does not depend on the worker. */
static void move(const void *state, int first, int count, void *results)
{
    const struct body *all = state;
    struct body *moved = results;
    for (int i = first; i < first + count; i++) {
        double fx = 0, fy = 0;
        for (int j = 0; j < BODIES; j++) {
            double dx = all[j].x - all[i].x, dy = all[j].y - all[i].y;
            double distance = dx * dx + dy * dy + SOFTENING;
            fx += dx / (distance * sqrt(distance));
            fy += dy / (distance * sqrt(distance));
        }
        struct body body = all[i];
        body.vx += fx * STEP / BODIES;
        body.vy += fy * STEP / BODIES;
        body.x += body.vx * STEP;
        body.y += body.vy * STEP;
        moved[i - first] = body;
    }
}

static void combine(void *state, const void *results) { memcpy(state, results, sizeof bodies); }

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    struct mw_load load = mw_arguments(argc, argv);
    struct mw_program program = {BODIES, sizeof bodies, sizeof(struct body), move, combine};
    start();
    int status = mw_run(&program, &load, bodies);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && status == 0)
        mw_result(bodies, sizeof bodies);
    MPI_Finalize();
    return status;
}
