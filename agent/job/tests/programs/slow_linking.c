/* An auditor of the dynamic linker (LD_AUDIT). Before a process searches for the library whose name begins
 * with SLOW_LIBRARY, it opens the pipe `waits` in the folder SLOW_FOLDER, and continues when the pipe `go`
 * there is opened. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned la_version(unsigned version) { return version; }

static void meet_at(const char *pipe, int how) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("SLOW_FOLDER"), pipe);
    close(open(path, how));
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
    (void)cookie;
    if (flag == LA_SER_ORIG && !strncmp(name, getenv("SLOW_LIBRARY"), strlen(getenv("SLOW_LIBRARY")))) {
        meet_at("waits", O_WRONLY);
        meet_at("go", O_RDONLY);
    }
    return (char *)name;
}
