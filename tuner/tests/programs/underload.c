/* A program with many threads that check their own results, so that a change from outside must have its
 * effect and no other. `run` makes every worker take some more steps and prints what happened in them;
 * `ticks` prints the number of calls of `tick`, which the program itself never makes; `knobs` prints its
 * variables; `levels` prints the level of each thread. `guest` starts a thread and prints its number, `leave`
 * ends it. `handler` stays in a signal handler until the next line. At its end the program prints whether
 * anything was wrong. Argument `signals`: with a handler that runs often; `alone`: one thread that takes
 * steps until its input ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 3
#define KEEP __attribute__((noinline, used, noclone))
#define HERE __asm__ volatile("" ::: "memory")

long part_work(long);
long part_other(long);
long part_outer(long);

int knob = 1;
struct settings { long chunk; double rate; } settings = {64, 8}, *volatile chosen_settings = &settings;
static atomic_long errors, sorted_a, sorted_b, logged, noted, last_size, last_weight, sleeps, polls, waits, alarms, ticks;
static atomic_long steps[WORKERS];
static atomic_int stopping;

KEEP long sort_a(long x) { atomic_fetch_add(&sorted_a, 1); return x * 3 + 1; }
KEEP long sort_b(long x) { atomic_fetch_add(&sorted_b, 1); return x * 3 + 2; }
KEEP void log_state(long x) { HERE; atomic_fetch_add(&logged, 1 + 0 * x); }
KEEP void note(int x, double y, const char *text) { if (x == 5 && y == 0.5 && !strcmp(text, "noted")) atomic_fetch_add(&noted, 1); }
KEEP long send_block(int to, double weight, unsigned size) { HERE; atomic_store(&last_size, size); atomic_store(&last_weight, (long)(weight * 1000)); return to; }
KEEP void tiny(void) {}
/* Loops that jump back to the second instruction, and to the first one. */
long looping(long), again(long);
__asm__(".text\n.globl looping, again\n.type looping, @function\n.type again, @function\n"
        "looping: xor %eax, %eax\n1: dec %rdi\njg 1b\nret\n.size looping, .-looping\n"
        "again: dec %rdi\njg again\nxor %eax, %eax\nret\n.size again, .-again\n");
KEEP long calls_first(long x) { return part_outer(x) + 1; }
KEEP long two_returns(long x) { HERE; if (x & 1) { HERE; return x + part_outer(x); } HERE; return part_outer(x) * 2 - x; }
KEEP long chosen(long x)
{
    switch (x) {
    case 0: return 7; case 1: return part_outer(x); case 2: return x + 11; case 3: return x * 5; case 4: return x - 9; case 5: HERE; return 1;
    default: return 0;
    }
}
KEEP __attribute__((optimize("optimize-sibling-calls"))) long tail(long x) { HERE; return sort_b(x + 1); }

/* Functions for calls from outside, with every kind of value. */
KEEP signed char back_i8(signed char x) { return x; }
KEEP unsigned char back_u8(unsigned char x) { return x; }
KEEP short back_i16(short x) { return x; }
KEEP unsigned short back_u16(unsigned short x) { return x; }
KEEP int back_i32(int x) { return x; }
KEEP unsigned back_u32(unsigned x) { return x; }
KEEP long back_i64(long x) { return x; }
KEEP unsigned long back_u64(unsigned long x) { return x; }
KEEP float back_f32(float x) { return x * 2; }
KEEP double back_f64(double x) { return x * 2; }
KEEP _Bool back_bool(_Bool x) { return !x; }
KEEP const char *back_pointer(const char *text) { return strchr(text, 'x') ? &text[1] : 0; }
KEEP double many(int a, double b, long c, float d, const char *e, double f, unsigned g, short h, double i)
{ return a + b * 10 + c * 100 + d * 1000 + strlen(e) * 10000 + f * 1e5 + g * 1e6 + h * 1e7 + i * 1e8; }
KEEP void nothing(void) { HERE; }
/* Sets the protection of the page in which `sort_a` begins. */
KEEP int protect(int protection) { return mprotect((void *)((long)sort_a & ~4095L), 4096, protection); }
KEEP long slow(int ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000L}; while (nanosleep(&t, &t)) ; return ms; }
KEEP long allocate(long n) { char *p = malloc(n); if (!p) return -1; memset(p, 1, n); free(p); return n; }
KEEP void leave(int code) { _exit(code); }
/* A setting of each thread, as OpenMP's team size is. */
#define LEVELS_MAX (WORKERS + 6)
static _Thread_local long level = 3;
static long *levels[LEVELS_MAX];
static atomic_int threads_with_levels;
static void show_level(void) { levels[atomic_fetch_add(&threads_with_levels, 1)] = &level; }
KEEP long level_now(void) { return level; }
KEEP long set_level(int x) { long old = level; level = x; return old; }
KEEP void scale_level(double by) { level = (long)(level * by); }
KEEP double level_share(void) { return 1.0 / level; }
KEEP long slow_level(int ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000L}; level = ms; while (nanosleep(&t, &t)) ; return ms; }
typedef struct { long a, b, c; } triple;
KEEP long of_triple(long x, triple by_value) { return x + by_value.a; }
KEEP long tick(void) { return atomic_fetch_add(&ticks, 1) + 1; }

/* Vector, x87 and integer state, which a call from outside must preserve. */
KEEP double chain(long i)
{
    double x = 1 + i % 7, y = 0.5, v[4] = {1, 2, 3, 4};
    long double z = 1.25L;
    for (int k = 0; k < 40; k++) {
        x = x * 1.0001 + y; y = y * 0.999 + v[k & 3]; z = z * 1.0001L + 0.25L; v[k & 3] += (double)z * 1e-3;
    }
    return x + y + (double)z + v[0] + v[1] + v[2] + v[3];
}

KEEP void step(long i)
{
    long r = sort_a(i);
    if (r != i * 3 + 1 && r != i * 3 + 2 && r != i * 3 + 7) atomic_fetch_add(&errors, 1);
    log_state(i);
    if (send_block(1, 2.5, 4096) != 1) atomic_fetch_add(&errors, 1);
    r = part_work(i);
    if (r != i * 5 + 1 && r != i * 5 + 2) atomic_fetch_add(&errors, 1);
    if (calls_first(i) != (i + 3) * 2 + 1) atomic_fetch_add(&errors, 1);
    tiny();
    if (two_returns(i) != ((i & 1) ? i + (i + 3) * 2 : (i + 3) * 4 - i)) atomic_fetch_add(&errors, 1);
}

static void *work(void *argument)
{
    long me = (long)argument;
    show_level();
    for (long i = 0; !stopping; i++) {
        double one = chain(i), other = chain(i);
        if (one != other) atomic_fetch_add(&errors, 1);
        char *p = malloc(16 + i % 2000);
        if (!p) atomic_fetch_add(&errors, 1);
        free(p);
        step(i);
        atomic_fetch_add(&steps[me], 1);
    }
    return 0;
}

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static void *sleeper(void *unused)
{
    while (!stopping) {
        struct timespec t = {0, 3000000};
        double began = now();
        if (nanosleep(&t, 0) || now() - began < 0.003) atomic_fetch_add(&errors, 1);
        atomic_fetch_add(&sleeps, 1);
    }
    return unused;
}

/* Created before "ready" is printed, because the test counts descriptors. */
static int silent[2];

static void *poller(void *unused)
{
    while (!stopping) {
        struct pollfd one = {silent[0], POLLIN, 0};
        double began = now();
        if (poll(&one, 1, 4) != 0 || now() - began < 0.0035) atomic_fetch_add(&errors, 1);
        atomic_fetch_add(&polls, 1);
    }
    return unused;
}

/* Two threads that pass a token to each other, through a futex and through a blocking pipe. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int token, pipes[2];

static void *giver(void *unused)
{
    while (!stopping) {
        pthread_mutex_lock(&lock);
        token++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        if (write(pipes[1], "x", 1) != 1) atomic_fetch_add(&errors, 1);
        usleep(500);
    }
    return unused;
}

static void *taker(void *unused)
{
    char byte;
    while (!stopping) {
        pthread_mutex_lock(&lock);
        while (!token) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 5;
            int result = pthread_cond_timedwait(&changed, &lock, &until);
            if (result && result != ETIMEDOUT) atomic_fetch_add(&errors, 1);
        }
        token--;
        pthread_mutex_unlock(&lock);
        if (read(pipes[0], &byte, 1) != 1 || byte != 'x') atomic_fetch_add(&errors, 1);
        atomic_fetch_add(&waits, 1);
    }
    return unused;
}

static void on_alarm(int unused) { (void)unused; atomic_fetch_add(&alarms, 1); for (volatile int i = 0; i < 2000; i++) ; }

/* Stays in the handler until a line arrives. */
static void on_user(int unused)
{
    char byte;
    (void)unused;
    if (write(1, "inside\n", 7) != 7) abort();
    do if (read(0, &byte, 1) != 1) abort(); while (byte != '\n');
}

static void more(long count)
{
    long target[WORKERS];
    for (int i = 0; i < WORKERS; i++) target[i] = steps[i] + count;
    for (int i = 0; i < WORKERS; i++) while (steps[i] < target[i]) usleep(100);
}

/* A thread that ends on command. Functions named jump_ leave their caller in it. */
static volatile int guest_stays, guest_tid;
static sigjmp_buf guest_is_back;
static long jumps;
KEEP long jump_level(long x) { level = x; siglongjmp(guest_is_back, 1); }
KEEP long jump_now(void) { siglongjmp(guest_is_back, 1); }
KEEP long jump_twice(long x) { if (jumps++ < 2) siglongjmp(guest_is_back, 1); level = x; return x; }
static void *guest(void *unused)
{
    guest_tid = gettid();
    sigsetjmp(guest_is_back, 1);
    while (guest_stays) usleep(300);
    return unused;
}

static int alone(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    step(0);
    printf("ready\n");
    fflush(stdout);
    for (long i = 1; poll(&input, 1, 0) == 0; i++) step(i);
    return errors != 0;
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc > 1 && !strcmp(argv[1], "alone")) return alone();
    pthread_t threads[WORKERS + 4];
    pthread_t visitor;
    if (pipe(pipes) || pipe(silent)) return 1;
    show_level();
    if (argc > 1 && !strcmp(argv[1], "signals")) {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval often = {{0, 700}, {0, 700}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &often, 0);
    }
    for (long i = 0; i < WORKERS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    void *(*others[4])(void *) = {sleeper, poller, giver, taker};
    if (argc > 1 && !strcmp(argv[1], "signals")) others[0] = others[1] = giver;
    for (int i = 0; i < 4; i++) pthread_create(&threads[WORKERS + i], 0, others[i], 0);
    more(1);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "handler\n")) {
            signal(SIGUSR1, on_user);
            raise(SIGUSR1);
            printf("left\n");
            fflush(stdout);
            continue;
        }
        if (!strcmp(line, "ticks\n")) {
            printf("ticks=%ld\n", ticks);
            fflush(stdout);
            continue;
        }
        if (!strcmp(line, "levels\n")) {
            printf("levels=");
            for (int i = 0; i < threads_with_levels; i++) printf("%ld,", *(volatile long *)levels[i]);
            printf("\n");
            fflush(stdout);
            continue;
        }
        if (!strcmp(line, "guest\n")) {
            guest_stays = 1;
            guest_tid = 0;
            if (pthread_create(&visitor, 0, guest, 0)) return 1;
            while (!guest_tid) usleep(100);
            printf("%d\n", guest_tid);
            fflush(stdout);
            continue;
        }
        if (!strcmp(line, "leave\n")) {
            guest_stays = 0;
            pthread_join(visitor, 0);
            printf("left\n");
            fflush(stdout);
            continue;
        }
        if (!strcmp(line, "knobs\n")) {
            printf("knob=%d chunk=%ld rate=%g\n", *(volatile int *)&knob, ((volatile struct settings *)&settings)->chunk,
                   ((volatile struct settings *)&settings)->rate);
            fflush(stdout);
            continue;
        }
        more(2);
        long a = sorted_a, b = sorted_b, l = logged, n = noted;
        more(100);
        int has_a = sorted_a != a, has_b = sorted_b != b, has_logged = logged != l, has_noted = noted != n;
        printf("a=%d b=%d logged=%d noted=%d size=%ld weight=%ld tail=%ld loop=%ld errors=%ld\n", has_a, has_b, has_logged,
               has_noted, last_size, last_weight, tail(1), looping(3) + again(3) + chosen(9), errors);
        fflush(stdout);
    }
    /* Waits until each thread has worked at least once, even if the program is ended at once. */
    for (int i = 0; i < 10000 && !(sleeps && polls && waits); i++) usleep(1000);
    stopping = 1;
    printf("errors=%ld sleeps=%d polls=%d waits=%d\n", errors, sleeps > 0, polls > 0, waits > 0);
    fflush(stdout);
    return errors != 0;
}
