/* A program without MPI: many threads that mostly sleep, and check the result of `f`, which is x * 3 + 1 or,
 * after replacement by `g`, x * 5 + 2.
 *
 * argv: FOLDER THREADS. Prints {"event":"ready","threads":N}; with FOLDER/stop
 * {"event":"end","wrong":N,"rounds":N}. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gates.h"

#define KEEP __attribute__((noinline, noclone, used))

volatile int knob = 10;
static atomic_int stopping;
static atomic_long wrong, rounds;

KEEP long f(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 3 + 1;
}

KEEP long g(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 5 + 2;
}

static void *work(void *argument)
{
    for (long i = (long)argument; !stopping; i++) {
        long result = f(i);
        if (result != i * 3 + 1 && result != i * 5 + 2)
            wrong++;
        rounds++;
        usleep(1000000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const int wanted = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t *threads = calloc(wanted + 1, sizeof *threads);
    pthread_attr_t small;
    int made = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (made < wanted && pthread_create(&threads[made], &small, work, (void *)(long)made) == 0)
        made++;
    printf("{\"event\":\"ready\",\"threads\":%d}\n", made);
    fflush(stdout);
    pass_gate(argv[1], "stop");
    stopping = 1;
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    printf("{\"event\":\"end\",\"wrong\":%ld,\"rounds\":%ld}\n", wrong, rounds);
    return 0;
}
