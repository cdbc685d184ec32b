//! Tests against real processes: small C programs that print what they see themselves.
//!
//! - `programs`: builds and runs them
//! - `looking`: processes, modules, functions, types
//! - `binding`: which bytes a name means
//! - `finding`: paths, C++ and Fortran names, debug information wherever it lies
//! - `writing`: what is written, what is refused, what is taken back
//! - `actuator`: the session of the separate process, and its crashes
//! - `tidy`: promises that the sources keep
//!
//! Without a C compiler, or where the kernel lets nobody look into a child, a test says on the real standard
//! error that it was skipped; with TUNEAGENT_REQUIRE_ALL=1 it fails instead.
#![expect(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod actuator;
mod binding;
mod finding;
mod looking;
mod programs;
mod tidy;
mod writing;
