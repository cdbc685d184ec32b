//! A job whose hits go to one engine, or through nodes to their coordinator.

use super::links::Links;
use super::streams::{PROCESSES, Sent, facts};
use super::*;
use crate::engine::Node;
use crate::value::{Machine, Subject};

/// The result of an engine for a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delivered {
    pub(super) said: Vec<Output>,
    pub(super) windows: Vec<ClosedWindow>,
    pub(super) dropped: Dropped,
}

/// The delivery of a stream.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// The choice of the next hit, among a number of the earliest remaining ones: the closer to the original
    /// order, the more is known at a tick.
    pub(super) order: Vec<prop::sample::Index>,
    pub(super) spread: usize,
    /// The hits after which there are watermarks and a tick.
    pub(super) ticks: Vec<bool>,
    /// The node of each process; without nodes, the coordinator's own engine.
    pub(super) nodes: Vec<u32>,
    /// The machine of each process.
    pub(super) machines: Vec<u32>,
    /// The faults of reports and schedules, a digit of base 4 for each.
    pub(super) mischief: Vec<u8>,
    /// The hit after which the agent of its node is replaced by another one.
    pub(super) restart: Option<usize>,
}

pub(super) fn any_delivery() -> impl Strategy<Value = Delivery> {
    let nodes = (1u32..=16).prop_flat_map(|nodes| prop::collection::vec(0..nodes, PROCESSES as usize));
    (
        prop::collection::vec(any::<prop::sample::Index>(), 60),
        proptest::sample::select(vec![2, 10, 40, 1000]),
        prop::collection::vec(prop::bool::weighted(0.1), 200),
        nodes,
        prop::collection::vec(0u8..4, 30),
    )
        .prop_map(|(order, spread, ticks, nodes, mischief)| Delivery {
            order,
            spread,
            ticks,
            machines: nodes.clone(),
            nodes,
            mischief,
            restart: None,
        })
}

/// The hits in order of delivery.
pub(super) fn shuffled(hits: &[Sent], delivery: &Delivery) -> Vec<Sent> {
    let mut left = hits.to_vec();
    left.sort_by_key(|hit| hit.end);
    if delivery.order.is_empty() {
        return left;
    }
    let mut out = Vec::new();
    for index in delivery.order.iter().cycle() {
        if left.is_empty() {
            return out;
        }
        out.push(left.remove(index.index(left.len().min(delivery.spread))));
    }
    out
}

/// For each probe and process, the number of hits and the sum of their durations.
pub(super) type Totals = BTreeMap<(usize, u32), (u64, u64)>;

/// Counts hits without duplicates.
pub(super) fn add_up(totals: &mut Totals, hits: &[Sent]) {
    for (index, hit) in hits.iter().enumerate() {
        if !hits[..index].contains(hit) {
            let total = totals.entry((hit.probe, hit.process)).or_default();
            *total = (total.0 + 1, total.1 + hit.duration * MS);
        }
    }
}

/// The counters of every process at this time.
pub(super) fn measured(rule: &CheckedRule, machines: &[u32], ms: u64) -> Vec<(u32, Observation)> {
    let (time, mut out) = (Time(ms * MS), Vec::new());
    for &measure in &rule.plan().measures {
        for process in 0..PROCESSES {
            let machine = machines[process as usize];
            let (of, pace) = match measure.scope() {
                Scope::Process => (Subject::Process(ProcessId(process)), process),
                // The first process of a machine represents it.
                Scope::Machine if machines.iter().position(|of| *of == machine) == Some(process as usize) => {
                    (Subject::Machine(Machine(machine)), machine)
                }
                Scope::Machine => continue,
            };
            let pace = u64::from(pace) + 3;
            let observation = match measure.kind() {
                MeasureKind::Counter => Observation::counter(of, measure, time, ms * pace * 137_713),
                MeasureKind::Gauge => {
                    Observation::gauge(of, measure, time, ((ms / 300 + pace) % 5 + 1) as f64)
                }
            };
            out.push((process, observation));
        }
    }
    for &measure in &rule.plan().calls {
        for process in 0..PROCESSES {
            for (index, call) in (1..).zip(["MPI_Send", "MPI_Recv", "MPI_Barrier"]) {
                let observation = Observation::CallCounter {
                    process: ProcessId(process),
                    measure,
                    call: call.to_string(),
                    time,
                    total: ms * index * u64::from(process + 1) * 1009,
                };
                out.push((process, observation));
            }
        }
    }
    out
}

/// The totals of every probe at this time.
pub(super) fn counted(
    (id, rule): (RuleId, &CheckedRule),
    ms: u64,
    totals: &Totals,
) -> Vec<(u32, Observation)> {
    let all = (0..rule.probes.len()).flat_map(|probe| (0..PROCESSES).map(move |of| (probe, of)));
    let one = |(probe, process): (usize, u32)| {
        let (count, duration_sum_ns) = totals.get(&(probe, process)).copied().unwrap_or_default();
        let observation = Observation::ProbeTotals {
            rule: id,
            probe: ProbeId(probe),
            process: ProcessId(process),
            time: Time(ms * MS),
            count,
            duration_sum_ns,
        };
        (process, observation)
    };
    all.map(one).collect()
}

struct Job {
    engine: Engine,
    nodes: Vec<Node>,
    machines: Vec<u32>,
    of_process: Vec<usize>,
    links: Links,
    delivered: Delivered,
}

impl Job {
    fn new(rule: &CheckedRule, delivery: &Delivery) -> Job {
        let nodes = &delivery.nodes;
        let mut engine = Engine::new(vec![rule.clone()], Time(0)).unwrap();
        engine.set_mode(RuleId(0), Mode::Applying);
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        let mut nodes_there: Vec<Node> = (0..count)
            .map(|id| Node::new(Machine(id), 0, vec![rule.clone()]))
            .collect();
        (0..count).for_each(|id| engine.node_joined(Machine(id)));
        for rank in 0..PROCESSES {
            let facts = ProcessFacts {
                machine: Machine(delivery.machines[rank as usize]),
                ..facts(rank)
            };
            if let Some(node) = nodes.get(rank as usize) {
                nodes_there[*node as usize].process_joined(ProcessId(rank), facts.clone(), Time(0));
            }
            engine.process_joined(ProcessId(rank), facts, Time(0));
        }
        let mut job = Job {
            engine,
            nodes: nodes_there,
            machines: delivery.machines.clone(),
            of_process: nodes.iter().map(|node| *node as usize).collect(),
            links: Links::new(count as usize),
            delivered: Delivered {
                said: Vec::new(),
                windows: Vec::new(),
                dropped: Dropped::default(),
            },
        };
        // First values are written now, whenever the first window closes.
        job.tick(0, &mut std::iter::empty());
        job
    }

    /// Replaces the agent of the node of a process: what it has and has not seen acknowledged is lost.
    fn restart(&mut self, rule: &CheckedRule, process: u32) {
        let index = self.of_process[process as usize];
        let mut node = Node::new(Machine(index as u32), 1, vec![rule.clone()]);
        for rank in (0..PROCESSES).filter(|rank| self.of_process[*rank as usize] == index) {
            node.process_joined(ProcessId(rank), facts(rank), Time(0));
        }
        self.nodes[index] = node;
        self.links.forget(index);
    }

    /// Observes a measurement of a process, or of its machine.
    fn observe(&mut self, process: u32, observation: Observation) {
        match self.of_process.get(process as usize) {
            Some(node) => self.nodes[*node].observe(observation),
            None => self.engine.observe(observation),
        }
    }

    fn hit(&mut self, sent: &Sent) {
        self.observe(sent.process, observation(sent));
    }

    fn measure(&mut self, rule: &CheckedRule, ms: u64) {
        for (process, observation) in measured(rule, &self.machines.clone(), ms) {
            self.observe(process, observation);
        }
    }

    fn totals(&mut self, rule: &CheckedRule, ms: u64, totals: &Totals) {
        for (process, observation) in counted((RuleId(0), rule), ms, totals) {
            self.observe(process, observation);
        }
    }

    fn watermark(&mut self, process: u32, ms: u64) {
        let (time, id) = (Time(ms * MS), ProcessId(process));
        self.observe(process, Observation::Watermark { process: id, time });
        self.observe(process, Observation::LoopWatermark { process: id, time });
    }

    fn tick(&mut self, ms: u64, mischief: &mut impl Iterator<Item = u8>) {
        let mut arrived = self.links.round(&mut self.nodes, mischief);
        if mischief.next() == Some(2) {
            arrived.reverse();
        }
        for report in arrived {
            assert!(self.engine.take_report(report));
        }
        let outputs = self.engine.tick(Time(ms * MS));
        self.delivered.said.extend(outputs);
        self.delivered.windows.extend(self.engine.drain_windows());
        let schedule = self.engine.schedule();
        self.links.learn(&schedule, &mut self.nodes, mischief);
    }
}

/// The result for hits with this delivery; `doubles` are among them.
pub(super) fn delivered(rule: &CheckedRule, hits: &[Sent], delivery: &Delivery) -> Delivered {
    if rule.windows.iter().any(|window| window.boundaries().is_none()) {
        return in_step(rule, hits, delivery);
    }
    let mut job = Job::new(rule, delivery);
    let mut mischief = delivery.mischief.iter().copied().cycle();
    let end = last(hits) + 1000;
    (0..end).step_by(100).for_each(|ms| job.measure(rule, ms));
    let hits = shuffled(hits, delivery);
    for (index, hit) in hits.iter().enumerate() {
        job.hit(hit);
        if delivery.restart == Some(index) {
            job.restart(rule, hit.process);
        }
        if !delivery.ticks.get(index).copied().unwrap_or(false) {
            continue;
        }
        for process in 0..PROCESSES {
            let rest = hits[index + 1..].iter().filter(|hit| hit.process == process);
            let next = rest.map(|hit| hit.end).min().unwrap_or(100_000);
            job.watermark(process, next - 1);
        }
        job.tick(100_000 + index as u64, &mut mischief);
    }
    (0..PROCESSES).for_each(|process| job.watermark(process, 200_000));
    // A hit needs two rounds from its node to an evaluation: for its order and for its instance.
    for _ in 0..3 {
        job.tick(200_000, &mut std::iter::empty());
    }
    assert!(job.links.are_empty());
    job.delivered.dropped = job.engine.dropped(RuleId(0));
    job.delivered
}

/// As `delivered`, for a rule with timed windows: the hits of each 250 ms are delivered in any order, and are
/// complete at the tick after them.
fn in_step(rule: &CheckedRule, hits: &[Sent], delivery: &Delivery) -> Delivered {
    let mut job = Job::new(rule, delivery);
    let mut totals = Totals::new();
    let end = last(hits).max(1000) + 1500;
    // Reports and schedules are lost, late and doubled, but not for as long as a window waits. The pairs of a
    // window of a length are those that the coordinator knows at its end: reports with hits of pairs are in time.
    let (mut mischief, mut passed) = (delivery.mischief.iter().copied().cycle(), 0);
    for ms in (0..end).step_by(250) {
        let segment = hits.iter().filter(|hit| hit.end <= ms && ms < hit.end + 250);
        let segment: Vec<Sent> = segment.cloned().collect();
        for hit in shuffled(&segment, delivery) {
            job.hit(&hit);
            if delivery.restart == Some(passed) {
                job.restart(rule, hit.process);
            }
            passed += 1;
        }
        add_up(&mut totals, &segment);
        job.totals(rule, ms, &totals);
        job.measure(rule, ms);
        (0..PROCESSES).for_each(|process| job.watermark(process, ms));
        match ms % 2000 == 0 || !rule.joins.is_empty() {
            true => job.tick(ms, &mut std::iter::repeat(2)),
            false => job.tick(ms, &mut mischief),
        }
    }
    // The last windows need two rounds: one that passes on all, and one for the parts of the nodes.
    for _ in 0..2 {
        job.tick(end / 250 * 250, &mut std::iter::empty());
    }
    job.delivered.dropped = job.engine.dropped(RuleId(0));
    job.delivered.by_window()
}

fn last(hits: &[Sent]) -> u64 {
    hits.iter().map(|hit| hit.end).max().unwrap_or(0)
}

/// The result of a single evaluator that gets all hits in order.
pub(super) fn central(rule: &CheckedRule, hits: &[Sent], machines: &[u32]) -> Delivered {
    let delivery = Delivery {
        order: Vec::new(),
        spread: 1,
        ticks: Vec::new(),
        nodes: Vec::new(),
        machines: machines.to_vec(),
        mischief: vec![0],
        restart: None,
    };
    delivered(rule, hits, &delivery)
}

fn first_apart<T: std::fmt::Debug + PartialEq>(found: &[T], expected: &[T]) -> Option<String> {
    let index =
        (0..found.len().max(expected.len())).find(|index| found.get(*index) != expected.get(*index))?;
    Some(format!(
        "{index}:\n   {:?}\nnot {:?}",
        found.get(index),
        expected.get(index)
    ))
}

pub(super) fn observation(sent: &Sent) -> Observation {
    let read = |value: &Option<f64>| match value {
        Some(value) => Ok(Scalar::Number(*value)),
        None => Err("it could not be read".to_string()),
    };
    Observation::Hit {
        rule: RuleId(0),
        probe: ProbeId(sent.probe),
        process: ProcessId(sent.process),
        thread: 0,
        time: Time(sent.end * MS),
        duration_ns: sent.duration * MS,
        captures: sent.reads.iter().map(read).collect(),
    }
}

impl Delivered {
    /// The first difference.
    pub(super) fn differs(&self, other: &Delivered) -> Option<String> {
        let windows = first_apart(&self.windows, &other.windows);
        let said = first_apart(&self.said, &other.said);
        let dropped =
            (self.dropped != other.dropped).then(|| format!("{:?}, not {:?}", self.dropped, other.dropped));
        windows.or(said).or(dropped)
    }

    /// Sorted by window: timed windows close at their tick, windows from probe to probe after the reports of
    /// their nodes, so the order between them is not determined.
    fn by_window(mut self) -> Delivered {
        self.windows.sort_by(|a, b| a.window.cmp(&b.window));
        for said in &mut self.said {
            if let Output::Decision(decision) = said {
                decision.id = DecisionId(0);
            }
        }
        self.said.sort_by_key(|said| match said {
            Output::Decision(decision) => decision.tune,
            Output::FindingOpened(finding) => finding.tune,
            Output::FindingClosed { tune, .. } => *tune,
            Output::Verdict(verdict) => verdict.tune,
        });
        self
    }
}
