/* One thread per kind of blocking system call, which stays in it until it is woken: what does each call
 * return?
 *
 * blocking [restart|once]: whether the handler of SIGUSR2 has SA_RESTART. SIGWINCH is ignored. Prints "ready"
 * and the kind and id of each thread, then answers each line:
 *   wake    completes every call; answers when all have returned
 *   ?       answers at once
 *   signal N, storm N: sends signal N to each thread once, or continuously until `calm`
 * An answer is `failed=KIND,KIND without=N wrong=N handled=N`: kinds that failed with EINTR since the last
 * answer, the number of such failures without a handler since the call began, wrong results, and threads
 * whose handler has run. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Longer than any test. */
#define LONG 100000
enum { KINDS = 21, MESSAGE = 8 };
static const char *const names[KINDS] = {
    "epoll_wait",    "epoll_pwait", "poll",     "ppoll",    "select",    "pselect", "sigtimedwait",
    "semop",         "semtimedop",  "msgrcv",   "msgsnd",   "accept",    "recv",    "read_timeout",
    "send_timeout",  "io_getevents", "futex",   "read",     "wait4",     "nanosleep", "clock_nanosleep"};
enum { FIRST_SLEEP = 19 };

struct message { long type; char text[MESSAGE]; };

struct kind {
    int number, in, out, socket, peer, listener, semaphore, queue, child_exit;
    atomic_int word, tid, asked, done, ready;
    atomic_long failed, without, wrong, handled;
    pthread_t thread;
    pid_t child;
    struct sockaddr_un name;
    aio_context_t aio;
};
static struct kind kinds[KINDS];
static __thread struct kind *own;
volatile long called;

__attribute__((noinline, noclone)) void extra(long n) { called += n; }
__attribute__((noinline, noclone)) long f(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
__attribute__((noinline, noclone)) long g(long x) { __asm__ volatile("" : "+r"(x)); return x * 5 + 2; }

static void handler(int signal) { (void)signal; if (own) own->handled++; }

static void must(int holds, const char *what) {
    if (!holds) { perror(what); _exit(3); }
}

static void fill(int fd) {
    char block[4096] = {0};
    while (send(fd, block, sizeof block, MSG_DONTWAIT) > 0) {}
}

static void start_child(struct kind *k) {
    int pair[2];
    must(!pipe(pair), "pipe");
    k->child = fork();
    must(k->child >= 0, "fork");
    if (!k->child) { char c; close(pair[1]); while (read(pair[0], &c, 1) < 0) {} _exit(7); }
    close(pair[0]);
    k->child_exit = pair[1];
}

static void prepare(struct kind *k) {
    int pair[2];
    struct timeval time = {LONG, 0};
    must(!pipe(pair), "pipe"), k->in = pair[0], k->out = pair[1];
    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair"), k->socket = pair[0], k->peer = pair[1];
    setsockopt(k->socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(k->socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    switch (k->number) {
    case 7: case 8: must((k->semaphore = semget(IPC_PRIVATE, 1, 0600)) >= 0, "semget"); break;
    case 9: case 10: must((k->queue = msgget(IPC_PRIVATE, 0600)) >= 0, "msgget"); break;
    case 11:
        k->listener = socket(AF_UNIX, SOCK_STREAM, 0);
        k->name.sun_family = AF_UNIX;
        snprintf(k->name.sun_path + 1, sizeof k->name.sun_path - 1, "blocking-%d", getpid());
        must(!bind(k->listener, (struct sockaddr *)&k->name, sizeof k->name) && !listen(k->listener, 4), "listen");
        setsockopt(k->listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
        break;
    case 15: must(!syscall(SYS_io_setup, 4, &k->aio), "io_setup"); break;
    }
}

/* Before each call: ensures that it blocks. */
static void arrange(struct kind *k) {
    if (k->number == 10) { struct message m = {1, "full"}; while (!msgsnd(k->queue, &m, MESSAGE, IPC_NOWAIT)) {} }
    if (k->number == 14) fill(k->socket);
    if (k->number == 16) k->word = 0;
    if (k->number == 18) start_child(k);
}

/* Returns 1 for the expected result, 0 for another one, -1 with errno. */
static int block(struct kind *k) {
    struct timespec time = {LONG, 0};
    struct timeval old = {LONG, 0};
    struct pollfd wanted = {k->in, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    struct message m = {2, "more"};
    sigset_t set, none;
    fd_set files;
    char byte;
    long r;
    sigemptyset(&set), sigemptyset(&none), sigaddset(&set, SIGUSR1);
    FD_ZERO(&files);
    FD_SET(k->in, &files);
    switch (k->number) {
    case 0: case 1: {
        static __thread int epoll = -1;
        if (epoll < 0) epoll = epoll_create1(0), epoll_ctl(epoll, EPOLL_CTL_ADD, k->in, &event);
        r = k->number ? epoll_pwait(epoll, &event, 1, LONG * 1000, &none) : epoll_wait(epoll, &event, 1, LONG * 1000);
        break;
    }
    case 2: r = poll(&wanted, 1, LONG * 1000); break;
    case 3: r = ppoll(&wanted, 1, &time, &none); break;
    case 4: r = select(k->in + 1, &files, 0, 0, &old); break;
    case 5: r = pselect(k->in + 1, &files, 0, 0, &time, &none); break;
    case 6: r = sigtimedwait(&set, 0, &time); return r < 0 ? -1 : r == SIGUSR1;
    case 7: case 8: {
        struct sembuf less = {0, -1, 0};
        r = k->number == 7 ? semop(k->semaphore, &less, 1) : semtimedop(k->semaphore, &less, 1, &time);
        return r < 0 ? -1 : 1;
    }
    case 9: r = msgrcv(k->queue, &m, MESSAGE, 0, 0); return r < 0 ? -1 : r == MESSAGE && !strcmp(m.text, "given");
    case 10: r = msgsnd(k->queue, &m, MESSAGE, 0); return r < 0 ? -1 : 1;
    case 11: r = accept(k->listener, 0, 0); if (r >= 0) close(r); return r < 0 ? -1 : 1;
    case 12: r = recv(k->socket, &byte, 1, 0); return r < 0 ? -1 : r == 1 && byte == 'x';
    case 13: r = read(k->socket, &byte, 1); return r < 0 ? -1 : r == 1 && byte == 'x';
    case 14: r = send(k->socket, "x", 1, 0); return r < 0 ? -1 : r == 1;
    case 15: {
        struct io_event e;
        r = syscall(SYS_io_getevents, k->aio, 1, 1, &e, &time);
        break;
    }
    case 16: r = syscall(SYS_futex, &k->word, FUTEX_WAIT, 0, 0, 0, 0); return r < 0 ? -1 : 1;
    case 17: r = read(k->in, &byte, 1); return r < 0 ? -1 : r == 1 && byte == 'x';
    case 18: { int status; r = waitpid(k->child, &status, 0); return r < 0 ? -1 : WEXITSTATUS(status) == 7; }
    case 19: return nanosleep(&time, 0) < 0 ? -1 : 0;
    default: r = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0); errno = r; return r ? -1 : 0;
    }
    return r < 0 ? -1 : r == 1;
}

/* After a call was completed: restores the state. */
static void clear(struct kind *k) {
    char byte;
    if (k->number < 6) must(read(k->in, &byte, 1) == 1, "read");
    if (k->number == 10) { struct message m; while (msgrcv(k->queue, &m, MESSAGE, 0, IPC_NOWAIT) >= 0) {} }
    if (k->number == 18) close(k->child_exit);
}

static void wake(struct kind *k) {
    struct message m = {1, "given"};
    struct sembuf more = {0, 1, 0};
    char block[4096];
    switch (k->number) {
    case 6: pthread_kill(k->thread, SIGUSR1); break;
    case 7: case 8: must(!semop(k->semaphore, &more, 1), "semop"); break;
    case 9: must(!msgsnd(k->queue, &m, MESSAGE, 0), "msgsnd"); break;
    case 10: must(msgrcv(k->queue, &m, MESSAGE, 0, 0) == MESSAGE, "msgrcv"); break;
    case 11: { int s = socket(AF_UNIX, SOCK_STREAM, 0); must(!connect(s, (struct sockaddr *)&k->name, sizeof k->name), "connect"); close(s); break; }
    case 12: case 13: must(write(k->peer, "x", 1) == 1, "write"); break;
    case 14: while (recv(k->peer, block, sizeof block, MSG_DONTWAIT) > 0) {} break;
    case 15: {
        static char text = 'x';
        struct iocb control = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = k->out, .aio_buf = (unsigned long)&text, .aio_nbytes = 1};
        struct iocb *one = &control;
        must(syscall(SYS_io_submit, k->aio, 1, &one) == 1, "io_submit");
        break;
    }
    case 16: k->word = 1; while (k->done != k->asked && !syscall(SYS_futex, &k->word, FUTEX_WAKE, 1, 0, 0, 0)) sched_yield(); break;
    case 18: must(write(k->child_exit, "x", 1) == 1, "write"); break;
    default: must(write(k->out, "x", 1) == 1, "write");
    }
}

static void *work(void *given) {
    struct kind *k = own = given;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    k->tid = syscall(SYS_gettid);
    prepare(k), arrange(k);
    k->ready = 1;
    for (;;) {
        long before = k->handled;
        errno = 0;
        int r = block(k);
        f(r);
        if (r < 0 && errno == EINTR) {
            if (k->handled == before) k->without++;
            k->failed++;
            continue;
        }
        /* A futex that already has its value was woken before the thread slept. */
        if (r != 1 && !(k->number == 16 && errno == EAGAIN && k->word)) k->wrong++;
        clear(k), arrange(k);
        k->done++;
    }
    return 0;
}

static volatile int stormy;
static void *storm(void *given) {
    while (stormy)
        for (int i = 0; i < KINDS; i++) pthread_kill(kinds[i].thread, (int)(long)given), usleep(50);
    return 0;
}

static void answer(void) {
    long without = 0, wrong = 0, handled = 0;
    const char *between = "";
    printf("failed=");
    for (int i = 0; i < KINDS; i++) {
        without += kinds[i].without, wrong += kinds[i].wrong, handled += kinds[i].handled > 0;
        if (kinds[i].failed > 0) printf("%s%s", between, names[i]), between = ",";
        kinds[i].failed = 0;
    }
    printf(" without=%ld wrong=%ld handled=%ld\n", without, wrong, handled);
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = handler};
    if (count > 1 && !strcmp(arguments[1], "restart")) action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, 0);
    signal(SIGWINCH, SIG_IGN);
    setvbuf(stdout, 0, _IOLBF, 0);
    /* If a call never returned, no answer would come. */
    alarm(600);
    for (int i = 0; i < KINDS; i++) {
        kinds[i].number = i;
        must(!pthread_create(&kinds[i].thread, 0, work, &kinds[i]), "pthread_create");
    }
    for (int i = 0; i < KINDS; i++) while (!kinds[i].ready) sched_yield();
    printf("ready\n");
    for (int i = 0; i < KINDS; i++) printf("%s%s=%d", i ? " " : "", names[i], kinds[i].tid);
    printf("\n");
    char line[64];
    pthread_t stormer;
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "wake", 4)) {
            for (int i = 0; i < FIRST_SLEEP; i++) { kinds[i].asked++; wake(&kinds[i]); }
            for (int i = 0; i < FIRST_SLEEP; i++) while (kinds[i].done < kinds[i].asked) usleep(100);
        } else if (!strncmp(line, "signal", 6)) {
            for (int i = 0; i < KINDS; i++) pthread_kill(kinds[i].thread, atoi(line + 7));
        } else if (!strncmp(line, "storm", 5)) {
            stormy = 1;
            must(!pthread_create(&stormer, 0, storm, (void *)(long)atoi(line + 6)), "pthread_create");
        } else if (!strncmp(line, "calm", 4)) {
            stormy = 0;
            pthread_join(stormer, 0);
        }
        answer();
    }
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].semaphore > 0 || i == 7 || i == 8) semctl(kinds[i].semaphore, 0, IPC_RMID);
        if (i == 9 || i == 10) msgctl(kinds[i].queue, IPC_RMID, 0);
    }
    printf("end\n");
    _exit(0);
}
