//! Lines that are printed once, apart from the screen of a session.

/// Prints a line to standard output.
macro_rules! say {
    ($($argument:tt)*) => {
        report::console::line(format_args!($($argument)*))
    };
}

/// Prints a line to standard error, after the program's name.
macro_rules! warn {
    ($($argument:tt)*) => {
        report::console::error_line(format_args!("tuneagent: {}", format_args!($($argument)*)))
    };
}
