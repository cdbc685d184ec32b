//! Tests on real processes: small C programs that print their own view of their state.
//!
//! - `programs`: builds and runs the programs
//! - `looking`: reading of processes, modules, functions, types
//! - `binding`: the bytes that a name refers to
//! - `filtered`: programs with seccomp filters
//! - `finding`: paths, C++ and Fortran names, debug information in all places
//! - `describing`: contents of debug information
//! - `writing`: writes, refusals, reverts
//! - `moving`: changes of the program between the last check and the store
//! - `journals`: contents of the journal, access, crashes
//! - `refused`: typed errors without a write: debuggers, ends of processes, full disks
//! - `underload`: a program under load, and how it is started and read
//! - `actions`: calls, code, threads, on this program
//! - `inverses`: calls that are reverted by their inverse, on this program
//! - `loading`: libraries, on this program
//! - `actuator`: sessions of the actuator process
//! - `crashes`: kills of the actuator during actions, and ends around a write
//! - `obstacles`: processes that must not be changed
//! - `offspring`: processes that are forked from changed ones
//! - `sequences`: random sequences of changes and reverts
//! - `sites`: probe sites at function entries of real libraries
//! - `blocking`: held threads that sleep in system calls
//! - `calling`: calls at a sync point
//! - `waiting`: changes at a sync point, with a rendezvous that holds no thread
//!
//! Without a C compiler, or if the kernel does not permit inspecting a child, a test is skipped by
//! `tuneagent_e2e::needs`.
#![expect(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

/// The value of an `Option`; `None` ends the test, which has printed that it is skipped.
macro_rules! or_skip {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return,
        }
    };
}

/// Asserts that the result is an error of this pattern.
macro_rules! refused {
    ($result:expr, $why:pat) => {
        let result = $result;
        assert!(matches!(result, Err($why)), "{:?}", result.err());
    };
}

/// Asserts that an error has this pattern.
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
mod underload;
mod waiting;
mod writing;
