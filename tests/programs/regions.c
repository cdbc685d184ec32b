/* Parallel regions; every second one requests two threads.
 *
 *   regions DIRECTORY ROUNDS
 *
 * Prints {"event":"ready",...}, waits for DIRECTORY/go, works, prints {"event":"tally",...}, waits for
 * DIRECTORY/end. With 0 rounds it works until DIRECTORY/end exists. Prints {"event":"team",...} when the team
 * size of a region without a requested size differs from the last one, with the value of
 * omp_get_max_threads. */
#include "gates.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

static volatile long sink;

FUNCTION void begin_all(void) { sink++; }
FUNCTION void end_all(void) { sink--; }

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: regions DIRECTORY ROUNDS\n");
        return 2;
    }
    long rounds = atol(argv[2]), members = 0, done = 0;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    begin_all();
    int forever = rounds == 0;
    long last = 0, team;
    for (long round = 0; forever ? !exists(argv[1], "end") : round < rounds; round++) {
        if (round % 2) {
#pragma omp parallel num_threads(2) reduction(+ : members)
            members += omp_get_num_threads() == 2;
        } else {
            team = 0;
#pragma omp parallel reduction(+ : team)
            team += 1;
            members += team;
            if (team != last) {
                printf("{\"event\":\"team\",\"round\":%ld,\"threads\":%ld,\"most\":%d}\n", round, team, omp_get_max_threads());
                fflush(stdout);
            }
            last = team;
        }
        if (forever) {
            done = round + 1;
            usleep(500);
        }
    }
    if (forever)
        rounds = done;
    end_all();
    printf("{\"event\":\"tally\",\"rounds\":%ld,\"members\":%ld}\n", rounds, members);
    fflush(stdout);
    pass_gate(argv[1], "end");
    return 0;
}
