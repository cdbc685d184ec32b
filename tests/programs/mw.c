#include "mw.h"

#include "gates.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMED __attribute__((noinline, used))
/* Interval at which a rank that has waited long looks for messages. Ranks poll with sleeps, because spinning
 * ranks on few cores would disturb each other. A rank that is not in use polls less often. */
#define LOOK_IDLE_US 2000
/* A sleep ends about 60 us late, so the last part of an exact wait is spun. */
#define AWAKE_S 300e-6
#define LOOKS_UNTIL_IDLE 2000
#define CHUNK 1
#define ANSWER 2

int mw_workers = 1;
int mw_nw;
double mw_factor = 1.0;
int mw_minimum = 1;
int mw_iteration;
int mw_current_iteration;
int mw_batch;
int mw_chunks;
int mw_chunk_tasks;
int mw_current_batch;
int mw_last_worker;
int mw_nbytes;
int mw_echo;
int mw_tasks;
int mw_sent_tasks;
int mw_first_chunk;
int mw_later_chunk;
int mw_peer;
int mw_message_bytes;
int mw_byte = 1;

static const struct mw_load *load;
static long sleep_us; /* of the chunk that a worker computes */

struct header {
    int iteration, batch, first, count;
    long sleep_us;
    double sent_s;
};

static const char *directory;

/* Phases: plain, more work, plain, more latency, and so on, or without the plain ones. */
static double swing(int of_latency)
{
    if (load->phase <= 0)
        return 1.0;
    int phase = mw_iteration / load->phase;
    phase = load->no_plain ? phase % 2 * 2 + 1 : phase % 4;
    return phase == (of_latency ? 3 : 1) ? load->swing : 1.0;
}

static int wait_for(int source, int tag)
{
    int there = 0;
    MPI_Status status;
    for (int looks = 0;; looks++) {
        MPI_Iprobe(source, tag, MPI_COMM_WORLD, &there, &status);
        if (there)
            return status.MPI_SOURCE;
        if (load->look_us > 0)
            usleep(looks < LOOKS_UNTIL_IDLE ? load->look_us : LOOK_IDLE_US);
    }
}

/* The simulated network: waits until the message would have arrived. */
static void arrive(const char *message, int bytes)
{
    struct header header;
    memcpy(&header, message, sizeof header);
    double there_s = header.sent_s + load->network_us * 1e-6;
    if (load->network_mbs > 0)
        there_s += bytes / (load->network_mbs * 1e6);
    double left = there_s - seconds();
    if (left > AWAKE_S)
        usleep((useconds_t)((left - AWAKE_S) * 1e6));
    while (seconds() < there_s)
        ;
}

static void stamp(char *message)
{
    struct header header;
    memcpy(&header, message, sizeof header);
    header.sent_s = seconds();
    memcpy(message, &header, sizeof header);
}

/* Size of a message with this number of tasks. With a payload, messages have the same size in both
 * directions. */
static int message_bytes(size_t needed, int tasks)
{
    size_t padded = (size_t)load->payload * tasks;
    return (int)(sizeof(struct header) + (padded > needed ? padded : needed));
}

NAMED void mw_begin_iteration(void) { __asm__ volatile(""); }
NAMED void mw_end_iteration(void) { __asm__ volatile(""); }

/* Cuts the next batch: chunks of equal size that together take the factor's share of the remaining tasks. */
NAMED void mw_next_batch(int tasks_left)
{
    mw_batch++;
    double chunk = tasks_left * mw_factor / mw_nw;
    int stated = mw_batch == 1 ? mw_first_chunk : mw_later_chunk;
    mw_chunk_tasks = chunk > mw_minimum ? (int)chunk : mw_minimum;
    if (stated > 0)
        mw_chunk_tasks = stated;
    else if (mw_factor >= 1.0)
        mw_chunk_tasks = (tasks_left + mw_nw - 1) / mw_nw;
    mw_chunks = (tasks_left + mw_chunk_tasks - 1) / mw_chunk_tasks;
    if (mw_chunks > mw_nw)
        mw_chunks = mw_nw;
    __asm__ volatile("" ::: "memory");
}

NAMED void mw_send(int worker, void *message, int bytes)
{
    if (load->latency_us > 0)
        usleep(load->latency_us * swing(1));
    stamp(message);
    /* Buffered: otherwise a message of some kilobytes would wait until the worker polls. */
    MPI_Bsend(message, bytes, MPI_BYTE, worker, CHUNK, MPI_COMM_WORLD);
    __asm__ volatile("" ::: "memory");
}

NAMED void mw_receive(void *message, int bytes)
{
    MPI_Status status;
    int worker = wait_for(MPI_ANY_SOURCE, ANSWER);
    MPI_Recv(message, bytes, MPI_BYTE, worker, ANSWER, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &mw_nbytes);
    arrive(message, mw_nbytes);
    mw_last_worker = mw_peer = worker;
    mw_message_bytes = mw_nbytes;
}

NAMED void mw_compute(const struct mw_program *program, const void *state, int first, int count, void *results)
{
    program->compute(state, first, count, results);
    if (sleep_us > 0)
        usleep(sleep_us);
    __asm__ volatile("" ::: "memory");
}

/* The master's state during an iteration. */
struct round {
    const struct mw_program *program;
    char *message, *answer, *results;
    int next, left_in_batch, answers, answered_tasks;
    double ended_s; /* before the result is printed, because a watcher may then take the CPU */
};

/* Factor by which a worker is slower in this phase. */
static double slowness(int worker)
{
    int turn = load->phase > 0 ? mw_iteration / load->phase : 0;
    int is_slow = worker == load->slow_worker || (load->slow_each > 0 && (worker + turn) % load->slow_each == 0);
    return is_slow ? load->slow : 1;
}

/* Share of the remaining tasks for a worker, in proportion to its speed and to those of the workers after
 * it. */
static int fitting(int worker, int left)
{
    double speeds = 0;
    for (int other = worker; other <= mw_nw; other++)
        speeds += 1 / slowness(other);
    return (int)(left / slowness(worker) / speeds + 0.5);
}

static void send_chunk(struct round *round, int worker, const void *state)
{
    const struct mw_program *program = round->program;
    if (round->left_in_batch == 0) {
        mw_next_batch(program->tasks - round->next);
        round->left_in_batch = mw_chunks;
    }
    int left = program->tasks - round->next;
    int count = load->knows ? fitting(worker, left) : mw_chunk_tasks < left ? mw_chunk_tasks : left;
    double share = (double)count / program->tasks * swing(0);
    struct header header = {mw_iteration, mw_batch, round->next, count, (long)(load->work_us * share * slowness(worker)), 0};
    memcpy(round->message, &header, sizeof header);
    memcpy(round->message + sizeof header, state, program->state_bytes);
    round->next += count;
    round->left_in_batch--;
    mw_peer = worker;
    mw_sent_tasks = count;
    mw_message_bytes = message_bytes(program->state_bytes, count);
    mw_send(worker, round->message, mw_message_bytes);
}

static void take_answer(struct round *round)
{
    const struct mw_program *program = round->program;
    struct header header;
    mw_receive(round->answer, message_bytes(program->tasks * program->result_bytes, program->tasks));
    memcpy(&header, round->answer, sizeof header);
    memcpy(round->results + header.first * program->result_bytes, round->answer + sizeof header,
           header.count * program->result_bytes);
    round->answers++;
    round->answered_tasks += header.count;
}

/* The number of workers of this iteration. With MW_NO_SHADOW the loops below read mw_workers repeatedly, as
 * in a program that was not prepared: a change in the middle of an iteration loses answers or blocks. */
static int workers_in_use(int ranks)
{
    int wanted = mw_workers;
    if (load->workers_work > 0 && swing(0) != 1.0)
        wanted = load->workers_work;
    if (load->workers_latency > 0 && swing(1) != 1.0)
        wanted = load->workers_latency;
    return wanted < 1 ? 1 : wanted >= ranks ? ranks - 1 : wanted;
}

#ifdef MW_NO_SHADOW
#define WORKERS(ranks) workers_in_use(ranks)
#else
#define WORKERS(ranks) mw_nw
#endif

/* One iteration of the master. */
NAMED static int mw_iterate(struct round *round, void *state, int ranks)
{
    const struct mw_program *program = round->program;
    mw_nw = workers_in_use(ranks);
    mw_tasks = program->tasks;
    mw_batch = 0;
    round->next = round->left_in_batch = round->answers = round->answered_tasks = 0;
    mw_begin_iteration();
    int sent = 0;
    for (int worker = 1; worker <= WORKERS(ranks) && round->next < program->tasks; worker++, sent++)
        send_chunk(round, worker, state);
    for (int waiting = WORKERS(ranks) < sent ? WORKERS(ranks) : sent; waiting > 0; waiting--) {
        take_answer(round);
        if (round->next < program->tasks) {
            send_chunk(round, mw_last_worker, state);
            waiting++;
        }
    }
    round->ended_s = seconds();
    mw_end_iteration();
    return round->answered_tasks == program->tasks ? 0 : 5;
}

static int master(const struct mw_program *program, void *state, int ranks)
{
    struct round round = {.program = program};
    round.message = calloc(1, message_bytes(program->state_bytes, program->tasks));
    round.answer = calloc(1, message_bytes(program->tasks * program->result_bytes, program->tasks));
    round.results = malloc(program->tasks * program->result_bytes);
    int room = ranks * (message_bytes(program->state_bytes, program->tasks) + MPI_BSEND_OVERHEAD);
    void *buffer = malloc(room);
    MPI_Buffer_attach(buffer, room);
    int status = 0;
    for (mw_iteration = 0; mw_iteration < load->iterations && status == 0 && !exists(directory, "stop"); mw_iteration++) {
        int echo = mw_echo;
        mw_current_iteration = mw_iteration;
        double began = seconds();
        status = mw_iterate(&round, state, ranks);
        double took_s = seconds() - began;
        printf("{\"event\":\"iteration\",\"number\":%d,\"workers\":%d,\"factor\":%g,\"batches\":%d,\"echo\":%d,\"until_end\":%.7f,"
               "\"seconds\":%.7f}\n",
               mw_iteration, mw_nw, mw_factor, mw_batch, echo, round.ended_s - began, took_s);
        fflush(stdout);
        program->combine(state, round.results);
    }
    struct header stop = {.iteration = -1};
    memcpy(round.message, &stop, sizeof stop);
    for (int worker = 1; worker < ranks; worker++)
        MPI_Send(round.message, (int)(sizeof stop + program->state_bytes), MPI_BYTE, worker, CHUNK, MPI_COMM_WORLD);
    MPI_Buffer_detach(&buffer, &room);
    free(buffer);
    free(round.message);
    free(round.answer);
    free(round.results);
    return status;
}

static int worker(const struct mw_program *program)
{
    int most = message_bytes(program->state_bytes, program->tasks);
    char *message = malloc(most);
    char *answer = calloc(1, message_bytes(program->tasks * program->result_bytes, program->tasks));
    for (;;) {
        struct header header;
        MPI_Status status;
        wait_for(0, CHUNK);
        MPI_Recv(message, most, MPI_BYTE, 0, CHUNK, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &mw_message_bytes);
        memcpy(&header, message, sizeof header);
        if (header.iteration < 0)
            break;
        mw_current_iteration = header.iteration;
        mw_current_batch = header.batch;
        mw_chunk_tasks = header.count;
        sleep_us = header.sleep_us;
        memcpy(answer, &header, sizeof header);
        arrive(message, mw_message_bytes);
        mw_compute(program, message + sizeof header, header.first, header.count, answer + sizeof header);
        stamp(answer);
        MPI_Send(answer, message_bytes(header.count * program->result_bytes, header.count), MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    }
    free(message);
    free(answer);
    return 0;
}

struct mw_load mw_arguments(int argc, char **argv)
{
    struct mw_load given = {.iterations = 400, .swing = 8, .work_us = 36000, .latency_us = 500, .slow = 1, .look_us = 200};
    int right = argc >= 2;
    for (int i = 2; i < argc; i++) {
        char name[32];
        double value;
        right &= sscanf(argv[i], "%31[a-z_]=%lf", name, &value) == 2;
        if (!right)
            break;
        if (strcmp(name, "iterations") == 0) given.iterations = (int)value;
        else if (strcmp(name, "phase") == 0) given.phase = (int)value;
        else if (strcmp(name, "no_plain") == 0) given.no_plain = (int)value;
        else if (strcmp(name, "swing") == 0) given.swing = value;
        else if (strcmp(name, "work_us") == 0) given.work_us = (long)value;
        else if (strcmp(name, "latency_us") == 0) given.latency_us = (long)value;
        else if (strcmp(name, "slow_worker") == 0) given.slow_worker = (int)value;
        else if (strcmp(name, "slow_each") == 0) given.slow_each = (int)value;
        else if (strcmp(name, "knows") == 0) given.knows = (int)value;
        else if (strcmp(name, "network_us") == 0) given.network_us = value;
        else if (strcmp(name, "network_mbs") == 0) given.network_mbs = value;
        else if (strcmp(name, "payload") == 0) given.payload = (int)value;
        else if (strcmp(name, "look_us") == 0) given.look_us = (int)value;
        else if (strcmp(name, "realtime") == 0) given.realtime = (int)value;
        else if (strcmp(name, "first_chunk") == 0) mw_first_chunk = (int)value;
        else if (strcmp(name, "later_chunk") == 0) mw_later_chunk = (int)value;
        else if (strcmp(name, "slow") == 0) given.slow = value;
        else if (strcmp(name, "workers") == 0) mw_workers = (int)value;
        else if (strcmp(name, "workers_work") == 0) given.workers_work = (int)value;
        else if (strcmp(name, "workers_latency") == 0) given.workers_latency = (int)value;
        else if (strcmp(name, "factor") == 0) mw_factor = value;
        else if (strcmp(name, "minimum") == 0) mw_minimum = (int)value;
        else right = 0;
    }
    if (!right) {
        fprintf(stderr, "usage: %s DIRECTORY [NAME=VALUE ...]\nnames: iterations phase swing no_plain work_us latency_us slow_worker slow_each slow "
                        "knows workers workers_work workers_latency factor minimum first_chunk later_chunk network_us "
                        "network_mbs payload look_us realtime\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    directory = argv[1];
    return given;
}

static void ready(int rank, int ranks)
{
    char line[200];
    int length = snprintf(line, sizeof line, "{\"event\":\"ready\",\"rank\":%d,\"pid\":%d,\"size\":%d}\n", rank, getpid(), ranks);
    if (write(1, line, length) != length)
        MPI_Abort(MPI_COMM_WORLD, 4);
    pass_gate(directory, "go");
}

void mw_result(const void *bytes, size_t count)
{
    unsigned long sum = 14695981039346656037UL; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211UL;
    printf("{\"event\":\"result\",\"iterations\":%d,\"checksum\":\"%016lx\"}\n", mw_iteration, sum);
    fflush(stdout);
}

int mw_run(const struct mw_program *program, const struct mw_load *of, void *state)
{
    int rank, ranks;
    load = of;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        return 2;
    if (load->realtime && sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    ready(rank, ranks);
    return rank == 0 ? master(program, state, ranks) : worker(program);
}
