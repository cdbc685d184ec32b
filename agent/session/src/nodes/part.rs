//! The rules on one machine of a job on several: what the session observes goes to the node of the engine, by the
//! coordinator's clock and with process numbers that are unique in the job.

use rules::{CheckedRule, Machine, Observation, ProcessFacts, ProcessId, Report, Schedule, Time};

use super::clock::NodeClock;
use super::message::MemberChange;

/// Bits of a process number that are the slot on its machine.
const SLOT_BITS: u32 = 16;
/// Observations that are passed on in one report; further ones are counted as dropped.
const OBSERVATIONS_MAX: usize = 50_000;

/// A machine's part of the evaluation.
#[derive(Clone, Debug)]
pub struct JobPart {
    machine: u32,
    host: String,
    clock: NodeClock,
    node: rules::Node,
    members: Vec<MemberChange>,
    observations: usize,
    dropped: u64,
}

/// What a machine reports for the rules.
#[derive(Clone, Debug, Default)]
pub struct PartReport {
    pub members: Vec<MemberChange>,
    pub report: Report,
    /// Observations for which there was no room, so far.
    pub dropped: u64,
}

impl JobPart {
    /// For a machine with this number; 0 is the coordinator's.
    pub fn new(
        machine: u32,
        incarnation: u64,
        host: String,
        offset_ns: i64,
        rules: Vec<CheckedRule>,
    ) -> JobPart {
        JobPart {
            machine,
            host,
            clock: NodeClock::new(offset_ns),
            node: rules::Node::new(Machine(machine), incarnation, rules),
            members: Vec::new(),
            observations: 0,
            dropped: 0,
        }
    }

    fn process(&self, process: ProcessId) -> ProcessId {
        ProcessId(self.machine << SLOT_BITS | process.0 & ((1 << SLOT_BITS) - 1))
    }

    /// A process of this machine was found.
    pub fn joined(&mut self, process: ProcessId, mut facts: ProcessFacts, at: Time) {
        let (process, at) = (self.process(process), Time(self.clock.convert(at.0)));
        (facts.machine, facts.host) = (Machine(self.machine), Some(self.host.clone()));
        match serde_json::to_string(&facts) {
            Ok(facts) => self.members.push(MemberChange::Joined {
                process: process.0,
                facts,
                at_ns: at.0,
            }),
            Err(_) => self.dropped += 1,
        }
        self.node.process_joined(process, facts, at);
    }

    /// A process of this machine has ended.
    pub fn left(&mut self, process: ProcessId, at: Time) {
        let (process, at) = (self.process(process), Time(self.clock.convert(at.0)));
        self.members.push(MemberChange::Left {
            process: process.0,
            at_ns: at.0,
        });
        self.node.process_left(process, at);
    }

    /// Takes what the rules of this machine observe, too.
    pub fn observe(&mut self, observation: &Observation) {
        if self.observations >= OBSERVATIONS_MAX {
            self.dropped += 1;
            return;
        }
        self.observations += 1;
        let machine = self.machine;
        let process = self.process(ProcessId(0)).0;
        let clock = &mut self.clock;
        let moved = observation.clone().moved(
            Machine(machine),
            |of| ProcessId(process | of.0 & ((1 << SLOT_BITS) - 1)),
            |time| Time(clock.convert(time.0)),
        );
        self.node.observe(moved);
    }

    /// Everything since the last report.
    pub fn report(&mut self) -> PartReport {
        self.observations = 0;
        PartReport {
            members: std::mem::take(&mut self.members),
            report: self.node.report(),
            dropped: self.dropped,
        }
    }

    /// Takes what the coordinator knows; `offset_ns` is what is added to this machine's clock.
    pub fn learn(&mut self, schedule: &Schedule, offset_ns: i64) {
        self.clock.set(offset_ns);
        self.node.learn(schedule);
    }
}
