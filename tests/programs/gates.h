/* Functions for most of these programs: gates, which are files in the folder of a job, and clocks. wildfire.c
 * has its own copies, because docs/prepare.md compiles it alone. */
#ifndef GATES_H
#define GATES_H

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline int exists(const char *directory, const char *gate)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, gate);
    return access(path, F_OK) == 0;
}

/* Waits for a gate without calls of functions that are watched. */
static inline void pass_gate(const char *directory, const char *gate)
{
    while (!exists(directory, gate))
        usleep(1000);
}

static inline long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static inline double seconds(void) { return now_ns() / 1e9; }

#endif
