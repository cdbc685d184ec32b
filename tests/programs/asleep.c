/* A program without MPI that sleeps and never calls its function.
 *
 * Prints {"event":"ready",...}. */
#include <stdio.h>
#include <unistd.h>

static volatile long calls;

__attribute__((noinline, used)) void named(void) { calls++; }

int main(void)
{
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
