/* An MPI program whose ranks must have the same `block` in the same iteration: each sends `block` numbers to
 * the next rank and expects as many. If a change of `block` affects only some ranks, or the middle of an
 * iteration, the program detects it, prints the place, and exits with 3.
 *
 *   mpirun -n N blocks DIRECTORY
 *
 * Every rank prints {"event":"ready",...}; rank 0 prints {"event":"block",...} whenever the value has
 * changed. When DIRECTORY/end exists, all ranks end after the same iteration and print {"event":"end",...}:
 * the last `block`, and whether they received the expected numbers. */
#include "gates.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4096 };

volatile int block = 64;

static int rank, size, moved;
static long received;
static double to_send[MOST], to_receive[MOST];
static const char *directory;

static void say(const char *format, ...)
{
    /* One write per line, so that lines of several ranks do not mix. */
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(1, line, length) != length)
        _exit(4);
}

static void refuse(const char *why, int number, int mine, int theirs)
{
    say("{\"event\":\"refused\",\"rank\":%d,\"iteration\":%d,\"why\":\"%s\",\"mine\":%d,\"theirs\":%d}\n", rank, number, why, mine,
        theirs);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Begin of an iteration. The value of `block` here is valid for the entire iteration. */
__attribute__((noinline)) int iterate(int number)
{
    int mine = block, count = 0;
    MPI_Status status;
    MPI_Request request;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int place = 0; place < mine; place++)
        to_send[place] = number + place;
    MPI_Isend(to_send, mine, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, &request);
    MPI_Probe(before, 7, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    if (count != mine)
        refuse("half-applied", number, mine, count);
    MPI_Recv(to_receive, count, MPI_DOUBLE, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int place = 0; place < count; place++)
        if (to_receive[place] != number + place)
            refuse("wrong number", number, mine, count);
    received += count;
    if (block != mine)
        refuse("changed within", number, mine, block);
    return mine;
}

static int is_over(void)
{
    int over = rank == 0 && exists(directory, "end");
    MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return over;
}

int main(int argc, char **argv)
{
    long expected = 0;
    int last = 0, number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    directory = argv[1];
    say("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d}\n", rank, getpid());
    do {
        int taken = iterate(++number);
        expected += taken;
        moved += taken != last;
        if (taken != last && rank == 0)
            say("{\"event\":\"block\",\"rank\":0,\"block\":%d,\"iteration\":%d}\n", taken, number);
        last = taken;
        usleep(500);
    } while (!is_over());
    say("{\"event\":\"end\",\"rank\":%d,\"iterations\":%d,\"block\":%d,\"moved\":%d,\"right\":%d}\n", rank, number, block, moved,
        received == expected);
    MPI_Finalize();
    return received == expected ? 0 : 5;
}
