/* Several processes that make the same iteration together and must have the same `block` in it, as the two
 * sides of a message.
 *
 *   usage: ranks COUNT even|odd|absent|drifting
 *
 * Each process publishes its block, waits for all, and compares. If they differ, it prints this and ends all
 * processes: a change was made in some ranks only. odd: iteration numbers increase by 10. absent: the last
 * rank never iterates, and the others do not wait for it. drifting: no rank waits, and each has different
 * numbers. The last rank writes `restless` in every iteration. At SIGUSR1 the last rank executes another
 * program, and the others continue without it. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };
struct shared { atomic_long arrived, round, last_leaves_at; volatile int block[MOST]; };

volatile int block, restless;
volatile long iteration, seen;
static struct shared *shared;
static int rank, count, takers, waits;
static volatile sig_atomic_t leaves;

static void leave(int signal) { leaves = signal; }

static void barrier(void) {
    if (!waits) return;
    long round = atomic_load(&shared->round);
    if (atomic_fetch_add(&shared->arrived, 1) == takers - 1) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->round, 1);
    } else
        while (atomic_load(&shared->round) == round) sched_yield();
}

__attribute__((noinline)) void iterate(int number) {
    static int last;
    int mine = block;
    shared->block[rank] = mine;
    /* All ranks have seen it after the barrier. */
    if (leaves && !atomic_load(&shared->last_leaves_at)) atomic_store(&shared->last_leaves_at, iteration + 1);
    barrier();
    for (int other = 0; waits && other < takers; other++)
        if (shared->block[other] != mine) {
            fprintf(stderr, "half-applied in iteration %d: rank %d has %d, rank %d has %d\n", number, rank, mine, other,
                    shared->block[other]);
            kill(getppid(), SIGKILL);
            _exit(3);
        }
    barrier();
    if (mine != last) seen++;
    last = mine;
}

static void run(const char *how) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rank == count - 1) signal(SIGUSR1, leave);
    int by = strcmp(how, "odd") ? 1 : 10, number = strcmp(how, "drifting") ? 7 : 500000000 * rank;
    if (!strcmp(how, "absent") && rank == count - 1)
        for (;;) pause();
    for (;;) {
        iteration++;
        if (iteration == atomic_load(&shared->last_leaves_at)) {
            takers = count - 1;
            if (rank == count - 1) execl("/bin/sleep", "sleep", "1000", (char *)0);
        }
        if (rank == count - 1) restless++;
        for (volatile int work = 0; work < 20000; work++) {}
        iterate(number += by);
    }
}

int main(int arguments, char **argument) {
    if (arguments < 3) return 2;
    count = atoi(argument[1]);
    if (count < 1 || count > MOST) return 2;
    waits = strcmp(argument[2], "drifting");
    takers = count - !strcmp(argument[2], "absent");
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (rank = 0; rank < count; rank++) {
        pid_t child = fork();
        if (!child) run(argument[2]);
        printf("%d ", child);
    }
    puts("");
    fflush(stdout);
    while (wait(0) > 0) {}
    return 0;
}
