/* Does what the rule `mpich-busy-wait` does, from the start of a program: a preloaded library that yields the
 * CPU whenever MPICH polls UCX for messages. For comparisons only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*progress)(void *);
    if (!progress)
        *(void **)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
    sched_yield();
    return progress(worker);
}
