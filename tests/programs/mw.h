/* mw: a small library for iterative master/worker programs on MPI.
 *
 * In each iteration the master hands the program's tasks to the active workers, in chunks, and waits for all
 * answers. Everything that a rule may read or set is a function or a global variable; see "names" below. */
#ifndef MW_H
#define MW_H

#include <stddef.h>

struct mw_program {
    int tasks;           /* per iteration; constant */
    size_t state_bytes;  /* state that a worker needs, sent with every chunk */
    size_t result_bytes; /* per task */
    /* Computes tasks first .. first+count-1. */
    void (*compute)(const void *state, int first, int count, void *results);
    /* Called on the master with the results of all tasks in order; computes the state of the next
     * iteration. */
    void (*combine)(void *state, const void *results);
};

/* Timing of the program. Times are slept, so that many ranks fit on few cores. */
struct mw_load {
    int iterations;
    int phase;          /* iterations per phase, 0 for none; every second phase has `swing` times the load */
    double swing;
    int no_plain;       /* every phase has more work or latency */
    long work_us;       /* all tasks of an iteration together */
    long latency_us;    /* of each chunk that the master sends */
    int slow_worker;    /* a worker that takes `slow` times as long; 0 for none */
    int slow_each;      /* every n-th worker takes `slow` times as long, others in each phase; 0 for none */
    double slow;
    int knows;          /* the master knows the slow workers and sizes their chunks accordingly */
    /* A simulated network: minimum time from sending a message to its arrival. 0 for none. */
    double network_us;
    double network_mbs; /* 1e6 bytes a second */
    int payload;        /* minimum bytes per task of a message */
    int look_us;        /* poll interval of a waiting rank; 0 without a pause */
    int realtime;       /* real-time priority (root only), so that times are exact on a busy machine */
    int workers_work;    /* active workers in phases with more work, set by the program; 0: no change */
    int workers_latency; /* the same for phases with more latency */
};

/* Parses DIRECTORY and a load from the arguments; prints the usage and exits on errors. */
struct mw_load mw_arguments(int argc, char **argv);

/* Waits for DIRECTORY/go, then runs the program on all ranks. Returns 0 if every answer arrived once.
 * DIRECTORY/stop ends it. */
int mw_run(const struct mw_program *program, const struct mw_load *load, void *state);

/* Prints a checksum of the result. */
void mw_result(const void *bytes, size_t count);

/* Names. */
extern int mw_workers;           /* wanted workers, read at the top of an iteration (shadow variable) */
extern int mw_nw;                /* workers in use in this iteration */
extern double mw_factor;         /* share of the remaining tasks in a batch; 1: one chunk per worker */
extern int mw_minimum;           /* minimum number of tasks of a chunk */
extern int mw_iteration;         /* the master's iteration */
extern int mw_current_iteration; /* the master's iteration; in a worker, that of its chunk */
extern int mw_batch;             /* number of batches in this iteration */
extern int mw_chunks;            /* chunks of the last batch */
extern int mw_chunk_tasks;       /* tasks of the chunk that is sent or computed */
extern int mw_current_batch;     /* in a worker, the batch of its chunk */
extern int mw_last_worker;       /* worker that answered last */
extern int mw_nbytes;            /* size of its answer */
extern int mw_tasks;             /* tasks of an iteration */
extern int mw_sent_tasks;        /* tasks of the chunk that is sent */
extern int mw_first_chunk;       /* tasks of a chunk in the first batch, and in later ones; 0: by factor */
extern int mw_later_chunk;
extern int mw_peer;              /* rank that the master sends to or has received from */
extern int mw_message_bytes;     /* size of the message sent or received; in a worker, of its chunk */
extern int mw_byte;              /* 1 */
extern int mw_echo;              /* no effect; its value at the top of an iteration is printed */

void mw_begin_iteration(void);
void mw_end_iteration(void);
void mw_next_batch(int tasks_left);
void mw_send(int worker, void *message, int bytes);
void mw_receive(void *message, int bytes);
void mw_compute(const struct mw_program *program, const void *state, int first, int count, void *results);

#endif
