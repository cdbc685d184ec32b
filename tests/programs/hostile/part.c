/* Two libraries with the same layout, selected by COPY: `first_knob` of one is at the address of the other's
 * `second_knob`. */
#if COPY == 1
volatile int first_knob = 10;
volatile int first_padding[2000] = {1};
int first_value(void) { return first_knob; }
#else
volatile int second_knob = 10;
volatile int second_padding[2000] = {1};
int second_value(void) { return second_knob; }
#endif
