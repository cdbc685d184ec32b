//! Closes a window: determines the processes present from boundary to boundary, and their measurements.

use std::collections::{BTreeMap, BTreeSet};

use syntax::unit::Dimension;

use super::running::Running;
use super::samples::Samples;
use super::{Engine, Process};
use crate::eval::partial::{Content, Room};
use crate::eval::{Calls, HitsInWindow, WindowData};
use crate::ids::{ProbeId, RuleId};
use crate::measure::{Measure, MeasureKind, Scope};
use crate::rule::CheckedRule;
use crate::value::{Cell, Key, Machine, ProcessId, Subject, Time, Value, WhyUnknown, observed};
use crate::window::{Boundaries, Window};

/// Begin and end of a window: for all processes, and for each that hit its boundaries itself.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    all: (Time, Time),
    own: &'a BTreeMap<ProcessId, (Time, Time)>,
}

impl Times<'_> {
    pub(super) fn shared(all: (Time, Time), no_process: &BTreeMap<ProcessId, (Time, Time)>) -> Times<'_> {
        Times { all, own: no_process }
    }

    /// For a process: counters of one that ended early do not extend to the end of the last.
    fn of(self, process: Option<ProcessId>) -> (Time, Time) {
        let own = process.and_then(|process| self.own.get(&process));
        own.copied().unwrap_or(self.all)
    }
}

/// The processes, with what was observed of them: of a whole job, or of a node.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) processes: &'a BTreeMap<ProcessId, Process>,
    pub(super) samples: &'a Samples,
    pub(super) room: Room,
}

impl Engine {
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            processes: &self.processes,
            samples: &self.samples,
            room: self.room(),
        }
    }

    pub(super) fn name(&self, process: ProcessId) -> String {
        self.observed().name(process)
    }

    /// Adds the measurements between the boundaries of an instance to its hits. If something is `missing`,
    /// its hits and its duration are none, because a sum of the delivered hits would be too small.
    pub(super) fn complete_data(
        &self,
        running: &Running,
        data: &mut WindowData,
        boundaries: (Time, Time),
        missing: Option<&str>,
    ) {
        data.span = boundaries;
        let observed = self.observed();
        let complete = observed.complete(&running.roles, boundaries, &mut data.left_out);
        data.roles = running.roles.iter().map(|members| members & &complete).collect();
        let times = Times {
            all: boundaries,
            own: &data.own,
        };
        let measures = running.rule.plan.measures.iter();
        data.measures = measures
            .map(|measure| (*measure, observed.measured(*measure, &complete, times)))
            .collect();
        data.duration = Some(Ok(boundaries.1.since(boundaries.0) as f64 / 1e9));
        let processes = data.content.iter().flat_map(|content| content.processes());
        data.excluded = processes.filter(|process| !complete.contains(process)).collect();
        if let Some(missing) = missing {
            let reason = format!("the window is partial: {missing}");
            data.lacking = vec![Some(reason.clone()); data.probe_roles.len()];
            data.left_out.push(reason.clone());
            data.duration = Some(Err(reason));
        } else if running.absent().next().is_some() {
            let absent = running.probes.iter().map(|probe| probe.absent.clone());
            data.lacking = absent.collect();
        }
    }

    /// The measures that formulas of a window need at its boundary hits.
    pub(super) fn at_boundaries(
        &self,
        running: &Running,
        index: usize,
        boundaries_at: (Time, Time),
        data: &WindowData,
    ) -> BTreeMap<(Measure, usize), Value> {
        let requested = running.rule.requirements.at_boundaries(index);
        if requested.is_empty() {
            return BTreeMap::new();
        }
        let boundaries = running.rule.windows.get(index).and_then(Window::boundaries);
        let is_begin = |probe: usize| boundaries.and_then(Boundaries::begins_at) == Some(probe);
        let complete: BTreeSet<ProcessId> = data.roles.iter().flatten().copied().collect();
        let times = Times {
            all: boundaries_at,
            own: &data.own,
        };
        let value = |&(measure, probe): &(Measure, usize)| {
            let boundary = |(start, end): (Time, Time)| if is_begin(probe) { start } else { end };
            let time = |process: Option<ProcessId>| boundary(times.of(process));
            (
                (measure, probe),
                self.observed().measured_at(measure, &complete, time),
            )
        };
        requested.iter().map(value).collect()
    }
}

impl Observed<'_> {
    fn measured_at(
        &self,
        measure: Measure,
        complete: &BTreeSet<ProcessId>,
        time: impl Fn(Option<ProcessId>) -> Time,
    ) -> Value {
        self.of_all(measure, complete, |of| {
            let value = self.samples.at(of, measure, time(of.process()));
            let time_unit = measure.kind() == MeasureKind::Counter && measure.dimension() == Dimension::TIME;
            let value = value.map(|value| if time_unit { value / 1e9 } else { value });
            value.map_err(|reason| format!("{} {reason}", measure.name()))
        })
    }

    /// A measure with a row for each process, or a measure of machines summed over those of the processes.
    fn of_all(
        &self,
        measure: Measure,
        complete: &BTreeSet<ProcessId>,
        one: impl Fn(Subject) -> Result<f64, WhyUnknown>,
    ) -> Value {
        match measure.scope() {
            Scope::Machine => {
                let machines = self.machines(complete).into_iter().map(Subject::Machine);
                Value::Single(observed(machines.map(one).sum()))
            }
            Scope::Process => {
                let row = |process: &ProcessId| {
                    let value = observed(one(Subject::Process(*process)));
                    (Key::Process(*process), value)
                };
                Value::Table(complete.iter().map(row).collect())
            }
        }
    }

    /// The machines of the given processes; without any, the machines of the entire job.
    fn machines(&self, of: &BTreeSet<ProcessId>) -> BTreeSet<Machine> {
        let known = self.processes.iter();
        let known = known.filter(|(process, _)| of.is_empty() || of.contains(process));
        let machines: BTreeSet<Machine> = known.map(|(_, process)| process.facts.machine).collect();
        if machines.is_empty() {
            return BTreeSet::from([Machine::default()]);
        }
        machines
    }

    /// The processes of each role that were present from boundary to boundary.
    pub(super) fn complete(
        &self,
        roles: &[BTreeSet<ProcessId>],
        boundaries: (Time, Time),
        left_out: &mut Vec<String>,
    ) -> BTreeSet<ProcessId> {
        let everyone: BTreeSet<ProcessId> = roles.iter().flatten().copied().collect();
        everyone
            .into_iter()
            .filter(|process| self.was_there(*process, boundaries, left_out))
            .collect()
    }

    pub(super) fn calls(
        &self,
        rule: &CheckedRule,
        complete: &BTreeSet<ProcessId>,
        boundaries: (Time, Time),
    ) -> BTreeMap<Measure, BTreeMap<ProcessId, Calls>> {
        let of_process = |measure: Measure, process: ProcessId| {
            let unit = if measure.dimension() == Dimension::TIME {
                1e9
            } else {
                1.0
            };
            let changes = self.samples.changes_of_calls((process, measure), boundaries);
            let in_units = |changes: BTreeMap<String, f64>| {
                let change = |(call, change)| (call, change / unit);
                changes.into_iter().map(change).collect()
            };
            let name = || format!("{} of {}", measure.name(), self.name(process));
            changes
                .map(in_units)
                .map_err(|reason| format!("{} {reason}", name()))
        };
        let of_measure = |measure: &Measure| {
            let rows = complete
                .iter()
                .map(|process| (*process, of_process(*measure, *process)));
            (*measure, rows.collect())
        };
        rule.plan.calls.iter().map(of_measure).collect()
    }

    fn was_there(&self, process: ProcessId, (start, end): (Time, Time), left_out: &mut Vec<String>) -> bool {
        let Some(known) = self.processes.get(&process) else {
            return false;
        };
        let late = known.joined > start;
        let early = known.left.is_some_and(|left| left < end);
        if late {
            left_out.push(format!("{} joined within the window", known.name(process)));
        } else if early {
            left_out.push(format!("{} left within the window", known.name(process)));
        }
        !late && !early
    }

    fn name(&self, process: ProcessId) -> String {
        self.processes
            .get(&process)
            .map_or_else(|| format!("process {}", process.0), |known| known.name(process))
    }

    pub(super) fn measured(
        &self,
        measure: Measure,
        complete: &BTreeSet<ProcessId>,
        times: Times<'_>,
    ) -> Value {
        self.of_all(measure, complete, |of| {
            self.one(measure, of, times.of(of.process()))
        })
    }

    /// A measure of one subject, in seconds, bytes or a plain number.
    pub(super) fn one(
        &self,
        measure: Measure,
        of: Subject,
        boundaries: (Time, Time),
    ) -> Result<f64, WhyUnknown> {
        let found = match measure.kind() {
            MeasureKind::Counter => {
                let units = if measure.dimension() == Dimension::TIME {
                    1e9
                } else {
                    1.0
                };
                self.samples
                    .change(of, measure, boundaries)
                    .map(|change| change / units)
            }
            MeasureKind::Gauge => self.samples.level(of, measure, boundaries),
        };
        found.map_err(|reason| match of.process() {
            Some(process) => format!("{} of {} {reason}", measure.name(), self.name(process)),
            None => format!("{} {reason}", measure.name()),
        })
    }

    pub(super) fn ranks(&self, of: &BTreeSet<ProcessId>) -> BTreeMap<ProcessId, u32> {
        let rank = |process: &ProcessId| Some((*process, self.processes.get(process)?.facts.rank?));
        of.iter().filter_map(rank).collect()
    }

    /// Adds the hits of a probe within a window of a length to its content; the reason, if some are unknown, with
    /// the first process of which they are.
    pub(super) fn each_hit(
        &self,
        content: &mut Content,
        (rule, probe): (RuleId, ProbeId),
        (name, members): (&str, &BTreeSet<ProcessId>),
        boundaries: (Time, Time),
    ) -> Result<(), (ProcessId, WhyUnknown)> {
        for process in members {
            let found = self.samples.each_hit((rule, probe, *process), boundaries);
            let why = |reason| (*process, format!("{name} of {} {reason}", self.name(*process)));
            found
                .map_err(why)?
                .into_iter()
                .for_each(|hit| content.take(probe.0, hit));
            if !content.has_room() {
                return Err((*process, format!("{name} has more hits than are kept")));
            }
        }
        Ok(())
    }

    /// The hits of a probe by process, from its totals; `each` if their extremes are needed.
    pub(super) fn probed(
        &self,
        (rule, probe): (RuleId, ProbeId),
        (name, each): (&str, bool),
        members: &BTreeSet<ProcessId>,
        boundaries: (Time, Time),
    ) -> Vec<(ProcessId, Result<HitsInWindow, WhyUnknown>)> {
        let row = |process: &ProcessId| {
            let hits = self.samples.hits((rule, probe, *process), each, boundaries);
            let why = |reason| format!("{name} of {} {reason}", self.name(*process));
            (*process, hits.map_err(why))
        };
        members.iter().map(row).collect()
    }

    /// A measure of some processes.
    pub(super) fn rows(
        &self,
        measure: Measure,
        complete: &BTreeSet<ProcessId>,
        boundaries: (Time, Time),
    ) -> BTreeMap<Key, Cell> {
        let value = |process: &ProcessId| {
            let value = self.one(measure, Subject::Process(*process), boundaries);
            (Key::Process(*process), observed(value))
        };
        complete.iter().map(value).collect()
    }
}

impl Process {
    fn name(&self, id: ProcessId) -> String {
        match (self.facts.rank, self.facts.pid) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, pid) => format!("process {}", pid.unwrap_or(id.0)),
        }
    }
}
