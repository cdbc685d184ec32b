//! Holds a thread of the program at a sync point while an action is carried out: the kernel side ([`Holds`])
//! behind the tuner's interface ([`Rendezvous`]). Runs in the actuator, and does not know the action.
//!
//! The probe exists only while an action is pending, and so do all means that make answers fast.

mod answer;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use abi::{Hold, HoldState, StoreResult};
use plan::Moment;
use tuner::rendezvous::{
    HOLD_SIGNAL, HeldAction, HoldError, HoldRequest, HoldTicket, KeyedHits, Progress, Rendezvous, Store,
};
use tuner::{HoldStatistics, KeyPlace};

use crate::{
    awake::Awake,
    kernel::{CallMoment, Holds, KernelError, Link, LinkChoice, LinkKind, LinkRequest, ProbeSite},
};
use answer::{AnswerThreads, HeldActions};

/// Longest wait of a cancelled request for a hold in progress. A hold ends within its bounds, unless the held
/// thread itself gets no CPU.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// Interval of checks during this wait.
const RELEASE_LOOK: Duration = Duration::from_micros(50);

/// Why no thread can be held on this machine.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The answering threads could not be started.
    #[error("the threads that answer could not be started")]
    Threads(#[from] std::io::Error),
    /// One CPU cannot hold and answer at the same time.
    #[error("a thread is held on one CPU and answered on another, and there is only one here")]
    OneCpu,
}

/// Holds threads of programs on this machine.
pub struct KernelRendezvous {
    // Dropped in this order: the probes, the answering threads, the rest.
    armed: BTreeMap<u32, Link>,
    answer_threads: AnswerThreads,
    held_actions: Arc<HeldActions>,
    holds: Holds,
    /// `None` if it cannot be requested.
    awake: Option<Awake>,
    real_time: bool,
}

/// The loaded kernel side, before any thread is started: the loader may then give up rights permanently.
pub struct Prepared {
    holds: Holds,
    awake: Option<Awake>,
    cpus: [u32; 2],
}

impl Prepared {
    pub fn load(choice: LinkChoice) -> Result<Prepared, RendezvousError> {
        let cpus = answer::two_cpus()?.ok_or(RendezvousError::OneCpu)?;
        let holds = Holds::load(cpus[0], choice)?;
        let refused = |error: &std::io::Error| tracing::debug!(%error, "CPUs cannot be kept awake");
        Ok(Prepared {
            holds,
            awake: Awake::open().inspect_err(refused).ok(),
            cpus,
        })
    }
}

impl KernelRendezvous {
    /// Loads the kernel side and starts the threads.
    pub fn new(choice: LinkChoice) -> Result<KernelRendezvous, RendezvousError> {
        Prepared::load(choice).and_then(KernelRendezvous::start)
    }

    pub fn start(prepared: Prepared) -> Result<KernelRendezvous, RendezvousError> {
        let Prepared {
            mut holds,
            awake,
            cpus,
        } = prepared;
        let held_actions = Arc::new(HeldActions::new(Arc::clone(holds.records())));
        let answer_threads = AnswerThreads::start(&held_actions, holds.take_wakers()?, cpus)?;
        Ok(KernelRendezvous {
            armed: BTreeMap::new(),
            answer_threads,
            held_actions,
            holds,
            awake,
            real_time: false,
        })
    }

    pub fn link_kind(&self) -> LinkKind {
        self.holds.link_kind()
    }

    /// Removes the probe and frees the record.
    fn release(&mut self, index: u32) {
        self.armed.remove(&index);
        self.held_actions.take(index);
        self.held_actions.records().clear(index);
        self.rest();
    }

    /// Ends the fast mode if no action is pending.
    fn rest(&mut self) {
        if self.armed.is_empty() {
            self.keep_awake(false);
            self.answer_threads.set_real_time(false);
            self.real_time = false;
        }
    }

    fn keep_awake(&self, is_wanted: bool) {
        if let Some(Err(error)) = self.awake.as_ref().map(|awake| awake.set(is_wanted)) {
            tracing::debug!(%error, "CPUs are not kept awake, or not let sleep");
        }
    }

    fn passage(&self, hold: &Hold) -> HoldStatistics {
        HoldStatistics {
            hits: hold.hits,
            misses: hold.misses,
            passed: hold.passed,
            hold_ns: hold.released_at_ns.saturating_sub(hold.held_at_ns),
            missed_ns: hold.missed_ns,
            thread: u32::try_from(hold.thread).unwrap_or(0),
            real_time: self.real_time,
        }
    }

    /// The progress of an action, and whether it is final.
    fn look(&self, index: u32) -> (Progress, bool) {
        let Some(hold) = self.held_actions.records().get(index) else {
            return (Progress::Missed(HoldStatistics::default()), true);
        };
        let passage = self.passage(&hold);
        // The probe writes the time of release last; a late action may still be running.
        let is_over = hold.released_at_ns != 0 && self.held_actions.is_free(index);
        match HoldState::from_word(hold.state).filter(|_| is_over) {
            Some(HoldState::Done) => (Progress::Done(passage), true),
            Some(HoldState::Late) => (Progress::Late(passage), true),
            Some(HoldState::Missed) => (Progress::Missed(passage), true),
            Some(HoldState::GoneBy) => (Progress::GoneBy(passage), true),
            Some(HoldState::Stored) => {
                let stored = Progress::Stored {
                    found: hold.found,
                    written: hold.stored == StoreResult::Written as u64,
                    passage,
                };
                (stored, true)
            }
            _ => (
                Progress::Pending(HoldStatistics {
                    hold_ns: 0,
                    ..passage
                }),
                false,
            ),
        }
    }
}

impl Rendezvous for KernelRendezvous {
    fn arm(&mut self, request: &HoldRequest, action: HeldAction) -> Result<HoldTicket, HoldError> {
        let index = (0..abi::HOLDS_MAX)
            .find(|index| !self.armed.contains_key(index))
            .ok_or(HoldError::TooMany(abi::HOLDS_MAX))?;
        let process = request.point.pid().number.unsigned_abs();
        if self.armed.is_empty() {
            self.keep_awake(true);
            self.real_time = self.answer_threads.set_real_time(true);
        }
        self.held_actions.put(index, action);
        if !self.held_actions.records().arm(index, &hold(request, process)) {
            self.rest();
            return Err(HoldError::NoRecord);
        }
        let sites = request.point.sites();
        let link = self.holds.attach(
            &LinkRequest {
                path: sites.path.clone(),
                sites: sites
                    .offsets
                    .iter()
                    .map(|offset| ProbeSite::new(offset.0, index))
                    .collect(),
                at: match request.point.place().moment {
                    Moment::Entry => CallMoment::Entry,
                    Moment::Return => CallMoment::EXIT,
                },
                pid: Some(process),
            },
            request.store.is_some(),
        );
        match link {
            Ok(link) => {
                self.armed.insert(index, link);
                Ok(HoldTicket(index))
            }
            Err(error) => {
                self.release(index);
                Err(HoldError::Attach(error.into()))
            }
        }
    }

    fn progress(&mut self, ticket: HoldTicket) -> Progress {
        let (progress, is_over) = self.look(ticket.0);
        if is_over {
            self.release(ticket.0);
        }
        progress
    }

    fn disarm(&mut self, ticket: HoldTicket) -> Progress {
        let index = ticket.0;
        let looks = RELEASE_WAIT.as_micros() / RELEASE_LOOK.as_micros();
        for _ in 0..looks {
            // From here on no hit is held; a hold in progress is waited for.
            let records = self.held_actions.records();
            let is_idle = records.state(index) == Some(HoldState::Idle);
            if is_idle || records.step(index, HoldState::Armed, HoldState::Idle) {
                let (progress, _) = self.look(index);
                self.release(index);
                return progress;
            }
            let (progress, is_over) = self.look(index);
            if is_over {
                self.release(index);
                return progress;
            }
            std::thread::sleep(RELEASE_LOOK);
        }
        // The record stays in use, because the held thread still reads it; its action is dropped.
        self.held_actions.take(index);
        Progress::Missed(
            self.held_actions
                .records()
                .get(index)
                .map_or_else(HoldStatistics::default, |hold| self.passage(&hold)),
        )
    }

    fn keyed_hits(&self) -> Arc<dyn KeyedHits> {
        Arc::clone(&self.held_actions) as Arc<dyn KeyedHits>
    }

    fn store_refusal(&self) -> Option<String> {
        self.holds.store_refusal().map(ToString::to_string)
    }
}

fn hold(request: &HoldRequest, process: u32) -> Hold {
    let store = request.store.as_ref().map(Store::words).unwrap_or_default();
    let (key_source, key_address, key_width) = match request.key {
        None => (0, 0, 0),
        Some(KeyPlace::Argument { index, bytes }) => (u64::from(index) + 1, 0, u64::from(bytes)),
        Some(KeyPlace::Memory { address, bytes }) => (abi::KEY_IN_MEMORY, address.0, u64::from(bytes)),
    };
    Hold {
        process: u64::from(process),
        answer_ns_max: request.answer_ns_max.min(abi::HOLD_NS_MAX / 2),
        action_ns_max: request.action_ns_max.min(abi::HOLD_NS_MAX / 2),
        misses_max: request.misses_max,
        address: store.address,
        expected: store.expected,
        value: store.value,
        width: store.width,
        signal: request.key.map_or(0, |_| u64::from(HOLD_SIGNAL.unsigned_abs())),
        key_source,
        key_address,
        key_width,
        key_wanted: abi::KEY_NONE_YET,
        ..Hold::default()
    }
}
