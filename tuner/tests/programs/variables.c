/* One variable of every kind. Prints "ready", then a line of values for every input line; `set` changes knob
 * itself, `exec` executes the program again in the same process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum color { RED, GREEN };

int knob = 10;
double rate = 1.5;
float ratio = 0.5f;
_Bool flag = 0;
unsigned char byte = 7;
short narrow = -2;
unsigned long long wide = 1;
int zeroed;
static volatile int hidden = 5;
const int fixed = 3;
int *const constant_pointer = &knob;
__thread int own = 1;
enum color shade = RED;
int *pointer = &knob;
int array[4] = {1, 2, 3, 4};
struct { float eps; int n; } pair;
struct __attribute__((packed)) { char first; int odd; } packed;

int main(int argc, char **argv)
{
    char line[64];
    (void)argc;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "exec\n"))
            execv("/proc/self/exe", argv);
        if (!strncmp(line, "set ", 4))
            knob = atoi(line + 4);
        printf("knob=%d rate=%g ratio=%g flag=%d byte=%d narrow=%d wide=%llu zeroed=%d hidden=%d fixed=%d shade=%d own=%d\n",
               knob, rate, ratio, flag, byte, narrow, wide, zeroed, hidden, *(volatile const int *)&fixed, shade, own);
        fflush(stdout);
    }
    return constant_pointer != &knob || array[0] != 1 || packed.odd || pair.n || pointer != &knob;
}

/* Parameters of all classes. After the struct, the registers of further parameters are not known. */
struct large { long parts[4]; };
__attribute__((noinline, used)) double mixed(int first, double second, unsigned char third, const char *fourth, struct large fifth,
                                             long sixth)
{
    return first + second + third + fourth[0] + fifth.parts[0] + sixth;
}
