/* Two libraries of the same layout, by COPY: what one calls `first_knob` is `second_knob` in the other, at the same place. */
#if COPY == 1
volatile int first_knob = 10;
volatile int first_padding[2000] = {1};
int first_value(void) { return first_knob; }
#else
volatile int second_knob = 10;
volatile int second_padding[2000] = {1};
int second_value(void) { return second_knob; }
#endif
