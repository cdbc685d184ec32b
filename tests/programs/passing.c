/* A program without MPI: two threads compute for 0.9 s of CPU time each and end; then the program prints its
 * CPU time in seconds, and ends. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static double used(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *work(void *none)
{
    while (used(CLOCK_THREAD_CPUTIME_ID) < 0.9) {
    }
    return none;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%.9f\n", used(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
