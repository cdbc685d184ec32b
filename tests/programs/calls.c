/* A program without MPI that calls one function repeatedly and measures the duration of a call.
 *
 *   calls DIRECTORY GAP_NS
 *
 * Prints {"event":"ready",...} and waits for DIRECTORY/go. Then it prints {"event":"pace",...} after every
 * 2000 calls, with their median duration in nanoseconds, until DIRECTORY/end exists. It spins for GAP_NS
 * between two calls. */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))
#define CALLS 2000

long serial, weight = 3;
static volatile long sink;

FUNCTION long called(long number, long more)
{
    serial++;
    sink += number;
    return number + more;
}

/* A second function to probe. */
FUNCTION void idle(void) { __asm__ volatile(""); }

static int by_size(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static long took[CALLS];
    if (argc != 3) {
        fprintf(stderr, "usage: calls DIRECTORY GAP_NS\n");
        return 2;
    }
    long gap = atol(argv[2]);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    while (!exists(argv[1], "end")) {
        idle();
        for (int i = 0; i < CALLS; i++) {
            long began = now_ns();
            called(i, weight);
            long ended = now_ns();
            took[i] = ended - began;
            while (now_ns() - ended < gap)
                ;
        }
        qsort(took, CALLS, sizeof took[0], by_size);
        printf("{\"event\":\"pace\",\"ns\":%ld}\n", took[CALLS / 2]);
        fflush(stdout);
    }
    return 0;
}
