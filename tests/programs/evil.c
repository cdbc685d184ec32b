/* A program with names that act on a terminal: its short name, and the function and variable below, whose
 * names the test replaces in the file. It works until its input ends. */
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int knob = 10;
int evil_variable_abcdefghijklmnopqrstuvwxyz = 3;

__attribute__((noinline)) void step(int number) { __asm__ volatile("" ::"r"(number) : "memory"); }

__attribute__((noinline)) void evil_function_abcdefghijklmnopqrstuvwxyz(int number) {
    __asm__ volatile("" ::"r"(number) : "memory");
}

int main(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    prctl(PR_SET_NAME, "\033[2J\033]0;p\a\n\"a");
    puts("{\"event\":\"ready\"}");
    fflush(stdout);
    for (int number = 0; poll(&input, 1, 1) == 0; number++) {
        step(number);
        evil_function_abcdefghijklmnopqrstuvwxyz(number + evil_variable_abcdefghijklmnopqrstuvwxyz);
    }
    return 0;
}
