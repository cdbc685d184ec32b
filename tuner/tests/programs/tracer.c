/* Traces the process given as argument until its standard input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>

int main(int argc, char **argv)
{
    char line[64];
    if (argc < 2 || ptrace(PTRACE_SEIZE, atoi(argv[1]), 0, 0))
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    return 0;
}
