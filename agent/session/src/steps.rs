//! Tables of events and effects, for the tests of all state machines.

/// Asserts the effects of an event at a time.
macro_rules! gives {
    ($it:ident, $event:expr, $at:expr => $effects:expr $(, $($message:tt)+)?) => {
        assert_eq!($it.on($event, $at), $effects $(, $($message)+)?);
    };
}

/// A state machine once these events, each at its time, have come.
macro_rules! after {
    ($it:expr; $($event:expr, $at:expr);+) => {{
        let mut it = $it;
        $(it.on($event, $at);)+
        it
    }};
}
