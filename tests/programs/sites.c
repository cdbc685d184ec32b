/* A program without MPI: functions with different first instructions, to measure the cost of a probe on each.
 *
 *   sites              answers each input line "NAME CALLS" with the duration of a call, in ns of CPU time
 *   sites NAME CALLS   the same, once
 *
 * x86-64 only. The functions do nothing. The duration includes the loop around the call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION(name, code)                                                                                                 \
    void name(void);                                                                                                         \
    __asm__(".text\n .globl " #name "\n .type " #name ",@function\n .p2align 6\n" #name ":\n" code "ret\n .size " #name      \
            ",.-" #name "\n");

int switched;

FUNCTION(begins_with_sub, "sub $8,%rsp\n add $8,%rsp\n")
FUNCTION(begins_with_endbr64, "endbr64\n push %rbx\n pop %rbx\n")
FUNCTION(begins_with_load, "mov switched(%rip),%eax\n push %rbx\n pop %rbx\n")
FUNCTION(begins_with_test, "test %rdi,%rdi\n je 1f\n1: nop\n")
FUNCTION(begins_with_push, "push %rbx\n pop %rbx\n")
FUNCTION(begins_with_nop, "nop\n")
FUNCTION(begins_with_nop5, ".byte 0x0f,0x1f,0x44,0,0\n")

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"begins_with_sub", begins_with_sub},   {"begins_with_endbr64", begins_with_endbr64}, {"begins_with_load", begins_with_load},
    {"begins_with_test", begins_with_test}, {"begins_with_push", begins_with_push},       {"begins_with_nop", begins_with_nop},
    {"begins_with_nop5", begins_with_nop5},
};

static double now_ns(void)
{
    struct timespec now;
    /* CPU time: the program pays for its probes, and other programs must not affect the result. */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int measure(const char *name, long calls)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) {
            void (*volatile function)(void) = functions[i].function;
            /* The first hits are more expensive, because the kernel allocates memory for them. */
            for (int warm = 0; warm < 100; warm++)
                function();
            double began = now_ns();
            for (long call = 0; call < calls; call++)
                function();
            printf("%.3f\n", (now_ns() - began) / calls);
            fflush(stdout);
            return 0;
        }
    return 2;
}

int main(int argc, char **argv)
{
    char name[64];
    long calls;
    if (argc == 3)
        return measure(argv[1], atol(argv[2]));
    while (scanf("%63s %ld", name, &calls) == 2)
        if (measure(name, calls))
            return 2;
    return 0;
}
