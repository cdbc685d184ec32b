/* A library with a variable, and its own view of it. */
int knob = VALUE;
int VIEW(void) { return knob; }
