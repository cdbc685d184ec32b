/* A second file with static variables of the same names. */
static volatile int limit = 6;
int other_limit(void) { return limit; }
