/* Loads and unloads two libraries in turns, each with a `view` of a variable that is 1, until its input ends.
 * Argument 3: microseconds for which each stays loaded. Prints how often the second one had another value. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int seen(const char *path, int us)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*view)(void) = (int (*)(void))dlsym(library, "view");
    usleep(us);
    int value = view();
    dlclose(library);
    return value;
}

int main(int argc, char **argv)
{
    long wrong = 0;
    struct pollfd input = {0, POLLIN, 0};
    printf("ready\n");
    fflush(stdout);
    while (argc == 4 && poll(&input, 1, 0) == 0) {
        seen(argv[1], atoi(argv[3]));
        wrong += seen(argv[2], atoi(argv[3])) != 1;
    }
    printf("wrong %ld\n", wrong);
    return 0;
}
