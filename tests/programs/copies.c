/* A program whose libraries bring an OpenMP runtime each, as Python wheels do, until it is ended.
 *
 *   copies DIRECTORY LIBRARY...
 *
 * Calls `part` of each library in turn, as long as it can be loaded with symbols of its own.
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...,"teams":[...]}: the number of rounds, the result of a
 * round, and the team size in the first and the last library. Ends when DIRECTORY/end exists. */
#include "gates.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define LIBRARIES_MAX 8

int main(int argc, char **argv)
{
    long (*parts[LIBRARIES_MAX])(int *team);
    int libraries = argc - 2, teams[LIBRARIES_MAX];
    if (libraries < 1 || libraries > LIBRARIES_MAX) {
        fprintf(stderr, "usage: copies DIRECTORY LIBRARY...\n");
        return 2;
    }
    for (int i = 0; i < libraries; i++) {
        void *library = dlopen(argv[i + 2], RTLD_NOW | RTLD_LOCAL);
        if (!library || !(*(void **)&parts[i] = dlsym(library, "part"))) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    for (long rounds = 1;; rounds++) {
        long sum = 0;
        for (int i = 0; i < libraries; i++)
            sum += parts[i](&teams[i]);
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld,\"teams\":[%d,%d]}\n", now - began, rounds, sum,
               teams[0], teams[libraries - 1]);
        fflush(stdout);
        if (access(end, F_OK) == 0)
            return 0;
    }
}
