/* Shared by the hostile programs: the functions and variables that are changed from outside, the number of
 * rounds, the end, and the last line.
 *
 *   PROGRAM MODE NAME FILE [LIBRARY...]
 *
 * FILE holds two numbers in shared memory: the number of rounds, which the program counts, and a flag to end,
 * which the test sets. So a round needs no system call and does not depend on a clock. Each program makes at
 * least LEAST rounds. The last line begins with NAME and has no number that depends on time, so it is the
 * same alone, watched and changed. The first line is `NAME: pid PID`. */
#ifndef HOSTILE_H
#define HOSTILE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))
#define LEAST 10

#ifdef __cplusplus
extern "C" {
#endif

/* The test sets it to 11. */
volatile int knob = 10;
/* Incremented by calls from outside only. */
volatile long called;
static volatile long ticks;

KEEP long f(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 3 + 1;
}

/* Replacement of `f`. */
KEEP long g(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 5 + 2;
}

KEEP void extra(long n) { called += n; }

/* A setting with functions to read and set it. The test sets it to 2 and reverts it with the inverse. */
static volatile long the_level = 1;
KEEP long level(void) { return the_level; }
KEEP void set_level(long n) { the_level = n; }

/* The test removes its call from `check`. */
KEEP void tick(void) { ticks++; }

#ifdef __cplusplus
}
#endif

static const char *mode, *name;
static volatile long *shared;
static int own_knob = 10;

/* The last line of a program that has found an error. */
static inline void wrong(const char *format, ...)
{
    char text[400];
    int length = snprintf(text, sizeof text, "%s: wrong: ", name);
    va_list rest;
    va_start(rest, format);
    length += vsnprintf(text + length, sizeof text - length - 1, format, rest);
    va_end(rest);
    text[length++] = '\n';
    if (write(1, text, length) != length)
        _exit(10);
    _exit(9);
}

/* Everything that is changed from outside must have its old or its new meaning. */
KEEP void check(long i)
{
    long value = f(i), before = ticks;
    if (value != i * 3 + 1 && value != i * 5 + 2)
        wrong("f(%ld) is %ld", i, value);
    tick();
    if (ticks != before && ticks != before + 1)
        wrong("%ld ticks", ticks - before);
    int seen = knob;
    if (seen != own_knob && seen != 11)
        wrong("knob is %d, its own is %d", seen, own_knob);
}

static inline void begin(int argc, char **argv)
{
    name = argc > 2 ? argv[2] : "hostile";
    if (argc < 4)
        wrong("usage: PROGRAM MODE NAME FILE [LIBRARY...]");
    mode = argv[1];
    int file = open(argv[3], O_RDWR | O_CLOEXEC);
    void *page = mmap(0, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED)
        wrong("%s: %s", argv[3], strerror(errno));
    close(file);
    shared = (volatile long *)page;
    // Not after exec, and not in child processes.
    if (shared[0] == 0 && strcmp(mode, "child") != 0) {
        char text[100];
        int length = snprintf(text, sizeof text, "%s: pid %d\n", name, getpid());
        if (write(1, text, length) != length)
            _exit(10);
    }
}

/* Called at the end of each round. Returns whether to continue. */
static inline int goes_on(void)
{
    check(shared[0]);
    shared[0]++;
    return shared[0] < LEAST || !shared[1];
}

/* The last line of a program without errors, with the changes that are still in force. */
static inline void ends_well(const char *what)
{
    char text[400];
    int length = snprintf(text, sizeof text, "%s: ok: %s; knob %d, level %ld, f(1) %ld\n", name, what, knob, the_level, f(1));
    if (write(1, text, length) != length)
        _exit(10);
}

/* A pause between rounds: about thirty of these programs share two cores. */
static inline void rest(void) { usleep(8000); }

static inline int is(const char *other) { return strcmp(mode, other) == 0; }

#endif
