/* A program without MPI: three stages as threads, which pass items through bounded queues. Computing is slept.
 *
 *   chain DIRECTORY RENDERERS READ_US RENDER_US STORE_US
 *
 * One thread reads, RENDERERS render, one stores two pictures at a time. `render_next` is all that a renderer does for
 * a scene. Prints {"event":"ready","pid":N} and runs until it is ended. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))

enum { ROOM = 4, GROUP = 2 };

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int items;
};

static struct queue scenes = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
static struct queue pictures = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
static int read_us, render_us, store_us;

/* Moves one item into the queue, or with -1 out of it, once that is possible. */
static void move(struct queue *queue, int change)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->items + change < 0 || queue->items + change > ROOM)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->items += change;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

KEEP void put_scene(void) { move(&scenes, 1); }
KEEP void take_scene(void) { move(&scenes, -1); }
KEEP void put_picture(void) { move(&pictures, 1); }
KEEP void take_picture(void) { move(&pictures, -1); }

KEEP void read_scene(void) { usleep(read_us); }
KEEP void render_scene(void) { usleep(render_us); }
KEEP void store_group(void) { usleep(store_us); }
KEEP void never_called(void) { usleep(1); }

KEEP void read_next(void)
{
    read_scene();
    put_scene();
}

KEEP void render_next(void)
{
    take_scene();
    render_scene();
    put_picture();
}

static void *reads(void *unused)
{
    for (;;)
        read_next();
    return unused;
}

static void *renders(void *unused)
{
    for (;;)
        render_next();
    return unused;
}

static void *stores(void *unused)
{
    for (;;) {
        for (int picture = 0; picture < GROUP; picture++)
            take_picture();
        store_group();
    }
    return unused;
}

static void begin(void *(*stage)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, stage, NULL) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    read_us = atoi(argv[3]);
    render_us = atoi(argv[4]);
    store_us = atoi(argv[5]);
    begin(reads);
    for (int renderer = 0; renderer < atoi(argv[2]); renderer++)
        begin(renders);
    begin(stores);
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
