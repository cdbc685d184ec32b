/* No MPI: a program that forks its workers first, as servers and Python's multiprocessing do; each has a value of `knob` of its own.
 *
 * argv: FOLDER. With FOLDER/fork it forks one more, which keeps the value that it finds; with FOLDER/stop all end. Prints
 * {"event":"ready"}, {"event":"forked"}, and at the end {"event":"end","rank":R,"knob":N} of each. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gates.h"

enum { WORKERS = 3 };

volatile int knob = 10;

static void end(const char *folder, int rank)
{
    pass_gate(folder, "stop");
    printf("{\"event\":\"end\",\"rank\":%d,\"knob\":%d}\n", rank, knob);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int began[2];
    char one = 0;
    if (argc < 2 || pipe(began))
        return 2;
    for (int rank = 1; rank <= WORKERS; rank++) {
        if (fork() == 0) {
            knob = 99 + rank;
            if (write(began[1], &one, 1) == 1)
                end(argv[1], rank);
            _exit(0);
        }
    }
    for (int rank = 1; rank <= WORKERS; rank++)
        if (read(began[0], &one, 1) != 1)
            return 1;
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    pass_gate(argv[1], "fork");
    if (fork() == 0) {
        printf("{\"event\":\"forked\"}\n");
        fflush(stdout);
        end(argv[1], WORKERS + 1);
        _exit(0);
    }
    end(argv[1], 0);
    while (wait(NULL) > 0) {
    }
    return 0;
}
