/* Loads the independent libraries given as arguments, each with a `view`, and prints each one's view. `close`
 * unloads the last one, `swap` replaces it by the library $NEXT. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef PRIVATE
static volatile int knob = PRIVATE;
#endif

int main(int argc, char **argv)
{
    char line[64];
    int (*view[8])(void);
    void *library = 0;
    for (int i = 1; i < argc; i++) {
        library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return 1;
        view[i] = (int (*)(void))dlsym(library, "view");
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "close\n")) {
            dlclose(library);
            argc--;
        }
        if (!strcmp(line, "swap\n")) {
            dlclose(library);
            library = dlopen(getenv("NEXT"), RTLD_NOW | RTLD_LOCAL);
            view[argc - 1] = (int (*)(void))dlsym(library, "view");
        }
        for (int i = 1; i < argc; i++)
            printf("%d ", view[i]());
#ifdef PRIVATE
        printf("private=%d", knob);
#endif
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
