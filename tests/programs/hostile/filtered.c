/* Programs with a seccomp filter. MODE is the filter's reaction to a forbidden system call: `kill`, `trap`,
 * `errno`, or `strict` (seccomp mode 1). Allowed are write, exit, exit_group, read and rt_sigreturn. */
#include "hostile.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

KEEP long through(long n)
{
    __asm__ volatile("push %%rbx; pop %%rbx" : "+r"(n));
    return n * 3 + 1;
}

#define KEEPS(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void give_up(void)
{
    if (is("strict")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
            wrong("seccomp: %s", strerror(errno));
        return;
    }
    unsigned otherwise = is("kill") ? SECCOMP_RET_KILL_PROCESS : is("trap") ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KEEPS(SYS_write),
        KEEPS(SYS_read),
        KEEPS(SYS_exit),
        KEEPS(SYS_exit_group),
        KEEPS(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        wrong("seccomp: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    long expired;
    begin(argc, argv);
    // Of the allowed system calls only read can wait.
    int clock = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec often = {{0, 2000000}, {0, 2000000}};
    timerfd_settime(clock, 0, &often, 0);
    give_up();
    do {
        for (long i = 0; i < 100; i++)
            if (through(i) != i * 3 + 1)
                wrong("through(%ld) is something else", i);
        if (read(clock, &expired, sizeof expired) != sizeof expired)
            wrong("the clock: %s", strerror(errno));
    } while (goes_on());
    ends_well("it never made a call that it had given up");
    // Mode 1 does not allow exit_group.
    syscall(SYS_exit, 0);
    return 0;
}
