//! The state of a session at one moment, as plain data. The terminal, the report, /metrics and the control
//! socket all show this and nothing else.

mod events;
mod functions;
mod matrix;
mod nodes;
mod openmp;
pub mod outcome;
mod programs;
mod time;
mod tuning;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    calls::{
        SiteTotals, SpeedupHint, Split,
        efficiency::{Efficiencies, Scalability},
        place::SourcePlace,
    },
    cost::CostView,
    os_metrics::{Counters, Frequency, MemoryGroup},
    progress::ProgressView,
    stream_views::ContractView,
};

pub use self::{
    events::EventsView,
    functions::{FunctionTotals, Histogram},
    matrix::{MatrixView, Messages, PairView, RankMessages},
    nodes::{NodeNumbers, NodeState, NodeView, RANKS_OF_NODE_MAX, node_list},
    openmp::{RegionsView, TeamsView},
    programs::name_programs,
    time::{TimeBucket, TimeByMpi, TimeParts, TimeView},
    tuning::{
        ChangeView, FindingView, GuardView, RISK, RULE_VALUES_MAX, Reaction, RuleValue, RuleView, Standing,
    },
};

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub job: JobView,
    /// The wall clock time of the snapshot (RFC 3339, UTC).
    pub taken_at: String,
    /// When all probes were armed, in seconds since 1970.
    pub armed_unix_s: f64,
    pub elapsed: Duration,
    /// Length of the period over which rates are computed; zero before the first one ended.
    pub period: Duration,
    /// In the order of ranks.
    pub processes: Vec<ProcessView>,
    /// Where the time of all processes went.
    pub time: TimeView,
    /// CPUs that the processes may use in total, and CPUs online; `None` if they could not be read.
    pub cpus: Option<CpusView>,
    /// The cgroups of the processes whose memory limits were reached since the session began.
    pub memory_groups: Vec<MemoryGroup>,
    /// How far the program is; `None` if nothing says so.
    pub progress: Option<ProgressView>,
    /// Speedups that the user states (`--hint`).
    pub speedup_hints: Vec<SpeedupHint>,
    /// Results from the sequence of MPI calls.
    pub sequence: SequenceView,
    /// The recent clock frequency of the CPUs that the job may use; `None` if the kernel does not report it.
    pub frequency: Option<Frequency>,
    /// The messages between ranks; `None` if not measured.
    pub matrix: Option<MatrixView>,
    /// The state of each loaded rule and the reason for it.
    pub rules: Vec<RuleView>,
    /// The contract that the job is watched against; `None` without one.
    pub contract: Option<ContractView>,
    /// The newest values of the rules' metrics, by rule and metric.
    pub rule_values: Vec<RuleValue>,
    /// Findings that hold now or were repaired.
    pub findings: Vec<FindingView>,
    /// Findings that no longer hold, each as it was when it held last; the newest of each rule.
    pub past_findings: Vec<FindingView>,
    /// The changes of this session, in order.
    pub changes: Vec<ChangeView>,
    /// Losses on the kernel side, by kind.
    pub lost: Vec<(&'static str, u64)>,
    /// How hits reached the rules.
    pub events: EventsView,
    /// Calls that were open when the probes were armed and have returned since. No other number contains them.
    /// `None` if a rank may still be inside such a call, or if nothing is probed.
    pub under_way: Option<u64>,
    /// Functions named with `--probe` that no process has called.
    pub never_called: Vec<String>,
    /// Descriptions of the data that is missing. Empty if the snapshot is complete.
    pub missing: Vec<String>,
    /// The cost of watching and tuning; `None` if nothing is probed.
    pub cost: Option<CostView>,
    /// The trace of single calls; known at the end of a session.
    pub trace: Option<TraceView>,
    /// The machines of a job that is watched on several, this one first; empty on one machine.
    pub nodes: Vec<NodeView>,
}

/// What the trace of single calls contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceView {
    pub file: String,
    pub bytes: u64,
    pub calls: u64,
    /// Calls that came after the file was full.
    pub dropped: u64,
    /// Calls that were overwritten before they were read.
    pub not_seen: u64,
    /// Calls of polling functions, which are not traced.
    pub polling: u64,
    pub iterations: u64,
    /// Iterations that were not written: the file was full, or it already had those of another loop.
    pub iterations_dropped: u64,
    /// Findings, changes and verdicts that were written.
    pub marks: u64,
    /// Marks that came after the file was full.
    pub marks_dropped: u64,
}

/// CPUs of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpusView {
    /// CPUs that the processes may use: the union of their affinity masks, limited by their quotas.
    pub allowed: f64,
    /// Whether a quota is the tighter bound.
    pub is_quota: bool,
    /// CPUs that are online; `None` if the machine does not report it.
    pub online: Option<usize>,
    /// Memory nodes of the machine; `None` if it does not report them.
    pub memory_nodes: Option<usize>,
    /// Periods of the quotas since the session began: those in which the processes were throttled, and all.
    /// `None` without a quota.
    pub throttled: Option<(u64, u64)>,
}

/// Results from the sequence of MPI calls of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceView {
    /// What a loop consists of.
    pub steps: Steps,
    /// The detected loop that the program runs in.
    pub iteration: Option<IterationView>,
    /// Why no loop was detected; `None` without MPI and parallel regions, where none is expected.
    pub without: Option<String>,
    /// The efficiencies since the probes were armed; `None` before every rank was measured.
    pub efficiencies: Option<EfficienciesView>,
    /// Why communication efficiency is not split; `None` if it is, or if there are no efficiencies.
    pub without_split: Option<String>,
    /// Why there is no comparison with the given reference.
    pub without_scalability: Option<&'static str>,
    pub recent_efficiencies: Option<EfficienciesView>,
    /// Time in MPI, or in parallel regions, by call site, the greatest first; known at the end of a session.
    pub call_sites: Vec<CallSiteView>,
    /// All other call sites together.
    pub other_call_sites: SiteTotals,
    /// Calls that were overwritten before they were read. Totals include them; call sites and iterations do
    /// not.
    pub unseen: u64,
    /// Calls of threads beyond those in which loops are detected.
    pub elsewhere: u64,
}

/// A loop is called a step of the program only where its iterations take this part of the watched time.
const STEP_SHARE: f64 = 0.1;

/// What the loop of a program consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    #[default]
    MpiCalls,
    /// Parallel regions, in a program without MPI.
    Regions,
}

impl Steps {
    /// The singular noun for display.
    pub fn noun(self) -> &'static str {
        match self {
            Steps::MpiCalls => "MPI call",
            Steps::Regions => "parallel region",
        }
    }
}

/// The iterations of a detected loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IterationView {
    /// The rank that was timed: the lowest one that has a loop.
    pub rank: Option<u32>,
    /// Mean number of MPI calls or parallel regions in an iteration.
    pub calls: f64,
    /// Iterations that were observed from begin to end.
    pub count: u64,
    pub mean_ns: f64,
    /// Mean time of the recent iterations.
    pub recent_ns: Option<f64>,
    /// Mean time in the last quarter of the run divided by that in the first.
    pub change: Option<f64>,
    /// The program has left the loop.
    pub is_over: bool,
    /// The call that begins each iteration; known where call sites are.
    pub begins_at: Option<LoopBegin>,
    /// The loop that took longest of those that the program has left.
    pub before: Option<LeftLoop>,
    /// The pace in each part of the run, in order of time.
    pub parts: Vec<PaceView>,
}

/// The call that begins each iteration of a loop. File, address and the number of calls identify the loop: they are
/// the same in all ranks, and in each run of the same files (S4-17).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopBegin {
    pub function: String,
    pub place: SourcePlace,
    /// Of the file that contains the call; `None` if it has none.
    pub build_id: Option<String>,
    /// The return address of the call, as in the file's symbol table.
    pub address: u64,
}

impl IterationView {
    /// From the begin of the first iteration that was seen to the end of the last; `None` if unknown.
    pub fn span(&self) -> Option<(Duration, Duration)> {
        let (first, last) = self.parts.first().zip(self.parts.last())?;
        Some((first.begin(), last.until))
    }

    /// The mean time of an iteration, in nanoseconds, during `over` before the moment `first` and from `last`
    /// on; `None` with fewer than two iterations on either side, and if the loop took little of the time there:
    /// then it is no step of the program. `watched` is the part of the time in which calls were seen.
    pub fn around(
        &self,
        (first, last): (Duration, Duration),
        over: Duration,
        watched: f64,
    ) -> Option<(f64, f64)> {
        let mean = |parts: &mut dyn Iterator<Item = &PaceView>, span: Duration| {
            let (count, sum_ns) = parts.fold((0, 0.0), |(count, sum_ns), part| {
                (count + part.count, sum_ns + part.sum_ns())
            });
            let is_step = sum_ns >= STEP_SHARE * watched * span.as_nanos() as f64;
            (count >= 2 && is_step).then(|| sum_ns / count as f64)
        };
        let is_before = |part: &&PaceView| part.until <= first && part.begin() + over >= first;
        let since = self.parts.last()?.until.saturating_sub(last);
        let before = mean(&mut self.parts.iter().filter(is_before), over.min(first))?;
        let after = mean(&mut self.parts.iter().filter(|part| part.begin() >= last), since)?;
        Some((before, after))
    }
}

impl PaceView {
    fn sum_ns(&self) -> f64 {
        self.mean_ns * self.count as f64
    }

    /// The earliest time at which the first of the iterations can have begun.
    fn begin(&self) -> Duration {
        self.until
            .saturating_sub(Duration::from_nanos(self.sum_ns() as u64))
    }
}

/// A loop that the program has left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeftLoop {
    /// Mean number of MPI calls or parallel regions in an iteration.
    pub calls: f64,
    /// When the first of its iterations that was seen began, since the probes were armed.
    pub from: Duration,
    pub pace: PaceView,
}

/// How long iterations took in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceView {
    /// When the last of them ended, since the probes were armed.
    pub until: Duration,
    pub count: u64,
    pub mean_ns: f64,
    /// The shortest and the longest of them.
    pub least_ns: f64,
    pub most_ns: f64,
}

/// The efficiencies of the watched ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EfficienciesView {
    pub of: Efficiencies,
    /// The part of load balance between nodes; `None` if ranks of the job run on unseen machines.
    pub between_nodes: Option<f64>,
    /// The factors of communication efficiency.
    pub split: Option<Split>,
    /// Useful time of all ranks in an iteration, in nanoseconds; `None` if a rank has no loop.
    pub useful_ns: Option<f64>,
    pub scalability: Option<Scalability>,
    pub ranks: usize,
    pub nodes: usize,
    /// Whether the values cover complete iterations of every rank. If not, the period may cut an iteration.
    pub over_iterations: bool,
}

/// If no rank is outside MPI for this share of its time, the differences between ranks are noise.
const USEFUL_MIN: f64 = 0.01;

impl EfficienciesView {
    /// Whether the ranks compute for long enough to compare them.
    pub fn is_balance_known(&self) -> bool {
        self.of.communication >= USEFUL_MIN
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSiteView {
    pub function: String,
    pub place: SourcePlace,
    /// Calls of all ranks.
    pub calls: u64,
    pub time_ns: u64,
    /// Ranks that call from this site.
    pub ranks: u64,
}

/// What does not change while the job runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobView {
    /// The job's number in the batch system, or else the process that started it.
    pub id: String,
    pub program: String,
    /// The script or module that the program runs, if it is an interpreter.
    pub script: Option<String>,
    pub user: String,
    pub host: String,
    pub launcher: Option<i32>,
    /// Ranks of the world communicator, watched or not; `None` if unknown.
    pub size: Option<usize>,
    /// The MPI library and its version, such as ("Open MPI", "4.1.4").
    pub mpi: Option<(String, Option<String>)>,
    /// The file that defines the MPI functions.
    pub library: Option<String>,
    pub watched: usize,
}

/// It travels between machines without what is marked as skipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessView {
    pub pid: i32,
    pub rank: Option<u32>,
    /// The program of this entry, if the process executed others while it was watched; with the time of its first
    /// reading if they have the same name, as in "python3 from 4 s".
    pub program: Option<String>,
    pub ended: bool,
    /// The machine that it runs on, if not that of the job.
    pub host: Option<String>,
    /// Time from the first reading to the last, in nanoseconds.
    pub watched_ns: u64,
    /// Totals since the probes were armed, by watched function that was called.
    pub functions: Vec<FunctionTotals>,
    /// Counters of the kernel, since the process started.
    pub counters: Option<Counters>,
    /// The part of `counters` of the programs that the process executed before; `None` if it was watched with none.
    pub counters_before: Option<Counters>,
    /// Time inside MPI since the probes were armed, open calls included, in nanoseconds; `None` if MPI is not
    /// probed.
    pub mpi_ns: Option<u64>,
    /// The part of `mpi_ns` in which it was ready to run but waited for a CPU; `None` if the kernel does not
    /// report it.
    pub mpi_waited_ns: Option<u64>,
    /// The part of `watched_ns` for which its time inside MPI is unknown: no call had begun or ended yet, and one may
    /// have been under way when the probes were armed.
    #[serde(default)]
    pub mpi_unknown_ns: u64,
    /// No MPI call of it has begun or ended since the probes were armed, and one may have been open then: its
    /// time inside MPI is unknown.
    pub is_mpi_unknown: bool,
    /// Share of time outside MPI, over the complete iterations of the detected loop; `None` if none was
    /// detected.
    pub useful: Option<f64>,
    /// The recent share of time outside MPI, and whether it covers complete iterations; `None` if it has ended.
    pub recent_useful: Option<(f64, bool)>,
    /// Its parallel regions; `None` if none was observed.
    #[serde(skip)]
    pub regions: Option<RegionsView>,
    /// The last period; `None` before the first one ended, if it could not be measured, or if the process has
    /// ended.
    pub rates: Option<Rates>,
    /// The complete time in which it was watched.
    pub overall: Option<Rates>,
    /// `overall` in parts; known at the end of a session.
    #[serde(skip)]
    pub load: Vec<LoadView>,
}

/// How a process spent its time in a part of the run. Shares are defined as in [`Rates`]; `None` if not
/// measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadView {
    /// When the part ended, since all probes were armed.
    pub until: Duration,
    pub mpi: Option<f64>,
    pub cpu: Option<f64>,
    /// Ready to run, waiting for a CPU.
    pub runqueue: Option<f64>,
}

/// Shares and rates over a span of time. Shares are of elapsed time, summed over threads: 1 is one full CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    pub mpi: Option<f64>,
    /// The part of `mpi` in which it was ready to run but waited for a CPU; `None` if the kernel does not
    /// report it.
    pub mpi_waiting: Option<f64>,
    pub cpu: f64,
    /// Ready to run, waiting for a CPU.
    pub runqueue: f64,
    /// Outermost MPI calls per second.
    pub calls_per_s: f64,
    /// Bytes handed to MPI for sending, per second.
    pub sent_per_s: f64,
    /// Involuntary context switches per second.
    pub switches_per_s: f64,
    /// The part of the time in which sampled functions were watched; `None` if none is sampled.
    pub sampled: Option<f64>,
}

impl Snapshot {
    /// Whether a rule may change the program.
    pub fn may_write(&self) -> bool {
        self.rules.iter().any(|rule| rule.mode == plan::Mode::Applying)
    }

    /// Parallel regions over all processes.
    pub fn regions(&self) -> Option<RegionsView> {
        let of = self
            .processes
            .iter()
            .filter_map(|process| process.regions.as_ref());
        of.cloned().reduce(|sum, other| RegionsView {
            regions: sum.regions + other.regions,
            inside_ns: sum.inside_ns.zip(other.inside_ns).map(|(one, other)| one + other),
            inside_to_ns: sum
                .inside_to_ns
                .zip(other.inside_to_ns)
                .map(|(one, other)| one + other),
            watched_ns: sum.watched_ns + other.watched_ns,
            until_ns: sum
                .until_ns
                .zip(other.until_ns)
                .map(|(one, other)| one.max(other)),
            teams: match (sum.teams, other.teams) {
                (Some(sum), Some(other)) => Some(TeamsView::from(sum.of.plus(other.of))),
                (one, other) => one.or(other),
            },
            // Of one process only: teams of different processes do not add up.
            scaling: None,
            without_teams: sum.without_teams.or(other.without_teams),
        })
    }

    /// The time for which all processes were watched, summed, in nanoseconds; of MPI, that for which the time inside it
    /// is known.
    pub fn watched_ns(&self, is_of_mpi: bool) -> f64 {
        let all_ns = self.elapsed.as_nanos() as f64 * self.process_count().max(1) as f64;
        let unknown = self.processes.iter().map(|process| process.mpi_unknown_ns as f64);
        match is_of_mpi {
            true => (all_ns - unknown.sum::<f64>()).max(1.0),
            false => all_ns,
        }
    }

    /// Functions over all processes: calls and shares are added, means are weighted by calls.
    pub fn functions(&self) -> Vec<FunctionTotals> {
        let mut functions: Vec<FunctionTotals> = Vec::new();
        let mut places = std::collections::BTreeMap::<&str, usize>::new();
        for process in &self.processes {
            for (index, function) in process.functions.iter().enumerate() {
                // Most processes call the same functions, in the same order.
                let is_here = functions.get(index).is_some_and(|sum| sum.name == function.name);
                let place = match is_here {
                    true => index,
                    false => *places.entry(&function.name).or_insert(functions.len()),
                };
                match functions.get_mut(place) {
                    Some(sum) => sum.add(function),
                    None => functions.push(function.clone()),
                }
            }
        }
        functions.sort_by(|a, b| {
            let by_time = b.share.total_cmp(&a.share).then(b.time_ns.cmp(&a.time_ns));
            by_time.then_with(|| a.name.cmp(&b.name))
        });
        functions
    }

    /// The newest change that the guard kept.
    pub fn kept_change(&self) -> Option<&ChangeView> {
        let is_kept = |change: &&ChangeView| {
            change
                .guard
                .as_ref()
                .is_some_and(|guard| guard.verdict == outcome::GuardVerdict::Kept)
        };
        self.changes.iter().rev().find(is_kept)
    }

    /// The mean time of an iteration before and after that change, in nanoseconds; `None` if either is unknown.
    pub fn iteration_around_change(&self) -> Option<(f64, f64)> {
        let kept = self.kept_change()?;
        let first = kept.first_at.unwrap_or(kept.at);
        let sampled = self
            .processes
            .iter()
            .filter_map(|process| process.overall?.sampled);
        let watched = sampled.fold(1.0, f64::min);
        (self.sequence.iteration.as_ref()?).around((first, kept.at), first, watched)
    }

    /// Processes that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &ProcessView> {
        self.processes.iter().filter(|process| !process.ended)
    }

    /// Whether all processes that were there have ended.
    pub fn has_ended(&self) -> bool {
        !self.processes.is_empty() && self.running().next().is_none()
    }

    /// What can be done about a finding now: nothing that needs the program to run, if it has ended.
    pub fn advice<'a>(&self, finding: &'a FindingView) -> Option<&'a str> {
        let advice = finding.now.as_deref();
        advice.filter(|_| finding.repaired || !self.has_ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(until_ms: u64, count: u64, mean_us: u64) -> PaceView {
        PaceView {
            until: Duration::from_millis(until_ms),
            count,
            mean_ns: (mean_us * 1_000) as f64,
            ..PaceView::default()
        }
    }

    #[test]
    fn iterations_around_a_moment_are_those_just_before_and_all_since() {
        let view = IterationView {
            parts: vec![
                part(100, 2, 50_000),
                part(400, 10, 30_000),
                part(520, 4, 30_000),
                part(620, 10, 10_000),
            ],
            ..IterationView::default()
        };
        let at = Duration::from_millis;
        let around = |moment, over| view.around((at(moment), at(moment)), at(over), 1.0);
        // The part from 400 to 520 contains the moment 450.
        assert_eq!(around(450, 400), Some((30e6, 10e6)));
        assert_eq!(around(450, 300), None, "none of them began so late");
        assert_eq!(around(600, 600), None, "none since");
    }

    #[test]
    fn a_loop_that_took_little_of_the_time_is_no_step_of_the_program() {
        // As seen of CP2K: 60 short iterations in 2.6 s, then two with everything else in between.
        let view = IterationView {
            parts: vec![part(1_000, 60, 35), part(3_400, 2, 351_000)],
            ..IterationView::default()
        };
        let at = Duration::from_millis;
        let around = |watched| view.around((at(2_600), at(2_600)), at(2_600), watched);
        assert_eq!(around(1.0), None);
        assert_eq!(around(0.004), Some((35e3, 351e6)), "most of what was watched");
    }

    #[test]
    fn functions_are_added_by_name_whatever_their_order_in_a_process() {
        let process = |names: &[&str]| ProcessView {
            functions: names
                .iter()
                .map(|name| FunctionTotals {
                    name: (*name).into(),
                    calls: 1,
                    ..FunctionTotals::default()
                })
                .collect(),
            ..ProcessView::default()
        };
        let snapshot = Snapshot {
            processes: [&["c", "a"][..], &["a", "b", "c"], &["b", "a"], &[]]
                .map(process)
                .into(),
            ..Snapshot::default()
        };
        let functions = snapshot.functions();
        let all: Vec<_> = functions.iter().map(|of| (of.name.as_str(), of.calls)).collect();
        assert_eq!(all, [("a", 3), ("b", 2), ("c", 2)]);
    }
}
