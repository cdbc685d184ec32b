/* A program that runs for less than 1 ms: takes STEPS steps and exits with CODE.
 *
 *   brief STEPS [CODE] */
#include <stdlib.h>

static volatile long steps;

__attribute__((noinline, used)) void step(void) { steps++; }

int main(int argc, char **argv)
{
    for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--)
        step();
    return argc > 2 ? atoi(argv[2]) : 0;
}
