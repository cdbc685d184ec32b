/* A spreading fire front, as a master/worker program: the simulator of the thesis on MATE for MPI (2010).
 *
 *   mpirun -n RANKS wildfire DIRECTORY [NAME=VALUE ...]
 *     iterations=100  points=7000   of the initial front, an ellipse; points are added where the front widens
 *     speed=0.002     distance that the front moves per iteration; its initial height is 2
 *     point_us=100    slept per point       heavy=0   extra time of points below the threshold; 1 doubles it
 *     threshold=0.3   points below this fraction of the initial height are heavy; it does not move
 *     heavy_from=0    first iteration with heavy points
 *     serial_us=0     slept by the master per iteration
 *     original=0      1: equal sections, one per worker, as before factoring was added
 *     f0=0.5 f1=0.5 f2=0.5   share of the remaining points that the first, second, every later batch takes
 *     minimum=25      points of a chunk     workers=0   number of active workers, 0: all
 *     latency_us=0    slept per message     point_bytes=16   per point     byte_ns=0   per byte
 *     realtime=0      1: real-time priority (root only), so that times are exact on a busy machine
 *     gate=0          iteration before which it waits for DIRECTORY/more
 *     schedule=FILE   a line "F0 F1 F2 WORKERS" per iteration, instead of the four above; the last one stays
 *
 * A batch is cut into one equal chunk per worker, when fewer chunks than half the workers are left. If its
 * chunks would not exceed the minimum, it takes all remaining points. Sleeps end at absolute times, so that
 * late wake-ups do not add up. Prints {"event":"iteration",...} per iteration, and {"event":"result",...} with
 * a checksum that does not depend on the distribution of the front. Waits for DIRECTORY/go; DIRECTORY/stop ends
 * it early. */
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NAMED __attribute__((noinline, used))
/* Poll interval of waiting ranks, because spinning ranks on few cores would disturb each other. */
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
int batchId;                         /* on the master: the batch being cut, dealt or received; on a worker: that of its chunk */
int numChunks;                       /* chunks of the last batch */
int workerId;                        /* worker of the message that is sent or was received */
int NTasks;                          /* points of the chunk that is sent, received or computed */
int TheTotalWork;                    /* points of the front */
int TheWorkSizeUnitBytes;            /* bytes per point in a message */

static struct {
    double iterations, points, speed, point_us, heavy, threshold, heavy_from, serial_us, original, minimum, workers, latency_us,
        point_bytes, byte_ns, realtime, gate;
} given = {.iterations = 100, .points = 7000, .speed = 2e-3, .point_us = 100, .threshold = 0.3, .minimum = 25, .point_bytes = 16};

static const char *directory;
static FILE *schedule;
static struct point front[MOST_POINTS], next[MOST_POINTS];

struct chunk {
    int iteration, batch, first, count;
    double low;     /* points below this height are heavy */
    double arrives; /* arrival at the worker; on the way back: the worker's compute time */
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

static void sleep_until(double moment_s)
{
    struct timespec until = {(time_t)moment_s, (long)((moment_s - floor(moment_s)) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

/* How long the points take on the network. */
static double transfer_s(int points) { return points * given.point_bytes * given.byte_ns / 1e9; }

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

/* The fire front. */

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
    double speed = given.speed * (1 + wind * ny / length);
    return (struct point){here.x + speed * nx / length, here.y + speed * ny / length};
}

/* Makes the moved points the front, and inserts a point into every gap that is too wide. */
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

/* Distribution of the points in batches and chunks. */

struct deal {
    int workers, undistributed, next_point, batches, chunks_left, chunk, answered, on_the_way;
    double low, computed_s;
    double factors[3]; /* factors of the first, the second and the last batch */
    /* A batch that was cut in advance. */
    int ahead, ahead_chunks, ahead_chunk;
};

/* Cuts the next batch from the remaining points. */
NAMED void Factoring_SetNumTuples(struct deal *deal)
{
    double factor = deal->batches == 0 ? F0 : deal->batches == 1 ? F1 : F2;
    deal->factors[deal->batches < 2 ? deal->batches : 2] = factor;
    int chunk = (int)(deal->undistributed * factor / NW);
    if (given.original || chunk <= given.minimum)
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

/* The master continues while the network delivers the message; its sends are serialised. */
NAMED void global_sendwork(int worker, struct chunk *chunk)
{
    static char message[sizeof(struct chunk) + (MOST_POINTS + 2) * sizeof(struct point)];
    static double free_s;
    int points = TheTotalWork;
    struct point *section = (struct point *)(message + sizeof *chunk);
    free_s = fmax(free_s, now_s()) + transfer_s(chunk->count);
    chunk->arrives = free_s + given.latency_us / 1e6;
    memcpy(message, chunk, sizeof *chunk);
    /* Neighbours share their end points. */
    for (int i = -1; i <= chunk->count; i++)
        section[i + 1] = front[(chunk->first + i + points) % points];
    MPI_Send(message, (int)(sizeof *chunk + (chunk->count + 2) * sizeof(struct point)), MPI_BYTE, worker, WORK, MPI_COMM_WORLD);
}

NAMED void global_receivework(struct deal *deal)
{
    static char message[sizeof(struct chunk) + MOST_POINTS * sizeof(struct point)];
    struct chunk chunk;
    workerId = wait_for(MPI_ANY_SOURCE, DONE);
    MPI_Recv(message, sizeof message, MPI_BYTE, workerId, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(&chunk, message, sizeof chunk);
    memcpy(next + chunk.first, message + sizeof chunk, chunk.count * sizeof(struct point));
    batchId = chunk.batch;
    NTasks = chunk.count;
    deal->answered += chunk.count;
    deal->computed_s += chunk.arrives;
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
    struct chunk chunk = {
        .iteration = iterId, .batch = deal->batches - deal->ahead, .first = deal->next_point, .low = deal->low,
        .count = deal->chunk < left ? deal->chunk : left};
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

/* One iteration: distributes the front and collects the results. Returns whether all points came back and the
 * number of workers did not change after the entry of this function, the only place where it may change. */
NAMED int global_sendreceive(struct deal *deal)
{
    deal->workers = NW;
    for (int worker = 1; worker <= NW; worker++)
        deal->on_the_way += deal_one(deal, worker);
    while (deal->on_the_way > 0) {
        global_receivework(deal);
        deal->on_the_way += deal_one(deal, workerId) - 1;
    }
    return deal->answered == TheTotalWork && deal->workers == NW;
}

static struct deal begin_iteration(int ranks)
{
    struct deal deal = {.undistributed = TheTotalWork, .low = iterId < given.heavy_from ? -INFINITY : 2 * given.threshold - 1};
    int workers;
    double f0, f1, f2;
    if (schedule && fscanf(schedule, "%lf %lf %lf %d", &f0, &f1, &f2, &workers) == 4) {
        F0 = f0;
        F1 = f1;
        F2 = f2;
        NW = workers;
    }
    if (NW < 1 || NW >= ranks)
        NW = ranks - 1;
    return deal;
}

static int heavy_points(double low)
{
    int heavy = 0;
    for (int i = 0; i < TheTotalWork; i++)
        heavy += front[i].y < low;
    return heavy;
}

static int master(int ranks)
{
    double widest = 2.02 * 2 * M_PI / given.points;
    ignite((int)given.points);
    for (iterId = 0; iterId < given.iterations && !exists("stop"); iterId++) {
        while (iterId > 0 && iterId == given.gate && !exists("more"))
            usleep(1000);
        double began_s = now_s();
        struct deal deal = begin_iteration(ranks);
        if (!global_sendreceive(&deal))
            return 5;
        sleep_until(now_s() + given.serial_us / 1e6);
        printf("{\"event\":\"iteration\",\"number\":%d,\"workers\":%d,\"points\":%d,\"heavy\":%d,\"batches\":%d,\"f0\":%.4f,\"f1\":%.4f,"
               "\"f2\":%.4f,\"computed\":%.6f,\"seconds\":%.6f}\n", iterId, deal.workers, TheTotalWork, heavy_points(deal.low),
               deal.batches, deal.factors[0], deal.factors[1], deal.factors[2], deal.computed_s, now_s() - began_s);
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

/* A worker's computation on a chunk; `section` has one more point at each end. As in the thesis, the worker
 * idles for its compute time times the share of heavy points. */
NAMED void arcStepKernel(const struct chunk *chunk, const struct point *section, struct point *moved)
{
    double began_s = now_s();
    int heavy = 0;
    for (int i = 0; i < chunk->count; i++) {
        moved[i] = spread(section[i], section[i + 1], section[i + 2], chunk->iteration);
        heavy += section[i + 1].y < chunk->low;
    }
    sleep_until(began_s + given.point_us * (chunk->count + given.heavy * heavy) / 1e6);
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
        sleep_until(chunk.arrives);
        iterId = chunk.iteration;
        batchId = chunk.batch;
        NTasks = chunk.count;
        double began_s = now_s();
        arcStepKernel(&chunk, (struct point *)(message + sizeof chunk), (struct point *)(answer + sizeof chunk));
        double ended_s = now_s();
        chunk.arrives = ended_s - began_s;
        memcpy(answer, &chunk, sizeof chunk);
        sleep_until(ended_s + given.latency_us / 1e6 + transfer_s(chunk.count));
        MPI_Send(answer, (int)(sizeof chunk + chunk.count * sizeof(struct point)), MPI_BYTE, 0, DONE, MPI_COMM_WORLD);
    }
}

static int arguments(int argc, char **argv)
{
    static const struct {
        const char *name;
        double *value;
    } names[] = {
        {"iterations", &given.iterations}, {"points", &given.points},         {"speed", &given.speed},
        {"point_us", &given.point_us},     {"heavy", &given.heavy},           {"threshold", &given.threshold},
        {"heavy_from", &given.heavy_from}, {"serial_us", &given.serial_us},   {"original", &given.original},
        {"minimum", &given.minimum},       {"workers", &given.workers},       {"latency_us", &given.latency_us},
        {"point_bytes", &given.point_bytes}, {"byte_ns", &given.byte_ns},     {"f0", &F0},
        {"f1", &F1},                       {"f2", &F2},                       {"realtime", &given.realtime},
        {"gate", &given.gate},
    };
    if (argc < 2)
        return 0;
    directory = argv[1];
    for (int i = 2; i < argc; i++) {
        char name[32];
        double value;
        size_t known = 0, count = sizeof names / sizeof *names;
        if (strncmp(argv[i], "schedule=", 9) == 0) {
            schedule = fopen(argv[i] + 9, "r");
            if (!schedule)
                return 0;
            continue;
        }
        if (sscanf(argv[i], "%31[a-z_0-9]=%lf", name, &value) != 2)
            return 0;
        while (known < count && strcmp(names[known].name, name) != 0)
            known++;
        if (known == count)
            return 0;
        *names[known].value = value;
    }
    NW = (int)given.workers;
    TheWorkSizeUnitBytes = (int)given.point_bytes;
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
    prctl(PR_SET_TIMERSLACK, 1000);
    /* Before `ready`: a rank with priority that sends to one without would keep it from receiving. */
    if (given.realtime && sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    char ready[200];
    int length = snprintf(ready, sizeof ready, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), ranks);
    if (write(1, ready, length) != length)
        MPI_Abort(MPI_COMM_WORLD, 4);
    while (!exists("go"))
        usleep(1000);
    int status = rank == 0 ? master(ranks) : worker();
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}); /* MPI_Finalize spins */
    MPI_Finalize();
    return status;
}
