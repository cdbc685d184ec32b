//! The coordinator of a job on several machines, as a state machine.

use std::collections::{BTreeMap, BTreeSet};

use profile::format::{duration, plural};
use profile::{NodeState, Snapshot};
use rules::{CheckedRule, Engine, Machine, Output, ProcessId, Report, Time};

use super::clock::Exchange;
use super::message::{Down, JoinRequest, MemberChange, NodeReport, Up, Welcome};
use super::part::PartReport;
use super::remote::Remote;
use super::start::{StartEffect, StartEnd, Starts};
use crate::Act;
use crate::request::RuleSource;

/// Exchanges of time stamps before a node joins.
const EXCHANGES_FIRST: usize = 8;
/// Time between series of pings of a node that has joined, in nanoseconds.
const PING_NS: u64 = 1_000_000_000;
/// Pings of a series: a machine that is busy with its own processes answers one of them at once.
const SERIES: u32 = 4;
/// A node from which nothing arrives for this time is said to be silent, in nanoseconds.
const SILENT_NS: u64 = 3_000_000_000;
/// Characters of a host name, and of why there are no probes.
const HOST_MAX: usize = 64;
const WHY_MAX: usize = 200;

/// What the coordinator knows from the start.
#[derive(Clone, Debug, Default)]
pub struct CoordinatorSetup {
    pub build: String,
    pub host: String,
    /// Ranks on this machine, and the ranks of the job's world.
    pub ranks: BTreeSet<u32>,
    pub size: Option<u32>,
    pub rules: Vec<RuleSource>,
    pub probe: Vec<String>,
    pub budget: String,
    pub orphan_ns: u64,
    /// The number of credentials: nodes are numbered from 1.
    pub nodes: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorEffect {
    /// Send this message to this node.
    Send(u32, Vec<u8>),
    /// Say a line that stays on the screen.
    Say(String),
    /// A node has joined: the job is another one than before.
    Joined,
    /// Start the agent of this node on its machine.
    Begin(u32),
    /// End the process that starts it.
    Stop(u32),
}

use CoordinatorEffect::{Begin, Joined, Say, Send, Stop};

impl From<StartEffect> for CoordinatorEffect {
    fn from(effect: StartEffect) -> CoordinatorEffect {
        match effect {
            StartEffect::Begin(node) => Begin(node),
            StartEffect::Stop(node) => Stop(node),
            StartEffect::Say(text) => Say(text),
        }
    }
}

#[derive(Debug)]
pub struct Coordinator {
    setup: CoordinatorSetup,
    nodes: BTreeMap<u32, Remote>,
    /// Agents that this session starts.
    starts: Starts,
    /// Evaluates the rules over all machines.
    engine: Engine,
    /// Rules that each machine evaluates by itself.
    of_machine: BTreeSet<String>,
    /// Findings of the job that are open, by rule.
    found: BTreeSet<String>,
    is_ending: bool,
}

impl Coordinator {
    /// `rules` are those of this machine's session, in their order.
    ///
    /// # Errors
    /// If the rules contradict each other; this machine's engine would have refused them.
    pub fn new(
        setup: CoordinatorSetup,
        rules: Vec<CheckedRule>,
        now_ns: u64,
    ) -> Result<Coordinator, rules::Conflict> {
        let of_machine = rules.iter().filter(|rule| rule.is_of_machine());
        let of_machine = of_machine.map(|rule| rule.name().to_owned()).collect();
        let mut engine = Engine::new(rules, Time(now_ns))?;
        engine.node_joined(Machine(0));
        Ok(Coordinator {
            setup,
            nodes: BTreeMap::new(),
            starts: Starts::default(),
            engine,
            of_machine,
            found: BTreeSet::new(),
            is_ending: false,
        })
    }

    /// Starts agents on other machines.
    pub fn start(&mut self, starts: Starts, now_ns: u64) -> Vec<CoordinatorEffect> {
        self.starts = starts;
        self.tick_starts(now_ns)
    }

    /// The process that started the agent of this node has ended.
    pub fn take_start(&mut self, node: u32, end: &StartEnd, now_ns: u64) -> Vec<CoordinatorEffect> {
        if self.is_ending {
            return Vec::new();
        }
        self.starts.ended(node, end, now_ns);
        self.tick_starts(now_ns)
    }

    fn tick_starts(&mut self, now_ns: u64) -> Vec<CoordinatorEffect> {
        let watched = self.watched();
        let effects = self.starts.tick(now_ns, watched).into_iter();
        effects.map(CoordinatorEffect::from).collect()
    }

    /// Ranks that are watched, and those of the job if that is known.
    fn watched(&self) -> (usize, Option<u32>) {
        let joined = self.nodes.values().filter(|remote| remote.is_awaited());
        let joined: usize = joined.map(|remote| remote.hello.ranks.len()).sum();
        (self.setup.ranks.len() + joined, self.setup.size)
    }

    /// Takes a message of a node. What cannot be read, or is of another, is counted and changes nothing.
    pub fn take(&mut self, node: u32, message: &[u8], now_ns: u64) -> Vec<CoordinatorEffect> {
        if node == 0 || node > self.setup.nodes {
            return Vec::new();
        }
        let up = match Up::decode(message) {
            Ok(Up::JoinRequest(hello)) => return self.hello(node, hello, now_ns),
            Ok(up) => up,
            Err(_) => {
                if let Some(remote) = self.nodes.get_mut(&node) {
                    remote.refused += 1;
                }
                return Vec::new();
            }
        };
        let Some(remote) = self.nodes.get_mut(&node) else {
            return Vec::new();
        };
        let mut effects = remote.arrived(now_ns);
        match up {
            Up::JoinRequest(_) => {}
            Up::Pong {
                sent_ns,
                received_ns,
                answered_ns,
            } => {
                remote.clock.take(Exchange {
                    sent_ns,
                    received_ns,
                    answered_ns,
                    back_ns: now_ns,
                });
                effects.extend(self.after_exchange(node, now_ns));
            }
            Up::Report(report) => effects.extend(self.report(node, report, now_ns)),
            Up::Closed { incarnation } => effects.extend(self.closed(node, incarnation, now_ns)),
        }
        effects
    }

    fn hello(&mut self, node: u32, mut hello: JoinRequest, now_ns: u64) -> Vec<CoordinatorEffect> {
        hello.host = plain(&hello.host, HOST_MAX);
        hello.cannot_probe = hello.cannot_probe.map(|why| plain(&why, WHY_MAX));
        if let Some(why) = self.refusal(node, &hello) {
            let text = format!("{} may not join: {why}", hello.host);
            let refused = Down::Refused(why).encode().ok();
            let sent = refused.map(|message| Send(node, message));
            self.starts.refused(node);
            return sent.into_iter().chain([Say(text)]).collect();
        }
        let before = self.nodes.remove(&node).unwrap_or_default();
        let remote = Remote {
            hello,
            incarnation: before.incarnation + 1,
            arrived_ns: now_ns,
            pinged_ns: now_ns,
            refused: before.refused,
            ..Remote::default()
        };
        self.nodes.insert(node, remote);
        ping(node, now_ns).into_iter().collect()
    }

    /// Why a node may not join.
    fn refusal(&self, node: u32, hello: &JoinRequest) -> Option<String> {
        let setup = &self.setup;
        if self.is_ending {
            return Some(format!("the session of {} is ending", setup.host));
        }
        if hello.build != setup.build {
            return Some(format!(
                "{} has tuneagent {}, and {} has {}: install the same version on both",
                hello.host, hello.build, setup.host, setup.build
            ));
        }
        let before = self.nodes.get(&node);
        let is_there = |remote: &&Remote| matches!(remote.state, NodeState::Watched | NodeState::Silent);
        if let Some(before) = before.filter(is_there) {
            return Some(format!(
                "its join file is in use by {}; each node needs one of its own: --join-file once for each",
                before.hello.host
            ));
        }
        if let (Some(own), Some(other)) = (setup.size, hello.size)
            && own != other
        {
            return Some(format!(
                "its job has {other} ranks, and that of {} has {own}: these are different jobs",
                setup.host
            ));
        }
        let others = self.nodes.iter().filter(|(number, _)| **number != node);
        let others = others.map(|(_, remote)| remote).filter(is_there);
        let others = others.map(|remote| (remote.hello.host.as_str(), &remote.hello.ranks));
        let claimed = |ranks: &[u32]| ranks.iter().copied().find(|rank| hello.ranks.contains(rank));
        let own: Vec<u32> = setup.ranks.iter().copied().collect();
        let mut all = others.chain([(setup.host.as_str(), &own)]);
        let (host, rank) = all.find_map(|(host, ranks)| Some((host, claimed(ranks)?)))?;
        Some(format!("rank {rank} is watched on {host} already"))
    }

    /// Welcomes a node whose clock is known, or asks for the next exchange.
    fn after_exchange(&mut self, node: u32, now_ns: u64) -> Vec<CoordinatorEffect> {
        let Some(remote) = self.nodes.get_mut(&node) else {
            return Vec::new();
        };
        if remote.is_welcome {
            let is_last = remote.series == 0;
            remote.series = remote.series.saturating_sub(1);
            return ping(node, now_ns).filter(|_| !is_last).into_iter().collect();
        }
        if remote.clock.len() < EXCHANGES_FIRST {
            remote.pinged_ns = now_ns;
            return ping(node, now_ns).into_iter().collect();
        }
        let Some((offset_ns, _)) = remote.clock.at(now_ns) else {
            return Vec::new();
        };
        remote.is_welcome = true;
        let (hello, incarnation) = (remote.hello.clone(), remote.incarnation);
        // Another agent counts for the ranks of one that is gone.
        let is_replaced = |number: &u32, other: &Remote| {
            let has_same = other.hello.ranks.iter().any(|rank| hello.ranks.contains(rank));
            *number != node && matches!(other.state, NodeState::Gone | NodeState::Ended) && has_same
        };
        self.nodes.retain(|number, other| !is_replaced(number, other));
        self.engine.node_joined(Machine(node));
        self.starts.reached(node, now_ns);
        let without = hello
            .cannot_probe
            .map(|why| Say(format!("{}: {why}", hello.host)));
        let welcome = Down::Welcome(Box::new(Welcome {
            incarnation,
            offset_ns,
            rules: self.setup.rules.clone(),
            probe: self.setup.probe.clone(),
            budget: self.setup.budget.clone(),
            orphan_ns: self.setup.orphan_ns,
        }));
        welcome
            .encode()
            .into_iter()
            .map(|message| Send(node, message))
            .chain(without)
            .collect()
    }

    fn report(&mut self, node: u32, report: NodeReport, now_ns: u64) -> Vec<CoordinatorEffect> {
        let Some(remote) = self.nodes.get_mut(&node) else {
            return Vec::new();
        };
        if !remote.is_welcome || report.incarnation != remote.incarnation {
            remote.refused += 1;
            return Vec::new();
        }
        let mut effects = Vec::new();
        let sequence = report.sequence;
        if sequence >= remote.next {
            remote.lost_reports += sequence - remote.next;
            remote.next = sequence.saturating_add(1);
            remote.dropped = report.dropped;
            let is_first = remote.numbers.is_none();
            let before = remote
                .numbers
                .as_ref()
                .map_or(&[][..], |numbers| &numbers.findings);
            match report.numbers() {
                Ok(numbers) => {
                    let is_new = |of: &&(String, String)| !before.iter().any(|(rule, _)| *rule == of.0);
                    let said = |(_, text): &(String, String)| Say(format!("{}: {text}", remote.hello.host));
                    effects.extend(numbers.findings.iter().filter(is_new).map(said));
                    remote.numbers = Some(numbers);
                    remote.numbers_at_ns = now_ns;
                }
                Err(_) => remote.refused += 1,
            }
            if report.is_last {
                remote.state = NodeState::Ended;
                effects.extend((!self.is_ending).then(|| Say(remote.end_text())));
            }
            let decoded = Report::decode(&report.rules);
            remote.refused += u64::from(decoded.is_err() && !report.rules.is_empty());
            self.take_part(node, report.members, decoded.ok());
            self.keep_only_own(node);
            effects.extend(is_first.then_some(Joined));
        }
        effects.extend(self.acknowledge(node, sequence, now_ns));
        effects
    }

    /// Drops rows of ranks that another machine has.
    fn keep_only_own(&mut self, node: u32) {
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        let mut taken: BTreeSet<u32> = others
            .flat_map(|(_, remote)| &remote.hello.ranks)
            .copied()
            .collect();
        taken.extend(&self.setup.ranks);
        let Some(remote) = self.nodes.get_mut(&node) else {
            return;
        };
        let Some(numbers) = &mut remote.numbers else {
            return;
        };
        let before = numbers.processes.len();
        let is_own = |rank: Option<u32>| rank.is_none_or(|rank| !taken.contains(&rank));
        numbers.processes.retain(|process| is_own(process.rank));
        remote.refused += (before - numbers.processes.len()) as u64;
    }

    fn acknowledge(&self, node: u32, sequence: u64, now_ns: u64) -> Option<CoordinatorEffect> {
        let remote = self.nodes.get(&node)?;
        let (offset_ns, _) = remote.clock.at(now_ns)?;
        let answer = Down::Acknowledged {
            sequence,
            schedule: self.engine.schedule().encode().unwrap_or_default(),
            offset_ns,
        };
        Some(Send(node, answer.encode().ok()?))
    }

    /// Takes what a machine reports for the rules.
    fn take_part(&mut self, node: u32, members: Vec<MemberChange>, report: Option<Report>) {
        let mut foreign = 0;
        for change in members {
            let process = match &change {
                MemberChange::Joined { process, .. } | MemberChange::Left { process, .. } => *process,
            };
            // The upper half of a process number is that of its machine.
            if process >> 16 != node {
                foreign += 1;
                continue;
            }
            match change {
                MemberChange::Joined { facts, at_ns, .. } => {
                    let Ok(facts) = serde_json::from_str::<rules::ProcessFacts>(&facts) else {
                        foreign += 1;
                        continue;
                    };
                    let facts = rules::ProcessFacts {
                        machine: Machine(node),
                        ..facts
                    };
                    self.engine.process_joined(ProcessId(process), facts, Time(at_ns));
                }
                MemberChange::Left { at_ns, .. } => {
                    self.engine.process_left(ProcessId(process), Time(at_ns));
                }
            }
        }
        match report {
            Some(report) if report.node == Machine(node) => {
                self.engine.take_report(report);
            }
            Some(_) => foreign += 1,
            None => {}
        }
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.refused += foreign;
        }
    }

    fn closed(&mut self, node: u32, incarnation: u64, now_ns: u64) -> Vec<CoordinatorEffect> {
        let remote = self.nodes.get_mut(&node);
        let Some(remote) = remote.filter(|remote| remote.incarnation == incarnation) else {
            return Vec::new();
        };
        if matches!(remote.state, NodeState::Ended | NodeState::Gone) {
            self.engine.node_left(Machine(node), Time(now_ns));
            return Vec::new();
        }
        remote.state = NodeState::Gone;
        self.engine.node_left(Machine(node), Time(now_ns));
        vec![Say(format!(
            "{}: its agent has died; {} there {} not watched any more, and the numbers are the last that arrived",
            remote.hello.host,
            plural(remote.hello.processes as usize, "process"),
            if remote.hello.processes == 1 { "is" } else { "are" },
        ))]
    }

    /// Takes this machine's part of the rules; returns what it has to know.
    pub fn take_own(&mut self, part: PartReport) -> rules::Schedule {
        self.take_part(0, part.members, Some(part.report));
        self.engine.schedule()
    }

    /// Closes windows of the job that have ended: its findings.
    pub fn evaluate(&mut self, now_ns: u64) -> Vec<Act> {
        let outputs = self.engine.tick(Time(now_ns));
        let opened = outputs.into_iter().filter_map(|output| match output {
            Output::FindingOpened(finding) => Some(finding),
            _ => None,
        });
        let opened: Vec<rules::Finding> = opened.collect();
        let mut now = self.engine.findings();
        now.dedup_by_key(|finding| finding.rule);
        now.retain(|finding| !self.of_machine.contains(&finding.rule_name));
        let hosts = self.hosts();
        let open: BTreeSet<String> = now.iter().map(|finding| finding.rule_name.clone()).collect();
        let gone = self.found.difference(&open).cloned();
        let mut acts: Vec<Act> = gone.map(|rule| Act::Gone { rule }).collect();
        acts.extend(now.into_iter().map(|finding| Act::Found {
            is_new: opened.iter().any(|opened| opened.rule == finding.rule)
                && !self.found.contains(&finding.rule_name),
            rule: finding.rule_name,
            text: with_hosts(&finding.text, &hosts),
            next_start: finding.next_start,
        }));
        self.found = open;
        acts
    }

    /// The host of each rank.
    fn hosts(&self) -> BTreeMap<u32, &str> {
        let own = self
            .setup
            .ranks
            .iter()
            .map(|rank| (*rank, self.setup.host.as_str()));
        let others = self.nodes.values().flat_map(|remote| {
            let ranks = remote.hello.ranks.iter();
            ranks.map(|rank| (*rank, remote.hello.host.as_str()))
        });
        others.chain(own).collect()
    }

    /// Pings the nodes, and says which are silent.
    pub fn tick(&mut self, now_ns: u64) -> Vec<CoordinatorEffect> {
        let (mut effects, mut left) = (self.tick_starts(now_ns), Vec::new());
        for (node, remote) in &mut self.nodes {
            let is_there = matches!(remote.state, NodeState::Watched | NodeState::Silent);
            if !is_there {
                continue;
            }
            if now_ns.saturating_sub(remote.pinged_ns) >= PING_NS {
                (remote.pinged_ns, remote.series) = (now_ns, SERIES - 1);
                effects.extend(ping(*node, now_ns));
            }
            let silent_ns = now_ns.saturating_sub(remote.arrived_ns);
            if silent_ns >= self.setup.orphan_ns.max(SILENT_NS) {
                remote.state = NodeState::Gone;
                left.push(*node);
                effects.push(Say(format!(
                    "{}: gone, {} with it; the numbers are the last that arrived",
                    remote.hello.host,
                    plural(remote.hello.processes as usize, "process")
                )));
            } else if silent_ns >= SILENT_NS && remote.state == NodeState::Watched {
                remote.state = NodeState::Silent;
                let text = duration(silent_ns as f64);
                effects.push(Say(format!("{}: silent for {text}", remote.hello.host)));
            }
        }
        for node in left {
            self.engine.node_left(Machine(node), Time(now_ns));
        }
        effects
    }

    /// The session ends, for this reason.
    pub fn end(&mut self, reason: &str, now_ns: u64) -> Vec<CoordinatorEffect> {
        self.is_ending = true;
        let watched = self.watched();
        let starts = self.starts.end(now_ns, watched).into_iter();
        let there = self.nodes.iter().filter(|(_, remote)| remote.is_awaited());
        let end = Down::End(reason.to_owned()).encode().ok();
        let sent = there.filter_map(|(node, _)| Some(Send(*node, end.clone()?)));
        starts.map(CoordinatorEffect::from).chain(sent).collect()
    }

    /// Whether the last report of a node that still answers has not arrived.
    pub fn is_waiting(&self) -> bool {
        self.nodes.values().any(Remote::is_awaited)
    }

    /// Whether any node has joined.
    pub fn has_nodes(&self) -> bool {
        self.nodes.values().any(|remote| remote.numbers.is_some())
    }

    /// Whether each machine evaluates this rule by itself.
    pub fn is_of_machine(&self, rule: &str) -> bool {
        self.of_machine.contains(rule)
    }

    /// Adds the numbers of all nodes to those of this machine.
    pub fn add_to(&self, snapshot: &mut Snapshot, now_ns: u64) {
        let joined = self.nodes.values().filter(|remote| remote.is_welcome);
        snapshot.add_nodes(joined.map(|remote| (remote.view(now_ns), remote.numbers.as_ref())));
    }
}

/// The text of a finding with the hosts of the ranks that it names.
fn with_hosts(text: &str, hosts: &BTreeMap<u32, &str>) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair[0] == "rank");
    let numbers: BTreeSet<&str> = named
        .map(|pair| pair[1].trim_end_matches(|letter: char| !letter.is_ascii_digit()))
        .collect();
    let known = hosts
        .iter()
        .filter(|(rank, _)| numbers.contains(rank.to_string().as_str()));
    let known: Vec<String> = known
        .map(|(rank, host)| format!("rank {rank} is on {host}"))
        .collect();
    match known.is_empty() {
        true => text.to_owned(),
        false => format!("{text} ({})", known.join(", ")),
    }
}

/// What a terminal would obey is removed, and the rest shortened.
fn plain(text: &str, max: usize) -> String {
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(max)
        .collect()
}

fn ping(node: u32, now_ns: u64) -> Option<CoordinatorEffect> {
    let message = Down::Ping { sent_ns: now_ns }.encode().ok()?;
    Some(Send(node, message))
}
