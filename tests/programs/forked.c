/* A program without MPI that forks its workers at its start, as servers and Python's multiprocessing do. Each
 * worker has a different value of `knob`.
 *
 * argv: FOLDER [WORKERS]. With FOLDER/fork it forks another worker, which keeps the parent's current value.
 * With FOLDER/stop all end. Prints {"event":"began","rank":R,"pid":N} for each worker, {"event":"ready"},
 * {"event":"forked"}, and at the end {"event":"end","rank":R,"knob":N} for each. Workers use no CPU while
 * they wait. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gates.h"

volatile int knob = 10;

/* Pipes that signal the start and the end of the workers; the parent holds one end of each. */
static int began[2], over[2];

static void end(int rank)
{
    printf("{\"event\":\"end\",\"rank\":%d,\"knob\":%d}\n", rank, knob);
    fflush(stdout);
}

static void work(int rank)
{
    char one = 0;
    close(over[1]);
    printf("{\"event\":\"began\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    fflush(stdout);
    if (write(began[1], &one, 1) == 1 && read(over[0], &one, 1) == 0)
        end(rank);
    _exit(0);
}

int main(int argc, char **argv)
{
    const int workers = argc > 2 ? atoi(argv[2]) : 3;
    char one;
    if (argc < 2 || pipe(began) || pipe(over))
        return 2;
    for (int rank = 1; rank <= workers; rank++) {
        if (fork() == 0) {
            knob = 99 + rank;
            work(rank);
        }
    }
    for (int rank = 1; rank <= workers; rank++)
        if (read(began[0], &one, 1) != 1)
            return 1;
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    pass_gate(argv[1], "fork");
    if (fork() == 0)
        work(workers + 1);
    if (read(began[0], &one, 1) != 1)
        return 1;
    printf("{\"event\":\"forked\"}\n");
    fflush(stdout);
    pass_gate(argv[1], "stop");
    end(0);
    close(over[1]);
    while (wait(NULL) > 0) {
    }
    return 0;
}
