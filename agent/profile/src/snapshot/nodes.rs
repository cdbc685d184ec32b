//! The machines of a job that is watched on several: what a node reports, and the snapshot of all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{EfficienciesView, FindingView, ProcessView, Snapshot, TimeParts};
use crate::{Efficiencies, mpi};

/// Ranks of a node whose numbers travel; further ones are counted as missing.
pub const RANKS_OF_NODE_MAX: usize = 512;
/// Texts that a node may report, of each kind.
const TEXTS_MAX: usize = 64;
/// Characters of such a text.
const TEXT_MAX: usize = 2_000;
/// Functions of a rank.
const FUNCTIONS_MAX: usize = 1_000;
/// Hosts that are named in one line.
const NAMED_MAX: usize = 8;

plan::words! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum NodeState {
        /// Its reports arrive as they should.
        #[default]
        Watched = "watched",
        /// Nothing arrives from it.
        Silent = "silent",
        /// Its processes have ended, and all of their numbers have arrived.
        Ended = "ended",
        /// It is given up: its numbers are the last that arrived.
        Gone = "gone",
    }
}

/// A machine of a job, as its coordinator sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    pub host: String,
    pub state: NodeState,
    /// Ranks and other processes that are watched there.
    pub processes: usize,
    /// The age of its numbers; `None` before the first have arrived.
    pub lag: Option<Duration>,
    /// How far the conversion of its clock may be wrong, in nanoseconds; `None` before it was measured.
    pub clock_bound_ns: Option<u64>,
    /// Hits and other data that were lost there or on the way.
    pub losses: u64,
    /// Messages that were refused: too long, broken, or about what is not the node's.
    pub refused: u64,
}

/// What a node reports of its processes since the probes were armed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeNumbers {
    pub processes: Vec<ProcessView>,
    pub time: TimeParts,
    /// Losses of all kinds on the node.
    pub losses: u64,
    pub missing: Vec<String>,
    /// Rules that each machine evaluates by itself, with the texts of their findings.
    pub findings: Vec<(String, String)>,
}

impl NodeNumbers {
    /// The numbers of a snapshot, with the findings of rules that `is_of_machine` selects.
    pub fn of(snapshot: &Snapshot, is_of_machine: impl Fn(&str) -> bool) -> NodeNumbers {
        let mut numbers = NodeNumbers {
            processes: snapshot.processes.clone(),
            time: snapshot.time.total,
            losses: snapshot.lost.iter().map(|(_, count)| count).sum(),
            missing: snapshot.missing.clone(),
            findings: snapshot
                .findings
                .iter()
                .filter(|finding| is_of_machine(&finding.rule))
                .map(|finding| (finding.rule.clone(), finding.text.clone()))
                .collect(),
        };
        let left_out = numbers.processes.len().saturating_sub(RANKS_OF_NODE_MAX);
        if left_out > 0 {
            let text =
                format!("{left_out} processes beyond {RANKS_OF_NODE_MAX}: their numbers do not travel");
            numbers.missing.insert(0, text);
        }
        numbers.bounded()
    }

    /// Without what exceeds the bounds, and with texts that can be printed. What arrives may be anything.
    #[must_use]
    pub fn bounded(mut self) -> NodeNumbers {
        self.processes.truncate(RANKS_OF_NODE_MAX);
        for process in &mut self.processes {
            process.functions.truncate(FUNCTIONS_MAX);
            process.functions.iter_mut().for_each(|function| {
                clean(&mut function.name);
                let carries = mpi::find(&function.name).and_then(|known| known.function.carries);
                function.bytes_kind = carries.map(|carries| carries.kind.name());
            });
        }
        self.missing.truncate(TEXTS_MAX);
        self.missing.iter_mut().for_each(clean);
        self.findings.truncate(TEXTS_MAX);
        for (rule, text) in &mut self.findings {
            clean(rule);
            clean(text);
        }
        self
    }
}

/// Removes what a terminal would obey, and shortens.
fn clean(text: &mut String) {
    *text = text
        .chars()
        .filter(|letter| !letter.is_control())
        .take(TEXT_MAX)
        .collect();
}

/// Hosts for display: `a, b`; the first ones of many.
pub fn node_list<'a>(hosts: impl Iterator<Item = &'a str>) -> String {
    let hosts: Vec<&str> = hosts.collect();
    let named = hosts[..hosts.len().min(NAMED_MAX)].join(", ");
    match hosts.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Snapshot {
    /// Adds the numbers of the other machines of the job. What is known of this machine alone is left out, because
    /// it would be taken for that of the job: the matrix of messages, call sites, CPUs and their frequency.
    pub fn add_nodes<'a>(&mut self, nodes: impl Iterator<Item = (NodeView, Option<&'a NodeNumbers>)>) {
        let here = NodeView {
            host: self.job.host.clone(),
            processes: self.processes.len(),
            lag: Some(Duration::ZERO),
            clock_bound_ns: Some(0),
            losses: self.lost.iter().map(|(_, count)| count).sum(),
            ..NodeView::default()
        };
        for (view, numbers) in nodes {
            if self.nodes.is_empty() {
                self.nodes.push(here.clone());
            }
            if let Some(numbers) = numbers {
                self.add_node(&view, numbers);
            }
            self.nodes.push(view);
        }
        if self.nodes.is_empty() {
            return;
        }
        for process in &mut self.processes {
            process.host.get_or_insert_with(|| here.host.clone());
        }
        self.processes
            .sort_by_key(|process| (process.rank.is_none(), process.rank));
        self.sequence.efficiencies = self.efficiencies_of(ProcessView::useful_share);
        self.sequence.recent_efficiencies = self.efficiencies_of(|process| process.recent_useful);
        self.sequence.without_split = self
            .sequence
            .efficiencies
            .map(|_| "waiting and transfer at collectives are compared on one machine only".to_owned());
        (self.matrix, self.cpus, self.frequency) = (None, None, None);
        self.sequence.call_sites.clear();
    }

    fn add_node(&mut self, view: &NodeView, numbers: &NodeNumbers) {
        let of_node = |process: &ProcessView| ProcessView {
            host: Some(view.host.clone()),
            // The rates of a node that reports no more are those of the past.
            rates: process.rates.filter(|_| view.state == NodeState::Watched),
            ended: process.ended || view.state == NodeState::Gone,
            ..process.clone()
        };
        self.processes.extend(numbers.processes.iter().map(of_node));
        self.time.total += numbers.time;
        let named = |text: &String| format!("{}: {text}", view.host);
        self.missing.extend(numbers.missing.iter().map(named));
        let finding = |(rule, text): &(String, String)| FindingView {
            rule: rule.clone(),
            text: named(text),
            at: self.elapsed,
            numbers_at: self.elapsed,
            ..FindingView::default()
        };
        self.findings.extend(numbers.findings.iter().map(finding));
    }

    /// The efficiencies of all ranks of MPI, from the share of time that each computes.
    fn efficiencies_of(&self, share: fn(&ProcessView) -> Option<(f64, bool)>) -> Option<EfficienciesView> {
        let mut nodes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let (mut over_iterations, mut ranks) = (true, 0);
        for process in self.processes.iter().filter(|process| process.rank.is_some()) {
            let (useful, is_complete) = share(process)?;
            over_iterations &= is_complete;
            ranks += 1;
            let host = process.host.as_deref().unwrap_or_default();
            nodes.entry(host).or_default().push(useful);
        }
        let nodes: Vec<Vec<f64>> = nodes.into_values().collect();
        let of = Efficiencies::of(&nodes)?;
        Some(EfficienciesView {
            of,
            between_nodes: (self.job.size == Some(ranks)).then_some(of.between_nodes),
            ranks,
            nodes: nodes.len(),
            over_iterations,
            ..EfficienciesView::default()
        })
    }
}

impl ProcessView {
    /// The share of its time outside MPI, and whether it covers complete iterations.
    fn useful_share(&self) -> Option<(f64, bool)> {
        let of_all = || {
            let (mpi_ns, watched_ns) = (self.mpi_ns? as f64, self.watched_ns as f64);
            (watched_ns > 0.0 && mpi_ns <= watched_ns).then(|| (1.0 - mpi_ns / watched_ns, false))
        };
        self.useful.map(|useful| (useful, true)).or_else(of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FunctionTotals;

    fn rank(rank: u32, mpi_ns: u64) -> ProcessView {
        ProcessView {
            rank: Some(rank),
            watched_ns: 100,
            mpi_ns: Some(mpi_ns),
            functions: vec![FunctionTotals {
                name: "MPI_Send".to_owned(),
                calls: 10,
                bytes: Some(7),
                ..FunctionTotals::default()
            }],
            ..ProcessView::default()
        }
    }

    fn node(host: &str) -> NodeView {
        NodeView {
            host: host.to_owned(),
            ..NodeView::default()
        }
    }

    fn of_two_nodes() -> Snapshot {
        let mut snapshot = Snapshot {
            processes: vec![rank(0, 20), rank(3, 20)],
            ..Snapshot::default()
        };
        (snapshot.job.host, snapshot.job.size) = ("a".to_owned(), Some(4));
        let numbers = NodeNumbers {
            processes: vec![rank(1, 60), rank(2, 60)],
            missing: vec!["a ring".to_owned()],
            findings: vec![("crowded".to_owned(), "more ranks than CPUs".to_owned())],
            ..NodeNumbers::default()
        };
        snapshot.add_nodes([(node("b"), Some(&numbers))].into_iter());
        snapshot
    }

    #[test]
    fn the_numbers_of_all_nodes_are_those_of_one_job() {
        let snapshot = of_two_nodes();
        let ranks: Vec<_> = snapshot
            .processes
            .iter()
            .map(|process| (process.rank, process.host.as_deref()))
            .collect();
        let a = |rank| (Some(rank), Some("a"));
        let b = |rank| (Some(rank), Some("b"));
        assert_eq!(ranks, [a(0), b(1), b(2), a(3)]);
        let functions = snapshot.functions();
        assert_eq!((functions[0].calls, functions[0].bytes), (40, Some(28)));
        let found = snapshot.sequence.efficiencies.unwrap();
        // Within each node the ranks compute alike, 0.8 and 0.4 of their time.
        assert_eq!((found.nodes, found.ranks), (2, 4));
        assert!((found.between_nodes.unwrap() - 0.75).abs() < 1e-12, "{found:?}");
        assert!((found.of.within_nodes - 1.0).abs() < 1e-12);
        assert_eq!(snapshot.missing, ["b: a ring"]);
        assert_eq!(snapshot.findings[0].text, "b: more ranks than CPUs");
    }

    #[test]
    fn without_other_nodes_nothing_changes() {
        let mut snapshot = Snapshot {
            processes: vec![rank(0, 20)],
            ..Snapshot::default()
        };
        let before = snapshot.clone();
        snapshot.add_nodes(std::iter::empty());
        assert_eq!(snapshot, before);
    }

    #[test]
    fn what_a_node_reports_is_bounded_and_printable() {
        let numbers = NodeNumbers {
            processes: vec![rank(0, 0); RANKS_OF_NODE_MAX + 1],
            missing: vec!["\u{1b}[2Jx".repeat(5_000); TEXTS_MAX + 1],
            ..NodeNumbers::default()
        };
        let numbers = numbers.bounded();
        assert_eq!(
            (numbers.processes.len(), numbers.missing.len()),
            (RANKS_OF_NODE_MAX, TEXTS_MAX)
        );
        assert!(numbers.missing[0].len() <= TEXT_MAX && !numbers.missing[0].contains('\u{1b}'));
        let kind = numbers.processes[0].functions[0].bytes_kind;
        assert_eq!(kind, Some("sent"), "it does not travel");
        let many: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        let listed = node_list(many.iter().map(String::as_str));
        assert!(listed.ends_with("n7 and 12 more"), "{listed}");
    }
}
