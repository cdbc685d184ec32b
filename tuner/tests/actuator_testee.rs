//! The actuator as a process of its own, for crash tests: serves the stream that it was given as its standard
//! input, and kills itself at the instant it was told to.
//!
//! Arguments: none, or `after-intent N` / `after-write N` to die at the N-th time that instant is reached.

use std::env;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use tuner::actuator::{ServeOptions, serve};
use tuner::writer::Hooks;

static LEFT: AtomicU32 = AtomicU32::new(u32::MAX);

fn die_when_due() {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // Not an exit: nothing may be tidied up, as after a crash.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut hooks = Hooks::default();
    if let [instant, count] = &arguments[..] {
        LEFT.store(count.parse().unwrap_or(u32::MAX), Ordering::Relaxed);
        match instant.as_str() {
            "after-intent" => hooks.after_intent = die_when_due,
            "after-write" => hooks.after_write = die_when_due,
            _ => return ExitCode::from(2),
        }
    }
    let Ok(stream) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return ExitCode::FAILURE;
    };
    match serve(
        UnixStream::from(stream),
        ServeOptions {
            hooks,
            ..ServeOptions::default()
        },
    ) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
