// Programs without MPI that leave probed functions in every way except a return.
//
// MODE is the way: `throw`, `jump`, `exit` (pthread_exit), `cancel` (pthread_cancel), `forced`
// (_Unwind_ForcedUnwind), `foreign` (an exception that is not C++, such as a panic in Rust), `fibers`,
// `handler` (throws and jumps in a signal handler with its own stack, 1 000 per second), or `recursion` (2
// 000 deep).
#include "fibers.h"
#include "hostile.h"

#include <csetjmp>
#include <csignal>
#include <pthread.h>
#include <sys/time.h>
#include <unwind.h>

namespace {

struct Left {};
jmp_buf back;
sigjmp_buf handler_back;
long destroyed, cleaned, caught;
volatile sig_atomic_t alarms, right_alarms;
_Unwind_Exception panic;

struct Guard {
    ~Guard() { destroyed++; }
};

// The frame that begins a forced unwinding, where it ends.
void *target;

_Unwind_Reason_Code stop(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *, _Unwind_Context *context, void *)
{
    if (_Unwind_GetCFA(context) > reinterpret_cast<_Unwind_Word>(target))
        longjmp(back, 1);
    return _URC_NO_REASON;
}

void leave()
{
    if (is("throw") || is("handler"))
        throw Left();
    if (is("jump"))
        longjmp(back, 1);
    if (is("exit"))
        pthread_exit(nullptr);
    if (is("cancel"))
        for (;;)
            pause();
    if (is("fibers"))
        leave_fiber();
    panic.exception_cleanup = nullptr;
    if (is("forced"))
        _Unwind_ForcedUnwind(&panic, stop, nullptr);
    if (is("foreign")) {
        memcpy(&panic.exception_class, "HOSTPANI", 8);
        _Unwind_RaiseException(&panic);
    }
}

} // namespace

extern "C" {
// Both functions are probed.
KEEP long through(long n)
{
    if (n >= 0)
        leave();
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

KEEP long deep(long n)
{
    if (n == 0)
        return 0;
    long r = deep(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
}

namespace {

KEEP long guarded(long n)
{
    Guard guard;
    return through(n) + 1;
}

void on_cleanup(void *) { cleaned++; }

void *in_thread(void *)
{
    pthread_cleanup_push(on_cleanup, nullptr);
    guarded(1);
    pthread_cleanup_pop(0);
    wrong("came back");
    return nullptr;
}

// The frames that are left have guards, whose destructors must run.
void in_a_thread()
{
    pthread_t thread;
    const long before = destroyed, cleaned_before = cleaned;
    if (pthread_create(&thread, nullptr, in_thread, nullptr))
        wrong("no thread");
    if (is("cancel"))
        pthread_cancel(thread);
    pthread_join(thread, nullptr);
    // If the thread was cancelled before it began, no destructor runs.
    const bool has_not_begun = is("cancel") && destroyed == before && cleaned == cleaned_before;
    if (!has_not_begun && (destroyed != before + 1 || cleaned != cleaned_before + 1))
        wrong("%ld destructors, %ld cleaned up", destroyed - before, cleaned - cleaned_before);
}

void fiber()
{
    for (;;) {
        through(1);
        finished[current]++;
        leave_fiber();
    }
}

void on_alarm(int)
{
    alarms = alarms + 1;
    try {
        guarded(1);
    } catch (const Left &) {
        right_alarms = right_alarms + 1;
    }
    if (alarms % 3 == 0)
        siglongjmp(handler_back, 1);
}

void use_handler()
{
    static char stack[1 << 16];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
}

void tick_each_millisecond(bool on)
{
    const itimerval often = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
    setitimer(ITIMER_REAL, &often, nullptr);
}

// The handler runs on its own stack during a deep recursion and leaves it by a jump.
void with_handler()
{
    if (sigsetjmp(handler_back, 1) == 0) {
        tick_each_millisecond(true);
        for (const long until = alarms + 3; alarms < until; usleep(200))
            if (deep(50) != 50)
                wrong("deep(50) is something else");
    }
    tick_each_millisecond(false);
    if (alarms != right_alarms)
        wrong("%d alarms, %d of them right", static_cast<int>(alarms), static_cast<int>(right_alarms));
}

void with_exception()
{
    const long before = destroyed;
    const long caught_before = caught;
    try {
        guarded(1);
        wrong("came back");
    } catch (const Left &) {
        caught++;
    } catch (...) {
        caught++;
    }
    if (destroyed != before + 1 || caught != caught_before + 1)
        wrong("%ld destructors, %ld caught", destroyed - before, caught - caught_before);
}

void with_jump()
{
    static volatile long before;
    before = destroyed;
    target = __builtin_frame_address(0);
    if (setjmp(back) == 0) {
        // In C++ a jump over a frame with a destructor is undefined.
        is("forced") ? guarded(1) : through(1);
        wrong("came back");
    }
    if (is("forced") && destroyed != before + 1)
        wrong("%ld destructors", destroyed - before);
}

} // namespace

int main(int argc, char **argv)
{
    begin(argc, argv);
    make_fibers(fiber);
    if (is("handler"))
        use_handler();
    do {
        if (is("throw") || is("foreign"))
            with_exception();
        else if (is("jump") || is("forced"))
            with_jump();
        else if (is("exit") || is("cancel"))
            in_a_thread();
        else if (is("handler"))
            with_handler();
        else if (is("recursion") && deep(2000) != 2000)
            wrong("deep(2000) is something else");
        else if (is("fibers")) {
            switch_fibers();
            switch_fibers();
            if (finished[0] != finished[1])
                wrong("the fibers finished %ld and %ld", finished[0], finished[1]);
        }
        if (through(-2) != -1)
            wrong("through(-2) is something else");
        rest();
    } while (goes_on());
    ends_well("every frame was left as it should be");
    return 0;
}
