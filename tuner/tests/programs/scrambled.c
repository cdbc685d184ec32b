/* Reverts the previous scrambling and scrambles its dynamic linker's list (r_debug, link_map) by the number
 * in an input line; `?` prints its variable. Linked with -z now, so the program does not use the list. */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile int knob = 10;
volatile long sum;
__attribute__((noinline)) void step(int n) { sum += n; }

static struct link_map *all[64], saved[64];
static struct r_debug saved_debug;
static int count;

static unsigned long word(void)
{
    switch (rand() % 6) {
    case 0: return 0;
    case 1: return (unsigned long)all[rand() % count];
    case 2: return ~0ul - rand() % 64;
    case 3: return (unsigned long)&sum + rand() % 4096;
    case 4: return 0x7fffffffffff;
    default: return (unsigned long)rand() << 32 ^ rand();
    }
}

static void scramble(void)
{
    struct link_map *map = all[rand() % count];
    unsigned long to = word();
    switch (rand() % 6) {
    case 0: map->l_next = (void *)to; break;
    case 1: map->l_ld = (void *)to; break;
    case 2: map->l_addr = to; break;
    case 3: map->l_name = (void *)to; break;
    case 4: _r_debug.r_map = (void *)to; break;
    default: memcpy(&_r_debug.r_state, &to, sizeof _r_debug.r_state);
    }
}

static void put_back(void)
{
    _r_debug = saved_debug;
    for (int i = 0; i < count; i++) *all[i] = saved[i];
}

int main(void)
{
    char line[64];
    for (struct link_map *map = _r_debug.r_map; map && count < 64; map = map->l_next) all[count++] = map;
    for (int i = 0; i < count; i++) saved[i] = *all[i];
    saved_debug = _r_debug;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        step(1);
        if (line[0] == '?') {
            printf("knob=%d\n", knob);
        } else {
            put_back();
            srand(atoi(line));
            for (int i = 1 + rand() % 4; i > 0; i--) scramble();
            printf("scrambled\n");
        }
        fflush(stdout);
    }
    put_back();
    return 0;
}
