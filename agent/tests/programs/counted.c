/* Calls work() the number of times given by each input line, then answers with the total number of calls and
 * their nanoseconds. */
#include <stdio.h>
#include <time.h>

volatile long total;

__attribute__((noinline)) int work(int amount) {
    for (int i = 0; i < amount; i++) total += i;
    return amount;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(void) {
    long calls = 0, wanted;
    puts("ready");
    fflush(stdout);
    while (scanf("%ld", &wanted) == 1) {
        long began = now_ns();
        for (long i = 0; i < wanted; i++) calls += work(2000) > 0;
        printf("%ld %ld\n", calls, now_ns() - began);
        fflush(stdout);
    }
    return 0;
}
