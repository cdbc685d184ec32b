/* Multiplies matrices with the linked BLAS until it is ended.
 *
 *   products DIRECTORY SIZE
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...}. The sum is that of one product of integers and
 * constant. Ends when DIRECTORY/end exists. */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS_FIRST = 101, AS_IT_IS = 111 };

void cblas_dgemm(int order, int how_a, int how_b, int m, int n, int k, double alpha, const double *a, int of_a,
                 const double *b, int of_b, double beta, double *c, int of_c);

int main(int argc, char **argv)
{
    if (argc != 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > 4096) {
        fprintf(stderr, "usage: products DIRECTORY SIZE\n");
        return 2;
    }
    int size = atoi(argv[2]);
    long numbers = (long)size * size;
    double *a = malloc(numbers * sizeof *a), *product = calloc(numbers, sizeof *product);
    if (!a || !product)
        return 1;
    for (long i = 0; i < numbers; i++)
        a[i] = i % 7;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    for (long count = 1;; count++) {
        cblas_dgemm(ROWS_FIRST, AS_IT_IS, AS_IT_IS, size, size, size, 1, a, size, a, size, 0, product, size);
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        double sum = 0;
        for (long i = 0; i < numbers; i++)
            sum += product[i];
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%.0f}\n", now - began, count, sum);
        fflush(stdout);
        if (exists(argv[1], "end"))
            return 0;
    }
}
