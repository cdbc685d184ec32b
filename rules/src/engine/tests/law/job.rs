//! A job whose hits go to one engine, or by nodes to their coordinator.

use super::streams::{PROCESSES, Sent};
use super::*;
use crate::engine::{Node, NodeId, Report};

/// What an engine made of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) said: Vec<Output>,
    pub(super) windows: Vec<ClosedWindow>,
    pub(super) dropped: Dropped,
}

/// How a stream is delivered.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Which hit comes next, among those that are left.
    pub(super) order: Vec<prop::sample::Index>,
    /// Behind which hits there are watermarks and a tick.
    pub(super) ticks: Vec<bool>,
    /// To which node each process belongs; the coordinator's own engine if there are none.
    pub(super) nodes: Vec<u32>,
    /// What happens to reports and schedules, a digit of base 4 for each.
    pub(super) mischief: Vec<u8>,
}

pub(super) fn any_delivery() -> impl Strategy<Value = Delivery> {
    let nodes = (1u32..=16).prop_flat_map(|nodes| prop::collection::vec(0..nodes, PROCESSES as usize));
    (
        prop::collection::vec(any::<prop::sample::Index>(), 60),
        prop::collection::vec(prop::bool::weighted(0.1), 200),
        nodes,
        prop::collection::vec(0u8..4, 30),
    )
        .prop_map(|(order, ticks, nodes, mischief)| Delivery {
            order,
            ticks,
            nodes,
            mischief,
        })
}

pub(super) fn shuffled(hits: &[Sent], order: &[prop::sample::Index]) -> Vec<Sent> {
    let mut left = hits.to_vec();
    let mut out = Vec::new();
    for index in order.iter().cycle() {
        if left.is_empty() {
            return out;
        }
        out.push(left.swap_remove(index.index(left.len())));
    }
    out
}

struct Job {
    engine: Engine,
    nodes: Vec<Node>,
    of_process: Vec<usize>,
    /// Reports on their way.
    reports: Vec<Report>,
    told: Told,
}

fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        rank: Some(rank),
        host: Some(format!("host{}", rank % 3)),
        ..ProcessFacts::default()
    }
}

impl Job {
    fn new(rule: &CheckedRule, nodes: &[u32]) -> Job {
        let mut engine = Engine::new(vec![rule.clone()], Time(0)).unwrap();
        engine.set_mode(RuleId(0), Mode::Applying);
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        let mut nodes_there: Vec<Node> = (0..count)
            .map(|id| Node::new(NodeId(id), vec![rule.clone()]))
            .collect();
        (0..count).for_each(|id| engine.node_joined(NodeId(id)));
        for rank in 0..PROCESSES {
            engine.process_joined(ProcessId(rank), facts(rank), Time(0));
            if let Some(node) = nodes.get(rank as usize) {
                nodes_there[*node as usize].process_joined(ProcessId(rank), &facts(rank));
            }
        }
        Job {
            engine,
            nodes: nodes_there,
            of_process: nodes.iter().map(|node| *node as usize).collect(),
            reports: Vec::new(),
            told: Told {
                said: Vec::new(),
                windows: Vec::new(),
                dropped: Dropped::default(),
            },
        }
    }

    fn observe(&mut self, process: u32, observation: Observation) {
        match self.of_process.get(process as usize) {
            Some(node) => self.nodes[*node].observe(observation),
            None => self.engine.observe(observation),
        }
    }

    fn hit(&mut self, rule: &CheckedRule, (probe, process, ms, duration, reads): Sent) {
        let probe = rule.probes.iter().position(|known| known.name == probe).unwrap();
        let hit = Observation::Hit {
            rule: RuleId(0),
            probe: ProbeId(probe),
            process: ProcessId(process),
            thread: 0,
            time: Time(ms * MS),
            duration_ns: duration * MS,
            captures: reads.into_iter().map(|value| Ok(Scalar::Number(value))).collect(),
        };
        self.observe(process, hit);
    }

    fn watermark(&mut self, process: u32, ms: u64) {
        let (time, id) = (Time(ms * MS), ProcessId(process));
        self.observe(process, Observation::Watermark { process: id, time });
    }

    fn tick(&mut self, ms: u64, mischief: &mut impl Iterator<Item = u8>) {
        for node in &mut self.nodes {
            // Some nodes are silent for a while, some reports are late, some come twice.
            match mischief.next().unwrap_or(0) {
                1 => {}
                2 => {
                    let report = node.report();
                    self.reports.push(report.clone());
                    self.reports.push(report);
                }
                _ => self.reports.push(node.report()),
            }
        }
        let late = match mischief.next() {
            Some(1) => self.reports.len() / 2,
            Some(2) => {
                self.reports.reverse();
                0
            }
            _ => 0,
        };
        for report in self.reports.split_off(late) {
            assert!(self.engine.take_report(report));
        }
        let outputs = self.engine.tick(Time(ms * MS));
        self.told.said.extend(outputs);
        self.told.windows.extend(self.engine.drain_windows());
        let schedule = self.engine.schedule();
        for node in &mut self.nodes {
            if mischief.next() != Some(3) {
                node.learn(&schedule);
            }
        }
    }
}

/// What becomes of hits that are delivered so, with watermarks as far as they are true.
pub(super) fn delivered(rule: &CheckedRule, hits: &[Sent], delivery: &Delivery) -> Told {
    let mut job = Job::new(rule, &delivery.nodes);
    let mut mischief = delivery.mischief.iter().copied().cycle();
    for (place, hit) in hits.iter().enumerate() {
        job.hit(rule, hit.clone());
        if !delivery.ticks.get(place).copied().unwrap_or(false) {
            continue;
        }
        for process in 0..PROCESSES {
            let rest = hits[place + 1..].iter().filter(|hit| hit.1 == process);
            let next = rest.map(|hit| hit.2).min().unwrap_or(100_000);
            job.watermark(process, next - 1);
        }
        job.tick(100_000 + place as u64, &mut mischief);
    }
    (0..PROCESSES).for_each(|process| job.watermark(process, 200_000));
    // A hit needs two rounds from its node to an evaluation: its order, and then its instance.
    for _ in 0..3 {
        job.tick(200_000, &mut std::iter::empty());
    }
    job.told.dropped = job.engine.dropped(RuleId(0));
    job.told
}

/// What one evaluator says that sees everything in order.
pub(super) fn central(rule: &CheckedRule, hits: &[Sent]) -> Told {
    let mut hits = hits.to_vec();
    hits.sort_by_key(|hit| hit.2);
    let delivery = Delivery {
        order: Vec::new(),
        ticks: Vec::new(),
        nodes: Vec::new(),
        mischief: vec![0],
    };
    delivered(rule, &hits, &delivery)
}
