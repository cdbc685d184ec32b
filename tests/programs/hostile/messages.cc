// Programs whose MPI calls are disturbed by other causes than callbacks.
//
// MODE is `alarm` (messages under SIGALRM, 1 000 per second), `threads` (threads that start, send to
// themselves and end, by pthread_exit with a destructor), or `ranks` (an error handler that throws in every
// rank, between collectives).
#include "hostile.h"

#include <csignal>
#include <mpi.h>
#include <pthread.h>
#include <sys/time.h>

namespace {

struct Left {};
volatile sig_atomic_t alarms;
long started, destroyed, ended;
bool leaving;

struct Guard {
    ~Guard() { __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED); }
};

void on_error(MPI_Comm *, int *, ...)
{
    if (leaving)
        throw Left();
}

void on_alarm(int)
{
    alarms = alarms + 1;
}

void tick_each_millisecond()
{
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, nullptr);
}

void exchange(int tag)
{
    int rank, size, theirs = -1, sum = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int right = (rank + 1) % size, from = (rank + size - 1) % size, mine = rank + 5;
    MPI_Sendrecv(&mine, 1, MPI_INT, right, tag, &theirs, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (theirs != from + 5 || sum != size * (size - 1) / 2)
        wrong("received %d, the sum is %d", theirs, sum);
}

void *send_to_itself(void *)
{
    Guard guard;
    int mine = 3, theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_INT, 0, 3, &theirs, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    if (theirs != 3)
        wrong("received %d", theirs);
    pthread_exit(nullptr);
}

void with_threads()
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, send_to_itself, nullptr))
            wrong("no thread");
        pthread_join(thread, nullptr);
        started++;
    }
    if (destroyed != started)
        wrong("%ld threads, %ld destructors", started, destroyed);
}

void with_throw()
{
    int word = 0;
    leaving = true;
    started++;
    try {
        Guard guard;
        MPI_Send(&word, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
        wrong("came back");
    } catch (const Left &) {
        ended++;
    }
    leaving = false;
    if (ended != started || destroyed != started)
        wrong("%ld calls, %ld left, %ld destructors", started, ended, destroyed);
}

} // namespace

int main(int argc, char **argv)
{
    begin(argc, argv);
    int provided, rank, go = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (is("alarm"))
        tick_each_millisecond();
    for (int tag = 0; go; tag = (tag + 1) % 50) {
        if (is("threads"))
            with_threads();
        else if (is("ranks"))
            with_throw();
        exchange(tag);
        rest();
        check(tag);
        go = rank == 0 ? goes_on() : 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    ends_well("all that was sent arrived");
    return 0;
}
