/* A library that tests load into the program under load. */
#include <stdatomic.h>
static atomic_long calls;
static int loaded;
__attribute__((constructor)) static void begin(void) { loaded = 1; }
long tuned_sort(long x) { atomic_fetch_add(&calls, 1); return x * 3 + 7; }
long tuned_calls(void) { return calls; }
int tuned_loaded(void) { return loaded; }
void tuned_note(int x, double y, const char *text) { if (x == 5 && y == 0.5 && text[0] == 'n') atomic_fetch_add(&calls, 1); }
