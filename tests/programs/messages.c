/* All kinds of MPI messages and partners, a few times each, to be run with pmpi_truth preloaded.
 *
 *   mpirun -n N messages DIRECTORY world|all [rounds]
 *
 * "world" uses only MPI_COMM_WORLD and built-in types; "all" also uses communicators of every kind and
 * derived types. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64

static int rank, size, left, right;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "rank %d: wrong data after %s\n", rank, what);
        _exit(3);
    }
}

/* A ring in a communicator: sends to the next rank and receives from the previous one. */
static void ring(MPI_Comm comm, int count, MPI_Datatype type, void *out, void *in)
{
    int me, all;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    MPI_Isend(out, count, type, (me + 1) % all, 1, comm, &request);
    MPI_Recv(in, count, type, (me + all - 1) % all, 1, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Isend(out, count, type, (me + 1) % all, 2, comm, &request);
    MPI_Recv(in, count, type, MPI_ANY_SOURCE, 2, comm, &status);
    check(status.MPI_SOURCE == (me + all - 1) % all, "a receive from anybody");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, count, type, (me + all - 1) % all, 3, in, count, type, MPI_ANY_SOURCE, 3, comm, &status);
    check(status.MPI_SOURCE == (me + 1) % all, "a receive from anybody while sending");
}

/* Uses separate tags, because other functions receive from MPI_ANY_SOURCE. */
static void to_nobody(void)
{
    double room[8] = {0};
    MPI_Status status;
    MPI_Send(room, 8, MPI_DOUBLE, MPI_PROC_NULL, 21, MPI_COMM_WORLD);
    MPI_Recv(room, 8, MPI_DOUBLE, MPI_PROC_NULL, 21, MPI_COMM_WORLD, &status);
    /* The first and the last rank have one neighbour. */
    MPI_Sendrecv(room, 3, MPI_DOUBLE, rank + 1 < size ? rank + 1 : MPI_PROC_NULL, 22, room + 4, 3, MPI_DOUBLE,
                 rank > 0 ? rank - 1 : MPI_PROC_NULL, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(room, 2, MPI_DOUBLE, right, 23, left, 23, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_INT, right, 24, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Request request;
    MPI_Irecv(room, 1, MPI_CHAR, MPI_ANY_SOURCE, 25, MPI_COMM_WORLD, &request);
    MPI_Send("x", 1, MPI_CHAR, left, 25, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
}

/* Messages that are probed before they are received. */
static void found(MPI_Comm comm)
{
    int me, all, is_there = 0, out[6] = {rank}, in[6];
    MPI_Message message;
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    MPI_Isend(out, 6, MPI_INT, (me + 1) % all, 31, comm, &requests[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 31, comm, &message, &status);
    MPI_Mrecv(in, 6, MPI_INT, &message, MPI_STATUS_IGNORE);
    check(status.MPI_SOURCE == (me + all - 1) % all, "MPI_Mprobe");
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 5, MPI_INT, (me + 1) % all, 32, comm, &requests[0]);
    while (!is_there)
        MPI_Improbe((me + all - 1) % all, 32, comm, &is_there, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(in, 5, MPI_INT, &message, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    MPI_Mprobe(MPI_PROC_NULL, 33, comm, &message, &status);
    MPI_Mrecv(in, 6, MPI_INT, &message, &status);
}

static void persistent(void)
{
    int out[100], in[100], again[5];
    MPI_Request list[4];
    MPI_Status statuses[4];
    for (int k = 0; k < 100; k++)
        out[k] = rank + k;
    MPI_Send_init(out, 100, MPI_INT, right, 6, MPI_COMM_WORLD, &list[0]);
    MPI_Recv_init(in, 100, MPI_INT, left, 6, MPI_COMM_WORLD, &list[1]);
    MPI_Ssend_init(out, 5, MPI_INT, left, 7, MPI_COMM_WORLD, &list[2]);
    MPI_Recv_init(again, 5, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &list[3]);
    for (int k = 0; k < 3; k++) {
        MPI_Startall(4, list);
        MPI_Waitall(4, list, statuses);
        check(in[99] == left + 99 && again[4] == right + 4, "persistent requests");
    }
    MPI_Start(&list[1]);
    MPI_Start(&list[0]);
    MPI_Wait(&list[0], MPI_STATUS_IGNORE);
    MPI_Wait(&list[1], MPI_STATUS_IGNORE);
    for (int k = 0; k < 4; k++)
        MPI_Request_free(&list[k]);
    MPI_Send_init(out, 1, MPI_INT, MPI_PROC_NULL, 8, MPI_COMM_WORLD, &list[0]);
    MPI_Start(&list[0]);
    MPI_Wait(&list[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&list[0]);
}

/* The same with persistent requests, in one direction. */
static void persistent_ring(MPI_Comm comm, MPI_Datatype type)
{
    int me, all;
    double out[64] = {0}, in[64];
    MPI_Status statuses[2];
    MPI_Request list[2];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    MPI_Send_init(out, 2, type, (me + 1) % all, 14, comm, &list[0]);
    MPI_Recv_init(in, 2, type, (me + all - 1) % all, 14, comm, &list[1]);
    for (int k = 0; k < 2; k++) {
        MPI_Startall(2, list);
        MPI_Waitall(2, list, statuses);
    }
    for (int k = 0; k < 2; k++)
        MPI_Request_free(&list[k]);
}

static void vectors(MPI_Comm comm)
{
    int me, all, out[MOST * 4], in[MOST * 4], counts[MOST], places[MOST], back[MOST], places_back[MOST];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    for (int k = 0; k < all; k++) {
        counts[k] = (me + k) % 4;
        back[k] = counts[k];
        places[k] = places_back[k] = 4 * k;
    }
    memset(out, 0, sizeof out);
    MPI_Alltoallv(out, counts, places, MPI_INT, in, back, places_back, MPI_INT, comm);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, back, places_back, MPI_INT, comm);

    MPI_Datatype types[MOST];
    int bytes[MOST];
    for (int k = 0; k < all; k++) {
        types[k] = (me + k) % 2 ? MPI_INT : MPI_SHORT;
        bytes[k] = 16 * k;
    }
    MPI_Alltoallw(out, counts, bytes, types, in, back, bytes, types, comm);

    for (int k = 0, at = 0; k < all; at += counts[k++]) {
        counts[k] = 1 + k % 3;
        places[k] = at;
    }
    MPI_Allgatherv(out, counts[me], MPI_INT, in, counts, places, MPI_INT, comm);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, places, MPI_INT, comm);
    MPI_Gatherv(out, counts[me], MPI_INT, in, counts, places, MPI_INT, 0, comm);
    MPI_Scatterv(out, counts, places, MPI_INT, in, counts[me], MPI_INT, 0, comm);
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
}

static void collectives(MPI_Comm comm)
{
    int me, all;
    double out[MOST] = {1}, in[MOST];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    MPI_Bcast(out, 9, MPI_DOUBLE, all - 1, comm);
    MPI_Allreduce(MPI_IN_PLACE, out, 4, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Reduce(out, in, 5, MPI_DOUBLE, MPI_MAX, 0, comm);
    MPI_Scan(out, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_DOUBLE, comm);
    MPI_Allgather(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_DOUBLE, comm);
    MPI_Gather(me == 0 ? MPI_IN_PLACE : out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm);
    MPI_Scatter(in, 1, MPI_DOUBLE, me == 0 ? MPI_IN_PLACE : out, 1, MPI_DOUBLE, 0, comm);
    MPI_Reduce_scatter_block(out, in, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Barrier(comm);
}

static void one_sided(void)
{
    long *window, mine = rank, got;
    MPI_Win win;
    PMPI_Win_allocate(8 * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&mine, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    MPI_Get(&got, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    MPI_Accumulate(&mine, 1, MPI_LONG, left, 1, 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    check(got == rank, "MPI_Get");
    MPI_Fetch_and_op(&mine, &got, MPI_LONG, right, 2, MPI_SUM, win);
    MPI_Win_fence(0, win);
    PMPI_Win_free(&win);
}

static void files(const char *directory)
{
    char path[4096];
    int out[10] = {rank}, in[10];
    MPI_File file;
    snprintf(path, sizeof path, "%s/written", directory);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof out, out, 10, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, left * (MPI_Offset)sizeof out, in, 10, MPI_INT, MPI_STATUS_IGNORE);
    check(in[0] == left, "MPI_File_read_at");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
}

/* Collectives with derived types: each rank sends and receives with different types. */
static void typed_collectives(MPI_Comm comm, MPI_Datatype type)
{
    int me, all, counts[MOST], places[MOST];
    char out[16 * MOST] = {0}, in[16 * MOST];
    MPI_Datatype types[MOST];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    for (int k = 0; k < all; k++) {
        counts[k] = 1;
        places[k] = 16 * k;
        types[k] = (me + k) % 2 ? type : MPI_SHORT_INT;
    }
    MPI_Alltoallw(out, counts, places, types, in, counts, places, types, comm);
    for (int k = 0; k < all; k++)
        places[k] = k;
    MPI_Allgatherv(out, 1, type, in, counts, places, type, comm);
    MPI_Alltoall(out, 1, type, in, 1, type, comm);
}

/* Communicators with other rank numbers than in the world, and derived types. */
static void others(void)
{
    double out[64] = {rank}, in[64];
    MPI_Comm backwards, halves, twin, line, between, neighbours, every_second, graph, merged;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
    ring(backwards, 7, MPI_INT, out, in);
    vectors(backwards);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);
    ring(halves, 2, MPI_DOUBLE, out, in);
    collectives(halves);
    MPI_Comm_dup(backwards, &twin);
    ring(twin, 1, MPI_BYTE, out, in);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &(int){1}, 1, &line);
    ring(line, 5, MPI_SHORT, out, in);
    ring(MPI_COMM_SELF, 3, MPI_CHAR, out, in);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2 % 2, rank, &neighbours);
    ring(neighbours, 4, MPI_INT, out, in);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &every_second);
    ring(every_second, 4, MPI_INT, out, in);
    int index[MOST], edges[2 * MOST];
    for (int k = 0; k < size; k++) {
        index[k] = 2 * (k + 1);
        edges[2 * k] = (k + 1) % size;
        edges[2 * k + 1] = (k + size - 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 1, &graph);
    ring(graph, 6, MPI_INT, out, in);
    found(backwards);
    MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, (rank + 1) % 2 == (size - 1) % 2 ? size - 1 : size - 2, 9, &between);
    int there, here;
    PMPI_Comm_remote_size(between, &there);
    PMPI_Comm_rank(halves, &here);
    if (here < there)
        MPI_Sendrecv(out, 11, MPI_DOUBLE, here, 10, in, 11, MPI_DOUBLE, here, 10, between, MPI_STATUS_IGNORE);
    MPI_Intercomm_merge(between, rank % 2, &merged);
    ring(merged, 3, MPI_DOUBLE, out, in);

    MPI_Datatype every_other, mixed;
    PMPI_Type_vector(4, 1, 2, MPI_DOUBLE, &every_other);
    PMPI_Type_commit(&every_other);
    PMPI_Type_create_struct(2, (int[]){1, 3}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &mixed);
    PMPI_Type_commit(&mixed);
    ring(MPI_COMM_WORLD, 2, every_other, out, in);
    persistent_ring(backwards, every_other);
    typed_collectives(backwards, mixed);
    MPI_Bcast(out, 3, mixed, 0, MPI_COMM_WORLD);
    ring(MPI_COMM_WORLD, 1, MPI_DOUBLE_INT, out, in);
    PMPI_Type_free(&every_other);
    PMPI_Type_free(&mixed);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 3) {
        fprintf(stderr, "usage: messages DIRECTORY world|all [rounds]\n");
        return 2;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    if (size < 2 || size > MOST)
        return 2;
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    static char out[1 << 20], in[1 << 20];
    for (int k = 0; k < rounds; k++) {
        ring(MPI_COMM_WORLD, 1 + 997 * k, MPI_CHAR, out, in);
        ring(MPI_COMM_WORLD, 1 << (10 + 5 * (k % 3)), MPI_BYTE, out, in);
        to_nobody();
        persistent();
        found(MPI_COMM_WORLD);
        vectors(MPI_COMM_WORLD);
        collectives(MPI_COMM_WORLD);
        one_sided();
        if (strcmp(argv[2], "all") == 0)
            others();
    }
    files(argv[1]);
    MPI_Finalize();
    return 0;
}
