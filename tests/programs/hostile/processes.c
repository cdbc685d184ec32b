/* Programs whose processes, threads and libraries start and end.
 *
 * MODE is `fork`, `vfork`, `exec`, `clone` (with shared memory), `threads`, `libraries` (two with the same
 * layout, in turns at one address), `workers` (forked before any change, each with its own knob), `selfexec`
 * (the program executes itself), or `pages` (code pages are made writable and back, and discarded). */
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define THREADS 8
#define WORKERS 4

/* Two probed functions: one that most programs have, and a recursive one. */
KEEP long through(long n)
{
    __asm__ volatile("push %%rbx; pop %%rbx" : "+r"(n));
    return n * 3 + 1;
}

KEEP long deep(long n)
{
    if (n == 0)
        return 0;
    long r = deep(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}

static long work(void)
{
    long right = 0;
    for (int i = 0; i < 20; i++)
        right += through(i) == i * 3 + 1;
    return right + (deep(30) == 30);
}

static int in_child(void *unused)
{
    (void)unused;
    return work() == 21 ? 3 : 4;
}

static void *in_thread(void *wrongs)
{
    if (work() != 21)
        __atomic_fetch_add((long *)wrongs, 1, __ATOMIC_RELAXED);
    return 0;
}

static void expect(pid_t child, int code)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        wrong("no child: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        wrong("a child ended with status %#x instead of %d", status, code);
}

static void with_fork(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(0));
    expect(child, 3);
}

static void with_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(through(7) == 22 ? 3 : 4);
    expect(child, 3);
}

static void with_exec(char **argv)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "child", argv[2], argv[3], (char *)0);
        _exit(99);
    }
    expect(child, 42);
}

static void with_clone(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    expect(clone(in_child, stack + sizeof stack - 64, CLONE_VM | SIGCHLD, 0), 3);
}

static void with_threads(void)
{
    pthread_t threads[THREADS];
    long wrongs = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, in_thread, &wrongs))
            wrong("no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    if (wrongs)
        wrong("%ld threads computed something else", wrongs);
}

/* A value written into the first library's variable must never appear in the second one's. */
static void with_library(const char *file, const char *function, int may_change)
{
    void *library = dlopen(file, RTLD_NOW);
    int (*value)(void) = library ? (int (*)(void))dlsym(library, function) : 0;
    if (!value)
        wrong("%s", dlerror());
    usleep(500);
    int seen = value();
    if (seen != 10 && !(may_change && seen == 77))
        wrong("%s is %d", function, seen);
    dlclose(library);
}

static void with_pages(void)
{
    char *page = (char *)((long)&through & ~4095L);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) || mprotect(page, 4096, PROT_READ | PROT_EXEC))
        wrong("mprotect: %s", strerror(errno));
}

static int with_workers(void)
{
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            knob = own_knob = 100 + i;
            while (!shared[1]) {
                check(i);
                rest();
            }
            _exit(knob == own_knob ? 3 : 4);
        }
    }
    do
        rest();
    while (goes_on());
    for (int i = 0; i < WORKERS; i++)
        expect(workers[i], 3);
    ends_well("each worker has its own knob");
    return 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (is("child"))
        return work() == 21 ? 42 : 43;
    if (is("workers"))
        return with_workers();
    do {
        if (work() != 21)
            wrong("computed something else");
        if (is("fork"))
            with_fork();
        else if (is("vfork"))
            with_vfork();
        else if (is("exec"))
            with_exec(argv);
        else if (is("clone"))
            with_clone();
        else if (is("threads"))
            with_threads();
        else if (is("pages"))
            with_pages();
        else if (is("libraries")) {
            with_library(argv[4], "first_value", 1);
            with_library(argv[5], "second_value", 0);
        } else if (is("selfexec") && shared[0] % 8 == 7 && goes_on()) {
            execv("/proc/self/exe", argv);
            wrong("exec: %s", strerror(errno));
        }
        rest();
    } while (goes_on());
    ends_well("all that came and went was right");
    return 0;
}
