/* A thread reads a word all the time. Every line is answered with: the values that it saw, and those of them that were never written. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

volatile uint64_t word;
static atomic_long seen, torn;

static void *reads(void *none) {
    uint64_t before = 0;
    for (;;) {
        uint64_t now = word;
        if (now == before) continue;
        before = now;
        seen++;
        if (now != 0 && now != UINT64_MAX) torn++;
    }
    return none;
}

int main(void) {
    pthread_t reader;
    char line[256];
    if (pthread_create(&reader, 0, reads, 0)) return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%ld %ld\n", seen, torn);
        fflush(stdout);
    }
    return 0;
}
