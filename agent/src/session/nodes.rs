//! The session's part in a job on several machines: as its coordinator, or as a node. What is decided is in
//! [`session::nodes`]; here messages are passed on, and effects carried out.

use std::time::Duration;

use job::monotonic_ns;
use profile::{NodeNumbers, Snapshot};
use session::nodes::{Coordinator, CoordinatorEffect, NodeAgent, NodeEffect, StartEnd};

use super::{measuring::Context, screen::Screen, target::WatchedJob};
use crate::{
    control::Control,
    nodes::{Carried, StartRequest, Subprocess, SubprocessLink},
    rulebook::{Act, RuleBook},
};

/// How long the end waits for the last reports of nodes, or for the answer to one.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How long the end waits until the carrier has sent the last messages.
const CARRIED_WAIT: Duration = Duration::from_secs(2);

/// Why a session ends that a node starter began: its standard input was closed.
pub(super) const NODE_STARTER_ENDED: &str = "the session that started this one has ended";

/// What a session is in a job on several machines.
pub(crate) enum NodeRole {
    Coordinator(Box<Coordinator>),
    Node(Box<NodeAgent>),
}

/// A session's part in a job on several machines, before its loop runs.
pub(crate) struct NodeSetup {
    pub(crate) role: NodeRole,
    pub(crate) carrier: Subprocess,
    /// Starts agents on other machines.
    pub(crate) node_starter: Option<Subprocess>,
    /// The session ends when its standard input does.
    pub(crate) ends_with_input: bool,
}

/// Who talks to a session: its users, and the other machines of the job.
pub(crate) type Peers = (Option<Control>, Option<NodeSetup>);

/// The role, and the way to the other machines.
pub(super) struct Nodes {
    role: NodeRole,
    link: SubprocessLink,
    node_starter: Option<SubprocessLink>,
    pub(super) ends_with_input: bool,
    /// A node has joined, and its job was not shown yet.
    has_joined: bool,
}

impl Nodes {
    /// Must be called inside the tokio runtime.
    pub(super) fn new(setup: NodeSetup) -> std::io::Result<Nodes> {
        let node_starter = setup
            .node_starter
            .map(|node_starter| SubprocessLink::new(node_starter, "starts agents on other machines"));
        Ok(Nodes {
            role: setup.role,
            link: SubprocessLink::new(setup.carrier, "carries messages between nodes")?,
            node_starter: node_starter.transpose()?,
            ends_with_input: setup.ends_with_input,
            has_joined: false,
        })
    }

    pub(super) fn coordinator(&self) -> Option<&Coordinator> {
        match &self.role {
            NodeRole::Coordinator(coordinator) => Some(coordinator),
            NodeRole::Node(_) => None,
        }
    }

    /// Takes a message; returns why the session ends, if it does.
    fn take(&mut self, carried: Carried, rules: &mut RuleBook, screen: &mut Screen) -> Option<&'static str> {
        let now_ns = monotonic_ns();
        let (of, message) = match carried {
            Carried::Message(of, message) => (of, message),
            Carried::StartEnded(of, end) => {
                if let NodeRole::Coordinator(coordinator) = &mut self.role {
                    let effects = coordinator.take_start(of, &end, now_ns);
                    self.coordinate(effects, screen);
                }
                return None;
            }
            Carried::Note(text) => {
                screen.say_when(&text);
                return None;
            }
        };
        match &mut self.role {
            NodeRole::Coordinator(coordinator) => {
                let effects = coordinator.take(of, &message, now_ns);
                self.coordinate(effects, screen);
                None
            }
            NodeRole::Node(node) => {
                let effects = node.take(&message, now_ns);
                self.carry_out(effects, rules)
            }
        }
    }

    fn coordinate(&mut self, effects: Vec<CoordinatorEffect>, screen: &mut Screen) {
        for effect in effects {
            match effect {
                CoordinatorEffect::Send(node, message) => self.link.send(node, &message),
                CoordinatorEffect::Say(text) => screen.say_when(&text),
                CoordinatorEffect::Joined => self.has_joined = true,
                CoordinatorEffect::Begin(node) => self.request(node, StartRequest::Begin),
                CoordinatorEffect::Stop(node) => self.request(node, StartRequest::Stop),
            }
        }
    }

    fn request(&mut self, node: u32, request: StartRequest) {
        if let Some(node_starter) = &mut self.node_starter {
            node_starter.send(node, &request.encode());
        }
    }

    fn carry_out(&mut self, effects: Vec<NodeEffect>, rules: &mut RuleBook) -> Option<&'static str> {
        let mut end = None;
        for effect in effects {
            match effect {
                NodeEffect::Send(message) => self.link.send(0, &message),
                NodeEffect::Learn { schedule, offset_ns } => rules.learn(&schedule, offset_ns),
                NodeEffect::End(reason) => end = Some(reason),
            }
        }
        end
    }

    /// The report of this node.
    fn report(&mut self, snapshot: &Snapshot, is_last: bool, rules: &mut RuleBook) {
        let NodeRole::Node(node) = &mut self.role else {
            return;
        };
        let numbers = NodeNumbers::of(snapshot, |rule| rules.is_of_machine(rule));
        let effects = node.report(&numbers, rules.report_part(), is_last, monotonic_ns());
        self.carry_out(effects, rules);
    }

    fn is_waiting(&self) -> bool {
        match &self.role {
            NodeRole::Coordinator(coordinator) => coordinator.is_waiting(),
            NodeRole::Node(node) => !node.is_settled(),
        }
    }

    /// Takes messages until nothing is waited for any more; false if that takes too long.
    async fn settle(&mut self, rules: &mut RuleBook, screen: &mut Screen) -> bool {
        let waited = async {
            while self.is_waiting() {
                let carried = self.link.next().await;
                self.take(carried, rules, screen);
            }
        };
        tokio::time::timeout(LAST_WAIT, waited).await.is_ok()
    }
}

/// Whether [`tick`] needs a snapshot: a node reports, or the coordinator shows a job that has grown.
pub(super) fn is_due(target: &WatchedJob) -> bool {
    match target.nodes.as_ref().map(|nodes| (&nodes.role, nodes.has_joined)) {
        None => false,
        Some((NodeRole::Coordinator(_), has_joined)) => has_joined,
        Some((NodeRole::Node(node), _)) => node.is_due(monotonic_ns()),
    }
}

/// The next message of another machine; never completes on one machine.
pub(super) async fn next_carried(nodes: &mut Option<Nodes>) -> Carried {
    match nodes {
        Some(nodes) => tokio::select! {
            carried = nodes.link.next() => carried,
            carried = next_of_node_starter(&mut nodes.node_starter) => carried,
        },
        None => std::future::pending().await,
    }
}

/// What the node starter passes on next; never completes where there is none.
async fn next_of_node_starter(node_starter: &mut Option<SubprocessLink>) -> Carried {
    let Some(node_starter) = node_starter else {
        return std::future::pending().await;
    };
    match node_starter.next().await {
        Carried::Message(node, message) => match serde_json::from_slice::<StartEnd>(&message) {
            Ok(end) => Carried::StartEnded(node, end),
            Err(error) => Carried::Note(format!("a message of the node starter is broken: {error}")),
        },
        other => other,
    }
}

/// Takes a message of another machine.
pub(super) fn take(context: &mut Context<'_>, carried: Carried) {
    if let Some(nodes) = &mut context.target.nodes
        && let Some(reason) = nodes.take(carried, context.rules, context.screen)
    {
        context.parts.end(reason);
    }
}

/// At a tick: the coordinator evaluates the rules of the job, a node reports this snapshot, if it is due. Returns the
/// acts of the job's rules.
pub(super) fn tick(context: &mut Context<'_>, due: Option<Snapshot>) -> Vec<Act> {
    let Some(nodes) = &mut context.target.nodes else {
        return Vec::new();
    };
    let now_ns = monotonic_ns();
    match &mut nodes.role {
        NodeRole::Coordinator(coordinator) => {
            let schedule = coordinator.take_own(context.rules.report_part());
            context.rules.learn(&schedule, 0);
            let acts = coordinator.evaluate(now_ns);
            let effects = coordinator.tick(now_ns);
            nodes.coordinate(effects, context.screen);
            if let Some(snapshot) = due {
                nodes.has_joined = false;
                context.screen.say(&report::view::header(&snapshot));
            }
            acts
        }
        NodeRole::Node(node) => {
            let effects = node.tick(now_ns);
            if let Some(snapshot) = due {
                nodes.report(&snapshot, false, context.rules);
            }
            if let Some(reason) = nodes.carry_out(effects, context.rules) {
                context.parts.end(reason);
            }
            Vec::new()
        }
    }
}

/// At the end, before the last numbers are read: the nodes end, too, and their last numbers are waited for.
pub(super) async fn end(target: &mut WatchedJob, rules: &mut RuleBook, screen: &mut Screen, reason: &str) {
    let Some(nodes) = &mut target.nodes else { return };
    let coordinator = match &mut nodes.role {
        NodeRole::Coordinator(coordinator) => coordinator,
        NodeRole::Node(node) if reason == NODE_STARTER_ENDED => return node.orphan(),
        NodeRole::Node(_) => return,
    };
    let effects = coordinator.end(reason, monotonic_ns());
    nodes.coordinate(effects, screen);
    if !nodes.settle(rules, screen).await {
        screen.say_when("not every node has sent its last numbers: those shown are the last that arrived");
    }
}

/// At the end: a node sends its last numbers, and waits until they have arrived. Then the way is closed.
pub(super) async fn finish(
    target: &mut WatchedJob,
    rules: &mut RuleBook,
    screen: &mut Screen,
    last: &Snapshot,
) {
    let Some(mut nodes) = target.nodes.take() else {
        return;
    };
    nodes.report(last, true, rules);
    if matches!(nodes.role, NodeRole::Node(_)) {
        nodes.settle(rules, screen).await;
    }
    // What the node starter has started ends by itself now.
    let started = async {
        if let Some(node_starter) = nodes.node_starter {
            node_starter.finish(CARRIED_WAIT).await;
        }
    };
    tokio::join!(nodes.link.finish(CARRIED_WAIT), started);
}
