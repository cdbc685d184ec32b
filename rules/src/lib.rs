//! The rule language of tuneagent.
