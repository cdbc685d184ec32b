/* A stream program of five stages: request, render, collect twelve, encode, store. Computing is slept, messages
 * have real sizes, and a stage waits until the next one receives (MPI_Ssend), so that nothing is buffered.
 *
 *   mpirun -n 3+RENDERERS+ENCODERS pipeline DIRECTORY RENDERERS ENCODERS RENDER_US ENCODE_US PICTURE_BYTES
 *          [REQUEST_US COLLECT_US STORE_US]
 *
 * A renderer has `render_workers` workers, each of which renders a part of every picture; an encoder has
 * `encode_workers`. While there is DIRECTORY/light, a picture is rendered in a third of the time.
 *
 * Prints {"event":"ready",...} per rank, waits for DIRECTORY/go, and runs until it is ended. */
#include "gates.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCENE_BYTES = 54, GROUP = 12, FILM_BYTES = 20971 };

int render_workers = 1;
int encode_workers = 1;

static int renderers, encoders, collector;
static int picture_bytes, render_us, encode_us, request_us, collect_us, store_us;
static const char *directory;
static char *buffer;

static void take(int from, int bytes)
{
    MPI_Status status;
    MPI_Recv(buffer, bytes, MPI_CHAR, from, 0, MPI_COMM_WORLD, &status);
}

static void give(int to, int bytes) { MPI_Ssend(buffer, bytes, MPI_CHAR, to, 0, MPI_COMM_WORLD); }

static void compute(int us, int workers)
{
    if (us > 0)
        usleep(us / workers);
}

static void request(void)
{
    for (long scene = 0;; scene++) {
        compute(request_us, 1);
        give(1 + (int)(scene % renderers), SCENE_BYTES);
    }
}

static void render(void)
{
    for (;;) {
        take(0, SCENE_BYTES);
        compute(exists(directory, "light") ? render_us / 3 : render_us, *(volatile int *)&render_workers);
        give(collector, picture_bytes);
    }
}

static void collect(void)
{
    for (long group = 0;; group++) {
        for (int picture = 0; picture < GROUP; picture++) {
            take(MPI_ANY_SOURCE, picture_bytes);
            compute(collect_us, 1);
        }
        give(collector + 1 + (int)(group % encoders), GROUP * picture_bytes);
    }
}

static void encode(int store)
{
    for (;;) {
        take(collector, GROUP * picture_bytes);
        compute(encode_us, *(volatile int *)&encode_workers);
        give(store, FILM_BYTES);
    }
}

static void store(void)
{
    for (;;) {
        take(MPI_ANY_SOURCE, FILM_BYTES);
        compute(store_us, 1);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 7 || argc == 10) {
        renderers = atoi(argv[2]);
        encoders = atoi(argv[3]);
    }
    if (renderers < 1 || encoders < 1 || size != 3 + renderers + encoders) {
        fprintf(stderr, "usage: mpirun -n 3+RENDERERS+ENCODERS pipeline DIRECTORY RENDERERS ENCODERS RENDER_US "
                        "ENCODE_US PICTURE_BYTES [REQUEST_US COLLECT_US STORE_US]\n");
        return 2;
    }
    collector = renderers + 1;
    directory = argv[1];
    render_us = atoi(argv[4]);
    encode_us = atoi(argv[5]);
    picture_bytes = atoi(argv[6]);
    if (argc == 10) {
        request_us = atoi(argv[7]);
        collect_us = atoi(argv[8]);
        store_us = atoi(argv[9]);
    }
    buffer = calloc(GROUP, picture_bytes + FILM_BYTES);
    printf("{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), size);
    fflush(stdout);
    pass_gate(argv[1], "go");
    if (rank == 0)
        request();
    else if (rank < collector)
        render();
    else if (rank == collector)
        collect();
    else if (rank < size - 1)
        encode(size - 1);
    else
        store();
    MPI_Finalize();
    return 0;
}
