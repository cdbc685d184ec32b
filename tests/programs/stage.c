/* A stage of a shell pipeline: takes blocks of 64 KiB, computes, which is slept, and passes them on.
 *
 *   stage US NAME
 *
 * It has `workers` workers, each of which computes a part of every block. While there is a file NAME, a block takes a
 * third of the time. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_BYTES = 65536 };

int workers = 1;

static char block[BLOCK_BYTES];

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: stage US NAME\n");
        return 2;
    }
    int us = atoi(argv[1]);
    while (fread(block, 1, BLOCK_BYTES, stdin) == BLOCK_BYTES) {
        int now = access(argv[2], F_OK) == 0 ? us / 3 : us;
        usleep(now / *(volatile int *)&workers);
        if (fwrite(block, 1, BLOCK_BYTES, stdout) != BLOCK_BYTES)
            return 1;
    }
    return 0;
}
