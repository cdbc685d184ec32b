/* A program without MPI: nested and recursive calls and calls left by longjmp, with its own counts.
 *
 *   busywork DIRECTORY ROUNDS
 *
 * Prints {"event":"ready",...}, waits for DIRECTORY/go, works, prints {"event":"tally",...}, waits for
 * DIRECTORY/end. step_outer calls step_inner, which calls itself. Every third call of may_jump is left by
 * longjmp: an entry without a return, which must neither harm the program nor disturb the pairing of other
 * entries and returns. */
#include "gates.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

long outer_calls, inner_calls, jump_calls, jumps_taken;
static volatile long sink;
static jmp_buf back;

FUNCTION int step_inner(int depth)
{
    inner_calls++;
    sink += depth;
    /* The volatile read after the call prevents the compiler from making a loop of it. */
    return depth == 0 ? 0 : step_inner(depth - 1) + (sink != 0);
}

FUNCTION int step_outer(int round)
{
    outer_calls++;
    return step_inner(round % 5) + step_inner(2) + (int)sink;
}

FUNCTION int may_jump(int round)
{
    jump_calls++;
    if (round % 3 == 0) {
        jumps_taken++;
        longjmp(back, 1);
    }
    return round + (int)sink;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: busywork DIRECTORY ROUNDS\n");
        return 2;
    }
    long rounds = atol(argv[2]);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    for (volatile long round = 0; round < rounds; round++) {
        step_outer((int)round);
        if (setjmp(back) == 0)
            may_jump((int)round);
    }
    printf("{\"event\":\"tally\",\"step_outer\":%ld,\"step_inner\":%ld,\"may_jump\":%ld,\"jumps\":%ld}\n", outer_calls,
           inner_calls, jump_calls, jumps_taken);
    fflush(stdout);
    pass_gate(argv[1], "end");
    return 0;
}
