/* Calls step() in an endless loop, and checks in every iteration where `knob` or `wide` has changed.
 *
 *   usage: steps entry|return busy|sleep|threads
 *
 * threads: three more threads run continuously and call the same functions of the C library, but not step.
 *
 * A change that is seen first right after the sync point (the entry of step, or its return) is right; one
 * that is seen elsewhere is wrong. `longest_ns` is the longest time between two iterations since it was set
 * to 0, which is the longest hold. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile int knob;
volatile long wide, other;
volatile long iteration, right, wrong, changed_at, longest_ns;
static long seen;
static int at_return;

/* Called from outside; returns the previous value. */
__attribute__((noinline, used)) int set_knob(int value) {
    int before = knob;
    knob = value;
    return before;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void first_seen(long value, int is_right) {
    if (value == seen) return;
    seen = value;
    if (is_right) { changed_at = iteration; right++; } else wrong++;
}

__attribute__((noinline)) void step(long work) {
    first_seen(knob + wide, !at_return);
    for (long i = 0; i < work; i++) first_seen(knob + wide, 0);
}

/* For returns: a call that the compiler cannot make a tail call, and several return instructions. */
__attribute__((noinline)) long leave(long work) {
    for (long i = 0; i < work; i++) first_seen(knob + wide, 0);
    if (iteration & 1) return iteration + work;
    first_seen(knob + wide, 0);
    return work;
}

static void *beside(void *nothing) {
    for (;;) {
        free(malloc(now_ns() & 0xfff));
        for (volatile int i = 0; i < 1000; i++) {}
    }
    return nothing;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    at_return = !strcmp(arguments[1], "return");
    int sleeps = !strcmp(arguments[2], "sleep");
    pthread_t thread;
    for (int i = 0; i < 3 && !strcmp(arguments[2], "threads"); i++)
        if (pthread_create(&thread, 0, beside, 0)) return 3;
    struct timespec pause = {0, 300000};
    puts("ready");
    fflush(stdout);
    long last = now_ns();
    for (;;) {
        iteration++;
        first_seen(knob + wide, 0);
        if (at_return) { other += leave(1000); first_seen(knob + wide, 1); } else step(1000);
        for (int i = 0; i < 100; i++) first_seen(knob + wide, 0);
        if (sleeps) nanosleep(&pause, 0);
        first_seen(knob + wide, 0);
        long now = now_ns();
        if (now - last > longest_ns) longest_ns = now - last;
        last = now;
    }
}
