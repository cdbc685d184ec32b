//! Iterations of the detected loop: each is a hit at its begin and one at its end for the rules that follow
//! the loop.

use super::Engine;
use super::output::{LoopIteration, LoopNumber, Observation};
use crate::ids::{ProbeId, RuleId};
use crate::plan::PlannedProbe;
use crate::read::{Base, IterationValue, Known};
use crate::target::{Site, Target};
use crate::value::{ProcessId, Reads, Scalar, Time, WhyUnknown};

/// Iterations of one loop whose instances are distinct. Instances of up to 2^21 loops are distinct numbers.
const ITERATIONS: f64 = 4_294_967_296.0;

impl Engine {
    /// Takes the begin of an iteration.
    pub(super) fn begin_iteration(
        &mut self,
        (process, thread): (ProcessId, u32),
        number: LoopNumber,
        begin: Time,
    ) {
        let teams = Err("it has not ended".to_string());
        let iteration = LoopIteration {
            process,
            thread,
            number,
            begin,
            end: begin,
            teams,
        };
        self.at_iteration(&iteration, |site| site == Site::Entry);
    }

    /// Takes the end of an iteration.
    pub(super) fn end_iteration(&mut self, iteration: &LoopIteration) {
        self.at_iteration(iteration, |site| site != Site::Entry);
    }

    fn at_iteration(&mut self, iteration: &LoopIteration, is_at: impl Fn(Site) -> bool) {
        let mut hits = Vec::new();
        let following = self.rules.iter().enumerate();
        for (rule, running) in following.filter(|(_, running)| running.intake.follows_loop) {
            for (probe, planned) in running.rule.plan.probes.iter().enumerate() {
                let is_followed = planned.target == Target::LoopIteration && planned.delivers.are_hits();
                if is_followed && is_at(planned.site) {
                    hits.push(iteration.hit((RuleId(rule), ProbeId(probe)), planned));
                }
            }
        }
        for hit in hits {
            self.observe(hit);
        }
    }
}

impl LoopIteration {
    fn hit(&self, (rule, probe): (RuleId, ProbeId), planned: &PlannedProbe) -> Observation {
        let values = planned.captures.iter().map(|capture| match capture.source.base {
            Base::Known(Known::Iteration(value)) => self.value(value).map(Scalar::Number),
            _ => Err("it is no value of an iteration".to_string()),
        });
        Observation::Hit {
            rule,
            probe,
            process: self.process,
            thread: self.thread,
            time: self.end,
            duration_ns: self.end.since(self.begin),
            captures: values.collect::<Reads>(),
        }
    }

    fn value(&self, value: IterationValue) -> Result<f64, WhyUnknown> {
        let LoopNumber { of, iteration } = self.number;
        let teams = self.teams.as_ref();
        let seconds = |ns: u64| ns as f64 / 1e9;
        let of_teams = match value {
            IterationValue::Number => return Ok(iteration as f64),
            IterationValue::Instance => return Ok(f64::from(of) * ITERATIONS + iteration as f64),
            IterationValue::Threads => teams.map(|teams| f64::from(teams.threads)),
            IterationValue::Sequential => teams.map(|teams| seconds(teams.sequential_ns)),
            IterationValue::Working => teams.map(|teams| seconds(teams.working_ns)),
            IterationValue::Overhead => teams.map(|teams| seconds(teams.overhead_ns)),
            IterationValue::Waiting => teams.map(|teams| seconds(teams.waiting_ns)),
        };
        of_teams.map_err(Clone::clone)
    }
}
