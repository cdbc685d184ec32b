/* A program with a child process. Prints "ready", then answers each line: `fork` forks the child and prints
 * its number, `child` prints the child's knob, `exec` makes the child execute the program again and prints
 * its knob, `set N` changes its own knob; anything else prints its own knob. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int knob = 10;
static int ask[2], answer[2];

static void serve(int in, int out)
{
    char word, from[16], to[16];
    snprintf(from, sizeof from, "%d", in);
    snprintf(to, sizeof to, "%d", out);
    while (read(in, &word, 1) == 1) {
        int seen = *(volatile int *)&knob;
        if (word == 'e')
            execl("/proc/self/exe", "forker", from, to, (char *)0);
        if (write(out, &seen, sizeof seen) != sizeof seen)
            break;
    }
    _exit(0);
}

static int start(void)
{
    if (pipe(ask) || pipe(answer))
        exit(1);
    int child = fork();
    if (child == 0) {
        close(ask[1]);
        serve(ask[0], answer[1]);
    }
    return child;
}

static int of_child(const char *words)
{
    int seen = -1;
    if (write(ask[1], words, strlen(words)) < 0 || read(answer[0], &seen, sizeof seen) < 0)
        exit(1);
    return seen;
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc == 3)
        serve(atoi(argv[1]), atoi(argv[2]));
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int said = *(volatile int *)&knob;
        if (!strcmp(line, "fork\n"))
            said = start();
        else if (!strcmp(line, "child\n"))
            said = of_child("a");
        else if (!strcmp(line, "exec\n"))
            said = of_child("ea");
        else if (!strncmp(line, "set ", 4))
            said = knob = atoi(line + 4);
        printf("%d\n", said);
        fflush(stdout);
    }
    return 0;
}
