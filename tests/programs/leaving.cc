// MPI calls that are left without a return, because a callback of MPI does not return. Each round leaves one
// call and makes others that return.
//
//   leaving DIRECTORY WAY ROUNDS
//
// WAY is throw (an error handler throws an exception), jump (it calls longjmp), thread (it exits its thread,
// on whose stack there are destructors and cleanup functions), fiber (it switches to another stack and is
// switched back to later), operation (a reduction's operation throws), attribute (the copy function of a
// communicator's attribute throws), request (the query function of a generalised request throws).
//
// Prints {"event":"ready",...}, waits for DIRECTORY/go (unless DIRECTORY is -), and prints
// {"event":"tally",...} with the numbers of calls that were left and of destroyed objects.
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <ucontext.h>
#include <unistd.h>

static const int NOBODY = 9999;
static std::string way;
static std::atomic<long> left_calls, destroyed, cleaned, sums;
static jmp_buf out;
static ucontext_t scheduler, fibers[2];
static int current;

struct Destroyed {
    ~Destroyed() { destroyed++; }
};

static void leave()
{
    if (way == "jump")
        longjmp(out, 1);
    if (way == "thread")
        pthread_exit(nullptr);
    if (way == "fiber")
        swapcontext(&fibers[current], &scheduler);
    else
        throw std::runtime_error(way);
}

static void handler(MPI_Comm *, int *, ...) { leave(); }

static void operation(void *, void *, int *, MPI_Datatype *) { leave(); }

static int copied(MPI_Comm, int, void *, void *, void *, int *)
{
    leave();
    return MPI_SUCCESS;
}

static int asked(void *, MPI_Status *)
{
    leave();
    return MPI_SUCCESS;
}

static int freed(void *) { return MPI_SUCCESS; }
static int cancelled(void *, int) { return MPI_SUCCESS; }

// Makes a call that fails, so that MPI calls the error handler.
static void send_to_nobody()
{
    int value = 0;
    MPI_Send(&value, 1, MPI_INT, NOBODY, 0, MPI_COMM_WORLD);
}

static void cleanup(void *) { cleaned++; }

static void *work(void *)
{
    pthread_cleanup_push(cleanup, nullptr);
    Destroyed here;
    send_to_nobody();
    pthread_cleanup_pop(0);
    return nullptr;
}

static void fiber()
{
    for (;;) {
        Destroyed here;
        send_to_nobody();
        left_calls++;
        swapcontext(&fibers[current], &scheduler);
    }
}

static void catching(void (*call)())
{
    try {
        Destroyed here;
        call();
    } catch (const std::runtime_error &) {
        left_calls++;
    }
}

static void reduce()
{
    // Operations in progress in a communicator stay so when a call is left, so each round uses a new one.
    MPI_Comm own;
    MPI_Op op;
    int value = 1, sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Op_create(operation, 1, &op);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, op, own);
}

static void duplicate()
{
    int key;
    MPI_Comm parent, child;
    MPI_Comm_dup(MPI_COMM_SELF, &parent);
    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
    MPI_Comm_set_attr(parent, key, &key);
    MPI_Comm_dup(parent, &child);
}

static void wait_for_request()
{
    MPI_Request request;
    MPI_Grequest_start(asked, freed, cancelled, nullptr, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_round()
{
    if (way == "throw") {
        catching(send_to_nobody);
    } else if (way == "operation") {
        catching(reduce);
    } else if (way == "attribute") {
        catching(duplicate);
    } else if (way == "request") {
        catching(wait_for_request);
    } else if (way == "jump") {
        if (setjmp(out) == 0)
            send_to_nobody();
        else
            left_calls++;
    } else if (way == "thread") {
        pthread_t thread;
        pthread_create(&thread, nullptr, work, nullptr);
        pthread_join(thread, nullptr);
        left_calls++;
    } else {
        for (current = 0; current < 2; current++)
            swapcontext(&scheduler, &fibers[current]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: leaving DIRECTORY WAY ROUNDS\n");
        return 2;
    }
    way = argv[2];
    const long rounds = std::atol(argv[3]);
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, way == "thread" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Errhandler errors;
    MPI_Comm_create_errhandler(handler, &errors);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors);
    static char stacks[2][1 << 18];
    for (int i = 0; i < 2; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = sizeof stacks[i];
        makecontext(&fibers[i], fiber, 0);
    }
    std::printf("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    std::fflush(stdout);
    const std::string directory = argv[1];
    while (directory != "-" && access((directory + "/go").c_str(), F_OK) != 0)
        usleep(1000);
    for (long round = 0; round < rounds; round++) {
        int own = rank, sum = 0;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        sums += sum == size * (size - 1) / 2;
        one_round();
    }
    std::printf("{\"event\":\"tally\",\"rank\":%d,\"pid\":%d,\"left\":%ld,\"destroyed\":%ld,\"cleaned\":%ld,\"sums\":%ld}\n", rank,
                getpid(), left_calls.load(), destroyed.load(), cleaned.load(), sums.load());
    std::fflush(stdout);
    MPI_Finalize();
    return 0;
}
