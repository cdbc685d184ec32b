/* A replacement of sudo for tests. As a set-uid program of root it runs a command as root, without the
 * caller's environment.
 *
 *   sudo -- COMMAND ARGUMENT... */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char uid[32];
    snprintf(uid, sizeof uid, "%d", (int)getuid());
    if (argc < 3 || strcmp(argv[1], "--") != 0 || setgroups(0, NULL) != 0 || setgid(0) != 0 || setuid(0) != 0)
        return 1;
    clearenv();
    setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("SUDO_UID", uid, 1);
    setenv("SUDO_USER", "ana", 1);
    execvp(argv[2], argv + 2);
    return 1;
}
