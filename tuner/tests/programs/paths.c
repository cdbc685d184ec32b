/* Structs, arrays, pointers, statics of two files. Prints "ready", then its own view for every input line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct solver { char name[8]; int chunk; double tolerance; unsigned bits : 3; };
typedef struct config { short first; struct solver solver; union { int whole; unsigned char parts[4]; }; } config_t;
struct node { long value; struct node *next; };
enum mode { SLOW, FAST };

config_t cfg = {1, {"jacobi", 64, 0.5, 5}, {7}};
int limits[4] = {10, 20, 30, 40};
double grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
struct solver table[2] = {{"a", 1, 0.1, 0}, {"b", 2, 0.2, 0}};
struct node *head;
struct node *nowhere;
int *counter;
const struct solver fixed = {"fixed", 3, 0.3, 0};
const struct solver *const to_fixed = &fixed;
enum mode mode = FAST;
static volatile int limit = 5;
__thread struct solver own;
int other_limit(void);

static inline __attribute__((always_inline)) int half(int value) { return value / 2; }

__attribute__((noinline, used)) int step(config_t *config, int count, double weight, struct node *list, const char *text)
{
    static int calls = 100;
    return config->solver.chunk + count + (int)weight + (int)list->value + text[0] + ++calls + half(count);
}

int main(void)
{
    char line[64];
    head = malloc(sizeof *head);
    head->value = 1;
    head->next = malloc(sizeof *head);
    head->next->value = 2;
    head->next->next = 0;
    counter = malloc(sizeof *counter);
    *counter = 9;
    own.chunk = step(&cfg, 4, 1.5, head, "x");
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "move\n")) {
            struct node *fresh = malloc(sizeof *fresh);
            *fresh = *head->next;
            head->next = fresh;
        }
        printf("chunk=%d limit2=%d grid12=%g table1=%d value=%ld counter=%d part1=%d limit=%d other=%d\n", cfg.solver.chunk, limits[2],
               grid[1][2], table[1].chunk, head->next->value, *counter, cfg.parts[1], limit, other_limit());
        fflush(stdout);
    }
    return to_fixed->chunk == 4;
}
