/* The short parallel loops of teams.c as clang and icx compile them, with a call of __kmpc_fork_call for
 * each.
 *
 *   kmpc DIRECTORY SIZE [THREADS]
 *
 * With THREADS it states the team size, as num_threads does.
 *
 * Prints {"event":"ready",...}, then twenty times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...,"teams":[...]} as teams.c does; ends when DIRECTORY/end
 * exists. */
#include "gates.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The library's interface for compilers, from openmp/runtime/src/kmp.h of LLVM. */
typedef struct {
    int32_t reserved_1, flags, reserved_2, reserved_3;
    const char *source;
} ident_t;
typedef void (*kmpc_micro)(int32_t *thread, int32_t *bound_thread, ...);
void __kmpc_fork_call(ident_t *at, int32_t arguments, kmpc_micro body, ...);
void __kmpc_push_num_threads(ident_t *at, int32_t thread, int32_t threads);
int32_t __kmpc_global_thread_num(ident_t *at);
int omp_get_num_threads(void);
int omp_get_thread_num(void);

#define BY_COMPILER 2 /* KMP_IDENT_KMPC */
static ident_t here = {0, BY_COMPILER, 0, 0, ";kmpc.c;main;1;1;;"};

struct loop {
    long *squares, size, number, sum;
    int team;
};

/* The body of a region: each thread's part of the iterations. */
static void part(int32_t *thread, int32_t *bound_thread, struct loop *loop)
{
    (void)thread, (void)bound_thread;
    long of = omp_get_num_threads(), me = omp_get_thread_num(), sum = 0;
    for (long i = loop->size * me / of; i < loop->size * (me + 1) / of; i++) {
        loop->squares[i] = i * i + loop->number;
        sum += loop->squares[i] - loop->number;
    }
    if (me == 0)
        loop->team = of;
    __atomic_fetch_add(&loop->sum, sum, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: kmpc DIRECTORY SIZE [THREADS]\n");
        return 2;
    }
    int threads = argc == 4 ? atoi(argv[3]) : 0;
    char end[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    struct loop loop = {.size = atol(argv[2])};
    loop.squares = calloc(loop.size, sizeof *loop.squares);
    if (!loop.squares)
        return 1;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), reported = began;
    for (loop.number = 1;; loop.number++) {
        loop.sum = 0;
        if (threads)
            __kmpc_push_num_threads(&here, __kmpc_global_thread_num(&here), threads);
        __kmpc_fork_call(&here, 1, (kmpc_micro)part, &loop);
        double now = seconds();
        if (now - reported < 0.05)
            continue;
        reported = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%ld,\"teams\":[%d]}\n", now - began, loop.number, loop.sum,
               loop.team);
        fflush(stdout);
        if (access(end, F_OK) == 0)
            return 0;
    }
}
