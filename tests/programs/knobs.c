/* A program without MPI and without preparation, with variables to change and a function that is called
 * continuously.
 *
 *   knobs
 *
 * Prints {"event":"ready",...}, then works until its standard input ends. For every input line it prints its
 * variables as {"event":"values",...}; the line "set N" changes knob first. The work does not depend on these
 * values: its result, printed at the end, depends only on the number of rounds. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

int knob = 10;
double rate = 1.5;
const int fixed = 3;
static unsigned long long state = 1;
static unsigned long rounds;

FUNCTION void step(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    rounds++;
}

static void say(const char *event)
{
    printf("{\"event\":\"%s\",\"pid\":%d,\"knob\":%d,\"rate\":%g,\"fixed\":%d,\"rounds\":%lu,\"state\":\"%016llx\"}\n", event,
           getpid(), knob, rate, *(volatile const int *)&fixed, rounds, state);
    fflush(stdout);
}

int main(void)
{
    char line[64];
    struct pollfd input = {.fd = 0, .events = POLLIN};
    say("ready");
    for (;;) {
        step();
        if (poll(&input, 1, 1) <= 0)
            continue;
        if (!fgets(line, sizeof line, stdin))
            break;
        if (!strncmp(line, "set ", 4))
            knob = atoi(line + 4);
        say("values");
    }
    say("end");
    return 0;
}
