/* A program without MPI: iterations with many calls of two functions, and the sums over them, with which
 * rules compare their aggregates.
 *
 *   hot FOLDER [CALLS [PERIOD_US [THREADS [KEYS]]]]
 *
 * Each iteration takes at least PERIOD_US and makes CALLS calls of work() and of work_too(), divided among
 * THREADS threads. The key of the calls is the iteration number or, with KEYS, cycles through KEYS numbers.
 * With CALLS 0 the values are too large for aggregation in the kernel. Prints {"event":"ready"}, works until
 * FOLDER/end exists, and prints {"event":"end","iterations":N,"calls":N}. */
#include "gates.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

enum { THREADS_MAX = 16, LARGE = 100 };

long true_count, true_sum, true_least, true_greatest;
double true_spread;

static long iterations, calls = 100, period_ns = 10000000, threads = 1, keys;
static double squares;
static volatile long sink;

struct share {
    long first, last, number, sum, least, greatest, count;
    double squares;
};

FUNCTION void begin_iteration(long number)
{
    sink += number;
}

FUNCTION long work(long value, long number)
{
    sink += value;
    return number;
}

FUNCTION long work_too(long value)
{
    sink += value;
    return value;
}

FUNCTION void end_iteration(void)
{
    sink++;
}

static long value_of(long call, long number)
{
    return calls ? (call * 7919 + number * 31) % 2001 - 1000 : (1L << 60) + call * 4096;
}

static void *do_share(void *argument)
{
    struct share *share = argument;
    long began = now_ns(), all = share->last - share->first;
    for (long call = share->first; call < share->last; call++) {
        long value = value_of(call, share->number);
        work(value, keys ? call % keys : share->number);
        work_too(value);
        share->count++;
        share->sum += value;
        share->squares += (double)value * (double)value;
        if (share->count == 1 || value < share->least)
            share->least = value;
        if (share->count == 1 || value > share->greatest)
            share->greatest = value;
        while (now_ns() - began < period_ns / (all + 1) * share->count)
            ;
    }
    return NULL;
}

static void iterate(long number)
{
    struct share shares[THREADS_MAX] = {0};
    pthread_t started[THREADS_MAX];
    long all = calls ? calls : LARGE;
    begin_iteration(number);
    for (long thread = 0; thread < threads; thread++) {
        shares[thread] = (struct share){.first = all * thread / threads, .last = all * (thread + 1) / threads, .number = number};
        if (threads > 1)
            pthread_create(&started[thread], NULL, do_share, &shares[thread]);
        else
            do_share(&shares[thread]);
    }
    true_count = true_sum = 0;
    squares = 0;
    for (long thread = 0; thread < threads; thread++) {
        struct share *share = &shares[thread];
        if (threads > 1)
            pthread_join(started[thread], NULL);
        true_least = true_count && true_least < share->least ? true_least : share->least;
        true_greatest = true_count && true_greatest > share->greatest ? true_greatest : share->greatest;
        true_count += share->count;
        true_sum += share->sum;
        squares += share->squares;
    }
    double mean = (double)true_sum / (double)true_count;
    true_spread = sqrt(squares / (double)true_count - mean * mean);
    end_iteration();
}

static long argument(int count, char **words, int place, long otherwise)
{
    return count > place ? atol(words[place]) : otherwise;
}

int main(int count, char **words)
{
    char end[4096];
    long total = 0;
    calls = argument(count, words, 2, calls);
    period_ns = 1000 * argument(count, words, 3, 10000);
    threads = argument(count, words, 4, threads);
    keys = argument(count, words, 5, 0);
    if (count < 2 || threads < 1 || threads > THREADS_MAX)
        return 2;
    snprintf(end, sizeof end, "%s/end", words[1]);
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    while (access(end, F_OK) != 0) {
        iterate(++iterations);
        total += true_count;
    }
    printf("{\"event\":\"end\",\"iterations\":%ld,\"calls\":%ld}\n", iterations, total);
    return 0;
}
