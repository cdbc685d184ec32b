/* Iterations with known parts, which the shipped rules must find. Functions have the names that the rules
 * use.
 *
 *   mpirun -n 3 known DIRECTORY phases  100 ms: rank 2 sends to rank 0 20 ms late, rank 0 sends to rank 1,
 *                                       rank 1 to rank 2; ranks compute for 80, 40 and 20 ms, then meet at a
 *                                       barrier. Rank R sends 100 (R + 1) numbers of 8 bytes
 *   mpirun -n 2 known DIRECTORY parts   110 ms: 30 to divide the data, 10 to send it, 40 to compute in both
 *                                       ranks, 10 to answer, 5 to receive, 15 to finish
 *   mpirun -n 2 known DIRECTORY token   20 ms: the rank with the token computes for 10 ms and passes it on;
 *                                       the other waits for it
 *   mpirun -n N known DIRECTORY small   each rank sends itself 8 bytes, as fast as it can
 *
 * Compute times are slept. As root the ranks have real-time priority, so that times are nearly exact on a
 * busy machine (their MPI must yield). Prints {"event":"ready",...} per rank, and
 * {"event":"end","iterations":N} once DIRECTORY/stop exists. */
#include "gates.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define FUNCTION __attribute__((noinline, noclone)) void
#define MOST_ITEMS 300

static int rank, size;
static double items[MOST_ITEMS];
int iteration_number;

static void take(int milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000L};
    nanosleep(&time, NULL);
}

/* Probe places without work, which the compiler may not remove. */
FUNCTION loop_start(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
FUNCTION loop_stop(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
FUNCTION iteration_begin(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
FUNCTION iteration_end(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
FUNCTION begin_send(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
FUNCTION end_send(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }

FUNCTION one_iteration(void)
{
    static const int computing[] = {80, 40, 20};
    take(computing[rank % 3]);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void from_the_one_before(void)
{
    MPI_Recv(items, MOST_ITEMS, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void phases(void)
{
    loop_start(iteration_number);
    iteration_begin(iteration_number);
    begin_send(iteration_number);
    int last = rank == size - 1;
    if (last)
        take(20);
    else
        from_the_one_before();
    MPI_Send(items, 100 * (rank + 1), MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (last)
        from_the_one_before();
    end_send(iteration_number);
    one_iteration();
    iteration_end(iteration_number);
    loop_stop(iteration_number);
}

FUNCTION Initialize(void) { take(10); }
FUNCTION DivideData(void) { take(20); }
FUNCTION Process(void) { take(40); }
FUNCTION Finalize(void) { take(15); }

FUNCTION SendData(void)
{
    take(10);
    MPI_Send(items, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD);
}

FUNCTION Receive(void)
{
    MPI_Recv(items, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        take(5);
}

static void parts(void)
{
    if (rank == 0) {
        Initialize();
        DivideData();
        SendData();
        Process();
        Receive();
        Finalize();
    } else {
        Receive();
        Process();
        SendData();
    }
}

static void token(void)
{
    if (rank == 1)
        MPI_Recv(items, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    take(10);
    MPI_Send(items, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(items, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void small(void)
{
    double got;
    for (int i = 0; i < 1000; i++)
        MPI_Sendrecv(items, 1, MPI_DOUBLE, rank, 0, &got, 1, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*iterate)(void);
    } modes[] = {{"phases", phases}, {"parts", parts}, {"token", token}, {"small", small}};
    void (*iterate)(void) = NULL;
    struct sched_param lowest = {1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; argc == 3 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[2], modes[i].name) == 0)
            iterate = modes[i].iterate;
    if (!iterate)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (iterate != small)
        sched_setscheduler(0, SCHED_FIFO, &lowest);
    printf("{\"event\":\"ready\",\"rank\":%d}\n", rank);
    fflush(stdout);
    for (int go_on = 1; go_on;) {
        iteration_number++;
        iterate();
        /* Every tenth iteration all ranks agree whether to continue, rarely enough not to affect the known
         * times. */
        if (iteration_number % 10 == 0) {
            go_on = !exists(argv[1], "stop");
            MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0)
        printf("{\"event\":\"end\",\"iterations\":%d}\n", iteration_number);
    MPI_Finalize();
    return 0;
}
