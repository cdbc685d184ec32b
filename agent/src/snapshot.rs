//! The state of a session at one moment, as plain data. The terminal, the report, /metrics and the control socket all show
//! this and nothing else.

mod events;
mod matrix;
mod openmp;

use std::time::Duration;

use crate::{
    calls::{
        SiteTotals, Split,
        efficiency::{Efficiencies, Scalability},
        place::Place,
    },
    cost::{CostView, Estimate},
    evidence::{Counters, Frequency},
};

pub use self::{
    events::EventsView,
    matrix::{MatrixView, Messages, PairView, RankMessages},
    openmp::{RegionsView, TeamsView},
};

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The job.
    pub job: JobView,
    /// The wall clock now (RFC 3339, UTC).
    pub taken_at: String,
    /// Time since all probes were armed.
    pub elapsed: Duration,
    /// Length of the period that the rates speak of; zero before the first one ended.
    pub period: Duration,
    /// The processes, by rank.
    pub processes: Vec<ProcessView>,
    /// CPUs that the processes may use together, and those that they would; `None` where that could not be read.
    pub cpus: Option<CpusView>,
    /// What the sequence of MPI calls tells of the job.
    pub sequence: SequenceView,
    /// The clock of the CPUs that the job may use, of late; `None` where the kernel does not tell.
    pub frequency: Option<Frequency>,
    /// Who sends how much to whom; `None` where it is not measured.
    pub matrix: Option<MatrixView>,
    /// What each loaded rule does and why not more.
    pub rules: Vec<RuleView>,
    /// The newest values of the rules' metrics, by rule and metric.
    pub rule_values: Vec<RuleValue>,
    /// Findings that hold now or were repaired.
    pub findings: Vec<FindingView>,
    /// What was changed in this session, in order.
    pub changes: Vec<ChangeView>,
    /// What was lost on the kernel side, by kind.
    pub lost: Vec<(&'static str, u64)>,
    /// How hits came to the rules.
    pub events: EventsView,
    /// Calls that were under way when the probes were armed: in no other number.
    pub under_way: u64,
    /// What is missing from the picture, in words. Empty means complete.
    pub missing: Vec<String>,
    /// What watching and tuning cost; `None` where nothing is probed.
    pub cost: Option<CostView>,
    /// What was written of calls one by one; known at the end of a session.
    pub trace: Option<TraceView>,
}

/// What was written of calls one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceView {
    /// Where to.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Calls that are in it.
    pub calls: u64,
    /// Calls that came when it was full.
    pub dropped: u64,
    /// Calls that were overwritten before they were read.
    pub not_seen: u64,
    /// Calls of functions that are asked again and again, which are not traced.
    pub polling: u64,
    /// Iterations that are in it.
    pub iterations: u64,
    /// Iterations that are not: it was full, or another loop's were there already.
    pub iterations_dropped: u64,
}

/// CPUs of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpusView {
    /// Those that they may use: what their affinities name, less what quotas cut off.
    pub allowed: f64,
    /// A quota is the tighter bound.
    pub is_quota: bool,
    /// Those that the machine has online, where it says so.
    pub online: Option<usize>,
    /// Of the quotas' periods since the session began, those in which the processes were throttled, and all; `None` without a quota.
    pub throttled: Option<(u64, u64)>,
}

/// What the sequence of MPI calls tells of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceView {
    /// What the loop is made of.
    pub steps: Steps,
    /// The loop that the program runs in, found by itself.
    pub iteration: Option<IterationView>,
    /// Why there is none; without MPI and parallel regions nobody looks.
    pub without: Option<String>,
    /// The efficiencies since the probes were armed; none before every rank was measured.
    pub efficiencies: Option<EfficienciesView>,
    /// Why communication efficiency is not told in parts; `None` where it is, and without efficiencies.
    pub without_split: Option<String>,
    /// Why nothing is told against the reference that was given.
    pub without_scalability: Option<&'static str>,
    /// Those of late.
    pub efficiencies_of_late: Option<EfficienciesView>,
    /// Time in MPI, or in parallel regions, by call site, the greatest first; known at the end of a session.
    pub call_sites: Vec<CallSiteView>,
    /// All other call sites together.
    pub other_call_sites: SiteTotals,
    /// Calls that were overwritten before they were read: in totals, but in no call site and no iteration.
    pub unseen: u64,
    /// Calls of threads beyond those whose loops are looked for.
    pub elsewhere: u64,
}

/// What the loop of a program is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// Calls of MPI.
    #[default]
    MpiCalls,
    /// Parallel regions, of a program without MPI.
    Regions,
}

impl Steps {
    /// One of them, in words.
    pub fn noun(self) -> &'static str {
        match self {
            Steps::MpiCalls => "MPI call",
            Steps::Regions => "parallel region",
        }
    }
}

/// The iterations of a loop that was found by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IterationView {
    /// The rank that it was timed in: the lowest that has a loop.
    pub rank: Option<u32>,
    /// MPI calls or parallel regions in an iteration, the mean.
    pub calls: f64,
    /// Iterations that were seen from their begin to their end.
    pub count: u64,
    /// Their mean time, in nanoseconds.
    pub mean_ns: f64,
    /// The mean time of those of late.
    pub of_late_ns: Option<f64>,
    /// How many times as long one takes in the last quarter of the run as in the first.
    pub change: Option<f64>,
    /// The program has left the loop.
    pub is_over: bool,
    /// The pace in one part of the run after the other.
    pub parts: Vec<PaceView>,
}

/// How long iterations took in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceView {
    /// When the last of them ended, since the probes were armed.
    pub until: Duration,
    /// How many.
    pub count: u64,
    /// Their mean time, in nanoseconds.
    pub mean_ns: f64,
}

/// The efficiencies of the ranks here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EfficienciesView {
    /// The factors.
    pub of: Efficiencies,
    /// The part of load balance between nodes; `None` where ranks of the job are on machines that are not seen.
    pub between_nodes: Option<f64>,
    /// Communication efficiency in parts.
    pub split: Option<Split>,
    /// Useful time of all ranks in an iteration, in nanoseconds; `None` where a rank has no loop.
    pub useful_ns: Option<f64>,
    /// Against another run, where one was given.
    pub scalability: Option<Scalability>,
    /// Of how many ranks.
    pub ranks: usize,
    /// On how many nodes.
    pub nodes: usize,
    /// Over whole iterations of every rank; else over a period that may cut one.
    pub over_iterations: bool,
}

/// Where MPI is called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSiteView {
    /// What is called.
    pub function: String,
    /// Where.
    pub place: Place,
    /// Calls, over all ranks.
    pub calls: u64,
    /// Their time.
    pub time_ns: u64,
    /// Ranks that call it there.
    pub ranks: u64,
}

/// What does not change while the job runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobView {
    /// What the site calls it: the batch system's number, else the process that started it.
    pub id: String,
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
    /// The machine it runs on, where that is not the job's.
    pub host: Option<String>,
    /// How long it was watched, from the first reading to the last, in nanoseconds.
    pub watched_ns: u64,
    /// What it did since the probes were armed, by watched function that was called.
    pub functions: Vec<FunctionTotals>,
    /// Counters of the kernel, since the process started.
    pub counters: Option<Counters>,
    /// Time inside MPI since the probes were armed, open calls included, in nanoseconds; `None` where MPI is not probed.
    pub mpi_ns: Option<u64>,
    /// Of it, time ready to run but waiting for a CPU, in calls that have returned; `None` where the kernel does not tell.
    pub mpi_waited_ns: Option<u64>,
    /// Share of its time outside MPI, over the whole iterations of the loop that was found by itself; `None` where none was found.
    pub useful: Option<f64>,
    /// Its parallel regions; `None` where none was seen.
    pub regions: Option<RegionsView>,
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
    /// How many messages of each size, by [`abi::Sizes::bucket`]; empty where they are not counted.
    pub sizes: Vec<u64>,
    /// Calls not timed: too deep, or without a return.
    pub untimed: u64,
    /// Calls per second in the last period.
    pub calls_per_s: f64,
    /// Share of the last period spent inside.
    pub share: f64,
    /// Mean duration in the last period, in nanoseconds, where a call ended in it.
    pub mean_ns: Option<f64>,
    /// How long calls took, one by one; `None` where nobody asked.
    pub durations: Option<Histogram>,
    /// It was watched in windows: calls, time and bytes are told for all the time, and this is known of them. `None` where all was counted.
    pub estimate: Option<Estimate>,
}

/// How many calls took how long, by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// At place n those that took from 2^n to less than 2^(n+1) nanoseconds; at 0 those that took less than 2.
    counts: Vec<u64>,
}

impl Histogram {
    /// One more call.
    pub fn add(&mut self, duration_ns: u64) {
        let place = duration_ns.checked_ilog2().unwrap_or_default() as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// All calls of another one.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Calls that are in it.
    pub fn calls(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// From how many nanoseconds on so many calls, from the shortest call to the longest, those in between that are 0 included.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.counts.iter().zip(0u32..);
        let buckets = buckets.map(|(count, place)| (if place == 0 { 0 } else { 1 << place }, *count));
        buckets.skip_while(|(_, count)| *count == 0)
    }
}

/// Shares and rates over a span of time. Shares are of elapsed time, summed over threads: 1 is one whole CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Inside MPI.
    pub mpi: Option<f64>,
    /// Of it, ready to run but waiting for a CPU; `None` where the kernel does not tell.
    pub mpi_waiting: Option<f64>,
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

/// What a metric of a rule came to in its window that closed last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleValue {
    /// The rule.
    pub rule: String,
    /// The metric.
    pub metric: String,
    /// In seconds, bytes, or as it is; of a table the mean of its rows; a truth is 0 or 1.
    pub value: f64,
    /// The same as people read it.
    pub text: String,
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
    /// Parallel regions over all processes.
    pub fn regions(&self) -> Option<RegionsView> {
        let of = self
            .processes
            .iter()
            .filter_map(|process| process.regions.as_ref());
        of.cloned().reduce(|sum, other| RegionsView {
            regions: sum.regions + other.regions,
            inside_ns: sum.inside_ns.zip(other.inside_ns).map(|(one, other)| one + other),
            watched_ns: sum.watched_ns + other.watched_ns,
            teams: match (sum.teams, other.teams) {
                (Some(sum), Some(other)) => Some(TeamsView::from(sum.of.plus(other.of))),
                (one, other) => one.or(other),
            },
            without_teams: sum.without_teams.or(other.without_teams),
        })
    }

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
        let exact = |of: &FunctionTotals| {
            let all = || Estimate::exact(of.calls, of.bytes.unwrap_or_default());
            of.estimate.unwrap_or_else(all)
        };
        let is_estimated = self.estimate.or(other.estimate).is_some();
        self.estimate = is_estimated.then(|| exact(self).and(exact(other)));
        self.calls += other.calls;
        self.nested += other.nested;
        self.time_ns = self.time_ns.zip(other.time_ns).map(|(a, b)| a + b);
        self.bytes = self.bytes.zip(other.bytes).map(|(a, b)| a + b);
        self.bytes_unknown += other.bytes_unknown;
        if self.sizes.len() < other.sizes.len() {
            self.sizes.resize(other.sizes.len(), 0);
        }
        for (count, more) in self.sizes.iter_mut().zip(&other.sizes) {
            *count += more;
        }
        self.untimed += other.untimed;
        self.calls_per_s += other.calls_per_s;
        self.share += other.share;
        if let Some(more) = &other.durations {
            self.durations.get_or_insert_default().merge(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_between_powers_of_two() {
        let mut histogram = Histogram::default();
        for duration_ns in [0, 1, 2, 3, 1024, 2047, 2048] {
            histogram.add(duration_ns);
        }
        let filled: Vec<(u64, u64)> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0, 2), (2, 2), (1024, 2), (2048, 1)]);
        let mut longer = Histogram::default();
        longer.add(u64::MAX);
        longer.merge(&histogram);
        assert_eq!((longer.calls(), longer.buckets().last()), (8, Some((1 << 63, 1))));
        assert_eq!(Histogram::default().buckets().next(), None);
    }
}
