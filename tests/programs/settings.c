/* Variables to be read and written by commands. Prints a line when ready, and its values after every input
 * byte. */
#include <stdio.h>
#include <stdlib.h>

struct solver { char name[8]; int chunk; };
struct config { int level; struct solver solver; };
struct config cfg = {2, {"jacobi", 64}};
int limits[3] = {10, 20, 30};
struct config *current;

int main(void)
{
    current = malloc(sizeof *current);
    *current = cfg;
    do {
        printf("chunk=%d limit=%d level=%d\n", cfg.solver.chunk, limits[2], current->level);
        fflush(stdout);
    } while (getchar() != EOF);
    return 0;
}
