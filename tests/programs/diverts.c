/* A program that writes a jump over the first bytes of one of its functions, as the memory hooks of Open MPI
 * and UCX do.
 *
 *   diverts DIRECTORY WHEN
 *
 * WHEN is `start`, `never`, or `later`: when DIRECTORY/divert exists. With `thrown` the program discards its
 * code pages instead (MADV_DONTNEED), so that they are read from the file again. Calls step, kept and
 * nop_first repeatedly and checks their return values; exits with 3 at the first wrong value. Prints
 * {"event":"ready",...}, {"event":"diverted"}, and ten times per second
 * {"event":"pace","seconds":...,"count":...,"sum":...}. When DIRECTORY/end exists, prints
 * {"event":"end","rounds":...} and ends. x86-64 only. */
#define _DEFAULT_SOURCE
#include "gates.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUNCTION(name, code)                                                                                                 \
    long name(long);                                                                                                         \
    __asm__(".text\n .globl " #name "\n .type " #name ",@function\n .p2align 5\n" #name ":\n" code " .size " #name ",.-"     \
            #name "\n");

/* Under a probe the kernel emulates a push and continues at the second byte, which is in the middle of the
 * jump. */
FUNCTION(step, "push %rbx\n mov %rdi,%rbx\n lea 1(%rbx),%rax\n pop %rbx\n ret\n")
FUNCTION(instead, "push %rbx\n mov %rdi,%rbx\n lea 2(%rbx),%rax\n pop %rbx\n ret\n")
FUNCTION(kept, "push %rbx\n mov %rdi,%rbx\n lea 3(%rbx),%rax\n pop %rbx\n ret\n")
FUNCTION(nop_first, ".byte 0x0f,0x1f,0x44,0,0\n lea 4(%rdi),%rax\n ret\n")

long knob = 1;

static int divert(void)
{
    unsigned char jump[5] = {0xe9};
    int32_t distance = (int32_t)((char *)instead - ((char *)step + sizeof jump));
    memcpy(jump + 1, &distance, sizeof distance);
    uintptr_t page = (uintptr_t)step & ~4095ul;
    size_t length = (uintptr_t)step + sizeof jump - page;
    if (mprotect((void *)page, length, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 0;
    memcpy((void *)step, jump, sizeof jump);
    if (mprotect((void *)page, length, PROT_READ | PROT_EXEC))
        return 0;
    printf("{\"event\":\"diverted\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    return 1;
}

static int throw_away(void)
{
    uintptr_t page = (uintptr_t)step & ~4095ul;
    if (madvise((void *)page, (uintptr_t)nop_first + 32 - page, MADV_DONTNEED))
        return 0;
    printf("{\"event\":\"thrown\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: diverts DIRECTORY start|later|thrown|never\n");
        return 2;
    }
    char end[4096], now_divert[4096];
    snprintf(end, sizeof end, "%s/end", argv[1]);
    snprintf(now_divert, sizeof now_divert, "%s/divert", argv[1]);
    int throws = !strcmp(argv[2], "thrown"), waits = throws || !strcmp(argv[2], "later"), diverted = !strcmp(argv[2], "start");
    long (*volatile stepped)(long) = step;
    if (diverted && !divert())
        return 1;
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    double began = seconds(), told = began;
    for (long rounds = 1;; rounds++) {
        if (stepped(rounds) != rounds + (diverted ? 2 : 1) || kept(rounds) != rounds + 3 || nop_first(rounds) != rounds + 4)
            return 3;
        double now = seconds();
        if (now - told < 0.1)
            continue;
        told = now;
        printf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%ld,\"sum\":%d}\n", now - began, rounds, diverted);
        fflush(stdout);
        if (waits && access(now_divert, F_OK) == 0) {
            waits = 0;
            diverted = throws ? 0 : divert();
            if (throws ? !throw_away() : !diverted)
                return 1;
        }
        if (access(end, F_OK) == 0) {
            printf("{\"event\":\"end\",\"rounds\":%ld}\n", rounds);
            return 0;
        }
    }
}
