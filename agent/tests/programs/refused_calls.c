/* Preloaded into tuneagent. At SIGUSR2 it makes, from inside the agent, the system calls that an agent
 * without the right to write does not need, and writes a line "ERRNO CALL" for each (0: permitted) into
 * $CALLS/report. The files that the calls would change are in $CALLS; $TARGET is a process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int target, report;
static char folder[512];

static void tell(const char *call, long result) {
    char line[128];
    int length = snprintf(line, sizeof line, "%d %s\n", result < 0 ? errno : 0, call);
    if (write(report, line, length) < 0)
        _exit(9);
}
#define TRY(call) tell(#call, call)

static const char *in(const char *name) {
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void files(void) {
    const char *kept = in("kept");
    TRY(syscall(SYS_openat, AT_FDCWD, kept, O_WRONLY));
    TRY(syscall(SYS_openat, AT_FDCWD, kept, O_RDWR));
    TRY(syscall(SYS_openat, AT_FDCWD, kept, O_RDONLY | O_TRUNC));
    TRY(syscall(SYS_openat, AT_FDCWD, kept, O_RDONLY | O_APPEND));
    TRY(syscall(SYS_openat, AT_FDCWD, kept, 3));
    TRY(syscall(SYS_openat, AT_FDCWD, in("new"), O_RDONLY | O_CREAT, 0600));
    TRY(syscall(SYS_openat, AT_FDCWD, folder, O_TMPFILE | O_WRONLY, 0600));
    struct { unsigned long flags, mode, resolve; } how = {O_WRONLY, 0, 0};
    TRY(syscall(SYS_openat2, AT_FDCWD, kept, &how, sizeof how));
#ifdef __x86_64__
    TRY(syscall(SYS_open, kept, O_WRONLY));
    TRY(syscall(SYS_open, kept, O_RDONLY | O_TRUNC));
    TRY(syscall(SYS_creat, kept, 0600));
    TRY(syscall(SYS_chmod, kept, 0777));
    TRY(syscall(SYS_rename, kept, in("renamed")));
    TRY(syscall(SYS_unlink, kept));
    TRY(syscall(SYS_symlink, "/bin/true", in("link")));
    TRY(syscall(SYS_mknod, in("fifo"), S_IFIFO | 0600, 0));
    TRY(syscall(SYS_fork));
    TRY(syscall(SYS_vfork));
#endif
    TRY(syscall(SYS_renameat2, AT_FDCWD, kept, AT_FDCWD, in("renamed"), 0));
    TRY(syscall(SYS_unlinkat, AT_FDCWD, kept, 0));
    TRY(syscall(SYS_linkat, AT_FDCWD, kept, AT_FDCWD, in("link"), 0));
    TRY(syscall(SYS_symlinkat, "/bin/true", AT_FDCWD, in("link")));
    TRY(syscall(SYS_mkdirat, AT_FDCWD, in("folder"), 0700));
    TRY(syscall(SYS_mknodat, AT_FDCWD, in("fifo"), S_IFIFO | 0600, 0));
    TRY(syscall(SYS_fchmodat, AT_FDCWD, kept, 0777));
    TRY(syscall(SYS_fchmod, report, 0777));
    TRY(syscall(SYS_fchownat, AT_FDCWD, kept, 0, 0, 0));
    TRY(syscall(SYS_utimensat, AT_FDCWD, kept, 0, 0));
    TRY(syscall(SYS_truncate, kept, 0));
    TRY(syscall(SYS_setxattr, kept, "user.x", "x", 1, 0));
    TRY(syscall(SYS_mount, 0, folder, "tmpfs", 0, 0));
    TRY(syscall(SYS_chroot, folder));
}

static void processes(void) {
    char memory[64];
    snprintf(memory, sizeof memory, "/proc/%d/mem", target);
    long place = 0;
    struct iovec one = {&place, sizeof place};
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    TRY(syscall(SYS_openat, AT_FDCWD, memory, O_RDWR));
    TRY(syscall(SYS_process_vm_writev, target, &one, 1, &one, 1, 0));
    TRY(syscall(SYS_ptrace, 0x4206 /* PTRACE_SEIZE */, target, 0, 0));
    TRY(syscall(SYS_kill, target, 0));
    TRY(syscall(SYS_tgkill, target, target, 0));
    TRY(syscall(SYS_tkill, target, 0));
    TRY(syscall(SYS_rt_sigqueueinfo, target, 0, 0));
    TRY(syscall(SYS_sched_setaffinity, target, sizeof cpus, &cpus));
    TRY(syscall(SYS_sched_setscheduler, target, 0, &place));
    TRY(syscall(SYS_setpriority, 0, target, 1));
    TRY(syscall(SYS_prlimit64, target, 0, &one, 0));
    TRY(syscall(SYS_move_pages, target, 0, 0, 0, 0, 0));
    TRY(syscall(SYS_process_madvise, -1, &one, 1, 0, 0));
    TRY(syscall(SYS_pidfd_send_signal, -1, 0, 0, 0));
    TRY(syscall(SYS_pidfd_getfd, -1, 0, 0));
    TRY(syscall(SYS_kcmp, target, getpid(), 0, 0, 0));
    TRY(syscall(SYS_shmget, 0 /* IPC_PRIVATE */, 4096, 0600));
    TRY(syscall(SYS_shmat, 0, 0, 0));
    char *const nothing[] = {0};
    TRY(syscall(SYS_execve, "/bin/true", nothing, nothing));
    TRY(syscall(SYS_execveat, AT_FDCWD, "/bin/true", nothing, nothing, 0));
    TRY(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    TRY(syscall(SYS_unshare, CLONE_NEWNS));
    TRY(syscall(SYS_setns, report, 0));
}

static void rest(void) {
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    struct bpf_insn end[] = {{.code = 0xb7}, {.code = 0x95}};
    union bpf_attr program = {.prog_type = BPF_PROG_TYPE_KPROBE, .insn_cnt = 2, .insns = (unsigned long)end,
                              .license = (unsigned long)"GPL"};
    TRY(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
    TRY(syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof program));
    TRY(syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &program, sizeof program));
    TRY(syscall(SYS_bpf, BPF_MAP_GET_FD_BY_ID, &map, sizeof map));
    TRY(syscall(SYS_userfaultfd, 1));
    TRY(syscall(SYS_memfd_create, "x", 0));
    TRY(syscall(SYS_io_uring_setup, 1, 0));
    TRY(syscall(SYS_open_by_handle_at, 0, 0, 0));
    TRY(syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TRY(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
    TRY(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
    TRY(syscall(SYS_connect, 0, 0, 0));
    TRY(syscall(SYS_bind, 0, 0, 0));
    TRY(syscall(SYS_ioctl, 0, TIOCSTI, "x"));
    TRY(syscall(SYS_fcntl, report, F_SETOWN, target));
    TRY(syscall(SYS_capset, 0, 0));
    TRY(syscall(SYS_setuid, 0));
    TRY(syscall(SYS_sethostname, "x", 1));
    TRY(syscall(SYS_settimeofday, 0, 0));
    TRY(syscall(SYS_reboot, 0, 0, 0, 0));
    TRY(syscall(SYS_kexec_load, 0, 0, 0, 0));
    TRY(syscall(SYS_init_module, 0, 0, ""));
    TRY(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
}

static void permitted(void) {
    char memory[64];
    snprintf(memory, sizeof memory, "/proc/%d/maps", target);
    TRY(syscall(SYS_openat, AT_FDCWD, memory, O_RDONLY | O_CLOEXEC));
    TRY(syscall(SYS_openat, AT_FDCWD, in("kept"), O_RDONLY | O_NONBLOCK | O_NOCTTY));
    TRY(syscall(SYS_kill, getpid(), 0));
}

static void on_signal(int number) {
    (void)number;
    files();
    processes();
    rest();
    tell("permitted from here on", 0);
    permitted();
    tell("end", 0);
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("CALLS"), *pid = getenv("TARGET");
    if (!where || !pid)
        return;
    target = atoi(pid);
    snprintf(folder, sizeof folder, "%s", where);
    report = open(in("report"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    signal(SIGUSR2, on_signal);
}
