/* What the rule `mpich-busy-wait` does to a program, from its start on: preloaded, it lets others run whenever MPICH asks UCX for
 * messages. For comparisons; nobody has such a library. */
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
