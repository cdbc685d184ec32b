/* A stream program of five stages: request, render, collect twelve, encode, store. Computing is slept, messages
 * have real sizes, and a stage waits until the next one receives (MPI_Ssend), so that nothing is buffered.
 *
 *   mpirun -n 3+RENDERERS+ENCODERS pipeline DIRECTORY RENDERERS ENCODERS RENDER_US ENCODE_US PICTURE_BYTES
 *
 * A renderer has `render_workers` workers, each of which renders a part of every picture.
 *
 * Prints {"event":"ready",...} per rank, waits for DIRECTORY/go, and runs until it is ended. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCENE_BYTES = 54, GROUP = 12, FILM_BYTES = 20971 };

int render_workers = 1;

static int renderers, encoders, collector;
static char *buffer;

static void take(int from, int bytes)
{
    MPI_Status status;
    MPI_Recv(buffer, bytes, MPI_CHAR, from, 0, MPI_COMM_WORLD, &status);
}

static void give(int to, int bytes) { MPI_Ssend(buffer, bytes, MPI_CHAR, to, 0, MPI_COMM_WORLD); }

static void request(void)
{
    for (long scene = 0;; scene++)
        give(1 + (int)(scene % renderers), SCENE_BYTES);
}

static void render(int picture_bytes, int render_us)
{
    for (;;) {
        take(0, SCENE_BYTES);
        usleep(render_us / *(volatile int *)&render_workers);
        give(collector, picture_bytes);
    }
}

static void collect(int picture_bytes)
{
    for (long group = 0;; group++) {
        for (int picture = 0; picture < GROUP; picture++)
            take(MPI_ANY_SOURCE, picture_bytes);
        give(collector + 1 + (int)(group % encoders), GROUP * picture_bytes);
    }
}

static void encode(int picture_bytes, int encode_us, int store)
{
    for (;;) {
        take(collector, GROUP * picture_bytes);
        usleep(encode_us);
        give(store, FILM_BYTES);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 7) {
        renderers = atoi(argv[2]);
        encoders = atoi(argv[3]);
    }
    if (renderers < 1 || encoders < 1 || size != 3 + renderers + encoders) {
        fprintf(stderr, "usage: mpirun -n 3+RENDERERS+ENCODERS pipeline DIRECTORY RENDERERS ENCODERS RENDER_US "
                        "ENCODE_US PICTURE_BYTES\n");
        return 2;
    }
    collector = renderers + 1;
    int picture_bytes = atoi(argv[6]);
    buffer = calloc(GROUP, picture_bytes + FILM_BYTES);
    printf("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), size);
    fflush(stdout);
    pass_gate(argv[1], "go");
    if (rank == 0)
        request();
    else if (rank < collector)
        render(picture_bytes, atoi(argv[4]));
    else if (rank == collector)
        collect(picture_bytes);
    else if (rank < size - 1)
        encode(picture_bytes, atoi(argv[5]), size - 1);
    else
        for (;;)
            take(MPI_ANY_SOURCE, FILM_BYTES);
    MPI_Finalize();
    return 0;
}
