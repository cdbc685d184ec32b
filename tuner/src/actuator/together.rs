//! Changes of several processes at the same iteration: written in all of them or in none. [`super::assembly`]
//! makes the processes agree on one; [`super::reverting_together`] reverts them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plan::{Key, SyncPoint};

use super::assembly::{Assembled, Assembly, AssemblyError, Participant};
use super::reverting::REVERT_LOOK;
use super::session::Session;
use super::waiting::{PlaceWait, WAITING_MAX, WITHIN_MAX, refused};
use super::{Refusal, SetCommand, TogetherCommand};
use crate::clock;
use crate::journal::ChangeGroup;
use crate::process::Pid;
use crate::space::AddressSpace;
use crate::sync::{self, KeyPlace, ResolvedPoint};
use crate::writable_place::WritablePlace;
use crate::writer::{Announced, SetRequest};

/// Changes of several processes that wait.
pub(super) struct WaitingGroup {
    /// In the order of the members.
    waiting: Vec<(u64, Pid, Announced)>,
    assembly: Assembly,
}

impl WaitingGroup {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn has_ticket(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|(known, ..)| *known == ticket)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.waiting.iter().map(|(_, pid, _)| *pid)
    }
}

/// One resolved set of a group.
struct PreparedSet {
    pid: Pid,
    place: Arc<WritablePlace>,
    request: SetRequest,
    point: ResolvedPoint,
    key: KeyPlace,
}

impl Session {
    /// Resolves everything, announces all changes and arms them. Returns a ticket for each.
    pub(super) fn arm_together(&mut self, command: TogetherCommand) -> Result<Vec<u64>, Refusal> {
        let TogetherCommand {
            sets,
            at,
            key,
            within_ms,
        } = command;
        if sets.is_empty() || self.waiting.count() + sets.len() > WAITING_MAX {
            return Err(refused(format!(
                "a change of 1 to {WAITING_MAX} processes together is possible, those that wait already included"
            )));
        }
        let with: Vec<Pid> = sets.iter().map(|set| set.pid).collect();
        if with.iter().collect::<BTreeSet<_>>().len() < with.len() {
            return Err(refused(
                "a process can take part once in a change together".to_owned(),
            ));
        }
        let prepared: Result<Vec<PreparedSet>, Refusal> = sets
            .into_iter()
            .map(|set| self.prepare_member(set, &at, &key))
            .collect();
        let shared = ChangeGroup {
            group: format!("{}-{}", std::process::id(), clock::monotonic_ns()),
            with,
            key,
        };
        let mut announced = Vec::new();
        let members = self.announce_all(prepared?, &at, &shared, &mut announced);
        let wait = PlaceWait::lasting(Duration::from_millis(within_ms).min(WITHIN_MAX));
        let hooks = self.waiting.options.hooks;
        let assembly = members.and_then(|members| {
            let rendezvous = self.waiting.rendezvous()?;
            Assembly::start(members, rendezvous, hooks, wait).map_err(refused)
        });
        let assembly = match assembly {
            Ok(assembly) => assembly,
            Err(refusal) => {
                self.abandon(&announced, &refusal.message);
                return Err(refusal);
            }
        };
        let waiting: Vec<_> = announced
            .into_iter()
            .map(|(pid, set)| (self.waiting.next_ticket(), pid, set))
            .collect();
        let tickets = waiting.iter().map(|(ticket, ..)| *ticket).collect();
        self.waiting.groups.push(WaitingGroup { waiting, assembly });
        Ok(tickets)
    }

    /// Announces the sets one after another in the journals of their processes, up to the first failure;
    /// those that were announced are in `announced` even then.
    fn announce_all(
        &mut self,
        sets: Vec<PreparedSet>,
        at: &SyncPoint,
        shared: &ChangeGroup,
        announced: &mut Vec<(Pid, Announced)>,
    ) -> Result<Vec<Participant>, Refusal> {
        let announce = |one: PreparedSet| -> Result<Participant, Refusal> {
            let writer = self.writer(one.pid)?;
            let set = writer.announce_set(&one.place, one.request, Some(at.clone()), Some(shared.clone()))?;
            let values = (set.old, set.new);
            announced.push((one.pid, set));
            Ok(Participant::new(one.point, one.key, one.place, values))
        };
        sets.into_iter().map(announce).collect()
    }

    fn prepare_member(&mut self, set: SetCommand, at: &SyncPoint, key: &Key) -> Result<PreparedSet, Refusal> {
        let pid = set.pid;
        let (place, request) = self.prepare(set)?;
        let space = AddressSpace::read(&self.open(pid)?, &self.images())?;
        let key = sync::resolve(key, &space, at).map_err(|why| {
            refused(format!(
                "which iteration it is cannot be read in process {pid}: {why}"
            ))
        })?;
        Ok(PreparedSet {
            pid,
            place: Arc::new(place),
            request,
            point: ResolvedPoint::resolve(&space, at)?,
            key,
        })
    }

    /// Records in the journals, as far as possible, why the announced changes were not written.
    fn abandon(&mut self, announced: &[(Pid, Announced)], why: &str) {
        for (pid, set) in announced {
            // The journal of a process that has ended cannot be written.
            let _ = self
                .writer(*pid)
                .and_then(|writer| Ok(writer.abandon(set, why, None)?));
        }
    }

    /// Takes the results of the waiting groups.
    pub(super) fn collect_groups(&mut self) {
        let groups = std::mem::take(&mut self.waiting.groups);
        for mut group in groups {
            let assembled = self
                .waiting
                .rendezvous()
                .ok()
                .and_then(|rendezvous| group.assembly.poll(rendezvous));
            match assembled {
                None => self.waiting.groups.push(group),
                Some(assembled) => self.conclude_group(group, assembled),
            }
        }
    }

    fn conclude_group(&mut self, group: WaitingGroup, assembled: Assembled) {
        let Assembled { result, holds } = assembled;
        for ((ticket, pid, set), hold) in group.waiting.into_iter().zip(holds) {
            let receipt = self.writer(pid).and_then(|writer| match &result {
                Ok(()) => Ok(writer.conclude(&set, Ok(set.new), Some(hold))?),
                Err(why) => {
                    let why = format!("written in no process, for it was to be all together: {why}");
                    writer.abandon(&set, &why, Some(hold))?;
                    Err(refused(why))
                }
            });
            self.waiting.finished.push((ticket, receipt));
        }
    }

    /// Cancels the selected groups.
    pub(super) fn disarm_groups(&mut self, is_selected: impl Fn(&WaitingGroup) -> bool) {
        let groups = std::mem::take(&mut self.waiting.groups);
        let (resolved, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_selected);
        self.waiting.groups = rest;
        for mut group in resolved {
            group.assembly.call_off();
            let assembled = loop {
                let rendezvous = self.waiting.rendezvous().ok();
                match rendezvous.map(|rendezvous| group.assembly.poll(rendezvous)) {
                    Some(Some(assembled)) => break assembled,
                    // A running attempt lets all processes go within its bounds.
                    Some(None) => std::thread::sleep(REVERT_LOOK),
                    None => break group.assembly.over(Err(AssemblyError::NoHolds)),
                }
            };
            self.conclude_group(group, assembled);
        }
    }
}
