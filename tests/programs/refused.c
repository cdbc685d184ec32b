/* A program without MPI that takes steps.
 *
 *   refused DIRECTORY STEPS
 *
 * Prints {"event":"ready",...}, waits for DIRECTORY/go, takes STEPS steps, prints {"event":"done",...}, and
 * waits for DIRECTORY/end. With REFUSED the function `step` begins with an instruction that the kernel does
 * not probe: it has a lock prefix (x86-64). */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int steps;

#ifdef REFUSED
#define KIND "refused"
__attribute__((naked, noinline, used)) void step(void) { __asm__("lock incl steps(%rip)\n\tret"); }
#else
#define KIND "plain"
__attribute__((noinline, used)) void step(void) { steps++; }
#endif

static void say(const char *event)
{
    printf("{\"event\":\"%s\",\"pid\":%d,\"kind\":\"%s\"}\n", event, getpid(), KIND);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: refused DIRECTORY STEPS\n");
        return 2;
    }
    say("ready");
    pass_gate(argv[1], "go");
    for (long i = atol(argv[2]); i > 0; i--)
        step();
    say("done");
    pass_gate(argv[1], "end");
    return 0;
}
