//! Closes a window: determines the processes present from boundary to boundary, and their measurements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Engine, Process, Running};
use crate::eval::partial::Content;
use crate::eval::{Calls, HitsByProcess, WindowData};
use crate::ids::{ProbeId, RuleId};
use crate::measure::{Measure, MeasureKind, Scope};
use crate::plan::Delivery;
use crate::rule::CheckedProbe;
use crate::unit::Dimension;
use crate::value::{Key, Machine, ProcessId, Subject, Time, Value, WhyMissing, finite};
use crate::window::{Boundaries, Window};

/// Begin and end of a window: for all processes, and for each that hit its boundaries itself.
#[derive(Clone, Copy)]
struct Times<'a> {
    all: (Time, Time),
    own: &'a BTreeMap<ProcessId, (Time, Time)>,
}

impl Times<'_> {
    fn shared(all: (Time, Time), no_process: &BTreeMap<ProcessId, (Time, Time)>) -> Times<'_> {
        Times { all, own: no_process }
    }

    /// For a process: counters of one that ended early do not extend to the end of the last.
    fn of(self, process: Option<ProcessId>) -> (Time, Time) {
        let own = process.and_then(|process| self.own.get(&process));
        own.copied().unwrap_or(self.all)
    }
}

impl Engine {
    /// The data of a timed window of `running` between its boundaries.
    pub(super) fn timed(
        &self,
        (id, place): (RuleId, usize),
        running: &Running,
        index: u64,
        boundaries: (Time, Time),
    ) -> WindowData {
        let mut left_out = Vec::new();
        let complete = self.complete(running, boundaries, &mut left_out);
        let roles = running.roles.iter().map(|members| members & &complete).collect();
        let (content, lacking) = self.each_hit((id, place), running, &complete, boundaries);
        let no_process = BTreeMap::new();
        WindowData {
            index,
            duration: Ok(boundaries.1.since(boundaries.0) as f64 / 1e9),
            span: boundaries,
            roles,
            measures: self.measures(running, &complete, Times::shared(boundaries, &no_process)),
            calls: self.calls(running, &complete, boundaries),
            probes: self.probed(id, running, &complete, boundaries),
            lacking,
            probe_roles: running.rule.probe_roles(),
            ranks: self.ranks(&complete),
            left_out,
            ..WindowData::default()
        }
        .with(Arc::new(content))
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
        let complete = self.complete(running, boundaries, &mut data.left_out);
        data.roles = running.roles.iter().map(|members| members & &complete).collect();
        let times = Times {
            all: boundaries,
            own: &data.own,
        };
        data.measures = self.measures(running, &complete, times);
        data.duration = Ok(boundaries.1.since(boundaries.0) as f64 / 1e9);
        let processes = data.content.iter().flat_map(|content| content.processes());
        data.excluded = processes.filter(|process| !complete.contains(process)).collect();
        if let Some(missing) = missing {
            let reason = format!("the window is partial: {missing}");
            data.lacking = vec![Some(reason.clone()); data.probe_roles.len()];
            data.left_out.push(reason.clone());
            data.duration = Err(reason);
        } else if !running.absent.is_empty() {
            let probes = 0..data.probe_roles.len();
            data.lacking = probes.map(|probe| running.absent.get(&probe).cloned()).collect();
        }
    }

    /// The measures that formulas of a window need at its boundary hits.
    pub(super) fn at_boundaries(
        &self,
        running: &Running,
        place: usize,
        boundaries_at: (Time, Time),
        data: &WindowData,
    ) -> BTreeMap<(Measure, usize), Value> {
        let requested = running.rule.requirements.at_boundaries(place);
        if requested.is_empty() {
            return BTreeMap::new();
        }
        let boundaries = running.rule.windows.get(place).and_then(Window::boundaries);
        let is_begin = |probe: usize| boundaries.and_then(Boundaries::begins_at) == Some(probe);
        let complete: BTreeSet<ProcessId> = data.roles.iter().flatten().copied().collect();
        let times = Times {
            all: boundaries_at,
            own: &data.own,
        };
        let value = |&(measure, probe): &(Measure, usize)| {
            let boundary = |(start, end): (Time, Time)| if is_begin(probe) { start } else { end };
            let time = |process: Option<ProcessId>| boundary(times.of(process));
            ((measure, probe), self.measured_at(measure, &complete, time))
        };
        requested.iter().map(value).collect()
    }

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
        one: impl Fn(Subject) -> Result<f64, WhyMissing>,
    ) -> Value {
        match measure.scope() {
            Scope::Machine => {
                let machines = self.machines(complete).into_iter().map(Subject::Machine);
                Value::Single(
                    machines
                        .map(one)
                        .sum::<Result<f64, WhyMissing>>()
                        .and_then(finite),
                )
            }
            Scope::Process => {
                let row = |process: &ProcessId| {
                    let value = one(Subject::Process(*process)).and_then(finite);
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
    fn complete(
        &self,
        running: &Running,
        boundaries: (Time, Time),
        left_out: &mut Vec<String>,
    ) -> BTreeSet<ProcessId> {
        let everyone: BTreeSet<ProcessId> = running.roles.iter().flatten().copied().collect();
        everyone
            .into_iter()
            .filter(|process| self.was_there(*process, boundaries, left_out))
            .collect()
    }

    fn measures(
        &self,
        running: &Running,
        complete: &BTreeSet<ProcessId>,
        times: Times<'_>,
    ) -> BTreeMap<Measure, Value> {
        let measures = running.rule.plan.measures.iter();
        measures
            .map(|measure| (*measure, self.measured(*measure, complete, times)))
            .collect()
    }

    fn calls(
        &self,
        running: &Running,
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
        running.rule.plan.calls.iter().map(of_measure).collect()
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

    pub(super) fn name(&self, process: ProcessId) -> String {
        self.processes
            .get(&process)
            .map_or_else(|| format!("process {}", process.0), |known| known.name(process))
    }

    fn measured(&self, measure: Measure, complete: &BTreeSet<ProcessId>, times: Times<'_>) -> Value {
        self.of_all(measure, complete, |of| {
            self.one(measure, of, times.of(of.process()))
        })
    }

    /// A measure of one subject, in seconds, bytes or a plain number.
    fn one(&self, measure: Measure, of: Subject, boundaries: (Time, Time)) -> Result<f64, WhyMissing> {
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

    fn ranks(&self, of: &BTreeSet<ProcessId>) -> BTreeMap<ProcessId, u32> {
        let rank = |process: &ProcessId| Some((*process, self.processes.get(process)?.facts.rank?));
        of.iter().filter_map(rank).collect()
    }

    /// Aggregates the hits of every probe that delivers each hit; for each probe, why some hits are unknown.
    fn each_hit(
        &self,
        (id, place): (RuleId, usize),
        running: &Running,
        complete: &BTreeSet<ProcessId>,
        boundaries: (Time, Time),
    ) -> (Content, Vec<Option<String>>) {
        let mut content = Content::new(
            running.rule.folds.get(place).cloned().unwrap_or_default(),
            self.room(),
        );
        let no_process = BTreeSet::new();
        let mut of_probe = |place: usize, probe: &CheckedProbe| {
            let members = running.roles.get(probe.role).unwrap_or(&no_process);
            for process in members.intersection(complete) {
                let found = self.samples.each_hit((id, ProbeId(place), *process), boundaries);
                let hits =
                    found.map_err(|reason| format!("{} of {} {reason}", probe.name, self.name(*process)))?;
                hits.into_iter().for_each(|hit| content.take(place, hit));
                if !content.has_room() {
                    return Err(format!("{} has more hits than are kept", probe.name));
                }
            }
            Ok(())
        };
        let planned = &running.rule.plan.probes;
        let probes = running.rule.probes.iter().zip(planned).enumerate();
        let lacking = probes
            .map(
                |(place, (probe, planned))| match (running.absent.get(&place), planned.delivers) {
                    (Some(reason), _) => Some(reason.clone()),
                    (None, Delivery::EachHit) => of_probe(place, probe).err(),
                    (None, _) => None,
                },
            )
            .collect();
        (content, lacking)
    }

    fn probed(
        &self,
        id: RuleId,
        running: &Running,
        complete: &BTreeSet<ProcessId>,
        boundaries: (Time, Time),
    ) -> Vec<(String, HitsByProcess)> {
        let no_process = BTreeSet::new();
        let probes = running
            .rule
            .probes
            .iter()
            .zip(&running.rule.plan.probes)
            .enumerate();
        probes
            .map(|(place, (probe, planned))| {
                let each = planned.delivers == Delivery::EachHit;
                let members = running
                    .roles
                    .get(probe.role)
                    .unwrap_or(&no_process)
                    .intersection(complete);
                let row = |process: &ProcessId| {
                    if let Some(reason) = running.absent.get(&place) {
                        return (*process, Err(reason.clone()));
                    }
                    let of = (id, ProbeId(place), *process);
                    let hits = self.samples.hits(of, each, boundaries);
                    let why = |reason| format!("{} of {} {reason}", probe.name, self.name(*process));
                    (*process, hits.map_err(why))
                };
                (probe.name.clone(), members.map(row).collect())
            })
            .collect()
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
