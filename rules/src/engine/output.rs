//! What goes into the engine and what comes out of it, as plain data.

use std::collections::BTreeSet;

use plan::{Action, Meeting, SyncPoint};
use serde::{Deserialize, Serialize};

use crate::ids::{DecisionId, ProbeId, RuleId};
use crate::measure::Measure;
use crate::partial_sum::PartialSum;
use crate::unit::Dimension;
use crate::value::{MetricReading, ProcessId, Reads, Reason, Scalar, Subject, Time};

/// How far the judgement of a decision is, in windows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TrialProgress {
    pub decision: DecisionId,
    pub seen: usize,
    /// Windows that it takes.
    pub over: u32,
}

/// Something that was measured. Times must not run backwards within one series; what does is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// A running total since any moment.
    Counter {
        of: Subject,
        measure: Measure,
        time: Time,
        /// Nanoseconds, bytes, or a count.
        total: u64,
    },
    /// A running total of the calls of one MPI function, if the plan requests calls by their names.
    CallCounter {
        process: ProcessId,
        /// A measure of MPI.
        measure: Measure,
        /// The function, as `MPI_Send`.
        call: String,
        time: Time,
        /// Nanoseconds, bytes, or a count.
        total: u64,
    },
    Gauge {
        of: Subject,
        measure: Measure,
        time: Time,
        /// Seconds, bytes, or a plain number.
        value: f64,
    },
    /// What a variable holds that a rule would write ([`crate::Plan::variables`]).
    Variable {
        process: ProcessId,
        /// The variable, or the way to a part of it, as the plan names it.
        name: String,
        time: Time,
        /// A boolean or a number.
        value: Scalar,
    },
    /// Running totals of a probe in one process.
    ProbeTotals {
        rule: RuleId,
        probe: ProbeId,
        process: ProcessId,
        time: Time,
        /// Hits since any moment.
        count: u64,
        /// Sum of their durations, nanoseconds; 0 if the plan requests the count only.
        duration_sum_ns: u64,
    },
    /// One hit of a probe for which the plan requests [`crate::Delivery::EachHit`].
    Hit {
        rule: RuleId,
        probe: ProbeId,
        process: ProcessId,
        /// The thread, by the number the agent gave it.
        thread: u32,
        time: Time,
        duration_ns: u64,
        /// What was read, in the order of [`crate::PlannedProbe::captures`], or why it could not be.
        captures: Reads,
    },
    /// The aggregate of hits of a probe for which the plan requests [`crate::Delivery::PartialSums`]. What
    /// lies before a hit that parts aggregates is passed in before the watermark that covers this one.
    PartialSum {
        rule: RuleId,
        probe: ProbeId,
        process: ProcessId,
        partial_sum: PartialSum,
    },
    /// Every hit of a process up to a time has been handed in. Windows from probe to probe close by it.
    Watermark {
        process: ProcessId,
        /// Nothing of this time or earlier will follow.
        time: Time,
    },
    /// Hits of a process were lost: the windows they could belong to are not complete.
    Lost {
        process: ProcessId,
        /// The earliest that may be lost.
        from: Time,
        to: Time,
    },
}

impl Observation {
    pub fn counter(of: Subject, measure: Measure, time: Time, total: u64) -> Observation {
        Observation::Counter {
            of,
            measure,
            time,
            total,
        }
    }

    pub fn gauge(of: Subject, measure: Measure, time: Time, value: f64) -> Observation {
        Observation::Gauge {
            of,
            measure,
            time,
            value,
        }
    }
}

/// A window that closed and was evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedWindow {
    pub rule: RuleId,
    pub window: String,
    /// Its number, from 0.
    pub index: u64,
    /// Its duration in seconds; none where an end of it is not known.
    pub duration: Option<f64>,
    /// Its metrics, each with its value as people read it or `none (reason)`.
    pub metrics: Vec<(String, String)>,
    /// The same as numbers, in the same order; none where a metric has no value or is no number.
    pub readings: Vec<Option<MetricReading>>,
}

/// What was left out of a rule's windows from probe to probe, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Hits behind their process's watermark, or of an instance that had closed.
    pub late: u64,
    pub duplicate: u64,
    /// Hits that belong to no instance: before the first boundary, or between two instances.
    pub outside: u64,
    /// Hits without the key that places them, or with one that begins an instance twice.
    pub unplaced: u64,
    /// Hits there was no room for.
    pub overflow: u64,
    /// Spans across a boundary that the window leaves out.
    pub straddling: u64,
    /// Instances left out because they were the first.
    pub skipped: u64,
    /// Instances left out by `discard`.
    pub discarded: u64,
    /// Instances that closed without being complete; they have no values of hits.
    pub partial: u64,
}

/// Why something is left out of a rule's windows, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub reason: &'static str,
    /// For people: they were …
    pub words: &'static str,
    /// How many windows or hits; never 0.
    pub count: u64,
}

fn left_out<const N: usize>(all: [(&'static str, &'static str, u64); N]) -> Vec<LeftOut> {
    let all = all
        .into_iter()
        .map(|(reason, words, count)| LeftOut { reason, words, count });
    all.filter(|one| one.count > 0).collect()
}

impl Dropped {
    /// Windows that were not evaluated, or have no values of hits.
    pub fn windows(&self) -> Vec<LeftOut> {
        left_out([
            ("partial", "not complete", self.partial),
            ("discarded", "discarded by the rule", self.discarded),
            ("skipped", "skipped, as the first are", self.skipped),
        ])
    }

    /// Hits that count in no window.
    pub fn hits(&self) -> Vec<LeftOut> {
        left_out([
            ("late", "late", self.late),
            ("duplicate", "delivered twice", self.duplicate),
            ("outside", "outside of all windows", self.outside),
            ("unplaced", "without the key of a window", self.unplaced),
            ("overflow", "beyond what there is room for", self.overflow),
            ("straddling", "across the boundary of a window", self.straddling),
        ])
    }

    /// What was left out elsewhere.
    pub(super) fn add(&mut self, other: &Dropped) {
        let Dropped {
            late,
            duplicate,
            outside,
            unplaced,
            overflow,
            straddling,
            skipped,
            discarded,
            partial,
        } = other;
        self.late += late;
        self.duplicate += duplicate;
        self.outside += outside;
        self.unplaced += unplaced;
        self.overflow += overflow;
        self.straddling += straddling;
        self.skipped += skipped;
        self.discarded += discarded;
        self.partial += partial;
    }
}

/// What the engine has to say after a tick.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Something is to be changed; answer with [`crate::Engine::receipt`].
    Decision(Decision),
    FindingOpened(Finding),
    /// It does no longer.
    FindingClosed {
        rule: RuleId,
        /// The tune, by its place in the file.
        tune: usize,
    },
    Verdict(Verdict),
}

/// A change to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub id: DecisionId,
    pub rule: RuleId,
    pub rule_name: String,
    /// The tune, by its place in the file.
    pub tune: usize,
    /// The numbers it was made from, as people read them: metrics, then the sides of the condition.
    pub because: Vec<(String, String)>,
    /// What is to be done, in the order of the processes.
    pub changes: Vec<ProcessAction>,
    /// What the model promises of the objective or another value, as people read it.
    pub expect: Option<String>,
    /// Where each process takes the change.
    pub at: Option<SyncPoint>,
    /// Where all processes take the change at the same iteration, all of them or none; or why they cannot
    /// agree on one.
    pub together: Option<Result<Meeting, Reason>>,
    /// It was reverted to be compared, and is made once more.
    pub again: bool,
    /// From where to where the window went that it was decided on; none of a first value, and of what was
    /// decided at a hit: of hits that lead to the same decision nodes may name another.
    pub window: Option<(Time, Time)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProcessAction {
    pub process: ProcessId,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub rule: RuleId,
    pub rule_name: String,
    /// The tune, by its place in the file.
    pub tune: usize,
    /// What was found, in words with numbers.
    pub text: String,
    /// What to change at the next start.
    pub next_start: Option<String>,
    /// The numbers behind it.
    pub because: Vec<(String, String)>,
    pub state: FindingState,
}

/// What has become of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingState {
    Open,
    /// A change was made and is being judged.
    OnTrial,
    /// A change was made and kept; the numbers are those from before it.
    Applied,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub decision: DecisionId,
    pub rule: RuleId,
    /// The tune, by its place in the file.
    pub tune: usize,
    /// Whether the change stays; if not, it is to be reverted now.
    pub keep: bool,
    /// It is reverted because the `while` that it was in force for no longer holds: nothing was judged.
    pub ended: bool,
    /// It is reverted to be compared with the time without it: the trial goes on.
    pub compares: bool,
    /// What was found; none where nothing was judged.
    pub verdict: Option<plan::GuardEffect>,
    /// The processes of which that is said; none is all of the decision.
    pub processes: Option<BTreeSet<ProcessId>>,
    /// Mean of the objective before and after, in seconds, bytes or their powers; none if it could not be
    /// judged.
    pub means: Option<(f64, f64)>,
    pub dimension: Dimension,
    /// How many times better it got, above 1 for better; none where a mean is 0 or they differ in sign.
    pub ratio: Option<f64>,
    /// In which it lies with 98 % confidence.
    pub interval: Option<(f64, f64)>,
    /// For people: `91.4 ms -> 1.31 ms (10 windows each): 70 times less [65, 74], confirmed; kept`.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// Every change was made.
    Applied,
    /// Every process had it already, which could not be known before: nothing was written, for this reason.
    There(String),
    /// Nothing was written, on purpose, for this reason.
    Refused(String),
    /// It could not be done, for this reason; nothing is left written.
    Failed(String),
    /// The same, but what was in the way may be gone later.
    Hindered(String),
}

/// Where a tune stands and why it does not act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneStatus {
    pub rule: RuleId,
    pub rule_name: String,
    /// The tune, by its place in the file.
    pub tune: usize,
    /// `set opal_progress_yield_when_idle`, `call f`, or `advice`.
    pub label: String,
    pub standing: Standing,
    pub why: String,
    /// Processes that the last window left out, and why.
    pub left_out: Vec<String>,
    /// None of its processes was there for all of the window that closed last, or no window has closed.
    pub saw_no_process: bool,
    /// In some window that has closed there was one.
    pub had_processes: bool,
    /// Its condition had a value in some window.
    pub had_value: bool,
    /// Windows of the rule that closed and were evaluated.
    pub windows: u64,
    /// What was left out of them, or of which no window was evaluated.
    pub dropped: Dropped,
}

/// The state of a tune, as data: [`TuneStatus::why`] is for people, and its words may change. In the order of
/// progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Off,
    /// Its condition or its value is none.
    NoValue,
    #[default]
    Quiet,
    /// Something else must come first: a window, another tune, a baseline, the end of a cooldown.
    Waiting,
    /// It would act, and gives way to another rule: a change of that is on trial, or it has what this one
    /// would change.
    GivesWay,
    /// Its condition holds, and must for some windows more.
    Counting,
    /// It would act, but the rule only advises, or the tune is advice.
    Advising,
    /// A decision was made and its receipt has not come.
    Pending,
    /// The change is being judged.
    OnTrial,
    /// The change was kept.
    Applied,
    /// It does not act again until the rule is set to applying again.
    OnHold,
}

impl Standing {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Off => "off",
            Standing::Quiet => "quiet",
            Standing::NoValue => "no_value",
            Standing::Counting => "counting",
            Standing::GivesWay => "gives_way",
            Standing::Waiting => "waiting",
            Standing::Advising => "advising",
            Standing::Pending => "pending",
            Standing::OnTrial => "on_trial",
            Standing::Applied => "applied",
            Standing::OnHold => "on_hold",
        }
    }
}
