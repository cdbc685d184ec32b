/* Uses the library's variable, or defines it itself (interposition). Prints its own view and the library's. A
 * file given as argument is mapped as data. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#ifdef DEFINES
int knob = DEFINES;
#else
extern int knob;
#endif
int library_view(void);

int main(int argc, char **argv)
{
    char line[64];
    if (argc > 1 && mmap(0, 16384, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) == MAP_FAILED)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("program=%d library=%d\n", knob, library_view());
        fflush(stdout);
    }
    return 0;
}
