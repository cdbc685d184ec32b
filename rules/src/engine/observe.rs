//! Dispatches observations: to the samples, and hits to the windows of their rule.

use std::sync::Arc;

use super::advance::Awaiting;
use super::capture::Captures;
use super::instance::HITS_LOST;
use super::join::Joiner;
use super::output::Observation;
use super::running::{Open, Running};
use super::stream::Arrived;
use super::{Engine, Process};
use crate::eval::partial::Room;
use crate::hit::Hit;
use crate::ids::{ProbeId, RuleId};
use crate::value::{ProcessId, Time};

impl Engine {
    /// Takes a measurement. One of an unknown process or probe is ignored.
    pub fn observe(&mut self, observation: Observation) {
        self.observe_of(observation, false);
    }

    /// Equivalent to observing every [`Observation::CallCounter`] of a process again with its last total.
    pub fn calls_stand(&mut self, process: ProcessId, time: Time) {
        self.samples.calls_stand(process, time);
    }

    /// `elsewhere` if a node passed it on, which folds what it can itself.
    pub(super) fn observe_of(&mut self, observation: Observation, elsewhere: bool) {
        if !self.is_of_known(&observation) {
            return;
        }
        match observation {
            Observation::Hit { .. } => self.hit(observation, elsewhere),
            Observation::PartialSum {
                rule,
                probe,
                process,
                partial_sum,
            } => {
                let room = self.room();
                if let Some(running) = self.rules.get_mut(rule.0) {
                    running.take_partial_sum(probe.0, process, &partial_sum, room);
                }
            }
            Observation::Watermark { process, time } => {
                // No hits of other rules wait for their turn.
                let ordered = self.rules.iter_mut().filter(|running| running.intake.has_probed);
                let ordered = ordered.filter(|running| !running.intake.follows_loop);
                ordered.for_each(|running| running.intake.stream.watermark(process, time));
            }
            Observation::IterationBegan {
                process,
                thread,
                number,
                time,
            } => self.begin_iteration((process, thread), number, time),
            Observation::IterationEnded(iteration) => self.end_iteration(&iteration),
            Observation::LoopWatermark { process, time } => {
                let following = self
                    .rules
                    .iter_mut()
                    .filter(|running| running.intake.follows_loop);
                following.for_each(|running| running.intake.stream.watermark(process, time));
            }
            Observation::Lost { from, to, .. } => {
                for running in &mut self.rules {
                    running.intake.stream.lose(from, to);
                    running.intake.joiners.iter_mut().for_each(Joiner::clear);
                    running.mark_incomplete(to, HITS_LOST);
                }
            }
            Observation::Variable {
                process,
                name,
                time,
                value,
            } => Arc::make_mut(&mut self.variables).observe(process, name, (time, value)),
            sampled => self.samples.observe(&sampled),
        }
    }

    /// Whether the process and the probe of the observation, if any, are known.
    fn is_of_known(&self, observation: &Observation) -> bool {
        let known = |process: &ProcessId| self.processes.contains_key(process);
        let has = |rule: &RuleId, probe: &ProbeId| {
            let running = self.rules.get(rule.0);
            running.is_some_and(|running| probe.0 < running.rule.probes.len())
        };
        match observation {
            Observation::Counter { of, .. } | Observation::Gauge { of, .. } => {
                of.process().as_ref().is_none_or(known)
            }
            Observation::CallCounter { process, .. }
            | Observation::Variable { process, .. }
            | Observation::Watermark { process, .. }
            | Observation::LoopWatermark { process, .. }
            | Observation::Lost { process, .. } => known(process),
            Observation::ProbeTotals {
                rule, probe, process, ..
            }
            | Observation::PartialSum {
                rule, probe, process, ..
            } => known(process) && has(rule, probe),
            // Checked on insertion.
            Observation::Hit { .. } | Observation::IterationBegan { .. } | Observation::IterationEnded(_) => {
                true
            }
        }
    }

    /// Dispatches a hit to the windows of its rule.
    fn hit(&mut self, hit: Observation, elsewhere: bool) {
        let Observation::Hit {
            rule,
            probe,
            process,
            time,
            ..
        } = hit
        else {
            return;
        };
        let room = self.room();
        let (Some(running), Some(known)) = (self.rules.get_mut(rule.0), self.processes.get(&process)) else {
            return;
        };
        let since = running.since;
        let Some(state) = running.probes.get_mut(probe.0).filter(|_| time >= since) else {
            return;
        };
        state.was_hit = true;
        let Some(hit) = known.hit(&state.captures, hit) else {
            return;
        };
        // A node folds the hits of windows of a length, unless a fold needs all of them.
        let is_sample = !elsewhere || running.parts.plan.passes_hits.get(probe.0) == Some(&true);
        if running.intake.has_timed && is_sample {
            self.samples.hit((rule, probe, process), hit.clone());
        }
        if running.intake.has_probed {
            running.take(probe.0, hit, elsewhere, room);
        }
    }
}

impl Process {
    /// A hit in this process, with its captures.
    pub(super) fn hit(&self, captures: &Captures, observation: Observation) -> Option<Hit> {
        let Observation::Hit {
            process,
            thread,
            time,
            duration_ns,
            captures: reads,
            ..
        } = observation
        else {
            return None;
        };
        Some(Hit {
            time,
            process,
            rank: self.facts.rank,
            host: self.host.clone(),
            thread,
            duration_ns,
            captures: captures.made(reads),
        })
    }
}

impl Running {
    /// Dispatches a hit to the windows from probe to probe.
    fn take(&mut self, probe: usize, hit: Hit, elsewhere: bool, room: Room) {
        let by_key = self.intake.by_key.has(probe);
        if by_key && elsewhere {
            return;
        }
        let time = hit.time;
        if self.intake.stream.is_late(hit.process, time) {
            self.intake.stream.dropped.late += 1;
            return self.mark_incomplete(time, "a hit came late");
        }
        let arrived = Arrived { probe, hit };
        if !by_key {
            self.intake.stream.push(arrived, room);
        } else if !self.intake.keyed.push(arrived, room) {
            self.intake.stream.overflow(time);
        }
    }

    /// Something of this time is missing: the instances to which it could belong are incomplete.
    pub(super) fn mark_incomplete(&mut self, time: Time, reason: &str) {
        for open in &mut self.windows {
            match open {
                Open::Probed(track) => track.mark_incomplete(time, reason),
                // A pair with it would become known after the hit.
                Open::Timed { incomplete, .. } => *incomplete = Some(reason.to_string()),
                Open::Busy => {}
            }
        }
        for Awaiting { due, .. } in &mut self.parts.instances {
            let instance = due.instance();
            if instance.start() <= time {
                instance.mark_incomplete(reason);
            }
        }
    }
}
