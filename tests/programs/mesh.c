/* A stream program with a broadcast, receivers on demand, merged senders and a cycle: mesh.yaml is its contract.
 * Computing is slept, messages have real sizes, and each stage waits until the next one receives, so that no more is
 * buffered than one tile for each of those who draw.
 *
 *   mpirun -n 9 mesh DIRECTORY
 *
 * Prints {"event":"ready",...} per rank, waits for DIRECTORY/go, and runs until it is ended. Each rank that computes
 * prints {"event":"computed",...} now and then: how often it has, and for how long without waiting for a CPU. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCAN, NOTE, CUT, SHARE, DRAW, TRACE, LOOK, NOTES, PICTURES, RANKS };
enum { FRAME_BYTES = 4096, NOTE_BYTES = 512, TILE_BYTES = 16384, PICTURE_BYTES = 65536 };
enum { TILES = 3, NOTED = 4, REPORT_EVERY = 40 };

static int rank;
static char *buffer, *offered[2];
static unsigned long seed = 1;
static long activations, computed_ns;

/* How long this process has waited for a CPU. */
static long waited_ns(void)
{
    long waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file) {
        if (fscanf(file, "%*d %ld", &waited) != 1)
            waited = 0;
        fclose(file);
    }
    return waited;
}

static void report(void)
{
    printf("{\"event\":\"computed\",\"rank\":%d,\"pid\":%d,\"activations\":%ld,\"computed_ns\":%ld}\n", rank, getpid(),
           activations, computed_ns);
    fflush(stdout);
}

static void compute(double ms)
{
    long since = now_ns(), waited = waited_ns();
    usleep((useconds_t)(ms * 1e3));
    activations++;
    computed_ns += now_ns() - since - (waited_ns() - waited);
    if (activations % REPORT_EVERY == 0)
        report();
}

/* Between half of it and one and a half: who draws how many is not regular. */
static double varied(double ms)
{
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return ms * (0.5 + (double)(seed >> 33) / (1UL << 31));
}

static void take(int from, int bytes)
{
    MPI_Status status;
    MPI_Recv(buffer, bytes, MPI_CHAR, from, 0, MPI_COMM_WORLD, &status);
}

static void give(int to, int bytes) { MPI_Ssend(buffer, bytes, MPI_CHAR, to, 0, MPI_COMM_WORLD); }

static void scan(void)
{
    compute(30);
    give(NOTE, FRAME_BYTES);
    give(CUT, FRAME_BYTES);
}

static void note(void)
{
    take(SCAN, FRAME_BYTES);
    compute(20);
    if (activations % NOTED == 0)
        give(NOTES, NOTE_BYTES);
}

static void cut(void)
{
    take(SCAN, FRAME_BYTES);
    compute(20);
    for (int tile = 0; tile < TILES; tile++)
        give(SHARE, TILE_BYTES);
}

/* A tile is offered to whoever has taken the last one. */
static void share(void)
{
    static MPI_Request offers[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    static int turn;
    take(MPI_ANY_SOURCE, TILE_BYTES);
    int to = turn = !turn;
    if (offers[to] != MPI_REQUEST_NULL && offers[!to] == MPI_REQUEST_NULL)
        to = !to;
    if (offers[to] != MPI_REQUEST_NULL)
        MPI_Waitany(2, offers, &to, MPI_STATUS_IGNORE);
    MPI_Issend(offered[to], TILE_BYTES, MPI_CHAR, DRAW + to, 0, MPI_COMM_WORLD, &offers[to]);
}

static void draw(void)
{
    take(SHARE, TILE_BYTES);
    compute(varied(20));
    give(LOOK, PICTURE_BYTES);
}

static void trace(void)
{
    take(SHARE, TILE_BYTES);
    compute(varied(30));
    give(PICTURES, PICTURE_BYTES);
}

static void look(void)
{
    take(DRAW, PICTURE_BYTES);
    compute(8);
    if (activations % 2 == 0)
        give(SHARE, TILE_BYTES);
    else
        give(PICTURES, PICTURE_BYTES);
}

static void store_notes(void) { take(NOTE, NOTE_BYTES); }

static void store_pictures(void) { take(MPI_ANY_SOURCE, PICTURE_BYTES); }

int main(int argc, char **argv)
{
    static void (*const stages[RANKS])(void) = {scan,  note, cut,         share,         draw,
                                                trace, look, store_notes, store_pictures};
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size != RANKS) {
        fprintf(stderr, "usage: mpirun -n 9 mesh DIRECTORY\n");
        return 2;
    }
    seed += rank;
    buffer = calloc(1, PICTURE_BYTES);
    for (int to = 0; to < 2; to++)
        offered[to] = calloc(1, TILE_BYTES);
    printf("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), size);
    fflush(stdout);
    pass_gate(argv[1], "go");
    for (;;)
        stages[rank]();
}
