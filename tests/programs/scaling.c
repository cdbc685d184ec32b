/* Iterations of an OpenMP program whose speedup is known: with P threads one takes 10 + 120 / P ms.
 *
 *   scaling DIRECTORY
 *
 * Five iterations with four threads, five with two, and so on. Nobody computes, all sleep; as root it goes before everything else on the
 * machine, so that times are nearly exact on a busy one too. Prints {"event":"ready"}, and ends once DIRECTORY/stop is there. */
#include "gates.h"

#include <sched.h>
#include <stdio.h>

static void take(int milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000L};
    nanosleep(&time, NULL);
}

__attribute__((noinline, noclone)) void begin_iteration(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }

int main(int argc, char **argv)
{
    struct sched_param lowest = {1};
    if (argc != 2)
        return 2;
    sched_setscheduler(0, SCHED_FIFO, &lowest);
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    for (int number = 0; !exists(argv[1], "stop"); number++) {
        int threads = number / 5 % 2 == 0 ? 4 : 2;
        begin_iteration(number);
        take(10);
#pragma omp parallel num_threads(threads)
        take(120 / threads);
    }
    return 0;
}
