/* A loop of parallel regions with known times, which the agent must find.
 *
 *   uneven DIRECTORY SERIAL EVEN MS ...
 *
 * Each iteration: the first thread alone sleeps for SERIAL milliseconds; a region in which every thread
 * sleeps for EVEN ms; a region in which thread T sleeps for the T-th of the last numbers, with as many
 * threads as there are numbers. As root it has real-time priority, so that times are nearly exact on a busy
 * machine. A hypervisor can still stop the machine, so the program prints the measured times.
 *
 * Prints {"event":"ready",...}, for each iteration {"event":"iteration","start_s":...,
 * "regions":[{"start_s":...,"end_s":...,"threads":[[entered,left],...]},...]} in seconds by CLOCK_MONOTONIC;
 * runs until DIRECTORY/end exists, and prints {"event":"end","iterations":N}. */
#include "gates.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline, used))

enum { REGIONS = 2, THREADS_MAX = 64 };

struct region {
    double start, end, entered[THREADS_MAX], left[THREADS_MAX];
};

static void work(double milliseconds)
{
    struct timespec time = {(time_t)(milliseconds / 1e3), 0};
    time.tv_nsec = (long)((milliseconds - time.tv_sec * 1e3) * 1e6);
    nanosleep(&time, NULL);
}

static void work_in(struct region *region, double milliseconds)
{
    int thread = omp_get_thread_num();
    region->entered[thread] = seconds();
    work(milliseconds);
    region->left[thread] = seconds();
}

FUNCTION void iterate(double serial, double even, int threads, char **numbers, struct region *regions)
{
    work(serial);
    regions[0].start = seconds();
#pragma omp parallel num_threads(threads)
    work_in(&regions[0], even);
    regions[0].end = regions[1].start = seconds();
#pragma omp parallel num_threads(threads)
    work_in(&regions[1], atof(numbers[omp_get_thread_num()]));
    regions[1].end = seconds();
}

static void tell(double start, int threads, const struct region *regions)
{
    printf("{\"event\":\"iteration\",\"start_s\":%.6f,\"regions\":[", start);
    for (const struct region *of = regions; of < regions + REGIONS; of++) {
        printf("%s{\"start_s\":%.6f,\"end_s\":%.6f,\"threads\":[", of == regions ? "" : ",", of->start, of->end);
        for (int thread = 0; thread < threads; thread++)
            printf("%s[%.6f,%.6f]", thread ? "," : "", of->entered[thread], of->left[thread]);
        printf("]}");
    }
    printf("]}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int threads = argc - 4;
    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: uneven DIRECTORY SERIAL EVEN MS ...\n");
        return 2;
    }
    long iterations = 0;
    struct sched_param lowest = {1};
    sched_setscheduler(0, SCHED_FIFO, &lowest);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (; !exists(argv[1], "end"); iterations++) {
        struct region regions[REGIONS];
        double start = seconds();
        iterate(atof(argv[2]), atof(argv[3]), threads, argv + 4, regions);
        tell(start, threads, regions);
    }
    printf("{\"event\":\"end\",\"iterations\":%ld}\n", iterations);
    return 0;
}
