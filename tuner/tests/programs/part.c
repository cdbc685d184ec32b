/* A library for the program under load. The program imports its functions; the library itself calls
 * `part_inner`. */
long part_calls;
__attribute__((visibility("default"), noinline)) long part_work(long x) { __atomic_add_fetch(&part_calls, 1, __ATOMIC_RELAXED); return x * 5 + 1; }
__attribute__((visibility("default"), noinline)) long part_other(long x) { return x * 5 + 2; }
__attribute__((visibility("hidden"), noinline)) long inner(long x) { __asm__ volatile("" ::: "memory"); return x + 3; }
__attribute__((visibility("default"), noinline)) long part_outer(long x) { return inner(x) * 2; }
