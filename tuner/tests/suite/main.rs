//! Tests against real processes: small C programs that print what they see themselves.
//!
//! - `programs`: builds and runs them
//! - `looking`: processes, modules, functions, types
//! - `binding`: which bytes a name means
//! - `filtered`: programs that have given up system calls
//! - `finding`: paths, C++ and Fortran names, debug information wherever it lies
//! - `describing`: what the debug information of one file tells
//! - `writing`: what is written, what is refused, what is reverted
//! - `moving`: what changes between the last check and the store
//! - `journals`: what the journal says of a change, to whom, and after an accident
//! - `refused`: what ends in a typed error with nothing written: debuggers, ends in the middle, full disks
//! - `underload`: a program under load, and what is asked of it
//! - `actions`: calls, code, threads, on the same
//! - `inverses`: calls that take calls back, on the same
//! - `loading`: libraries, on the same
//! - `actuator`: the session of the separate process
//! - `crashes`: the actuator is killed in the middle of actions, or ends around a write
//! - `obstacles`: processes that must be left alone
//! - `offspring`: processes that are forked from changed ones
//! - `sequences`: random series of changes and undos
//! - `sites`: where entries are probed, in real libraries
//! - `blocking`: threads that sleep in system calls, held
//! - `calling`: calls that wait for a sync point
//! - `waiting`: changes that wait for a sync point, with a rendezvous that holds nobody
//! - `tidy`: promises that the sources keep
//!
//! Without a C compiler, or where the kernel lets nobody look into a child, a test says on the real standard
//! error that it was skipped; with TUNEAGENT_REQUIRE_ALL=1 it fails instead.
#![expect(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

/// The value; without it the test ends here, as one that was skipped.
macro_rules! or_skip {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return,
        }
    };
}

/// What gave this has failed, and so.
macro_rules! refused {
    ($result:expr, $why:pat) => {
        let result = $result;
        assert!(matches!(result, Err($why)), "{:?}", result.err());
    };
}

/// An error is such a one.
macro_rules! is {
    ($error:expr, $why:pat) => {
        let error = $error;
        assert!(matches!(error, $why), "{error:?}");
    };
}

mod actions;
mod actuator;
mod binding;
mod blocking;
mod calling;
mod crashes;
mod describing;
mod failing;
mod filtered;
mod finding;
mod inverses;
mod journals;
mod loading;
mod looking;
mod moving;
mod obstacles;
mod offspring;
mod programs;
mod refused;
mod sequences;
mod sites;
mod tidy;
mod underload;
mod waiting;
mod writing;
