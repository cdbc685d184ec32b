/* Ranks that start and end at different times. Linked with MPI, but makes no call that needs other ranks.
 *
 *   mpirun -n RANKS coming DIRECTORY
 *
 * Prints {"event":"ready",...}, takes a step every millisecond until DIRECTORY/end or DIRECTORY/end-RANK
 * exists, prints the values of its variables as {"event":"values",...}, and ends. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

int knob = 10;
int first = 1;
static long steps;

FUNCTION void step(void) { steps++; }
/* The program never calls this. */
FUNCTION void never(void) { steps--; }

static void say(const char *event, const char *rank)
{
    char line[200];
    int length = snprintf(line, sizeof line, "{\"event\":\"%s\",\"rank\":%s,\"pid\":%d,\"knob\":%d,\"first\":%d}\n", event, rank,
                          getpid(), knob, first);
    if (write(1, line, length) != length)
        exit(4);
}

int main(int argc, char **argv)
{
    int version, subversion;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char gate[64];
    if (argc != 2 || !rank) {
        fprintf(stderr, "usage: mpirun -n RANKS coming DIRECTORY\n");
        return 2;
    }
    MPI_Get_version(&version, &subversion);
    snprintf(gate, sizeof gate, "end-%s", rank);
    say("ready", rank);
    while (!exists(argv[1], "end") && !exists(argv[1], gate)) {
        step();
        usleep(1000);
    }
    say("values", rank);
    return 0;
}
