/* Makes one system call of a running process fail: failing PID N follows all its threads; their N-th system
 * call from now on returns EIO without being executed. N = 0 only counts. Prints "ready" when counting
 * begins, and at the end of the process the number of calls, and the number of the one that failed, or -1. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

/* By thread: whether it is between the entry and the exit of a system call. */
static char inside[4194304 / 8];

static int toggle(pid_t thread)
{
    inside[thread / 8] ^= 1 << thread % 8;
    return inside[thread / 8] >> thread % 8 & 1;
}

/* Calls that cannot fail, and that a process needs to continue. */
static int cannot_fail(long number)
{
    switch (number) {
    case SYS_rt_sigreturn:
    case SYS_exit:
    case SYS_exit_group:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
        return 1;
    default:
        return 0;
    }
}

int main(int argc, char **argv)
{
    pid_t process = atoi(argv[1]), failing = 0;
    long wanted = atol(argv[2]), seen = 0, failed = -1;
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
    int status, is_ready = 0;
    (void)argc;
    if (ptrace(PTRACE_SEIZE, process, 0, options) != 0 || ptrace(PTRACE_INTERRUPT, process, 0, 0) != 0)
        return errno == EPERM ? 77 : 1;
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0)
            break;
        if (!WIFSTOPPED(status))
            continue;
        int signal = WSTOPSIG(status), event = status >> 16;
        if (signal == (SIGTRAP | 0x80)) {
            struct user_regs_struct registers;
            ptrace(PTRACE_GETREGS, thread, 0, &registers);
            if (toggle(thread)) {
                if (!cannot_fail(registers.orig_rax) && ++seen == wanted) {
                    failed = registers.orig_rax;
                    failing = thread;
                    registers.orig_rax = -1;
                    ptrace(PTRACE_SETREGS, thread, 0, &registers);
                }
            } else if (failing == thread) {
                failing = 0;
                registers.rax = -EIO;
                ptrace(PTRACE_SETREGS, thread, 0, &registers);
            }
            signal = 0;
        } else if (event != 0) {
            signal = 0;
        }
        ptrace(PTRACE_SYSCALL, thread, 0, (long)signal);
        if (!is_ready) {
            is_ready = 1;
            puts("ready");
            fflush(stdout);
        }
    }
    printf("%ld %ld\n", seen, failed);
    return 0;
}
