/* A library with a variable of its own, and its own view of it. */
int knob = VALUE;
int VIEW(void) { return knob; }
