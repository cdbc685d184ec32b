/* Marks by include/tuneagent.h in a program and in a library, and as other headers write them.
 *
 *   marks DIRECTORY ROUNDS
 *
 * With -DLIBRARY it is the library. Prints {"event":"ready",...}, waits for DIRECTORY/go, passes its marks,
 * prints {"event":"result",...}, waits for DIRECTORY/end. Exits with 3 if a mark has overwritten a function's
 * red zone. */
#include "tuneagent.h"

#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LIBRARY

void library_round(int number, double dt) { TUNEAGENT_MARK(lib, round, number, dt, &dt, dt > 2); }

#else

void library_round(int number, double dt);

/* A note as SystemTap's header writes it, with features that our header does not use: memory operands,
 * constants, semaphores. */
#define NOTE(name, semaphore, arguments, ...) \
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, " semaphore "\n" \
                     ".asciz \"app\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection" ::__VA_ARGS__)

unsigned short guarded_semaphore __attribute__((section(".probes"), used));
static double table[8] = {0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5};
static int disturbed;

/* A leaf function, so the compiler may keep values in the red zone below the stack pointer. */
__attribute__((noinline)) static int leaf(int x)
{
    volatile int kept[16];
    int sum = 0;
    for (int i = 0; i < 16; i++)
        kept[i] = x + i;
    TUNEAGENT_MARK(app, leaf, x, (signed char)-3, x & 1 ? 2.5f : 0.5f);
    for (int i = 0; i < 16; i++)
        sum += kept[i];
    disturbed |= sum != 16 * x + 120;
    return sum;
}

/* One mark at two places, with different operands. */
__attribute__((noinline)) static void copies(int round)
{
    long wide = round + 100L;
    if (round % 2)
        TUNEAGENT_MARK(app, copy, round);
    else
        TUNEAGENT_MARK(app, copy, wide);
}

__attribute__((noinline)) static void others(long index)
{
    double local = table[index] * 2;
    NOTE("memory", "0", "8f@%0 -4@$-9 8f@(%1,%2,8) 8@%1", "m"(local), "r"(table), "r"(index));
    if (*(volatile unsigned short *)&guarded_semaphore)
        NOTE("guarded", "guarded_semaphore", "8@%0", "r"(index));
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: marks DIRECTORY ROUNDS\n");
        return 2;
    }
    int rounds = atoi(argv[2]), sum = 0;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    pass_gate(argv[1], "go");
    TUNEAGENT_MARK(app, first);
    for (int round = 0; round < rounds; round++) {
        TUNEAGENT_MARK(app, round, round, "a name");
        sum += leaf(round);
        copies(round);
        others(round % 8);
        library_round(round, round * 0.5);
    }
    TUNEAGENT_MARK(app, last);
    printf("{\"event\":\"result\",\"sum\":%d}\n", sum);
    fflush(stdout);
    pass_gate(argv[1], "end");
    return disturbed ? 3 : 0;
}

#endif
