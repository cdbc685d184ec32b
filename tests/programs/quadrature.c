/* The area under a curve in strips, on the same master/worker library as nbody, so that one rule tunes both.
 *
 *   mpirun -n RANKS quadrature DIRECTORY [NAME=VALUE ...]      as nbody
 *
 * Every iteration halves the step width in the strips, up to a limit. The result equals that of one
 * process. */
#include "mw.h"

#include <math.h>
#include <mpi.h>

#define STRIPS 96
#define MOST_STEPS 512

struct curve {
    double area;
    int steps;
};

static void strips(const void *state, int first, int count, void *results)
{
    const struct curve *curve = state;
    double *areas = results;
    for (int strip = first; strip < first + count; strip++) {
        double area = 0, width = 1.0 / STRIPS / curve->steps;
        for (int step = 0; step < curve->steps; step++) {
            double x = (double)strip / STRIPS + (step + 0.5) * width;
            area += 4 / (1 + x * x) * width;
        }
        areas[strip - first] = area;
    }
}

static void sum(void *state, const void *results)
{
    struct curve *curve = state;
    const double *areas = results;
    curve->area = 0;
    for (int strip = 0; strip < STRIPS; strip++)
        curve->area += areas[strip];
    if (curve->steps < MOST_STEPS)
        curve->steps *= 2;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    struct mw_load load = mw_arguments(argc, argv);
    struct mw_program program = {STRIPS, sizeof(struct curve), sizeof(double), strips, sum};
    struct curve curve = {0, 1};
    int status = mw_run(&program, &load, &curve);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && status == 0) {
        mw_result(&curve, sizeof curve.area);
        status = fabs(curve.area - M_PI) < 1e-9 || load.iterations < 10 ? 0 : 6;
    }
    MPI_Finalize();
    return status;
}
