//! Whole-program tests of tuneagent.
