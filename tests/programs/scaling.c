/* An OpenMP program with known speedup: an iteration with P threads takes 10 + 120 / P ms.
 *
 *   scaling DIRECTORY
 *
 * Alternates between five iterations with four threads and five with two. Compute times are slept. As root it
 * has real-time priority, so that times are nearly exact on a busy machine. Prints {"event":"ready"}, and
 * ends once DIRECTORY/stop exists. */
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
