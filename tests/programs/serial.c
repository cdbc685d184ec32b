/* An OpenMP program that divides its work among threads only if it may use several, as PyTorch does: with a
 * team of one it begins no parallel region. It divides by the number of threads that it has read. Runs until it is ended.
 *
 *   serial DIRECTORY SIZE [LIBRARY]
 *
 * It reads how many threads it may use from OpenMP, or with at::get_num_threads of a LIBRARY. On the stack of that
 * call are words of earlier ones, and a frame that is aligned for vectors.
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...,"threads":...}. The sum is the result of all rounds so
 * far divided by their number, and does not depend on the distribution of work; the threads are those that the
 * next region may have. {"event":"team","most":...} has them when they are others than before. When DIRECTORY/long
 * exists it prints {"event":"long"} and stays in a region until DIRECTORY/on exists; once. Ends when DIRECTORY/end
 * exists. */
#define _GNU_SOURCE
#include "gates.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int (*max_threads)(void) = omp_get_max_threads;

/* An address behind a call inside malloc, as calls of malloc leave on the stack. */
static void *in_allocator(void)
{
    const unsigned char *code = dlsym(RTLD_DEFAULT, "malloc");
    while (code && *code != 0xe8)
        code++;
    return (void *)(code + 5);
}

/* The frame is aligned and has a length that is known at run time only: the unwind tables need expressions for it. */
static __attribute__((noinline)) int with_old_words(void *word, int count)
{
    _Alignas(64) void *volatile aligned[8];
    void *volatile old[count];
    for (int i = 0; i < count; i++)
        aligned[i % 8] = old[i] = word;
    int threads = max_threads();
    return old[0] == aligned[0] ? threads : 0;
}

/* Each thread does the part that is its own if there are as many threads as were read: with fewer, a part is missing. */
static long divided(long *squares, long size, long number, int threads)
{
    long sum = 0, part = (size + threads - 1) / threads;
#pragma omp parallel reduction(+ : sum)
    {
        long begin = omp_get_thread_num() * part, end = begin + part < size ? begin + part : size;
        for (long i = begin; i < end; i++) {
            squares[i] = i * i + number;
            sum += squares[i] - number;
            /* As operations within operations, which do not divide their work. */
            if (i % 1024 == 0)
                max_threads();
        }
    }
    return sum;
}

static long alone(long *squares, long size, long number)
{
    long sum = 0;
    for (long i = 0; i < size; i++) {
        squares[i] = i * i + number;
        sum += squares[i] - number;
        if (i % 1024 == 0)
            max_threads();
    }
    return sum;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: serial DIRECTORY SIZE [LIBRARY]\n");
        return 2;
    }
    void *library = argc == 4 ? dlopen(argv[3], RTLD_NOW) : NULL;
    if (library)
        *(void **)&max_threads = dlsym(library, "_ZN2at15get_num_threadsEv");
    if (!max_threads || (argc == 4 && !library)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *word = in_allocator();
    long size = atol(argv[2]);
    long *squares = calloc(size, sizeof *squares);
    if (!squares)
        return 1;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    int most = 0, was_long = 0;
    long total = 0;
    for (long rounds = 1;; rounds++) {
        int threads = library ? with_old_words(word, argc) : max_threads();
        if (threads != most) {
            most = threads;
            printf("{\"event\":\"team\",\"most\":%d}\n", most);
            fflush(stdout);
        }
        long sum = threads > 1 ? divided(squares, size, rounds, threads) : alone(squares, size, rounds);
        total += sum;
        double now = seconds();
        if (now - told < 0.05)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld,\"threads\":%d}\n", now - began, rounds,
               total / rounds, threads);
        if (!was_long && exists(argv[1], "long")) {
            was_long = 1;
            printf("{\"event\":\"long\"}\n");
            fflush(stdout);
#pragma omp parallel
            pass_gate(argv[1], "on");
        }
        fflush(stdout);
        if (exists(argv[1], "end"))
            return 0;
    }
}
