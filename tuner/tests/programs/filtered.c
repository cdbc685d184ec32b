/* A program with a seccomp filter: filtered strict|kill|trap|errno|denies|selective|none
 *
 * strict     seccomp's strict mode
 * kill, trap, errno   the filter's reaction to all calls, except those needed to answer
 * denies     as in containers: a few calls fail, all others are allowed
 * selective  kills, but allows the calls for mapping memory
 * A second thread has the same filter and sleeps for a long time. Prints "ready", then answers each line with
 * its counters. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N __attribute__((noinline, noclone))
volatile long called, ticks;
volatile int knob = 10;
N long f(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
N long g(long x) { __asm__ volatile("" : "+r"(x)); return x * 5 + 2; }
N long extra(long n) { called += n; return called; }
N void tick(long by) { ticks += by; __asm__ volatile("nop;nop;nop;nop;nop;nop;nop;nop" ::: "memory"); ticks += by; }

static const char *mode;
static volatile int is_filtered;

static void filter(void) {
    struct sock_filter program[64];
    unsigned length = 0, rest = SECCOMP_RET_ALLOW;
    const int answering[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_clock_nanosleep, SYS_mmap, SYS_munmap};
    unsigned allowed = sizeof answering / sizeof *answering - 2;
    if (!strcmp(mode, "none")) return;
    if (!strcmp(mode, "strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        return;
    }
    if (!strcmp(mode, "kill")) rest = SECCOMP_RET_KILL_PROCESS;
    if (!strcmp(mode, "trap")) rest = SECCOMP_RET_TRAP;
    if (!strcmp(mode, "errno")) rest = SECCOMP_RET_ERRNO | EPERM;
    if (!strcmp(mode, "selective")) rest = SECCOMP_RET_KILL_PROCESS, allowed += 2;
    /* As libseccomp's filters begin: another architecture is killed. */
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 1, 0);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (rest == SECCOMP_RET_ALLOW) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kexec_load, 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    } else {
        for (unsigned i = 0; i < allowed; i++) {
            program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, answering[i], 0, 1);
            program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rest);
    struct sock_fprog whole = {length, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole)) _exit(3);
}

static void *sleeper(void *given) {
    struct timespec time = {100000, 0};
    /* In strict mode the thread could not sleep. */
    if (strcmp(mode, "strict")) filter();
    is_filtered = 1;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
    return given;
}

int main(int count, char **arguments) {
    static char input, output[256];
    pthread_t thread;
    mode = count > 1 ? arguments[1] : "none";
    pthread_create(&thread, 0, sleeper, 0);
    while (!is_filtered) sched_yield();
    filter();
    (void)!write(1, "ready\n", 6);
    while (read(0, &input, 1) == 1) {
        if (input != '\n') continue;
        long result = f(1);
        tick(1);
        int length = snprintf(output, sizeof output, "f=%ld ticks=%ld called=%ld knob=%d\n", result, ticks, called, knob);
        (void)!write(1, output, length);
    }
    syscall(SYS_exit_group, 0);
}
