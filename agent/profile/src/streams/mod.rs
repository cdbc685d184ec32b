//! Stream programs as observed: modules with the shares of their time, streams with counted items. From them a
//! contract is learned ([`learn()`]), or compared with one ([`ContractWatch`]).
//!
//! - An [`ObservedGraph`] is made of processes joined by pipes (`counted`, from the counts in `pipes`), of an MPI
//!   program (`ranks`, from the reports in `rank_report` and `rank_windows`; `patterns` finds streams with several
//!   ends), or of functions that the user names (`stages`, in the order of `chain`).
//! - `learn` writes a contract of it.
//! - `watch` compares it with a contract, window by window: `target` has the expected rates, `bottleneck` names the
//!   module to act on, `standing` says whether a rate has reached its target, `drift` finds numbers of the contract
//!   that no longer hold. `follower` does this for a session.
//! - `policy` decides which module gets or gives back workers, `act` makes a rule with a guard of it, `trial` reports
//!   the changes.
//!
//! Nothing here knows how counts were taken.

mod act;
mod bottleneck;
mod chain;
mod counted;
mod drift;
mod follower;
mod learn;
mod patterns;
#[cfg(test)]
mod patterns_tests;
mod pipes;
mod policy;
#[cfg(test)]
mod policy_tests;
mod rank_report;
mod rank_windows;
mod ranks;
#[cfg(test)]
mod ranks_tests;
mod stages;
#[cfg(test)]
mod stages_tests;
mod standing;
mod target;
#[cfg(test)]
mod tests;
mod trial;
mod watch;

pub use act::{GuardedStep, MeasuredModule};
pub use bottleneck::bottleneck;
pub use chain::{StageFunctions, StageMistake};
pub use counted::{counted, observed};
pub use follower::{ContractFollower, NotWatched};
pub use learn::{Learned, NotLearned, learn};
pub use pipes::{Activity, Pipe, Pipeline, Slice, Stage, StageCounts, ThreadState, activity};
pub use policy::{Policy, PolicyAction, UnknownWorkers, WorkerCounts};
pub use rank_report::{CalledTotals, RankReport, RankTotals, SentMessages, SentPair};
pub use rank_windows::{NotJudged, RankWindows};
pub use ranks::{counted_ranks, observed_ranks};
pub use stages::{counted_reports, observed_stages};
pub use trial::{ReportedChange, ReportedGuard};
pub use watch::{ContractWatch, NotComparable};

pub use crate::stream_views::{
    Bottleneck, ContractView, ModuleVerdict, TimeShares, Victim, WatchSummary, WatchedModule, WatchedRate,
    WatchedWindow, WindowRate,
};

/// What was seen of a stream program during some time, which is cut into slices.
#[derive(Clone, Debug, Default)]
pub struct ObservedGraph {
    pub slices_ns: Vec<u64>,
    pub modules: Vec<ObservedModule>,
    pub streams: Vec<ObservedStream>,
    /// What lessens the confidence in it.
    pub doubts: Vec<String>,
}

/// A part of the program that takes and sends items.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedModule {
    pub name: String,
    /// Such as its process and command line.
    pub about: String,
    pub shares: TimeShares,
    /// How many threads or processes work at the same time.
    pub workers: u32,
    pub processes: ModuleProcesses,
    /// How often they called MPI, or how many bytes they moved.
    pub counted: f64,
    /// Each input starts activations of its own, so that it has several computations. Otherwise an activation takes an
    /// item of each.
    pub has_computations: bool,
}

/// The processes that a module consists of.
#[derive(Clone, Debug, PartialEq)]
pub enum ModuleProcesses {
    /// Ranks of an MPI job; none for threads.
    Ranks(Vec<u32>),
    /// A process of a pipeline; `program` is the file name of its program.
    Stage { pid: i32, program: String },
}

/// What the items of an observed stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsAre {
    /// Bytes of a pipe, or a number of them: a contract states how many make one of its items.
    Bytes,
    /// Messages, whatever their size, or calls of functions: they are a contract's items.
    Messages,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ObservedStream {
    pub name: String,
    pub items_are: ItemsAre,
    pub item_bytes: f64,
    /// Such as `1MB`, in the units of a contract; `None` if their size is not known.
    pub item: Option<String>,
    /// Receivers share the items; otherwise each of them gets every one.
    pub is_on_demand: bool,
    pub sent: Vec<End>,
    pub received: Vec<End>,
    /// How the items were counted.
    pub basis: String,
}

/// The items that a module sends or takes on a stream, by slice.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub module: usize,
    pub items: Vec<f64>,
}

impl ObservedGraph {
    pub fn duration_s(&self) -> f64 {
        self.slices_ns.iter().sum::<u64>() as f64 / 1e9
    }

    fn ends(&self, module: usize, side: fn(&ObservedStream) -> &Vec<End>) -> Vec<(usize, &End)> {
        let streams = self.streams.iter().enumerate();
        let ends = streams.filter_map(|(at, stream)| {
            let end = side(stream).iter().find(|end| end.module == module)?;
            Some((at, end))
        });
        ends.collect()
    }

    /// The streams that a module takes from, with its end of each.
    pub(crate) fn inputs(&self, module: usize) -> Vec<(usize, &End)> {
        self.ends(module, |stream| &stream.received)
    }

    pub(crate) fn outputs(&self, module: usize) -> Vec<(usize, &End)> {
        self.ends(module, |stream| &stream.sent)
    }

    /// Whether items that a module sends on `output` may come back to it on `input`.
    pub(crate) fn comes_back(&self, module: usize, output: usize, input: usize) -> bool {
        let ends = |ends: &[End]| ends.iter().map(|end| end.module).collect::<Vec<usize>>();
        let mut reached = vec![false; self.modules.len()];
        reached[module] = true;
        let mut waiting = ends(&self.streams[output].received);
        while let Some(at) = waiting.pop() {
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            if self.streams[input].sent.iter().any(|end| end.module == at) {
                return true;
            }
            for (stream, _) in self.outputs(at) {
                waiting.extend(ends(&self.streams[stream].received));
            }
        }
        false
    }

    /// The activations of a module by slice: an item of each input each, or of the first output if it takes
    /// nothing.
    pub(crate) fn activations(&self, module: usize) -> &[f64] {
        let first = self.inputs(module).into_iter().next();
        let first = first.or_else(|| self.outputs(module).into_iter().next());
        first.map_or(&[], |(_, end)| &end.items)
    }
}
