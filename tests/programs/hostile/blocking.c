/* A program that waits in the kernel. MODE is KIND or KIND-alarm.
 *
 * KIND is the system call in which it waits, one of `kinds`. With `-alarm` a handler (SA_RESTART) runs at
 * SIGALRM, 1 000 times per second. Then a call may fail with EINTR, but only if the handler has run and the
 * call is not one that is restarted. Without `-alarm` no call may fail with EINTR. No call may end early with
 * a result that it would not have had. */
#include "hostile.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define WAIT_MS 5

static const char *const kinds[] = {"nanosleep", "clock-nanosleep", "poll", "ppoll", "select", "epoll", "futex", "read", "write",
                                    "sigtimedwait", "recv", "accept", "semtimedop", "msgrcv", "wait"};
enum { NANOSLEEP, CLOCK_NANOSLEEP, POLL, PPOLL, SELECT, EPOLL, FUTEX, READ, WRITE, SIGTIMEDWAIT, RECV, ACCEPT, SEMTIMEDOP, MSGRCV, WAIT, KINDS };

static volatile sig_atomic_t alarms;
static int there[2], here[2], epoll, datagrams, listener, semaphores, messages, word;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void make_all(void)
{
    struct timeval time = {0, WAIT_MS * 1000};
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(there) || pipe(here))
        wrong("no pipe");
    fcntl(there[1], F_SETPIPE_SZ, 4096);
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, here[0], &event);
    datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 5);
    setsockopt(datagrams, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
}

/* The other end of calls that wait for another thread: writes a byte, reads a page or sends a message after a
 * delay. */
static void *other_end(void *argument)
{
    long kind = (long)argument;
    char bytes[4096];
    struct { long type; char byte; } message = {1, 'x'};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    for (;;) {
        usleep(WAIT_MS * 1000);
        long done = kind == READ    ? write(there[1], "x", 1)
                    : kind == WRITE ? read(there[0], bytes, sizeof bytes)
                                    : msgsnd(messages, &message, 1, 0);
        if (done < 0)
            return 0;
    }
}

/* Waits once. Returns 0 on success; `expected` is the errno with which a timeout must end. */
static long wait_in(int kind, int *expected)
{
    struct timespec time = {0, WAIT_MS * 1000000};
    struct timeval other_time = {0, WAIT_MS * 1000};
    struct pollfd one = {here[0], POLLIN, 0};
    struct epoll_event event;
    struct sembuf take = {0, -1, 0};
    struct { long type; char byte; } message;
    static char page[4096];
    fd_set set;
    sigset_t signals;
    FD_ZERO(&set);
    FD_SET(here[0], &set);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    *expected = 0;
    switch (kind) {
    case NANOSLEEP: return nanosleep(&time, 0);
    case CLOCK_NANOSLEEP: errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0); return errno ? -1 : 0;
    case POLL: return poll(&one, 1, WAIT_MS);
    case PPOLL: return ppoll(&one, 1, &time, 0);
    case SELECT: return select(here[0] + 1, &set, 0, 0, &other_time);
    case EPOLL: return epoll_wait(epoll, &event, 1, WAIT_MS);
    case FUTEX: *expected = ETIMEDOUT; return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, 0, 0);
    case READ: return read(there[0], page, 1) - 1;
    case WRITE: return write(there[1], page, sizeof page) - (long)sizeof page;
    case SIGTIMEDWAIT: *expected = EAGAIN; return sigtimedwait(&signals, 0, &time);
    case RECV: *expected = EAGAIN; return recv(datagrams, page, 1, 0);
    case ACCEPT: *expected = EAGAIN; return accept(listener, 0, 0);
    case SEMTIMEDOP: *expected = EAGAIN; return semtimedop(semaphores, &take, 1, &time);
    case MSGRCV: return msgrcv(messages, &message, 1, 0, 0) - 1;
    default: break;
    }
    pid_t child = fork();
    if (child == 0) {
        usleep(WAIT_MS * 1000);
        _exit(0);
    }
    int status = 1;
    long got = waitpid(child, &status, 0);
    return got == child && status == 0 ? 0 : -1;
}

/* With SA_RESTART the kernel restarts these (signal(7)). */
static int is_restarted(int kind) { return kind == READ || kind == WRITE || kind == WAIT; }

static void wait_once(int kind)
{
    int expected;
    sig_atomic_t before = alarms;
    errno = 0;
    long result = wait_in(kind, &expected);
    int error = errno;
    if (result < 0 && error == EINTR && alarms != before && !is_restarted(kind))
        return;
    if (expected ? result >= 0 || error != expected : result != 0)
        wrong("%s: result %ld, errno %d (%s), %d alarms meanwhile", mode, result, error, strerror(error), (int)(alarms - before));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int kind = 0;
    size_t length = strcspn(mode, "-");
    const char *alarm = strstr(mode, "-alarm");
    length = alarm ? (size_t)(alarm - mode) : strlen(mode);
    while (kind < KINDS && (strncmp(kinds[kind], mode, length) || kinds[kind][length]))
        kind++;
    if (kind == KINDS)
        wrong("what is %s", mode);
    make_all();
    pthread_t thread;
    if ((kind == READ || kind == WRITE || kind == MSGRCV) && pthread_create(&thread, 0, other_end, (void *)(long)kind))
        wrong("no thread");
    if (alarm) {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval often = {{0, 1000}, {0, 1000}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &often, 0);
    }
    do
        wait_once(kind);
    while (goes_on());
    msgctl(messages, IPC_RMID, 0);
    semctl(semaphores, 0, IPC_RMID);
    if (alarm && !alarms)
        wrong("no alarm came");
    ends_well("no call failed that should not have");
    return 0;
}
