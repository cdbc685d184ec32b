/* mw: a small library for iterative master/worker programs on MPI.
 *
 * In each iteration the master hands the program's tasks to the workers in use, in chunks, and waits for all answers. What an
 * analyst may want to see or change are plain functions and global variables with names; see "names" below. */
#ifndef MW_H
#define MW_H

#include <stddef.h>

struct mw_program {
    int tasks;           /* of one iteration, the same number each time */
    size_t state_bytes;  /* what a worker needs to know, sent with every chunk */
    size_t result_bytes; /* of one task */
    /* Computes tasks first .. first+count-1. */
    void (*compute)(const void *state, int first, int count, void *results);
    /* On the master, with the results of all tasks in their order: makes the state of the next iteration. */
    void (*combine)(void *state, const void *results);
};

/* How the program behaves in time. Times are slept, so that many ranks fit on few cores. */
struct mw_load {
    int iterations;
    int phase;          /* iterations of a phase; in every second phase work or latency, in turns, is `swing` times longer; 0 for none */
    double swing;
    int no_plain;       /* it is every phase, not every second one */
    long work_us;       /* all tasks of an iteration together */
    long latency_us;    /* of each chunk that the master sends */
    int slow_worker;    /* a worker that takes `slow` times as long; 0 for none */
    int slow_each;      /* every so manieth worker takes `slow` times as long, others in each phase; 0 for none */
    double slow;
    int knows;          /* the master knows who is slow, and gives each worker one chunk that fits */
    /* A network between master and workers: a message arrives no sooner than so long after it was sent. 0 for none. */
    double network_us;
    double network_mbs; /* 1e6 bytes a second */
    int payload;        /* bytes that a task adds to each message, if that is more than it needs anyway */
    int look_us;        /* who waits looks this often; 0 without a pause */
    int realtime;       /* the ranks go before everything else on the machine (root only), so that times are exact on a busy one too */
    int workers_work;    /* workers in use in phases in which the work swings, chosen by the program itself; 0: as in the others */
    int workers_latency; /* the same where the latency swings */
};

/* Reads DIRECTORY and a load from the arguments; ends the program with how to call it when they are wrong. */
struct mw_load mw_arguments(int argc, char **argv);

/* Waits for DIRECTORY/go, then runs the program on all ranks; 0 if every answer arrived once. A file DIRECTORY/stop ends it early. */
int mw_run(const struct mw_program *program, const struct mw_load *load, void *state);

/* Prints a checksum of what came out. */
void mw_result(const void *bytes, size_t count);

/* Names. */
extern int mw_workers;           /* wanted number of workers: read once, at the top of an iteration (a shadow variable) */
extern int mw_nw;                /* workers in use in this iteration */
extern double mw_factor;         /* share of the tasks left that a batch of chunks takes; 1 gives each worker one chunk */
extern int mw_minimum;           /* tasks a chunk has at least */
extern int mw_iteration;         /* the master's iteration */
extern int mw_current_iteration; /* the same in the master, and in a worker the iteration that it computes for */
extern int mw_batch;             /* batches so far in this iteration, from 1 */
extern int mw_chunks;            /* chunks of the batch that was cut last */
extern int mw_chunk_tasks;       /* tasks of the chunk that is sent, or computed */
extern int mw_current_batch;     /* the batch that a worker computes a chunk of */
extern int mw_last_worker;       /* who answered last */
extern int mw_nbytes;            /* size of its answer */
extern int mw_tasks;             /* tasks of an iteration */
extern int mw_sent_tasks;        /* tasks of the chunk that is sent */
extern int mw_first_chunk;       /* tasks of each chunk of the first batch, and of later ones; 0: as the factor says */
extern int mw_later_chunk;
extern int mw_peer;              /* rank that the master sends to, or has received from */
extern int mw_message_bytes;     /* size of the message that is sent or was received; in a worker, of its chunk */
extern int mw_byte;              /* 1 */
extern int mw_echo;              /* does nothing; what it is at the top of an iteration is told */

void mw_begin_iteration(void);
void mw_end_iteration(void);
void mw_next_batch(int tasks_left);
void mw_send(int worker, void *message, int bytes);
void mw_receive(void *message, int bytes);
void mw_compute(const struct mw_program *program, const void *state, int first, int count, void *results);

#endif
