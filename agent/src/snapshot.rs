//! The state of a session at one moment, as plain data. The terminal, the report, /metrics and the control socket all show
//! this and nothing else.

use std::time::Duration;

use crate::evidence::Counters;

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The job.
    pub job: JobView,
    /// Time since all probes were armed.
    pub elapsed: Duration,
    /// Length of the period that the rates speak of; zero before the first one ended.
    pub period: Duration,
    /// The processes, by rank.
    pub processes: Vec<ProcessView>,
    /// What each loaded rule does and why not more.
    pub rules: Vec<RuleView>,
    /// Findings that hold now or were repaired.
    pub findings: Vec<FindingView>,
    /// What was changed in this session, in order.
    pub changes: Vec<ChangeView>,
    /// What was lost on the kernel side, by kind.
    pub lost: Vec<(&'static str, u64)>,
    /// Calls that were under way when the probes were armed: in no other number.
    pub under_way: u64,
    /// What is missing from the picture, in words. Empty means complete.
    pub missing: Vec<String>,
}

/// What does not change while the job runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobView {
    /// The program that the ranks run.
    pub program: String,
    /// Whose it is.
    pub user: String,
    /// This machine.
    pub host: String,
    /// The launcher.
    pub launcher: Option<i32>,
    /// Size of the world communicator.
    pub size: usize,
    /// The MPI, such as ("Open MPI", "4.1.4").
    pub mpi: Option<(String, Option<String>)>,
    /// The file that defines it.
    pub library: Option<String>,
    /// Functions watched.
    pub watched: usize,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessView {
    /// Its number.
    pub pid: i32,
    /// Its rank.
    pub rank: Option<u32>,
    /// It has ended.
    pub ended: bool,
    /// What it did since the probes were armed, by watched function that was called.
    pub functions: Vec<FunctionTotals>,
    /// Counters of the kernel, since the process started.
    pub counters: Option<Counters>,
    /// Time inside MPI since the probes were armed, open calls included, in nanoseconds; `None` where MPI is not probed.
    pub mpi_ns: Option<u64>,
    /// The last period; `None` before the first one ended, when it could not be measured, or when the process has ended.
    pub rates: Option<Rates>,
    /// The whole time that it was watched.
    pub whole: Option<Rates>,
}

/// What a process did in one function since the probes were armed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionTotals {
    /// Name.
    pub name: String,
    /// Outermost calls.
    pub calls: u64,
    /// Calls inside another watched MPI function; in no other number.
    pub nested: u64,
    /// Time inside, the call that is still open included, in nanoseconds; `None` where calls are only counted.
    pub time_ns: Option<u64>,
    /// Bytes; `None` where the function carries none that are known.
    pub bytes: Option<u64>,
    /// Which way the bytes go.
    pub bytes_kind: Option<&'static str>,
    /// Calls whose bytes could not be told.
    pub bytes_unknown: u64,
    /// Calls not timed: too deep, or without a return.
    pub untimed: u64,
    /// Calls per second in the last period.
    pub calls_per_s: f64,
    /// Share of the last period spent inside.
    pub share: f64,
    /// Mean duration in the last period, in nanoseconds, where a call ended in it.
    pub mean_ns: Option<f64>,
}

/// Shares and rates over a span of time. Shares are of elapsed time, summed over threads: 1 is one whole CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Inside MPI.
    pub mpi: Option<f64>,
    /// On a CPU.
    pub cpu: f64,
    /// Ready to run, waiting for a CPU.
    pub runqueue: f64,
    /// Outermost MPI calls per second.
    pub calls_per_s: f64,
    /// Bytes handed to MPI for sending, per second.
    pub sent_per_s: f64,
    /// Involuntary context switches per second.
    pub switches_per_s: f64,
}

/// What a rule does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleView {
    /// Its name.
    pub name: String,
    /// `off`, `advising` or `applying`.
    pub mode: &'static str,
    /// Why it does not act, or what it did.
    pub state: String,
}

/// A rule whose condition holds, or held until it was repaired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindingView {
    /// Its rule.
    pub rule: String,
    /// What was found, with its numbers.
    pub text: String,
    /// What can be done now, and what that does.
    pub now: Option<String>,
    /// What to start the program with next time.
    pub next_start: Option<String>,
    /// It was repaired in this session.
    pub repaired: bool,
}

/// A change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeView {
    /// Its number in the journal of its process.
    pub number: u64,
    /// The rule that decided it.
    pub rule: String,
    /// The process.
    pub pid: i32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The keyword of the rule: `set`, `call`.
    pub action: &'static str,
    /// The decision that it belongs to: one for all processes.
    pub decision: u64,
    /// When it was made, since all probes were armed.
    pub at: Duration,
    /// What the rule promised of it, as people read it.
    pub expect: Option<String>,
    /// The numbers it was decided from.
    pub because: Vec<String>,
    /// What was changed: a variable, or the action in words.
    pub variable: String,
    /// The old value; empty where there is none.
    pub old: String,
    /// The new value, or what a call returned; empty where there is none.
    pub new: String,
    /// How it was written.
    pub mechanism: String,
    /// How long the program was held for it, in nanoseconds.
    pub hold_ns: u64,
    /// What became of it: written, in force, returned, refused, reverted …
    pub outcome: String,
    /// What the guard says; none where nobody judges.
    pub guard: Option<GuardView>,
    /// How quickly it followed what it was decided on; none of a first value, and of what was not written.
    pub reaction: Option<Reaction>,
}

/// From the end of a window to the change that follows, in parts that add up; all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reaction {
    /// The window itself, as it was seen (MATE: T_Iter).
    pub window_ns: u64,
    /// From its end until all that belongs to it was there (T_Upd).
    pub update_ns: u64,
    /// Until the rules were evaluated (T_Eval).
    pub evaluate_ns: u64,
    /// Until the order was given to the actuator (T_Tun).
    pub order_ns: u64,
    /// Until the value was written and read back.
    pub write_ns: u64,
}

impl Reaction {
    /// From the end of the window to the change.
    pub fn lag_ns(&self) -> u64 {
        self.update_ns + self.evaluate_ns + self.order_ns + self.write_ns
    }
}

/// The judgement on a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardView {
    /// The objective before, in its own unit; `None` when it could not be judged.
    pub before: Option<f64>,
    /// The objective after.
    pub after: Option<f64>,
    /// How many times better: after/before where more is better, before/after where less is.
    pub ratio: Option<f64>,
    /// `kept`, `undone`, or `ended` when the `while` that it was in force for no longer holds; `on trial` or at the end
    /// `not judged`.
    pub verdict: &'static str,
    /// Why there is no judgement.
    pub reason: Option<String>,
    /// In words, with units.
    pub text: String,
}

impl GuardView {
    /// No judgement, and why.
    pub fn without(verdict: &'static str, reason: String) -> GuardView {
        GuardView {
            verdict,
            text: format!("{verdict}: {reason}"),
            reason: Some(reason),
            ..GuardView::default()
        }
    }
}

impl Snapshot {
    /// Functions over all processes: calls and shares added, means weighted by calls.
    pub fn functions(&self) -> Vec<FunctionTotals> {
        let mut by_name = std::collections::BTreeMap::<&str, FunctionTotals>::new();
        for function in self.processes.iter().flat_map(|process| &process.functions) {
            by_name
                .entry(&function.name)
                .and_modify(|sum| sum.add(function))
                .or_insert_with(|| function.clone());
        }
        let mut functions: Vec<_> = by_name.into_values().collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.time_ns.cmp(&a.time_ns)));
        functions
    }

    /// Processes that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &ProcessView> {
        self.processes.iter().filter(|process| !process.ended)
    }
}

impl FunctionTotals {
    fn add(&mut self, other: &FunctionTotals) {
        let weighted =
            |function: &FunctionTotals| function.mean_ns.map_or(0.0, |mean| mean * function.calls_per_s);
        let rate = |function: &FunctionTotals| {
            if function.mean_ns.is_some() {
                function.calls_per_s
            } else {
                0.0
            }
        };
        let (sum, weight) = (weighted(self) + weighted(other), rate(self) + rate(other));
        self.mean_ns = (weight > 0.0).then(|| sum / weight);
        self.calls += other.calls;
        self.nested += other.nested;
        self.time_ns = self.time_ns.zip(other.time_ns).map(|(a, b)| a + b);
        self.bytes = self.bytes.zip(other.bytes).map(|(a, b)| a + b);
        self.bytes_unknown += other.bytes_unknown;
        self.untimed += other.untimed;
        self.calls_per_s += other.calls_per_s;
        self.share += other.share;
    }
}
