//! Changes of several processes at the same iteration: written in all of them or in none, and taken back so. How the processes agree
//! on one is [`super::assembly`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::assembly::{Assembled, Assembly, Member};
use super::session::Session;
use super::undoing::{UNDO_LOOK, UNDO_WAIT, failed};
use super::waiting::{WAITING_MAX, WITHIN_MAX, refused};
use super::{Refusal, SetCommand, TogetherCommand};
use crate::clock;
use crate::journal::{Bond, Change, Hold, RevertOutcome, Status};
use crate::process::Pid;
use crate::slot::Slot;
use crate::space::AddressSpace;
use crate::sync::{KeyName, KeyPlace, Passage, SyncPlace, SyncPoint};
use crate::writer::{Announced, Attempt, Back, Hooks, Mechanism, Returning, SetRequest, Undone};

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

/// One set of a group, looked up.
struct Prepared {
    pid: Pid,
    slot: Arc<Slot>,
    request: SetRequest,
    point: SyncPoint,
    key: KeyPlace,
}

impl Session {
    /// Looks everything up, announces all changes and arms them. A ticket for each.
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
        let prepared: Result<Vec<Prepared>, Refusal> = sets
            .into_iter()
            .map(|set| self.prepare_member(set, &at, &key))
            .collect();
        let bond = Bond {
            group: format!("{}-{}", std::process::id(), clock::monotonic_ns()),
            with,
            key,
        };
        let mut announced: Vec<(Pid, Announced)> = Vec::new();
        let mut members = Vec::new();
        for one in prepared? {
            let set = self.writer(one.pid).and_then(|writer| {
                Ok(writer.announce_set(&one.slot, one.request, Some(at.clone()), Some(bond.clone()))?)
            });
            match set {
                Ok(set) => {
                    members.push(Member::new(one.point, one.key, one.slot, (set.old, set.new)));
                    announced.push((one.pid, set));
                }
                Err(refusal) => {
                    self.abandon(&announced, &refusal.message);
                    return Err(refusal);
                }
            }
        }
        let until = Instant::now() + Duration::from_millis(within_ms).min(WITHIN_MAX);
        let hooks = self.waiting.options.hooks;
        let assembly = self
            .waiting
            .rendezvous()
            .and_then(|rendezvous| Assembly::start(members, rendezvous, hooks, until).map_err(refused));
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

    fn prepare_member(
        &mut self,
        set: SetCommand,
        at: &SyncPlace,
        key: &KeyName,
    ) -> Result<Prepared, Refusal> {
        let pid = set.pid;
        let (slot, request) = self.prepare(set)?;
        let space = AddressSpace::read(&self.open(pid)?, &self.images())?;
        let key = key.resolve(&space, at).map_err(|why| {
            refused(format!(
                "which iteration it is cannot be read in process {pid}: {why}"
            ))
        })?;
        Ok(Prepared {
            pid,
            slot: Arc::new(slot),
            request,
            point: SyncPoint::resolve(&space, at)?,
            key,
        })
    }

    /// What was announced is not written; the journal says why, where it still can.
    fn abandon(&mut self, announced: &[(Pid, Announced)], why: &str) {
        for (pid, set) in announced {
            // A process that has ended takes its journal's last word with it.
            let _ = self
                .writer(*pid)
                .and_then(|writer| Ok(writer.abandon(set, why, None)?));
        }
    }

    /// What became of the groups that wait.
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

    /// Groups that are to wait no longer.
    pub(super) fn disarm_groups(&mut self, is_meant: impl Fn(&WaitingGroup) -> bool) {
        let groups = std::mem::take(&mut self.waiting.groups);
        let (meant, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_meant);
        self.waiting.groups = rest;
        for mut group in meant {
            group.assembly.call_off();
            let assembled = loop {
                let rendezvous = self.waiting.rendezvous().ok();
                match rendezvous.map(|rendezvous| group.assembly.poll(rendezvous)) {
                    Some(Some(assembled)) => break assembled,
                    // An attempt lets go of everybody within its bounds.
                    Some(None) => std::thread::sleep(UNDO_LOOK),
                    None => break group.assembly.over(Err("nothing can be held here".to_owned())),
                }
            };
            self.conclude_group(group, assembled);
        }
    }

    /// Takes a change back in all processes of its group; none when it has no group.
    pub(super) fn undo_bonded(&mut self, pid: Pid, change: u64) -> Result<Option<Undone>, Refusal> {
        let changes = self.writer(pid)?.changes();
        let known = changes.into_iter().find(|known| known.intent.change == change);
        let Some((known, bond)) = known.and_then(|known| {
            let bond = known.intent.deed.together().cloned()?;
            Some((known, bond))
        }) else {
            return Ok(None);
        };
        // With another process of the group, a moment ago.
        if known.status == Status::Reverted {
            return Ok(Some(Undone {
                change,
                symbol: known.intent.deed.symbol().to_owned(),
                outcome: RevertOutcome::Reverted,
            }));
        }
        let mut done = self.undo_group(&bond, Instant::now() + UNDO_WAIT);
        let mine = done.remove(&pid).into_iter().flatten();
        match mine.into_iter().find(|attempt| attempt.change == change) {
            Some(attempt) => Ok(Some(attempt.result?)),
            None => Ok(Some(self.writer(pid)?.undo(change)?)),
        }
    }

    /// Takes back all groups of which a change is wanted, the newest first; each within the time that one change has.
    pub(super) fn undo_groups(
        &mut self,
        pids: &[Pid],
        wanted: &dyn Fn(Pid, &Change) -> bool,
    ) -> BTreeMap<Pid, Vec<Attempt>> {
        let mut done: BTreeMap<Pid, Vec<Attempt>> = BTreeMap::new();
        let mut tried = BTreeSet::new();
        // Taking one back brings an earlier one into force.
        while let Some(bond) = self.newest_bond(pids, wanted, &tried) {
            tried.insert(bond.group.clone());
            for (pid, attempts) in self.undo_group(&bond, Instant::now() + UNDO_WAIT) {
                done.entry(pid).or_default().extend(attempts);
            }
        }
        done
    }

    fn newest_bond(
        &mut self,
        pids: &[Pid],
        wanted: &dyn Fn(Pid, &Change) -> bool,
        tried: &BTreeSet<String>,
    ) -> Option<Bond> {
        let mut newest: Option<(u64, Bond)> = None;
        for pid in pids {
            let Ok(writer) = self.writer(*pid) else { continue };
            for change in writer.changes() {
                let (Some(bond), at) = (change.intent.deed.together(), change.intent.at.monotonic_ns) else {
                    continue;
                };
                let is_newer = newest.as_ref().is_none_or(|(newest, _)| at > *newest);
                let is_left = change.status == Status::Applied && !tried.contains(&bond.group);
                if is_newer && is_left && wanted(*pid, &change) {
                    newest = Some((at, bond.clone()));
                }
            }
        }
        newest.map(|(_, bond)| bond)
    }

    /// Takes a group back in those of its processes that live and have it in force: all of them or none.
    fn undo_group(&mut self, bond: &Bond, until: Instant) -> BTreeMap<Pid, Vec<Attempt>> {
        let mut done: BTreeMap<Pid, Vec<Attempt>> = BTreeMap::new();
        let mut returning: Vec<(Pid, Returning)> = Vec::new();
        let mut members = Vec::new();
        let mut hindered = None;
        for pid in bond.with.iter().filter(|pid| pid.is_alive()) {
            match self.prepare_back(*pid, bond) {
                Ok(None) => {}
                Ok(Some((back, member))) => {
                    returning.push((*pid, back));
                    members.push(member);
                }
                Err(refusal) => hindered = Some(format!("process {pid}: {refusal}")),
            }
        }
        let hooks = self.waiting.options.hooks;
        let assembled = match hindered {
            Some(why) => Err(why),
            None if members.is_empty() => return done,
            None => self.assemble(members, hooks, until),
        };
        let count = returning.len();
        let Assembled { result, holds } = assembled.unwrap_or_else(|why| Assembled {
            result: Err(why),
            holds: vec![Hold::at(Mechanism::Stop, Passage::default()); count],
        });
        for ((pid, back), hold) in returning.into_iter().zip(holds) {
            let outcome = match &result {
                Ok(()) => RevertOutcome::Reverted,
                Err(why) => RevertOutcome::Failed(format!("in force in all its processes still: {why}")),
            };
            let (change, symbol) = (back.change, back.set.symbol.clone());
            let undone = self
                .writer(pid)
                .and_then(|writer| Ok(writer.conclude_undo(back, outcome, Some(hold))?));
            let attempt = match undone {
                Ok(undone) => Attempt {
                    change,
                    result: Ok(undone),
                },
                Err(refusal) => failed(change, symbol, &refusal),
            };
            done.entry(pid).or_default().push(attempt);
        }
        done
    }

    fn assemble(&mut self, members: Vec<Member>, hooks: Hooks, until: Instant) -> Result<Assembled, String> {
        let rendezvous = self.waiting.rendezvous().map_err(|refusal| refusal.message)?;
        let mut assembly = Assembly::start(members, rendezvous, hooks, until)?;
        loop {
            if let Some(assembled) = assembly.poll(rendezvous) {
                return Ok(assembled);
            }
            std::thread::sleep(UNDO_LOOK);
        }
    }

    fn prepare_back(&mut self, pid: Pid, bond: &Bond) -> Result<Option<(Returning, Member)>, Refusal> {
        let is_mine = |known: &Change| {
            known.status == Status::Applied
                && known
                    .intent
                    .deed
                    .together()
                    .is_some_and(|known| known.group == bond.group)
        };
        let change = self.writer(pid)?.changes().into_iter().find(is_mine);
        let Some(change) = change else { return Ok(None) };
        let Back {
            space,
            slot,
            sync,
            returning,
        } = self.writer(pid)?.prepare_undo(change.intent.change, &|_| false)?;
        let prepared = SyncPoint::resolve(&space, &sync)
            .map_err(|error| error.to_string())
            .and_then(|point| Ok((point, bond.key.resolve(&space, &sync)?)));
        let values = (returning.set.new, returning.set.old);
        match prepared {
            Ok((point, key)) => Ok(Some((returning, Member::new(point, key, Arc::new(slot), values)))),
            Err(why) => {
                let outcome = RevertOutcome::Failed(why.clone());
                self.writer(pid)?.conclude_undo(returning, outcome, None)?;
                Err(refused(why))
            }
        }
    }
}
