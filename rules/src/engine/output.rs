//! The engine's inputs and outputs as plain data.

use std::collections::BTreeSet;

use plan::{Action, CommonIteration, SyncPoint};
use serde::{Deserialize, Serialize};
use syntax::unit::Dimension;

use crate::ids::{DecisionId, ProbeId, RuleId};
use crate::measure::Measure;
use crate::partial_sum::PartialSum;
use crate::value::{Machine, MetricReading, ProcessId, Reads, Scalar, Subject, Time, WhyUnknown};

/// How far the judgement of a decision is, in windows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TrialProgress {
    pub decision: DecisionId,
    pub seen: usize,
    /// Windows that it takes.
    pub over: u32,
}

/// A measurement. Times must not run backwards within one series; an observation that does is ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Observation {
    /// A running total since an arbitrary moment.
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
    /// The current value of a variable that a rule would write ([`crate::Plan::variables`]).
    Variable {
        process: ProcessId,
        /// The variable, or the path to a part of it, as the plan names it.
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
        /// Hits since an arbitrary moment.
        count: u64,
        /// Sum of their durations, nanoseconds; 0 if the plan requests only the count.
        duration_sum_ns: u64,
    },
    /// One hit of a probe for which the plan requests [`crate::Delivery::EachHit`].
    Hit {
        rule: RuleId,
        probe: ProbeId,
        process: ProcessId,
        /// The thread's number, assigned by the agent.
        thread: u32,
        time: Time,
        duration_ns: u64,
        /// The captured values in the order of [`crate::PlannedProbe::captures`], or why one could not be
        /// read.
        captures: Reads,
    },
    /// The aggregate of hits of a probe for which the plan requests [`crate::Delivery::PartialSums`]. Sums of
    /// hits before a dividing hit ([`crate::PlannedProbe::parts_sums`]) are passed in before the watermark
    /// that covers that hit.
    PartialSum {
        rule: RuleId,
        probe: ProbeId,
        process: ProcessId,
        partial_sum: PartialSum,
    },
    /// All hits of a process up to a time have been passed in. Watermarks close windows from probe to probe.
    Watermark {
        process: ProcessId,
        /// No observation of this time or earlier will follow.
        time: Time,
    },
    /// An iteration of the detected loop of a process has begun.
    IterationBegan {
        process: ProcessId,
        /// The thread's number, assigned by the agent.
        thread: u32,
        number: LoopNumber,
        time: Time,
    },
    /// The iteration that began last has ended.
    IterationEnded(LoopIteration),
    /// Begins and ends of iterations of the detected loop of a process up to a time have been passed in. Rules
    /// that follow these wait for it instead of [`Observation::Watermark`], which must have passed this time.
    LoopWatermark { process: ProcessId, time: Time },
    /// Hits of a process were lost: the windows to which they could belong are incomplete.
    Lost {
        process: ProcessId,
        /// The earliest time of a lost hit.
        from: Time,
        to: Time,
    },
}

/// The number of an iteration. Those of the ranks of a job that belong together have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopNumber {
    /// Counts the detected loops.
    pub of: u32,
    /// Counts the iterations of the loop.
    pub iteration: u64,
}

/// An iteration of the detected loop of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopIteration {
    pub process: ProcessId,
    /// The thread's number, assigned by the agent.
    pub thread: u32,
    pub number: LoopNumber,
    pub begin: Time,
    pub end: Time,
    /// What its parallel regions do, or why that is not known.
    pub teams: Result<IterationTeams, WhyUnknown>,
}

/// The parallel regions of an iteration. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationTeams {
    /// Threads of the largest team.
    pub threads: u32,
    /// Time of the iteration's thread outside regions.
    pub sequential_ns: u64,
    /// Time of all threads working in regions.
    pub working_ns: u64,
    /// Time of all threads from the begin of a region until they work, and from the end of all work to that of
    /// the region.
    pub overhead_ns: u64,
    /// Time of all threads waiting at the end of a region for the last one.
    pub waiting_ns: u64,
}

impl Observation {
    /// The process, or the machine, that was observed.
    pub(super) fn subject(&self) -> Subject {
        match self {
            Observation::Counter { of, .. } | Observation::Gauge { of, .. } => *of,
            Observation::CallCounter { process, .. }
            | Observation::Variable { process, .. }
            | Observation::ProbeTotals { process, .. }
            | Observation::Hit { process, .. }
            | Observation::PartialSum { process, .. }
            | Observation::Watermark { process, .. }
            | Observation::IterationBegan { process, .. }
            | Observation::IterationEnded(LoopIteration { process, .. })
            | Observation::LoopWatermark { process, .. }
            | Observation::Lost { process, .. } => Subject::Process(*process),
        }
    }

    /// The same observation on another machine: with its number, other process numbers and times of another clock.
    /// `time` is called in the order of times.
    #[must_use]
    pub fn moved(
        mut self,
        machine: Machine,
        on_process: impl Fn(ProcessId) -> ProcessId,
        mut on_time: impl FnMut(Time) -> Time,
    ) -> Observation {
        match &mut self {
            Observation::Counter { of, time, .. } | Observation::Gauge { of, time, .. } => {
                *of = match *of {
                    Subject::Process(process) => Subject::Process(on_process(process)),
                    Subject::Machine(_) => Subject::Machine(machine),
                };
                *time = on_time(*time);
            }
            Observation::CallCounter { process, time, .. }
            | Observation::Variable { process, time, .. }
            | Observation::ProbeTotals { process, time, .. }
            | Observation::Hit { process, time, .. }
            | Observation::Watermark { process, time }
            | Observation::IterationBegan { process, time, .. }
            | Observation::LoopWatermark { process, time } => {
                (*process, *time) = (on_process(*process), on_time(*time));
            }
            Observation::PartialSum {
                process, partial_sum, ..
            } => {
                *process = on_process(*process);
                (partial_sum.first, partial_sum.last) =
                    (on_time(partial_sum.first), on_time(partial_sum.last));
            }
            Observation::IterationEnded(iteration) => {
                iteration.process = on_process(iteration.process);
                (iteration.begin, iteration.end) = (on_time(iteration.begin), on_time(iteration.end));
            }
            Observation::Lost { process, from, to } => {
                (*process, *from, *to) = (on_process(*process), on_time(*from), on_time(*to));
            }
        }
        self
    }

    /// The rule of a hit, an aggregate of hits or a total, with the number of hits; `None` if it is of no rule.
    pub(super) fn hits_of_rule(&self) -> Option<(RuleId, u64)> {
        match self {
            Observation::Hit { rule, .. } | Observation::ProbeTotals { rule, .. } => Some((*rule, 1)),
            Observation::PartialSum {
                rule, partial_sum, ..
            } => Some((*rule, partial_sum.count)),
            _ => None,
        }
    }

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
    /// Its duration in seconds; `None` if one of its ends is unknown.
    pub duration: Option<f64>,
    /// Its metrics, each with its value for display or `none (reason)`.
    pub metrics: Vec<(String, String)>,
    /// The same values as numbers, in the same order; `None` for a metric without a value or one that is no
    /// number.
    pub readings: Vec<Option<MetricReading>>,
}

/// Counts of what a rule's windows from probe to probe left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Hits not later than their process's watermark, or of an instance that had already closed.
    pub late: u64,
    pub duplicate: u64,
    /// Hits that belong to no instance: before the first boundary, or between two instances.
    pub outside: u64,
    /// Hits without the key that places them, or with one that begins an instance twice.
    pub unplaced: u64,
    /// Hits beyond the limits of memory.
    pub overflow: u64,
    /// Hits in reports of an agent that was replaced by a newer one on its node.
    pub outdated: u64,
    /// Hits and other observations of processes of another node than the one that reported them.
    pub foreign: u64,
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
    /// Text for display; completes the sentence "they were …".
    pub words: &'static str,
    /// How many windows or hits; never 0.
    pub count: u64,
}

/// A count of what is left out, with its reason and a text for display.
type DroppedCount = (&'static str, &'static str, fn(&mut Dropped) -> &mut u64);

const OF_WINDOWS: [DroppedCount; 3] = [
    ("partial", "not complete", |of| &mut of.partial),
    (
        "discarded",
        "discarded: `discard` of the rule was true or had no value",
        |of| &mut of.discarded,
    ),
    ("skipped", "skipped, as the first are", |of| &mut of.skipped),
];

const OF_HITS: [DroppedCount; 8] = [
    ("late", "late", |of| &mut of.late),
    ("duplicate", "delivered twice", |of| &mut of.duplicate),
    ("outside", "before, between or after windows", |of| {
        &mut of.outside
    }),
    ("unplaced", "without the key of a window", |of| &mut of.unplaced),
    ("overflow", "beyond what there is room for", |of| &mut of.overflow),
    ("outdated", "reported late by an agent that was replaced", |of| {
        &mut of.outdated
    }),
    ("foreign", "reported by a node that is not theirs", |of| {
        &mut of.foreign
    }),
    ("straddling", "across the boundary of a window", |of| {
        &mut of.straddling
    }),
];

impl Dropped {
    /// Windows that were not evaluated, or have no values of hits.
    pub fn windows(&self) -> Vec<LeftOut> {
        self.left_out(&OF_WINDOWS)
    }

    /// Hits that were counted in no window.
    pub fn hits(&self) -> Vec<LeftOut> {
        self.left_out(&OF_HITS)
    }

    fn left_out(mut self, all: &[DroppedCount]) -> Vec<LeftOut> {
        let one = |(reason, words, count): &DroppedCount| LeftOut {
            reason,
            words,
            count: *count(&mut self),
        };
        all.iter().map(one).filter(|one| one.count > 0).collect()
    }

    /// Adds the counts of `other`, which may be those of another machine.
    pub(super) fn add(&mut self, mut other: Dropped) {
        for (_, _, count) in OF_WINDOWS.iter().chain(&OF_HITS) {
            *count(self) = count(self).saturating_add(*count(&mut other));
        }
    }
}

/// An output of the engine after a tick.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A change is to be made. Answer with [`crate::Engine::receipt`].
    Decision(Decision),
    FindingOpened(Finding),
    /// The condition of the finding no longer holds.
    FindingClosed {
        rule: RuleId,
        /// The tune's index in the file.
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
    /// The tune's index in the file.
    pub tune: usize,
    /// The numbers behind the decision, for display: metrics, then both sides of the condition.
    pub because: Vec<(String, String)>,
    /// The actions, ordered by process.
    pub changes: Vec<ProcessAction>,
    /// The model's prediction of the objective or of another value, for display.
    pub expect: Option<String>,
    /// The sync point at which each process takes the change.
    pub at: Option<SyncPoint>,
    /// Where all processes take the change in the same iteration, all of them or none; or why they cannot
    /// agree on a place.
    pub together: Option<Result<CommonIteration, WhyUnknown>>,
    /// The change was reverted for the comparison and is made again.
    pub again: bool,
    /// Begin and end of the window that led to the decision. `None` for a first value and for a decision made
    /// at a hit: nodes may name different hits that lead to the same decision.
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
    /// The tune's index in the file.
    pub tune: usize,
    /// The finding in words, with numbers.
    pub text: String,
    /// What to change at the next start.
    pub next_start: Option<String>,
    /// The numbers behind the finding.
    pub because: Vec<(String, String)>,
    pub state: FindingState,
}

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingState {
    Open,
    /// A change was made and is being judged.
    OnTrial,
    /// A change was made and kept; the numbers are those from before it.
    Applied,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub decision: DecisionId,
    pub rule: RuleId,
    /// The tune's index in the file.
    pub tune: usize,
    /// Whether the change stays; otherwise it must be reverted now.
    pub keep: bool,
    /// The change is reverted because its `while` no longer holds; nothing was judged.
    pub ended: bool,
    /// The change is reverted to be compared with the time without it; the trial continues.
    pub compares: bool,
    /// The guard's result; `None` if nothing was judged.
    pub verdict: Option<plan::GuardEffect>,
    /// The processes that the verdict covers; `None` for all processes of the decision.
    pub processes: Option<BTreeSet<ProcessId>>,
    /// Mean of the objective before and after, in seconds, bytes or their powers; `None` if it could not be
    /// judged.
    pub means: Option<(f64, f64)>,
    pub dimension: Dimension,
    /// The factor of improvement, above 1 for better; `None` if a mean is 0 or the means differ in sign.
    pub ratio: Option<f64>,
    /// The interval that contains `ratio` with 98 % confidence.
    pub interval: Option<(f64, f64)>,
    /// The judgement, for display: `91.4 ms -> 1.31 ms (10 windows each): 70 times less [65, 74], confirmed`.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// Every change was made.
    Applied,
    /// Every process already had the value, which could not be known before; nothing was written, for this
    /// reason.
    There(String),
    /// Nothing was written, deliberately, for this reason.
    Refused(String),
    /// The change was not possible, for this reason; nothing is left written.
    Failed(String),
    /// As `Failed`, but the obstacle may disappear later.
    Hindered(String),
}

/// The state of a tune, and why it does not act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneStatus {
    pub rule: RuleId,
    pub rule_name: String,
    /// The tune's index in the file.
    pub tune: usize,
    /// `set opal_progress_yield_when_idle`, `call f`, or `advice`.
    pub label: String,
    pub standing: Standing,
    pub why: String,
    /// Processes that the last window left out, with reasons.
    pub left_out: Vec<String>,
    /// No process of the tune ran for the entire last closed window, or no window has closed.
    pub saw_no_process: bool,
    /// At least one closed window had a process.
    pub had_processes: bool,
    /// Its condition had a value in at least one window.
    pub had_value: bool,
    /// Windows of the rule that closed and were evaluated.
    pub windows: u64,
    /// What these windows left out, or of which no window was evaluated.
    pub dropped: Dropped,
}

plan::words! {
    /// The state of a tune as data, in the order of progress. [`TuneStatus::why`] is the text for display; its
    /// wording may change.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Standing {
        Off = "off",
        /// Its condition or its value is none.
        NoValue = "no_value",
        #[default]
        Quiet = "quiet",
        /// Something else must come first: a window, another tune, a baseline, the end of a cooldown.
        Waiting = "waiting",
        /// It would act, but gives way to another rule, whose change is on trial or holds the target of this
        /// tune.
        GivesWay = "gives_way",
        /// Its condition holds, and must hold for more windows.
        Counting = "counting",
        /// It would act, but the rule only advises, or the tune is advice.
        Advising = "advising",
        /// A decision was made; its receipt is outstanding.
        Pending = "pending",
        /// The change is being judged.
        OnTrial = "on_trial",
        /// The change was kept.
        Applied = "applied",
        /// It does not act until the rule is set to applying again.
        OnHold = "on_hold",
    }
}
