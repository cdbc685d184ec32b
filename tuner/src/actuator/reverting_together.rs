//! Reverting changes that several processes made together: in all of them at the same iteration, or in none.
//! Groups that follow each other in all processes are reverted at once. [`super::assembly`] makes the
//! processes agree on an iteration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assembly::{Assembled, Assembly, AssemblyError, Participant};
use super::reverting::{REVERT_LOOK, REVERT_WAIT, Reverting, Tried};
use super::session::Session;
use super::waiting::{PlaceWait, refused};
use super::{ActuatorRefusalKind, Refusal};
use crate::journal::{ChangeGroup, JournalChange, Mechanism, RevertOutcome, Status, WriteHold};
use crate::process::Pid;
use crate::revert::{PendingRevert, Returning};
use crate::sync::{self, HoldStatistics, ResolvedPoint};
use crate::write::Hooks;

impl Session {
    /// Reverts all groups of which a change is wanted, newest first; each within the time of one change.
    pub(super) fn revert_groups(&mut self, pids: &[Pid], reverting: &mut Reverting) {
        let mut tried = BTreeSet::new();
        // Reverting one brings an earlier one into force.
        while let Some(shared) = self.newest_shared(pids, reverting, &tried) {
            tried.insert(shared.group.clone());
            for (pid, attempts) in
                self.revert_group(&shared, reverting.wanted, PlaceWait::lasting(REVERT_WAIT))
            {
                reverting.have_tried(pid, attempts);
            }
        }
    }

    fn newest_shared(
        &mut self,
        pids: &[Pid],
        reverting: &Reverting,
        tried: &BTreeSet<String>,
    ) -> Option<ChangeGroup> {
        let mut newest: Option<(u64, ChangeGroup)> = None;
        for pid in pids {
            let Ok(writer) = self.writer(*pid) else { continue };
            for change in writer.changes() {
                let (Some(shared), at) = (change.intent.action.together(), change.intent.at.monotonic_ns)
                else {
                    continue;
                };
                let is_newer = newest.as_ref().is_none_or(|(newest, _)| at > *newest);
                let is_in_force = change.status == Status::Applied && !tried.contains(&shared.group);
                if is_newer && is_in_force && reverting.is_left(*pid, &change) {
                    newest = Some((at, shared.clone()));
                }
            }
        }
        newest.map(|(_, shared)| shared)
    }

    /// Reverts a group in those of its processes that live and have it in force: all of them or none. The
    /// same write reverts earlier groups of the same processes as long as they are wanted in all of them.
    fn revert_group(
        &mut self,
        shared: &ChangeGroup,
        wanted: &dyn Fn(Pid, &JournalChange) -> bool,
        wait: PlaceWait,
    ) -> BTreeMap<Pid, Vec<Tried>> {
        let mut done: BTreeMap<Pid, Vec<Tried>> = BTreeMap::new();
        let mut returning: Vec<(Pid, Returning)> = Vec::new();
        let mut members = Vec::new();
        let mut hindered = None;
        let mut in_force = Vec::new();
        for pid in shared.with.iter().filter(|pid| pid.is_alive()) {
            match self.in_force_of(*pid, shared) {
                Ok(change) => in_force.extend(change.map(|change| (*pid, change))),
                Err(refusal) if refusal.kind == ActuatorRefusalKind::Ended => {}
                Err(error) => hindered = Some(AssemblyError::Participant { pid: *pid, error }),
            }
        }
        let run = self.groups_before(&in_force, wanted);
        for (pid, change) in in_force {
            match self.prepare_revert(pid, change, shared, &run) {
                Ok((back, member)) => {
                    returning.push((pid, back));
                    members.push(member);
                }
                Err(refusal) => {
                    // If it runs another program now, that has no such change.
                    if refusal.kind != ActuatorRefusalKind::Ended {
                        let error = refusal.clone();
                        hindered = Some(AssemblyError::Participant { pid, error });
                    }
                    let result = Err(refusal);
                    done.entry(pid).or_default().push(Tried { change, result });
                }
            }
        }
        let hooks = self.waiting.options.hooks;
        let assembled = match hindered {
            Some(why) => Err(why),
            None if members.is_empty() => return done,
            None => self.assemble(members, hooks, wait),
        };
        let count = returning.len();
        let Assembled { result, holds } = assembled.unwrap_or_else(|why| Assembled {
            result: Err(why),
            holds: vec![WriteHold::at(Mechanism::Stop, HoldStatistics::default()); count],
        });
        for ((pid, mut back), hold) in returning.into_iter().zip(holds) {
            let outcome = match &result {
                Ok(()) => RevertOutcome::Reverted,
                Err(why) => RevertOutcome::Failed(format!("in force in all its processes still: {why}")),
            };
            let (change, with_it) = (back.change, std::mem::take(&mut back.with_it));
            let reverted = self
                .writer(pid)
                .and_then(|writer| Ok(writer.conclude_revert(back, outcome, Some(hold))?));
            let tried = Tried::of_each(change, reverted, with_it);
            done.entry(pid).or_default().extend(tried);
        }
        done
    }

    /// The change of a group in one of its processes, if it is in force there.
    fn in_force_of(&mut self, pid: Pid, shared: &ChangeGroup) -> Result<Option<u64>, Refusal> {
        let changes = self.writer(pid)?.changes();
        let is_it = |known: &&JournalChange| {
            known.status == Status::Applied && group_of(known) == Some(&shared.group)
        };
        Ok(changes.iter().find(is_it).map(|change| change.intent.change))
    }

    /// The groups before a change in each of these processes, newest first, as long as they are wanted and
    /// the same in all processes.
    fn groups_before(
        &mut self,
        changes: &[(Pid, u64)],
        wanted: &dyn Fn(Pid, &JournalChange) -> bool,
    ) -> Vec<String> {
        let mut common: Option<Vec<String>> = None;
        for (pid, change) in changes {
            let Ok(writer) = self.writer(*pid) else { continue };
            let groups = writer.before_it(*change, &|earlier| wanted(*pid, earlier));
            let groups = groups
                .into_iter()
                .filter_map(|earlier| writer.known(earlier).ok());
            let groups: Vec<String> = groups.filter_map(|earlier| group_of(&earlier).cloned()).collect();
            common = Some(match common {
                None => groups,
                Some(common) => common
                    .into_iter()
                    .zip(groups)
                    .take_while(|(one, other)| one == other)
                    .map(|(one, _)| one)
                    .collect(),
            });
        }
        common.unwrap_or_default()
    }

    fn assemble(
        &mut self,
        members: Vec<Participant>,
        hooks: Hooks,
        wait: PlaceWait,
    ) -> Result<Assembled, AssemblyError> {
        let rendezvous = self.waiting.rendezvous()?;
        let mut assembly = Assembly::start(members, rendezvous, hooks, wait)?;
        loop {
            if let Some(assembled) = assembly.poll(rendezvous) {
                return Ok(assembled);
            }
            std::thread::sleep(REVERT_LOOK);
        }
    }

    fn prepare_revert(
        &mut self,
        pid: Pid,
        change: u64,
        shared: &ChangeGroup,
        run: &[String],
    ) -> Result<(Returning, Participant), Refusal> {
        let is_in_run = |earlier: &JournalChange| group_of(earlier).is_some_and(|group| run.contains(group));
        let PendingRevert {
            space,
            place,
            sync,
            returning,
        } = self.writer(pid)?.prepare_revert(change, &is_in_run)?;
        let prepared = ResolvedPoint::resolve(&space, &sync)
            .map_err(Refusal::from)
            .and_then(|point| {
                let key = sync::resolve(&shared.key, &space, &sync);
                Ok((point, key.map_err(refused)?))
            });
        let values = (returning.set.new, returning.set.old);
        match prepared {
            Ok((point, key)) => Ok((returning, Participant::new(point, key, Arc::new(place), values))),
            Err(refusal) => {
                let outcome = RevertOutcome::Failed(refusal.message.clone());
                self.writer(pid)?.conclude_revert(returning, outcome, None)?;
                Err(refusal)
            }
        }
    }
}

fn group_of(change: &JournalChange) -> Option<&String> {
    change.intent.action.together().map(|shared| &shared.group)
}
