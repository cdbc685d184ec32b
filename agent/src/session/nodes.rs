//! The session's part in a job on several machines: as its coordinator, or as a node. What is decided is in
//! [`session::nodes`]; here messages are passed on, and effects carried out.

use std::time::Duration;

use job::monotonic_ns;
use profile::{NodeNumbers, Snapshot};
use session::nodes::{Coordinator, CoordinatorEffect, Node, NodeEffect};

use super::Session;
use crate::nodes::{Carried, Carrier, Link};

/// How long the end waits for the last reports of nodes, or for the answer to one.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How long the end waits until the carrier has sent the last messages.
const CARRIED_WAIT: Duration = Duration::from_secs(2);

/// What a session is in a job on several machines.
pub(crate) enum NodeRole {
    Coordinator(Box<Coordinator>),
    Node(Box<Node>),
}

/// The role, and the way to the other machines.
pub(super) struct Nodes {
    pub(super) role: NodeRole,
    link: Link,
}

impl Nodes {
    /// Must be called inside the tokio runtime.
    pub(super) fn new((role, carrier): (NodeRole, Carrier)) -> std::io::Result<Nodes> {
        Ok(Nodes {
            role,
            link: Link::new(carrier)?,
        })
    }

    pub(super) fn coordinator(&self) -> Option<&Coordinator> {
        match &self.role {
            NodeRole::Coordinator(coordinator) => Some(coordinator),
            NodeRole::Node(_) => None,
        }
    }
}

/// The next message of another machine; never completes on one machine.
pub(super) async fn next_carried(nodes: &mut Option<Nodes>) -> Carried {
    match nodes {
        Some(nodes) => nodes.link.next().await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// Takes a message of another machine.
    pub(super) fn take_carried(&mut self, carried: Carried) {
        let Some(nodes) = &mut self.nodes else { return };
        let (node, message) = match carried {
            Carried::Message(node, message) => (node, message),
            Carried::Note(text) => return self.screen.say_when(&text),
        };
        let now_ns = monotonic_ns();
        match &mut nodes.role {
            NodeRole::Coordinator(coordinator) => {
                let effects = coordinator.take(node, &message, now_ns);
                self.carry_out_as_coordinator(effects);
            }
            NodeRole::Node(of) => {
                let effects = of.take(&message, now_ns);
                self.carry_out_as_node(effects);
            }
        }
    }

    /// At a tick: the coordinator evaluates the rules of the job, a node reports.
    pub(super) fn tick_nodes(&mut self) {
        let now_ns = monotonic_ns();
        match self.nodes.as_mut().map(|nodes| &mut nodes.role) {
            None => {}
            Some(NodeRole::Coordinator(coordinator)) => {
                let schedule = coordinator.take_own(self.rules.report_part());
                self.rules.learn(&schedule, 0);
                let acts = coordinator.evaluate(now_ns);
                let effects = coordinator.tick(now_ns);
                acts.into_iter().for_each(|act| self.record(act));
                self.carry_out_as_coordinator(effects);
            }
            Some(NodeRole::Node(node)) => {
                let mut effects = node.tick(now_ns);
                if node.is_due(now_ns) {
                    effects.extend(self.report_as_node(None));
                }
                self.carry_out_as_node(effects);
            }
        }
    }

    /// The report of this node; the last one has this snapshot.
    fn report_as_node(&mut self, last: Option<&Snapshot>) -> Vec<NodeEffect> {
        let snapshot = match last {
            Some(snapshot) => snapshot.clone(),
            None => self.showing().1.snapshot(),
        };
        let of_machine = |name: &str| self.rules.is_of_machine(name);
        let numbers = NodeNumbers::of(&snapshot, of_machine);
        let part = self.rules.report_part();
        match self.nodes.as_mut().map(|nodes| &mut nodes.role) {
            Some(NodeRole::Node(node)) => node.report(&numbers, part, last.is_some(), monotonic_ns()),
            _ => Vec::new(),
        }
    }

    fn carry_out_as_coordinator(&mut self, effects: Vec<CoordinatorEffect>) {
        for effect in effects {
            match effect {
                CoordinatorEffect::Send(node, message) => self.send_to(node, &message),
                CoordinatorEffect::Say(text) => self.screen.say_when(&text),
                CoordinatorEffect::Joined => {
                    let snapshot = self.showing().1.snapshot();
                    self.screen.say(&report::view::header(&snapshot));
                }
            }
        }
    }

    fn carry_out_as_node(&mut self, effects: Vec<NodeEffect>) {
        for effect in effects {
            match effect {
                NodeEffect::Send(message) => self.send_to(0, &message),
                NodeEffect::Learn { schedule, offset_ns } => self.rules.learn(&schedule, offset_ns),
                NodeEffect::End(reason) => self.parts.end(reason),
            }
        }
    }

    fn send_to(&mut self, node: u32, message: &[u8]) {
        if let Some(nodes) = &mut self.nodes {
            nodes.link.send(node, message);
        }
    }

    /// At the end, before the last numbers are read: the nodes end, too, and their last numbers are waited for.
    pub(super) async fn end_nodes(&mut self, reason: &str) {
        let Some(NodeRole::Coordinator(coordinator)) = self.nodes.as_mut().map(|nodes| &mut nodes.role)
        else {
            return;
        };
        let effects = coordinator.end(reason);
        self.carry_out_as_coordinator(effects);
        let waited = async {
            while self.is_waiting_for_nodes() {
                let carried = next_carried(&mut self.nodes).await;
                self.take_carried(carried);
            }
        };
        if tokio::time::timeout(LAST_WAIT, waited).await.is_err() {
            self.screen
                .say_when("not every node has sent its last numbers: those shown are the last that arrived");
        }
    }

    fn is_waiting_for_nodes(&self) -> bool {
        let coordinator = self.nodes.as_ref().and_then(Nodes::coordinator);
        coordinator.is_some_and(Coordinator::is_waiting)
    }

    /// At the end of a node: sends the last numbers, and waits until they have arrived. Then the way is closed.
    pub(super) async fn end_as_node(&mut self, last: &Snapshot) {
        if let Some(NodeRole::Node(_)) = self.nodes.as_ref().map(|nodes| &nodes.role) {
            let effects = self.report_as_node(Some(last));
            self.carry_out_as_node(effects);
            let answered = async {
                while self.nodes.as_ref().is_some_and(Nodes::is_unanswered) {
                    let carried = next_carried(&mut self.nodes).await;
                    self.take_carried(carried);
                }
            };
            let _ = tokio::time::timeout(LAST_WAIT, answered).await;
        }
        if let Some(nodes) = self.nodes.take() {
            nodes.link.finish(CARRIED_WAIT).await;
        }
    }
}

impl Nodes {
    fn is_unanswered(&self) -> bool {
        matches!(&self.role, NodeRole::Node(node) if !node.is_settled())
    }
}
