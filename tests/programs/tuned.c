/* A library with a variable whose name other libraries have, too, and a replacement for a function of
 * `levers`. */
int tuned_level = 1;

int level_now(void) { return tuned_level; }

long tuned_sort(const long *numbers, int count)
{
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}
