//! Threads of several processes that are to stand at the same iteration before anything is written: all of the writes, or none.
//!
//! Each thread is stopped where the probe held it. The last to arrive has all others stopped; whoever looks after it makes the
//! writes then, one after the other, and puts back those that were made if one fails. Nobody is let go before that is decided, or
//! before the bound since the first arrival is reached: then nothing is written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stop::{Then, Vigil, Watch, ask};
use super::{Action, Held, STOP_WAIT};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::ptrace::HeldThread;
use crate::slot::Slot;
use crate::value::Bytes;
use crate::write;
use crate::writer::Hooks;

/// How long the first waits for the last. Ranks that wait for each other in every iteration are within one of each other.
pub(crate) const GATHER_WAIT: Duration = Duration::from_secs(2);

/// What is written in one of the processes.
pub(crate) struct Part {
    pub(crate) slot: Arc<Slot>,
    /// What is expected there, and what is to be there.
    pub(crate) change: (Bytes, Bytes),
}

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scattered {
    pub(crate) reason: String,
    pub(crate) again: Again,
}

/// Whether at another iteration it may go better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// A process was faster than we were.
    AtOnce,
    /// Some were stopped, and others did not come as long as they were.
    AfterWaiting,
    /// It would go no better.
    Never,
}

/// One attempt.
pub(crate) struct Gathering {
    parts: Vec<Part>,
    hooks: Hooks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrived: usize,
    until: Option<Instant>,
    outcome: Option<Result<(), Scattered>>,
    /// How long each was held and stopped.
    held_ns: Vec<u64>,
}

impl Gathering {
    pub(crate) fn new(parts: Vec<Part>, hooks: Hooks) -> Arc<Gathering> {
        let held_ns = vec![0; parts.len()];
        let state = State {
            held_ns,
            ..State::default()
        };
        Arc::new(Gathering {
            parts,
            hooks,
            state: Mutex::new(state),
        })
    }

    /// What is done when the thread of one of the processes is held at the iteration.
    pub(crate) fn action(self: &Arc<Self>, place: usize) -> Action {
        let gathering = Arc::clone(self);
        Box::new(move |held: &Held| {
            let Some(part) = gathering.parts.get(place) else {
                return Then::Nothing;
            };
            match ask(part.slot.pid(), held) {
                Ok(thread) => Then::Watch(Box::new(Member {
                    place,
                    thread: Some(thread),
                    since_ns: held.since_ns,
                    until: Instant::now() + STOP_WAIT,
                    has_arrived: false,
                    gathering,
                })),
                Err(error) => {
                    gathering.give_up(error.to_string(), Again::Never);
                    Then::Nothing
                }
            }
        })
    }

    /// Nothing is written, unless everything was already.
    pub(crate) fn give_up(&self, reason: String, again: Again) {
        self.state()
            .outcome
            .get_or_insert(Err(Scattered { reason, again }));
    }

    /// What came of it, once that is decided; the threads are let go within microseconds then.
    pub(crate) fn outcome(&self) -> Option<Result<(), Scattered>> {
        self.state().outcome.clone()
    }

    pub(crate) fn held_ns(&self, place: usize) -> u64 {
        self.state().held_ns.get(place).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self) {
        let mut state = self.state();
        state.arrived += 1;
        state.until.get_or_insert_with(|| Instant::now() + GATHER_WAIT);
        if state.arrived == self.parts.len() && state.outcome.is_none() {
            // Under the lock: nobody is let go meanwhile.
            state.outcome = Some(self.write_all());
        }
    }

    /// Whether it is decided; the bound decides too.
    fn is_decided(&self) -> bool {
        let mut state = self.state();
        if state.outcome.is_none() && state.until.is_some_and(|until| Instant::now() > until) {
            let (arrived, all) = (state.arrived, self.parts.len());
            let reason = format!(
                "{arrived} of {all} processes were at the same iteration after {} s",
                GATHER_WAIT.as_secs()
            );
            state.outcome = Some(Err(Scattered {
                reason,
                again: Again::AfterWaiting,
            }));
        }
        state.outcome.is_some()
    }

    fn write_all(&self) -> Result<(), Scattered> {
        let refuse = |reason: String| {
            let again = Again::Never;
            Err(Scattered { reason, again })
        };
        if let Some(part) = self.parts.iter().find(|part| !part.slot.pid().is_alive()) {
            return refuse(format!("process {} has ended", part.slot.pid()));
        }
        (self.hooks.after_intent)();
        for (place, part) in self.parts.iter().enumerate() {
            if let Err(reason) = part.write() {
                let before = self.parts.get(..place).unwrap_or_default();
                return refuse(reason + &put_back(before));
            }
            (self.hooks.underway)();
        }
        (self.hooks.after_write)();
        Ok(())
    }
}

impl Part {
    fn write(&self) -> Result<(), String> {
        let (expected, new) = self.change;
        self.slot.check_again().map_err(|error| error.to_string())?;
        match write::commit(&self.slot, expected, new) {
            Ok(found) if found == new => Ok(()),
            Ok(found) => Err(format!(
                "process {} wrote {found} at the same time",
                self.slot.pid()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Puts back what was written; what could not be is said.
fn put_back(parts: &[Part]) -> String {
    let back = |part: &Part| {
        let (old, new) = part.change;
        let written = write::commit(&part.slot, new, old);
        match written {
            Ok(found) if found == old => None,
            _ if !part.slot.pid().is_alive() => None,
            Ok(found) => Some((part.slot.pid(), format!("it holds {found}"))),
            Err(error) => Some((part.slot.pid(), error.to_string())),
        }
    };
    let failed: Vec<(Pid, String)> = parts.iter().rev().filter_map(back).collect();
    let said = failed
        .iter()
        .map(|(pid, why)| format!("; process {pid} COULD NOT BE PUT BACK: {why}"));
    said.collect()
}

/// One of the threads.
struct Member {
    gathering: Arc<Gathering>,
    place: usize,
    /// None once it was let go.
    thread: Option<HeldThread>,
    since_ns: u64,
    until: Instant,
    has_arrived: bool,
}

impl Member {
    fn let_go(&mut self) -> Watch {
        self.thread = None;
        let held_ns = monotonic_ns().saturating_sub(self.since_ns);
        if let Some(place) = self.gathering.state().held_ns.get_mut(self.place) {
            *place = held_ns;
        }
        Watch::Over
    }
}

impl Vigil for Member {
    fn look(&mut self) -> Watch {
        let Some(thread) = &mut self.thread else {
            return Watch::Over;
        };
        let is_stopped = match thread.look() {
            Ok(is_stopped) => is_stopped,
            Err(error) => {
                self.gathering.give_up(error.to_string(), Again::Never);
                return self.let_go();
            }
        };
        if is_stopped && !self.has_arrived {
            self.has_arrived = true;
            self.gathering.arrive();
        } else if !is_stopped && Instant::now() > self.until {
            let reason = thread.not_stopped(STOP_WAIT).to_string();
            self.gathering.give_up(reason, Again::AtOnce);
        }
        match (self.gathering.is_decided(), is_stopped) {
            (false, _) => Watch::Waits,
            (true, true) => self.let_go(),
            (true, false) => Watch::Lingers,
        }
    }

    fn too_late(&mut self) {
        self.has_arrived = true;
        let reason = "a thread had to be let go before it was stopped".to_owned();
        self.gathering.give_up(reason, Again::AtOnce);
    }
}
