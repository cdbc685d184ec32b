/* Threads that allocate blocks of 8 KiB and free them, except for a small block per 64 KiB. The C library's
 * allocator keeps the memory between these until malloc_trim is called.
 *
 *   arenas DIRECTORY THREADS MEGABYTES [trims]
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...}. The count grows per second by the number of such
 * processes that fit into 1 GiB. The sum is that of the small blocks and constant. With `trims` the program
 * calls malloc_trim itself. Ends when DIRECTORY/end exists. */
#include "gates.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64, BLOCK = 8192, BLOCKS = 8 };

struct small {
    struct small *next;
    long value;
};

static struct small *smalls[THREADS_MAX];
static long groups;
static pthread_barrier_t freed;

static void *take_and_free(void *number)
{
    struct small **own = &smalls[(long)number];
    char **blocks = malloc(groups * BLOCKS * sizeof *blocks);
    for (long group = 0; group < groups; group++) {
        for (long i = 0; i < BLOCKS; i++) {
            blocks[group * BLOCKS + i] = malloc(BLOCK);
            memset(blocks[group * BLOCKS + i], 1, BLOCK);
        }
        struct small *small = malloc(sizeof *small);
        *small = (struct small){.next = *own, .value = group};
        *own = small;
    }
    for (long i = 0; i < groups * BLOCKS; i++)
        free(blocks[i]);
    free(blocks);
    pthread_barrier_wait(&freed);
    pause();
    return NULL;
}

static double resident_bytes(void)
{
    long total, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld %ld", &total, &resident) != 2)
        exit(1);
    fclose(statm);
    return (double)resident * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    if (argc < 4 || atol(argv[2]) < 1 || atol(argv[2]) > THREADS_MAX) {
        fprintf(stderr, "usage: arenas DIRECTORY THREADS MEGABYTES [trims]\n");
        return 2;
    }
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    long threads = atol(argv[2]);
    groups = (atol(argv[3]) << 20) / threads / (BLOCKS * BLOCK);
    pthread_barrier_init(&freed, NULL, threads + 1);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, take_and_free, (void *)i))
            return 1;
    }
    pthread_barrier_wait(&freed);
    if (argc > 4)
        malloc_trim(0);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), before = began, count = 0;
    while (access(end, F_OK) != 0) {
        usleep(50000);
        long sum = 0;
        for (long i = 0; i < threads; i++)
            for (struct small *small = smalls[i]; small; small = small->next)
                sum += small->value;
        double now = seconds();
        count += (now - before) * (1 << 30) / resident_bytes();
        before = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%f,\"sum\":%ld}\n", now - began, count, sum);
        fflush(stdout);
    }
    return 0;
}
