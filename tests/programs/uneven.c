/* A loop of parallel regions whose times are known: what an observer must find.
 *
 *   uneven DIRECTORY SERIAL EVEN MS ...
 *
 * Each iteration: the first thread alone sleeps for SERIAL milliseconds; a region in which every thread sleeps for EVEN; a region in which
 * thread T sleeps for the T-th of the last numbers, as many threads as there are of them. As root it goes before everything else on the
 * machine, so that times are exact on a busy one too.
 *
 * Prints {"event":"ready",...}, goes on until DIRECTORY/end exists, prints {"event":"end","iterations":N}. */
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

static void work(double milliseconds)
{
    struct timespec time = {(time_t)(milliseconds / 1e3), 0};
    time.tv_nsec = (long)((milliseconds - time.tv_sec * 1e3) * 1e6);
    nanosleep(&time, NULL);
}

FUNCTION void iterate(double serial, double even, int threads, char **numbers)
{
    work(serial);
#pragma omp parallel num_threads(threads)
    work(even);
#pragma omp parallel num_threads(threads)
    work(atof(numbers[omp_get_thread_num()]));
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: uneven DIRECTORY SERIAL EVEN MS ...\n");
        return 2;
    }
    char end[4096];
    long iterations = 0;
    struct sched_param lowest = {1};
    sched_setscheduler(0, SCHED_FIFO, &lowest);
    snprintf(end, sizeof end, "%s/end", argv[1]);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (; access(end, F_OK) != 0; iterations++)
        iterate(atof(argv[2]), atof(argv[3]), argc - 4, argv + 4);
    printf("{\"event\":\"end\",\"iterations\":%ld}\n", iterations);
    return 0;
}
