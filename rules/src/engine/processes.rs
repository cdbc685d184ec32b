//! Processes that join and leave, their roles in each rule, and the removal of data that is no longer needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::running::{Open, Running};
use super::{Engine, Process};
use crate::eval::partial::Room;
use crate::facts::ProcessFacts;
use crate::ids::RuleId;
use crate::value::{ProcessId, Time};

impl Engine {
    /// A process of the job exists from `now` on. It replaces an earlier process with the same number.
    ///
    /// It counts in the windows that begin at `now` or later.
    pub fn process_joined(&mut self, process: ProcessId, facts: ProcessFacts, now: Time) {
        self.forget(process);
        Arc::make_mut(&mut self.joined).insert(process, now);
        if !self.nodes.contains_key(&facts.machine) {
            Arc::make_mut(&mut self.alone).insert(process, now);
        }
        self.assign(process, &facts);
        self.processes.insert(
            process,
            Process {
                host: facts.host.as_deref().map(Arc::from),
                facts,
                joined: now,
                left: None,
            },
        );
    }

    /// Updates the facts of a process: its roles are determined again. Ignored for a process that never
    /// joined.
    pub fn process_learned(&mut self, process: ProcessId, facts: ProcessFacts) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.facts = facts.clone();
            known.host = facts.host.as_deref().map(Arc::from);
            self.assign(process, &facts);
        }
    }

    /// A process has ended. It does not count in the windows open at `now`.
    pub fn process_left(&mut self, process: ProcessId, now: Time) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.left.get_or_insert(now);
            Arc::make_mut(&mut self.joined).remove(&process);
            Arc::make_mut(&mut self.alone).remove(&process);
        }
    }

    /// Determines what depends on the facts of a process: its rank and its roles.
    fn assign(&mut self, process: ProcessId, facts: &ProcessFacts) {
        let ranks = Arc::make_mut(&mut self.ranks);
        match facts.rank {
            Some(rank) => ranks.insert(process, rank),
            None => ranks.remove(&process),
        };
        self.rules
            .iter_mut()
            .for_each(|running| running.assign(process, facts));
    }

    /// The room for the data of open windows, given the present processes.
    pub(super) fn room(&self) -> Room {
        Room::of(self.joined.len())
    }

    /// Removes what is known of a process. Takes no longer with more processes: all of a large job join at once.
    fn forget(&mut self, process: ProcessId) {
        // Observations of unknown processes are ignored.
        if self.processes.remove(&process).is_none() {
            return;
        }
        Arc::make_mut(&mut self.joined).remove(&process);
        Arc::make_mut(&mut self.alone).remove(&process);
        Arc::make_mut(&mut self.ranks).remove(&process);
        self.samples.drop_process(process);
        Arc::make_mut(&mut self.variables).forget(process);
        for running in &mut self.rules {
            running.roles.iter_mut().for_each(|members| {
                members.remove(&process);
            });
            running.intake.stream.forget(process);
            running.intake.partial_sums.forget(process);
            running.tunes.iter_mut().for_each(|tune| tune.forget(process));
        }
    }

    /// Drops samples and ended processes that no open window needs.
    pub(super) fn forget_the_past(&mut self, now: Time) {
        let floor = self.rules.iter().filter_map(Running::floor).min().unwrap_or(now);
        self.samples.forget(floor);
        self.rules
            .iter_mut()
            .for_each(|running| running.intake.stream.forget_before(floor));
        let gone = self
            .processes
            .iter()
            .filter(|(_, process)| process.left.is_some_and(|left| left <= floor));
        let gone: Vec<ProcessId> = gone.map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|process| self.forget(process));
    }

    /// The processes with a role of a rule, to which its measures and probes apply, each with its roles.
    pub fn members(&self, rule: RuleId) -> BTreeMap<ProcessId, Vec<&str>> {
        let mut out: BTreeMap<ProcessId, Vec<&str>> = BTreeMap::new();
        if let Some(running) = self.rules.get(rule.0) {
            for (role, members) in running.rule.roles.iter().zip(&running.roles) {
                members
                    .iter()
                    .for_each(|process| out.entry(*process).or_default().push(&role.name));
            }
        }
        out
    }
}

impl Running {
    /// Determines the roles of a process.
    pub(super) fn assign(&mut self, process: ProcessId, facts: &ProcessFacts) {
        for (role, members) in self.rule.roles.iter().zip(&mut self.roles) {
            if role.has(facts) {
                members.insert(process);
            } else {
                members.remove(&process);
            }
        }
    }

    /// The time from which samples are needed; `None` if no window needs them.
    fn floor(&self) -> Option<Time> {
        let floor = |open: &Open| match open {
            Open::Busy => None,
            Open::Timed { since, .. } => Some(*since),
            Open::Probed(track) => track.floor().or(self.intake.stream.frontier),
        };
        let awaiting = self.parts.instances.iter().map(|awaiting| awaiting.due.start());
        let awaited = self.parts.windows.iter().map(|awaited| awaited.span.0);
        self.windows
            .iter()
            .filter_map(floor)
            .chain(awaiting)
            .chain(awaited)
            .min()
    }
}
