/* A library of `copies`: a short parallel loop. Its team size is left to the OpenMP runtime, or TEAM. */
#include <omp.h>

#define SIZE 2000

long part(int *team)
{
    static long squares[SIZE];
    long sum = 0;
#ifdef TEAM
#pragma omp parallel for num_threads(TEAM) reduction(+ : sum)
#else
#pragma omp parallel for reduction(+ : sum)
#endif
    for (long i = 0; i < SIZE; i++) {
        if (i == 0)
            *team = omp_get_num_threads();
        squares[i] = i * i;
        sum += squares[i];
    }
    return sum;
}
