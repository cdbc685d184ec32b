/* No MPI: sleeps, and calls a function once for each SIGUSR1.
 *
 * Prints {"event":"ready",...}, and {"event":"called"} behind each call. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t wakings;
static volatile long calls;

static void wake(int signal) { wakings += signal == SIGUSR1; }

__attribute__((noinline, used)) void named(void) { calls++; }

int main(void)
{
    sigset_t one, none;
    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    /* It comes while we wait, and at no other time. */
    sigprocmask(SIG_BLOCK, &one, NULL);
    signal(SIGUSR1, wake);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (;;) {
        sigsuspend(&none);
        named();
        puts("{\"event\":\"called\"}");
        fflush(stdout);
    }
}
