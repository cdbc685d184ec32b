//! The actuator as a separate process for crash tests. It serves the stream at its standard input and kills
//! itself at a given instant.
//!
//! Arguments: none; or `after-intent N`, `after-write N` or `underway N` to die when the instant is reached
//! for the N-th time; or `sync HOW` for a rendezvous without a kernel side, whose result is HOW.

use std::env;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Signal, getpid, kill_process};
use tuner::actuator::{RendezvousSource, ServeOptions, serve};
use tuner::rendezvous::{
    HeldAction, HoldError, HoldRequest, HoldTicket, KeyedHits, Progress, Rendezvous, SeenHits, ThreadAtSync,
};
use tuner::{HoldStatistics, Hooks};

static HOW: OnceLock<String> = OnceLock::new();

/// Holds no thread: the action is called when its progress is queried.
struct Scripted {
    action: Option<HeldAction>,
}

impl Rendezvous for Scripted {
    fn arm(&mut self, _: &HoldRequest, action: HeldAction) -> Result<HoldTicket, HoldError> {
        self.action = Some(action);
        Ok(HoldTicket(0))
    }

    fn progress(&mut self, _: HoldTicket) -> Progress {
        let passage = HoldStatistics {
            hits: 3,
            misses: 2,
            hold_ns: 25_000,
            thread: 7,
            ..HoldStatistics::default()
        };
        let mut call = || {
            if let Some(action) = self.action.take() {
                // There is no thread to follow, so the result is dropped.
                drop(action(&ThreadAtSync {
                    thread: 7,
                    since_ns: 0,
                }));
            }
        };
        match HOW.get().map(String::as_str) {
            Some("done") => {
                call();
                Progress::Done(passage)
            }
            Some("late") => {
                call();
                Progress::Late(passage)
            }
            Some("missed") => Progress::Missed(passage),
            // The existence of this file stands for a hit of the sync point.
            Some(gate) if Path::new(gate).exists() => {
                call();
                Progress::Done(passage)
            }
            _ => Progress::Pending(HoldStatistics::default()),
        }
    }

    fn disarm(&mut self, _: HoldTicket) -> Progress {
        self.action = None;
        Progress::Pending(HoldStatistics::default())
    }

    fn keyed_hits(&self) -> Arc<dyn KeyedHits> {
        Arc::new(Nowhere)
    }

    fn store_refusal(&self) -> Option<String> {
        Some("there is no kernel side".to_owned())
    }
}

struct Nowhere;

impl KeyedHits for Nowhere {
    fn want(&self, _: HoldTicket, _: i64) {}

    fn seen(&self, _: HoldTicket) -> SeenHits {
        SeenHits::default()
    }

    fn forgo(&self, _: HoldTicket) -> bool {
        true
    }
}

static LEFT: AtomicU32 = AtomicU32::new(u32::MAX);

fn die_when_due() {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // A signal instead of an exit, so that nothing is cleaned up, as in a crash.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

fn scripted() -> Result<Box<dyn Rendezvous>, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Box::new(Scripted { action: None }))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut hooks = Hooks::default();
    if let [instant, count] = &arguments[..] {
        LEFT.store(count.parse().unwrap_or(u32::MAX), Ordering::Relaxed);
        match instant.as_str() {
            "sync" => drop(HOW.set(count.clone())),
            "after-intent" => hooks.after_intent = die_when_due,
            "after-write" => hooks.after_write = die_when_due,
            "underway" => hooks.underway = die_when_due,
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
            rendezvous: HOW.get().map(|_| scripted as RendezvousSource),
            ..ServeOptions::default()
        },
        None,
    ) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
