/* A variable in a page of its own, which is printed for every input line; `protect` first makes the page
 * read-only. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int guarded __attribute__((aligned(4096))) = 5;
int next __attribute__((aligned(4096))) = 1;

int main(void)
{
    char line[64];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "protect\n") && mprotect(&guarded, 4096, PROT_READ))
            return 1;
        printf("%d\n", *(volatile int *)&guarded);
        fflush(stdout);
    }
    return next != 1;
}
