//! What can happen to a session, and what is to be done then: plain data.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use plan::MarkKind;
use profile::{FindingView, GuardView};
use rules::{CheckedRule, DecisionId};

use crate::{
    changes::{self, MachineId, MemberProcess, NotDone, Order, ProbeSwitch},
    decision::ResolvedDecision,
    leave::{self, ActuatorEnd},
    request::{Answer, Mode, Request},
    requests::{NotAdded, NotSwitched, RemoveResult},
};

/// What can happen, beside what happens to members.
#[derive(Debug)]
pub enum Event {
    /// A condition holds, with its present numbers.
    Found {
        finding: FindingView,
        /// It did not hold before.
        is_new: bool,
    },
    /// A condition holds no longer.
    Gone {
        rule: String,
        /// When, from the start of the session.
        at: Duration,
    },
    /// The rules decided something.
    Decided(Box<ResolvedDecision>),
    Judged {
        decision: DecisionId,
        rule: String,
        guard: GuardView,
        keeps: bool,
        /// The slots of the processes that are judged; none is all.
        slots: Option<BTreeSet<u32>>,
        /// How long an iteration took before the decision and takes since, in words.
        step: Option<String>,
    },
    /// To what was changed.
    Changes(changes::ChangeEvent),
    /// What came of [`Effect::SwitchProbes`].
    ProbesSwitched(Option<DecisionId>, Result<(), String>),
    /// Something is not measured.
    NotMeasured(String),
    Tick,
    /// A request came through the control socket or the live view.
    Request(Request),
    /// What came of [`Effect::List`] or [`Effect::Report`].
    Listed(Result<Answer, String>),
    /// What came of [`Effect::Switch`]: the mode before; and what is said where there is no such rule.
    Switched(String, Mode, Result<String, NotSwitched>, String),
    /// What came of [`Effect::Add`]: what of the rule is not probed.
    Added(String, Mode, Result<Vec<String>, NotAdded>),
    /// What came of [`Effect::Remove`].
    Removed {
        rule: String,
        keeps: bool,
        result: RemoveResult,
    },
    /// The session is to end.
    Stop(&'static str),
    /// What came of [`leave::LeaveEffect::Revert`], and how many changes the actuator did not name.
    Reverted {
        actuator_end: Box<ActuatorEnd>,
        unnamed: usize,
    },
    /// What came of [`leave::LeaveEffect::Show`].
    Shown {
        /// What the last snapshot says of the job, and at its end.
        header: String,
        closing: Vec<String>,
        /// The processes that have ended or run another program by then.
        ended: Vec<MemberProcess>,
        /// The command that reverts what was left.
        undo: String,
        program: String,
    },
    /// What came of the other steps of the end.
    Leaving(leave::LeaveEvent),
}

#[derive(Debug)]
pub enum Effect {
    /// Send an order. One for which there is no room comes back as [`changes::ChangeEvent::NoRoom`].
    Order(MachineId, Order),
    /// Log that an order was dropped.
    Dropped(Order),
    /// Find what each process is to do: [`changes::ChangeEvent::Decided`] or
    /// [`changes::ChangeEvent::NotOrdered`].
    Resolve(Box<ResolvedDecision>),
    /// Report the result of a decision to the rules.
    Result(DecisionId, Result<(), NotDone>),
    /// Switch probes, for a decision or back: [`Event::ProbesSwitched`].
    SwitchProbes(Option<DecisionId>, Vec<ProbeSwitch>),
    /// Say a line that stays.
    Say(String),
    /// Say it with the time of day.
    SayWhen(String),
    /// The same, for those who want all details: nothing of the program was changed.
    SayDetail(String),
    /// Mark this moment in the trace: kind, name and text.
    Trace(MarkKind, String, String),
    /// Mark it in the recording.
    Record(MarkKind, String, String),
    /// List the session: [`Event::Listed`].
    List,
    /// Read all counters and report: [`Event::Listed`].
    Report,
    /// Switch a rule: [`Event::Switched`].
    Switch { rule: String, mode: Mode },
    /// Add a rule: [`Event::Added`].
    Add { rule: Box<CheckedRule>, mode: Mode },
    /// Remove a rule: [`Event::Removed`].
    Remove { rule: String, keeps: bool },
    /// A step of the end.
    Leaving(leave::LeaveEffect),
}

pub type Effects = Vec<Effect>;

/// Effects that are to be carried out.
#[derive(Debug, Default)]
pub struct EffectQueue(VecDeque<Effect>);

impl EffectQueue {
    /// What follows from an effect comes before those that are left. Steps of the end come one after the
    /// other.
    pub fn follow(&mut self, effects: Effects) {
        let (steps, others): (Effects, Effects) =
            (effects.into_iter()).partition(|effect| matches!(effect, Effect::Leaving(_)));
        for effect in others.into_iter().rev() {
            self.0.push_front(effect);
        }
        self.0.extend(steps);
    }

    /// The next one that is to be carried out.
    pub fn take(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}
