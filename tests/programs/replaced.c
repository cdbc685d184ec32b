/* A program that executes a copy of itself and then replaces the copy's file by a FIFO, under both names that
 * the kernel may show, so that opening the file by its name blocks. Works until its input ends. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int knob = 10;

__attribute__((noinline)) void step(int number) { __asm__ volatile("" ::"r"(number) : "memory"); }

static int copy(const char *to) {
    char block[65536];
    long count;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    while ((count = read(from, block, sizeof block)) > 0)
        if (write(out, block, count) != count) return -1;
    return close(from) | close(out);
}

/* FOLDER: copies itself there and executes the copy, with a second argument that marks it as the copy. */
int main(int count, char **arguments) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char file[4096], deleted[4096];
    snprintf(file, sizeof file, "%s/exe", arguments[1]);
    snprintf(deleted, sizeof deleted, "%s/exe (deleted)", arguments[1]);
    if (count == 2) {
        if (copy(file)) return 1;
        execl(file, file, arguments[1], "copy", (char *)0);
        return 1;
    }
    if (unlink(file) || mkfifo(file, 0666) || mkfifo(deleted, 0666)) return 1;
    puts("{\"event\":\"ready\"}");
    fflush(stdout);
    for (int number = 0; poll(&input, 1, 1) == 0; number++) step(number);
    return 0;
}
