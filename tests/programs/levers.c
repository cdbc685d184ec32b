/* A loop in which everything can be changed from outside: called functions, their arguments, CPU binding of
 * threads.
 *
 *   levers DIRECTORY [LIBRARY...]
 *
 * Loads the libraries, prints {"event":"ready",...}, waits for DIRECTORY/go, and makes rounds until
 * DIRECTORY/end exists. Prints {"event":"view",...} for each round that differs from the previous one.
 * DIRECTORY/calm sets `heavy` to 0, and `wish` from 5 to 7. Two more threads work continuously. All sums are
 * computed twice; the result has the number of wrong ones. */
#define _GNU_SOURCE
#include "gates.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))
#define THREADS 2
#define NUMBERS 64
#define LIBRARIES_MAX 4

struct solver { int chunk; };
struct config { int level; struct solver solver; };
struct config cfg = {2, {64}};
int limits[3] = {10, 20, 30};
int heavy = 1, wish = 5;
const int fixed = 9;

/* Observations of one round. */
struct view { char sort; int logs, ticks, size, chunk, limit, flushed, loaded, cpus, levels[LIBRARIES_MAX]; };
static struct view now;
static int flushed;
static volatile long wrong;
static volatile int over;

FUNCTION long sort_a(const long *numbers, int count)
{
    long sum = 0;
    now.sort = 'a';
    for (int i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}

FUNCTION long sort_b(const long *numbers, int count)
{
    long sum = 0;
    now.sort = 'b';
    for (int i = count - 1; i >= 0; i--)
        sum += numbers[i];
    return sum;
}

FUNCTION void log_state(int round) { now.logs += 1 + 0 * round; }
FUNCTION void tick(int weight) { now.ticks += weight; }
FUNCTION void send_block(int to, int size) { now.size = size + 0 * to; }
FUNCTION int flush_level(int level) { flushed = level; return level * 10; }
FUNCTION int level_flushed(void) { return flushed; }
FUNCTION void scale(int by) { flushed += by; }

FUNCTION void step(int round)
{
    long numbers[NUMBERS], expected = 0;
    for (int i = 0; i < NUMBERS; i++)
        expected += numbers[i] = (long)i * round % 1009;
    now.sort = '?';
    log_state(round);
    send_block(round, 100);
    if (sort_a(numbers, NUMBERS) != expected)
        wrong++;
}

static void *work(void *unused)
{
    (void)unused;
    while (!over) {
        long sum = 0;
        for (volatile int i = 0; i < 1000; i++)
            sum += i;
        if (sum != 499500)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        usleep(100);
    }
    return NULL;
}

static int count_tuned(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    *(int *)count += name != NULL && strncmp(name, "/tuned", 6) == 0;
    return 0;
}

static const char *directory;

static int cpus_of(pthread_t thread)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(thread, sizeof set, &set);
    return CPU_COUNT(&set);
}

static void show(long round)
{
    printf("{\"event\":\"view\",\"round\":%ld,\"sort\":\"%c\",\"logs\":%d,\"ticks\":%d,\"size\":%d,\"chunk\":%d,\"limit\":%d,"
           "\"flushed\":%d,\"loaded\":%d,\"cpus\":%d,\"levels\":[%d,%d]}\n",
           round, now.sort, now.logs, now.ticks, now.size, now.chunk, now.limit, now.flushed, now.loaded, now.cpus, now.levels[0],
           now.levels[1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 2 + LIBRARIES_MAX) {
        fprintf(stderr, "usage: levers DIRECTORY [LIBRARY...]\n");
        return 2;
    }
    directory = argv[1];
    int (*level_of[LIBRARIES_MAX])(void) = {NULL};
    for (int i = 2; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        *(void **)&level_of[i - 2] = dlsym(library, "level_now");
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 4;
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    if (write(1, ready, length) != length)
        return 4;
    pass_gate(directory, "go");
    struct view before;
    memset(&before, 0, sizeof before);
    /* One more complete round after the gate was seen. */
    for (long round = 0, is_last = 0; !is_last; round++) {
        is_last = exists(directory, "end");
        if (exists(directory, "calm")) {
            heavy = 0;
            wish = 7;
        }
        memset(&now, 0, sizeof now);
        step((int)round);
        now.chunk = cfg.solver.chunk;
        now.limit = limits[2];
        now.flushed = flushed;
        now.cpus = cpus_of(threads[0]);
        dl_iterate_phdr(count_tuned, &now.loaded);
        for (int i = 0; i < LIBRARIES_MAX; i++)
            now.levels[i] = level_of[i] != NULL ? level_of[i]() : 0;
        if (memcmp(&before, &now, sizeof now) != 0)
            show(round);
        before = now;
        usleep(300);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("{\"event\":\"result\",\"wrong\":%ld,\"level\":%d,\"heavy\":%d,\"wish\":%d,\"fixed\":%d}\n", wrong, cfg.level, heavy, wish,
           fixed);
    return 0;
}
