/* A master and its workers, as in the model of the number of workers (MATE thesis, section 5.1).
 *
 *   mpirun -n RANKS workers DIRECTORY WORK_US LATENCY_US WORKERS
 *
 * In each iteration the master sends each active worker its share and waits for all answers. Compute time and
 * the cost of a send are slept, so that many ranks fit on few cores; waiting ranks poll every 200 us. Prints
 * {"event":"ready",...} per rank, waits for DIRECTORY/go, prints {"event":"iteration",...} on the master for
 * each iteration, and {"event":"result",...} when DIRECTORY/stop exists. Each iteration sums the same
 * numbers; a wrong sum ends the program with an error. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))
#define POLL_US 200
#define BODIES 100000L

/* Variables that the rule reads and writes. */
int NOptWorkers;       /* written from outside, read at the top of the loop */
int nw;                /* workers in use */
int iteration;         /* the master's iteration */
int current_iteration; /* the iteration that a worker computes for */
int last_worker;       /* the worker that answered last */
int nbytes;            /* size of its answer */

static const char *directory;
static long work_us, latency_us;

struct task {
    long iteration, first, last, share_us;
};

static void wait_for_message(int source)
{
    int there = 0;
    for (;;) {
        MPI_Iprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there)
            return;
        usleep(POLL_US);
    }
}

FUNCTION void begin_iteration(void) { __asm__ volatile(""); }
FUNCTION void end_iteration(void) { __asm__ volatile(""); }

FUNCTION void send_task(int worker, struct task *task, int bytes)
{
    usleep(latency_us);
    MPI_Send(task, bytes, MPI_BYTE, worker, 1, MPI_COMM_WORLD);
    __asm__ volatile("" ::: "memory");
}

FUNCTION long receive_result(void)
{
    long sum;
    MPI_Status status;
    wait_for_message(MPI_ANY_SOURCE);
    MPI_Recv(&sum, 1, MPI_LONG, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
    last_worker = status.MPI_SOURCE;
    nbytes = sizeof sum;
    return sum;
}

FUNCTION long compute_task(const struct task *task)
{
    long sum = 0;
    for (long body = task->first; body < task->last; body++)
        sum += body * (task->iteration + 1) % 1009;
    usleep(task->share_us);
    return sum;
}

static long sum_of_all(long number)
{
    struct task all = {number, 0, BODIES, 0};
    return compute_task(&all);
}

static int master(int size)
{
    long done = 0;
    for (iteration = 0; !exists(directory, "stop"); iteration++) {
        double began = seconds();
        nw = NOptWorkers < 1 ? 1 : NOptWorkers >= size ? size - 1 : NOptWorkers;
        begin_iteration();
        for (int worker = 1; worker <= nw; worker++) {
            struct task task = {iteration, BODIES * (worker - 1) / nw, BODIES * worker / nw, work_us / nw};
            send_task(worker, &task, sizeof task);
        }
        long sum = 0;
        for (int answer = 0; answer < nw; answer++)
            sum += receive_result();
        end_iteration();
        printf("{\"event\":\"iteration\",\"number\":%d,\"workers\":%d,\"seconds\":%.6f}\n", iteration, nw, seconds() - began);
        fflush(stdout);
        if (sum != sum_of_all(iteration))
            return 5;
        done++;
    }
    struct task stop = {-1, 0, 0, 0};
    for (int worker = 1; worker < size; worker++)
        MPI_Send(&stop, sizeof stop, MPI_BYTE, worker, 1, MPI_COMM_WORLD);
    printf("{\"event\":\"result\",\"iterations\":%ld}\n", done);
    fflush(stdout);
    return 0;
}

static int worker(void)
{
    for (;;) {
        struct task task;
        wait_for_message(0);
        MPI_Recv(&task, sizeof task, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task.iteration < 0)
            return 0;
        current_iteration = (int)task.iteration;
        long sum = compute_task(&task);
        MPI_Send(&sum, 1, MPI_LONG, 0, 2, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 5 || size < 2) {
        fprintf(stderr, "usage: mpirun -n RANKS workers DIRECTORY WORK_US LATENCY_US WORKERS\n");
        return 2;
    }
    directory = argv[1];
    work_us = atol(argv[2]);
    latency_us = atol(argv[3]);
    NOptWorkers = atoi(argv[4]);
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), size);
    if (write(1, ready, length) != length)
        return 4;
    pass_gate(directory, "go");
    int status = rank == 0 ? master(size) : worker();
    MPI_Finalize();
    return status;
}
