/* Forks workers and queries them. Prints "ready", then answers each line: `fork N` forks a worker that sets
 * knob to N itself (0: it keeps the inherited value) and prints its number, `grandfork` makes the newest
 * worker fork one and prints its number, `values` prints knob of the program and of all workers, `set N`
 * changes the program's own knob. A worker ends when its pipe is closed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS_MAX = 16 };

int knob = 10;

static struct worker { int line[2]; } *workers; /* Created before all forks, for grandchildren, too. */
static int *count; /* Shared memory. */

static void serve(int line, int own)
{
    char word;
    if (own)
        *(volatile int *)&knob = own;
    for (int n = 0; n < WORKERS_MAX; n++)
        close(workers[n].line[0]);
    while (read(line, &word, 1) == 1) {
        int seen = *(volatile int *)&knob;
        if (word == 'f') {
            int next = workers[*count].line[1];
            if ((seen = fork()) == 0) {
                line = next;
                continue;
            }
        }
        if (write(line, &seen, sizeof seen) != sizeof seen)
            break;
    }
    _exit(0);
}

static int ask(int worker, char word)
{
    int seen = -1;
    if (write(workers[worker].line[0], &word, 1) != 1 || read(workers[worker].line[0], &seen, sizeof seen) != sizeof seen)
        exit(1);
    return seen;
}

/* The worker has its initial value before its number is printed. */
static int start(int own)
{
    int child = fork();
    if (child == 0)
        serve(workers[*count].line[1], own);
    ask(*count, 'a');
    ++*count;
    return child;
}

int main(void)
{
    char line[64];
    signal(SIGCHLD, SIG_IGN);
    workers = mmap(0, sizeof *workers * WORKERS_MAX + sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count = (int *)(workers + WORKERS_MAX);
    for (int n = 0; n < WORKERS_MAX; n++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, workers[n].line))
            return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "fork ", 5)) {
            printf("%d\n", start(atoi(line + 5)));
        } else if (!strcmp(line, "grandfork\n")) {
            int child = ask(*count - 1, 'f');
            printf("%d\n", child);
            ++*count;
        } else if (!strncmp(line, "set ", 4)) {
            printf("%d\n", knob = atoi(line + 4));
        } else {
            printf("%d", *(volatile int *)&knob);
            for (int n = 0; n < *count; n++)
                printf(" %d", ask(n, 'a'));
            printf("\n");
        }
        fflush(stdout);
    }
    return 0;
}
