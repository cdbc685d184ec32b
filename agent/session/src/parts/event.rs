//! Events and effects of a session, as plain data.

use std::{collections::VecDeque, time::Duration};

use plan::MarkKind;
use profile::{FindingView, error::ErrorText};
use rules::DecisionId;

use crate::{
    changes::{self, JudgedDecision, MachineId, MemberProcess, NotDone, Order, ProbeSwitch},
    decision::ResolvedDecision,
    leave::{self, ActuatorEnd},
    request::{Answer, Mode, Request},
    requests::{NotAdded, NotSwitched, RemoveResult, RequestTask},
};

/// All events except those of members.
#[derive(Debug)]
pub enum Event {
    /// A condition holds, with its current numbers.
    Found {
        finding: FindingView,
        /// It did not hold before.
        is_new: bool,
    },
    /// A condition no longer holds.
    Gone {
        rule: String,
        /// Time since the start of the session.
        at: Duration,
    },
    /// The rules decided something.
    Decided(Box<ResolvedDecision>),
    /// A judgement, and the time of an iteration before the decision and since, as text.
    Judged(JudgedDecision, Option<String>),
    /// An event of the changes.
    Changes(changes::ChangeEvent),
    /// The result of [`Effect::SwitchProbes`].
    ProbesSwitched(Option<DecisionId>, Result<(), ErrorText>),
    /// Something is not measured.
    NotMeasured(String),
    Tick,
    /// A request came through the control socket or the live view.
    Request(Request),
    /// The result of [`RequestTask::List`] or [`RequestTask::Report`].
    Listed(Result<Answer, ErrorText>),
    /// The result of [`RequestTask::Switch`]: the mode before; and the text if there is no such rule.
    Switched(String, Mode, Result<String, NotSwitched>, String),
    /// The result of [`RequestTask::Add`]: parts of the rule that are not probed.
    Added(String, Mode, Result<Vec<String>, NotAdded>),
    /// The result of [`RequestTask::Remove`].
    Removed {
        rule: String,
        keeps: bool,
        result: RemoveResult,
    },
    /// The session must end.
    Stop(&'static str),
    /// The result of [`leave::LeaveEffect::Revert`], and the number of changes without a report.
    Reverted {
        actuator_end: Box<ActuatorEnd>,
        unnamed: usize,
    },
    /// The result of [`leave::LeaveEffect::Show`].
    Shown {
        /// The last snapshot's line about the job, and its lines at the end.
        header: String,
        closing: Vec<String>,
        /// The processes that have ended or run another program by then.
        ended: Vec<MemberProcess>,
        /// The command that reverts the remaining changes.
        undo: String,
        program: String,
    },
    /// The result of another step of the end.
    Leaving(leave::LeaveEvent),
}

#[derive(Debug)]
pub enum Effect {
    /// Send an order. If there is no room, [`changes::ChangeEvent::NoRoom`] follows.
    Order(MachineId, Order),
    /// Log that an order was dropped.
    Dropped(Order),
    /// Resolve the action of each process: [`changes::ChangeEvent::Decided`] or
    /// [`changes::ChangeEvent::NotOrdered`].
    Resolve(Box<ResolvedDecision>),
    /// Report the result of a decision to the rules.
    Result(DecisionId, Result<(), NotDone>),
    /// Switch probes, for a decision or back: [`Event::ProbesSwitched`].
    SwitchProbes(Option<DecisionId>, Vec<ProbeSwitch>),
    /// Say a line that stays on the screen.
    Say(String),
    /// Say it with the time of day.
    SayWhen(String),
    /// Say it if all details are requested: nothing in the program was changed.
    SayDetail(String),
    /// Mark this moment in the trace: kind, name and text.
    Trace(MarkKind, String, String),
    /// Mark this moment in the recording.
    Record(MarkKind, String, String),
    /// Carry out a task of a request: [`Event::Listed`], [`Event::Switched`], [`Event::Added`] or [`Event::Removed`].
    Do(RequestTask),
    /// Carry out a step of the end.
    Leaving(leave::LeaveEffect),
}

pub type Effects = Vec<Effect>;

/// Effects that wait to be carried out.
#[derive(Debug, Default)]
pub struct EffectQueue(VecDeque<Effect>);

impl EffectQueue {
    /// Inserts the effects that follow from an effect before the remaining ones. Steps of the end are
    /// appended instead, so that they come one after the other.
    pub fn follow(&mut self, effects: Effects) {
        let (steps, others): (Effects, Effects) =
            (effects.into_iter()).partition(|effect| matches!(effect, Effect::Leaving(_)));
        for effect in others.into_iter().rev() {
            self.0.push_front(effect);
        }
        self.0.extend(steps);
    }

    /// The next effect to carry out.
    pub fn take(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}
