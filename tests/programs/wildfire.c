/* A fire front that spreads, as a master/worker program on MPI: the simulator of the 2010 thesis on MATE for MPI, made anew.
 *
 *   mpirun -n RANKS wildfire DIRECTORY [NAME=VALUE ...]
 *     iterations=100  points=7000    of the front at the start: an ellipse; points are added where the front stretches
 *     point_us=100    slept for each point            heavy=0     how much longer a point below the threshold takes: 1 is twice
 *     threshold=0.3   share of the front's height below which points are heavy; the front drifts through it
 *     serial_us=0     slept by the master in each iteration
 *     original=0      1: equal sections, one for each worker, as before factoring was built in
 *     f0=0.5 f1=0.5 f2=0.5   share of the points left that the first, the second, every later batch takes
 *     minimum=25      points a chunk has at least
 *
 * Each batch is cut into as many equal chunks as there are workers; the next batch is cut when fewer than half as many chunks as
 * workers are left to hand out. Prints {"event":"iteration",...} for each iteration and {"event":"result",...} with a checksum that is
 * the same however the front was shared. Waits for DIRECTORY/go; DIRECTORY/stop ends it early. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAMED __attribute__((noinline, used))
#define LOOK_US 200
#define MOST_POINTS 20000
#define WORK 1
#define DONE 2

struct point {
    double x, y;
};

/* What a rule reads and writes. */
double F0 = 0.5, F1 = 0.5, F2 = 0.5; /* partition factors: of the first, the second, every later batch */
int NW;                              /* workers in use, read at the top of an iteration */
int iterId;                          /* on the master and on each worker: the iteration it works for */
int batchId;                         /* on the master: the batch being cut or dealt; on a worker: that of its chunk */
int numChunks;                       /* chunks of the batch cut last */
int workerId;                        /* who is sent to, or was received from */
int NTasks;                          /* points of the chunk sent, received, or computed */
int TheTotalWork;                    /* points of the front */
int TheWorkSizeUnitBytes = sizeof(struct point);

static struct {
    double iterations, points, point_us, heavy, threshold, serial_us, original, minimum, workers;
} given = {100, 7000, 100, 0, 0.3, 0, 0, 25, 0};

static const char *directory;
static struct point front[MOST_POINTS], next[MOST_POINTS];

struct chunk {
    int iteration, batch, first, count;
    double low; /* points below this height are heavy */
};

static int exists(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int wait_for(int source, int tag)
{
    int there = 0;
    MPI_Status status;
    for (;;) {
        MPI_Iprobe(source, tag, MPI_COMM_WORLD, &there, &status);
        if (there)
            return status.MPI_SOURCE;
        usleep(LOOK_US);
    }
}

/* The front: where it is. */

static void ignite(int points)
{
    for (int i = 0; i < points; i++) {
        double angle = 2 * M_PI * i / points;
        front[i] = (struct point){2 * cos(angle), sin(angle)};
    }
    TheTotalWork = points;
}

/* Along the outward normal between its neighbours, faster before the wind, which blows up the slope and turns slowly. */
static struct point spread(struct point before, struct point here, struct point behind, int iteration)
{
    double nx = behind.y - before.y, ny = before.x - behind.x, length = sqrt(nx * nx + ny * ny) + 1e-12;
    double wind = 0.3 + 0.05 * sin(iteration / 20.0);
    double speed = 2e-3 * (1 + wind * ny / length);
    return (struct point){here.x + speed * nx / length, here.y + speed * ny / length};
}

/* Makes the moved points the front, with one more in every gap that has become too wide. */
static void compose(double widest)
{
    int count = 0, points = TheTotalWork;
    for (int i = 0; i < points; i++) {
        struct point here = next[i], after = next[(i + 1) % points];
        front[count++] = here;
        if (hypot(after.x - here.x, after.y - here.y) > widest && count + points - i < MOST_POINTS)
            front[count++] = (struct point){(here.x + after.x) / 2, (here.y + after.y) / 2};
    }
    TheTotalWork = count;
}

static double threshold(void)
{
    double low = front[0].y, high = front[0].y;
    for (int i = 1; i < TheTotalWork; i++) {
        low = fmin(low, front[i].y);
        high = fmax(high, front[i].y);
    }
    return low + given.threshold * (high - low);
}

/* Batches and chunks: who moves which points. */

struct deal {
    int undistributed, next_point, batches, chunks_left, chunk, answered, on_the_way;
    double low;
    /* The batch cut ahead of time. */
    int ahead, ahead_chunks, ahead_chunk;
};

/* Cuts the next batch out of what is left. */
NAMED void Factoring_SetNumTuples(struct deal *deal)
{
    double factor = deal->batches == 0 ? F0 : deal->batches == 1 ? F1 : F2;
    int chunk = (int)(deal->undistributed * factor / NW);
    if (given.original)
        chunk = (deal->undistributed + NW - 1) / NW;
    if (chunk < given.minimum)
        chunk = (int)given.minimum;
    int chunks = (deal->undistributed + chunk - 1) / chunk;
    batchId = ++deal->batches;
    numChunks = chunks < NW ? chunks : NW;
    deal->ahead = 1;
    deal->ahead_chunks = numChunks;
    deal->ahead_chunk = chunk;
    int size = numChunks * chunk;
    deal->undistributed -= size < deal->undistributed ? size : deal->undistributed;
    __asm__ volatile("" ::: "memory");
}

NAMED void global_sendwork(int worker, const struct chunk *chunk)
{
    static char message[sizeof(struct chunk) + (MOST_POINTS + 2) * sizeof(struct point)];
    int points = TheTotalWork;
    struct point *section = (struct point *)(message + sizeof *chunk);
    memcpy(message, chunk, sizeof *chunk);
    /* Neighbours share their end points. */
    for (int i = -1; i <= chunk->count; i++)
        section[i + 1] = front[(chunk->first + i + points) % points];
    MPI_Send(message, (int)(sizeof *chunk + (chunk->count + 2) * sizeof(struct point)), MPI_BYTE, worker, WORK, MPI_COMM_WORLD);
}

NAMED void global_receivework(void)
{
    static char message[sizeof(struct chunk) + MOST_POINTS * sizeof(struct point)];
    struct chunk chunk;
    workerId = wait_for(MPI_ANY_SOURCE, DONE);
    MPI_Recv(message, sizeof message, MPI_BYTE, workerId, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(&chunk, message, sizeof chunk);
    memcpy(next + chunk.first, message + sizeof chunk, chunk.count * sizeof(struct point));
    NTasks = chunk.count;
    __asm__ volatile("" ::: "memory");
}

static int deal_one(struct deal *deal, int worker)
{
    if (deal->chunks_left == 0 && !deal->ahead && deal->undistributed > 0)
        Factoring_SetNumTuples(deal);
    if (deal->chunks_left == 0 && deal->ahead) {
        deal->ahead = 0;
        deal->chunks_left = deal->ahead_chunks;
        deal->chunk = deal->ahead_chunk;
    }
    if (deal->chunks_left == 0)
        return 0;
    int left = TheTotalWork - deal->next_point;
    struct chunk chunk = {iterId, deal->batches - deal->ahead, deal->next_point, deal->chunk < left ? deal->chunk : left, deal->low};
    workerId = worker;
    batchId = chunk.batch;
    NTasks = chunk.count;
    global_sendwork(worker, &chunk);
    deal->next_point += chunk.count;
    deal->chunks_left--;
    if (deal->chunks_left * 2 < NW && !deal->ahead && deal->undistributed > 0)
        Factoring_SetNumTuples(deal);
    return 1;
}

/* Distributes the front and collects what came of it: one iteration. */
NAMED int global_sendreceive(void)
{
    struct deal deal = {.undistributed = TheTotalWork, .low = threshold()};
    for (int worker = 1; worker <= NW; worker++)
        deal.on_the_way += deal_one(&deal, worker);
    while (deal.on_the_way > 0) {
        global_receivework();
        deal.answered += NTasks;
        deal.on_the_way += deal_one(&deal, workerId) - 1;
    }
    return deal.answered == TheTotalWork ? deal.batches : -1;
}

static int master(int ranks)
{
    double widest = 4 * 2 * M_PI / given.points;
    ignite((int)given.points);
    for (iterId = 0; iterId < given.iterations && !exists("stop"); iterId++) {
        double began = now_s();
        if (NW < 1 || NW >= ranks)
            NW = ranks - 1;
        int batches = global_sendreceive();
        if (batches < 0)
            return 5;
        usleep((useconds_t)given.serial_us);
        printf("{\"event\":\"iteration\",\"number\":%d,\"workers\":%d,\"points\":%d,\"batches\":%d,\"f0\":%.4f,\"f1\":%.4f,\"f2\":%.4f,"
               "\"seconds\":%.6f}\n", iterId, NW, TheTotalWork, batches, F0, F1, F2, now_s() - began);
        fflush(stdout);
        compose(widest);
    }
    struct chunk stop = {.iteration = -1};
    for (int worker = 1; worker < ranks; worker++)
        MPI_Send(&stop, sizeof stop, MPI_BYTE, worker, WORK, MPI_COMM_WORLD);
    unsigned long sum = 14695981039346656037UL; /* FNV-1a */
    for (size_t i = 0; i < TheTotalWork * sizeof *front; i++)
        sum = (sum ^ ((unsigned char *)front)[i]) * 1099511628211UL;
    printf("{\"event\":\"result\",\"iterations\":%d,\"points\":%d,\"checksum\":\"%016lx\"}\n", iterId, TheTotalWork, sum);
    fflush(stdout);
    return 0;
}

/* A worker's whole computation on a chunk. `section` has one more point at each end. */
NAMED void arcStepKernel(const struct chunk *chunk, const struct point *section, struct point *moved)
{
    int heavy = 0;
    for (int i = 0; i < chunk->count; i++) {
        moved[i] = spread(section[i], section[i + 1], section[i + 2], chunk->iteration);
        heavy += section[i + 1].y < chunk->low;
    }
    usleep((useconds_t)(given.point_us * (chunk->count + given.heavy * heavy)));
}

static int worker(void)
{
    static char message[sizeof(struct chunk) + (MOST_POINTS + 2) * sizeof(struct point)];
    static char answer[sizeof(struct chunk) + MOST_POINTS * sizeof(struct point)];
    for (;;) {
        struct chunk chunk;
        wait_for(0, WORK);
        MPI_Recv(message, sizeof message, MPI_BYTE, 0, WORK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&chunk, message, sizeof chunk);
        if (chunk.iteration < 0)
            return 0;
        iterId = chunk.iteration;
        batchId = chunk.batch;
        NTasks = chunk.count;
        memcpy(answer, &chunk, sizeof chunk);
        arcStepKernel(&chunk, (struct point *)(message + sizeof chunk), (struct point *)(answer + sizeof chunk));
        MPI_Send(answer, (int)(sizeof chunk + chunk.count * sizeof(struct point)), MPI_BYTE, 0, DONE, MPI_COMM_WORLD);
    }
}

static int arguments(int argc, char **argv)
{
    static const struct {
        const char *name;
        double *value;
    } names[] = {
        {"iterations", &given.iterations}, {"points", &given.points},       {"point_us", &given.point_us}, {"heavy", &given.heavy},
        {"threshold", &given.threshold},   {"serial_us", &given.serial_us}, {"original", &given.original}, {"minimum", &given.minimum},
        {"workers", &given.workers},       {"f0", &F0},                     {"f1", &F1},                   {"f2", &F2},
    };
    if (argc < 2)
        return 0;
    directory = argv[1];
    for (int i = 2; i < argc; i++) {
        char name[32];
        double value;
        size_t known = 0, count = sizeof names / sizeof *names;
        if (sscanf(argv[i], "%31[a-z_0-9]=%lf", name, &value) != 2)
            return 0;
        while (known < count && strcmp(names[known].name, name) != 0)
            known++;
        if (known == count)
            return 0;
        *names[known].value = value;
    }
    NW = (int)given.workers;
    return given.points >= 3 && given.points < MOST_POINTS && given.minimum >= 1;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2 || !arguments(argc, argv)) {
        fprintf(stderr, "usage: mpirun -n RANKS wildfire DIRECTORY [NAME=VALUE ...]; names as at the top of wildfire.c\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), ranks);
    if (write(1, ready, length) != length)
        MPI_Abort(MPI_COMM_WORLD, 4);
    while (!exists("go"))
        usleep(1000);
    int status = rank == 0 ? master(ranks) : worker();
    MPI_Finalize();
    return status;
}
