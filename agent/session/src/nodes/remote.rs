//! What the coordinator knows of an agent on another machine.

use std::time::Duration;

use profile::format::{duration, plural};
use profile::{NodeNumbers, NodeState, NodeView};

use super::clock::ClockEstimate;
use super::coordinator::CoordinatorEffect::{self, Say};
use super::message::JoinRequest;

/// An agent of a node, from its first message.
#[derive(Debug, Default)]
pub(super) struct Remote {
    pub(super) hello: JoinRequest,
    pub(super) incarnation: u64,
    /// It has the rules.
    pub(super) is_welcome: bool,
    pub(super) state: NodeState,
    pub(super) clock: ClockEstimate,
    pub(super) numbers: Option<NodeNumbers>,
    pub(super) numbers_at_ns: u64,
    pub(super) arrived_ns: u64,
    pub(super) pinged_ns: u64,
    /// Pings that are left of the present series.
    pub(super) series: u32,
    pub(super) next: u64,
    pub(super) lost_reports: u64,
    pub(super) dropped: u64,
    pub(super) refused: u64,
}

impl Remote {
    /// That its session has ended, and why as far as it is known.
    pub(super) fn end_text(&self) -> String {
        let processes = self.numbers.iter().flat_map(|numbers| &numbers.processes);
        let left = processes.filter(|process| !process.ended).count();
        match left {
            0 => format!("{}: its processes have ended", self.hello.host),
            left => format!(
                "{}: its session was ended there; {} not watched any more",
                self.hello.host,
                plural(left, "process")
            ),
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.is_welcome && self.state == NodeState::Watched
    }

    /// Something has arrived from it.
    pub(super) fn arrived(&mut self, now_ns: u64) -> Vec<CoordinatorEffect> {
        let silent_ns = now_ns.saturating_sub(self.arrived_ns);
        self.arrived_ns = now_ns;
        if self.state != NodeState::Silent {
            return Vec::new();
        }
        self.state = NodeState::Watched;
        let text = duration(silent_ns as f64);
        vec![Say(format!(
            "{}: back after {text}; no calls were lost, windows of rules in this time may be incomplete",
            self.hello.host
        ))]
    }

    pub(super) fn view(&self, now_ns: u64) -> NodeView {
        let numbers = self.numbers.as_ref();
        NodeView {
            host: self.hello.host.clone(),
            state: self.state,
            processes: numbers.map_or(self.hello.processes as usize, |numbers| numbers.processes.len()),
            lag: numbers.map(|_| Duration::from_nanos(now_ns.saturating_sub(self.numbers_at_ns))),
            clock_bound_ns: self.clock.at(now_ns).map(|(_, bound)| bound),
            losses: numbers.map_or(0, |numbers| numbers.losses) + self.lost_reports + self.dropped,
            refused: self.refused,
        }
    }
}
