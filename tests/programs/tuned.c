/* A library with a variable that others of the same name have too, and a function that can take the place of one of `levers`. */
int tuned_level = 1;

int level_now(void) { return tuned_level; }

long tuned_sort(const long *numbers, int count)
{
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}
