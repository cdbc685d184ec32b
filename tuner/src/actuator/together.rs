//! Changes of several processes at the same iteration: written in all of them or in none, and taken back so.
//!
//! How the processes agree: the probe at the boundary first only looks at the number that the program itself gives to each
//! iteration. When every process was seen twice, an iteration a little ahead of all of them is chosen, and each is held and
//! stopped there ([`Gathering`]). One that was faster than we are has gone by: then nothing is written, all are let go, and an
//! iteration farther ahead is tried. Numbers that do not count up alike in all processes are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::session::Session;
use super::waiting::{UNDO_LOOK, UNDO_WAIT, WAITING_MAX, WITHIN_MAX, failed, refused};
use super::{Refusal, SetCommand, TogetherCommand};
use crate::clock;
use crate::journal::{Bond, Change, Hold, RevertOutcome, Status};
use crate::process::Pid;
use crate::slot::Slot;
use crate::space::AddressSpace;
use crate::sync::{
    ACTION_NS_MAX, Again, Gathering, HoldRequest, KeyName, KeyPlace, Part, Passage, Progress, Rendezvous,
    STOP_ANSWER_NS_MAX, Scattered, SyncPlace, SyncPoint, Ticket,
};
use crate::value::Bytes;
use crate::writer::{Announced, Attempt, Back, Hooks, Mechanism, Returning, SetRequest, Undone};

/// How many iterations ahead at first; twice as many after each attempt for which a process was too fast.
const LEAD: i64 = 2;
const LEAD_MAX: i64 = 4_096;
/// Attempts in which a process had gone by, or was let go unanswered.
const TRIES_MAX: u32 = 64;
/// Attempts in which those that had arrived were stopped to the bound.
const WAITS_MAX: u32 = 2;
/// A hit waits so long for that of another process, which is just being stopped.
const TURN_NS_MAX: u64 = 500_000;
/// Hits that are looked at before numbers that do not count up alike are given up.
const LOOKS_MAX: u64 = 16;

/// A process that takes part.
struct Member {
    point: SyncPoint,
    key: KeyPlace,
    slot: Arc<Slot>,
    change: (Bytes, Bytes),
    ticket: Option<Ticket>,
    passage: Passage,
}

/// All processes on the way to the same iteration.
struct Assembly {
    members: Vec<Member>,
    hooks: Hooks,
    until: Instant,
    gathering: Arc<Gathering>,
    /// The iteration, once it is chosen.
    number: Option<i64>,
    lead: i64,
    tries: u32,
    /// Attempts in which the first to arrive waited in vain.
    waits: u32,
}

/// What came of it, and how each process was held.
struct Assembled {
    result: Result<(), String>,
    holds: Vec<Hold>,
}

impl Assembly {
    fn start(
        members: Vec<Member>,
        rendezvous: &mut dyn Rendezvous,
        hooks: Hooks,
        until: Instant,
    ) -> Result<Assembly, String> {
        let mut assembly = Assembly {
            members,
            hooks,
            until,
            gathering: Gathering::new(Vec::new(), hooks),
            number: None,
            lead: LEAD,
            tries: 0,
            waits: 0,
        };
        assembly.arm(rendezvous)?;
        Ok(assembly)
    }

    /// Another attempt.
    fn arm(&mut self, rendezvous: &mut dyn Rendezvous) -> Result<(), String> {
        let part = |member: &Member| Part {
            slot: Arc::clone(&member.slot),
            change: member.change,
        };
        self.gathering = Gathering::new(self.members.iter().map(part).collect(), self.hooks);
        self.number = None;
        self.tries += 1;
        for (place, member) in self.members.iter_mut().enumerate() {
            let request = HoldRequest {
                point: member.point.clone(),
                answer_ns_max: STOP_ANSWER_NS_MAX,
                action_ns_max: ACTION_NS_MAX,
                misses_max: 1,
                store: None,
                turn_ns_max: TURN_NS_MAX,
                key: Some(member.key),
            };
            match rendezvous.arm(&request, self.gathering.action(place)) {
                Ok(ticket) => member.ticket = Some(ticket),
                Err(error) => {
                    self.disarm(rendezvous);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// No hit of any process is held after this. Who is stopped is let go when the gathering is decided.
    fn disarm(&mut self, rendezvous: &mut dyn Rendezvous) {
        for member in &mut self.members {
            if let Some(ticket) = member.ticket.take() {
                member.add(&rendezvous.disarm(ticket));
            }
        }
    }

    fn poll(&mut self, rendezvous: &mut dyn Rendezvous) -> Option<Assembled> {
        if let Some(member) = self.members.iter().find(|member| !member.pid().is_alive()) {
            let reason = format!("process {} has ended", member.pid());
            self.gathering.give_up(reason, Again::Never);
        } else if Instant::now() >= self.until {
            let reason = self.lacking(rendezvous);
            self.gathering.give_up(reason, Again::Never);
        } else if self.number.is_none() {
            self.choose(rendezvous);
        }
        self.follow(rendezvous);
        let outcome = self.gathering.outcome()?;
        self.disarm(rendezvous);
        match outcome {
            Ok(()) => Some(self.over(Ok(()))),
            Err(Scattered { reason, again }) if self.may_try(again) => {
                self.lead = (self.lead * 2).min(LEAD_MAX);
                match self.arm(rendezvous) {
                    Ok(()) => None,
                    Err(error) => Some(self.over(Err(format!("{reason}; {error}")))),
                }
            }
            Err(Scattered { reason, .. }) => Some(self.over(Err(reason))),
        }
    }

    fn may_try(&mut self, again: Again) -> bool {
        self.waits += u32::from(again == Again::AfterWaiting);
        again != Again::Never && self.tries < TRIES_MAX && self.waits < WAITS_MAX
    }

    /// Chooses the iteration when all were seen twice.
    fn choose(&mut self, rendezvous: &mut dyn Rendezvous) {
        let tickets = self.members.iter().filter_map(|member| member.ticket);
        let seen: Vec<_> = tickets.clone().map(|ticket| rendezvous.seen(ticket)).collect();
        if seen.iter().any(|seen| seen.hits < 2) {
            return;
        }
        let step = seen.first().map_or(0, |seen| seen.step);
        let counts_alike = step > 0
            && seen
                .iter()
                .all(|other| other.step == step && (other.last - seen[0].last) % step == 0);
        let newest = seen.iter().map(|seen| seen.last).max();
        match newest.and_then(|newest| newest.checked_add(step.checked_mul(self.lead)?)) {
            Some(number) if counts_alike => {
                tickets.for_each(|ticket| rendezvous.want(ticket, number));
                self.number = Some(number);
            }
            _ if seen.iter().all(|seen| seen.hits < LOOKS_MAX) => {}
            _ => {
                let reason =
                    "the numbers of the iterations do not count up alike in all processes".to_owned();
                self.gathering.give_up(reason, Again::Never);
            }
        }
    }

    /// Takes note of those that will not arrive.
    fn follow(&mut self, rendezvous: &mut dyn Rendezvous) {
        for member in &mut self.members {
            let Some(ticket) = member.ticket else { continue };
            let progress = rendezvous.progress(ticket);
            let reason = match &progress {
                Progress::Pending(_) => continue,
                Progress::Done(_) | Progress::Late(_) | Progress::Stored { .. } => None,
                Progress::GoneBy(_) => Some("had passed the iteration already"),
                Progress::Missed(_) => Some("was held and nobody answered"),
            };
            member.ticket = None;
            member.add(&progress);
            if let Some(reason) = reason {
                let reason = format!("process {} {reason}", member.pid());
                self.gathering.give_up(reason, Again::AtOnce);
            }
        }
    }

    /// Who is to blame that no iteration was common to all in time.
    fn lacking(&self, rendezvous: &dyn Rendezvous) -> String {
        let place = self
            .members
            .first()
            .map_or(String::new(), |member| member.point.place().to_string());
        let is_absent = |member: &&Member| {
            member
                .ticket
                .is_some_and(|ticket| rendezvous.seen(ticket).hits == 0)
        };
        let absent: Vec<String> = self
            .members
            .iter()
            .filter(is_absent)
            .map(|member| member.pid().to_string())
            .collect();
        match (absent.as_slice(), self.tries) {
            ([], tries) => {
                format!("not all processes could be stopped at the same iteration, {tries} times tried")
            }
            (absent, _) => format!("{place} was not reached in time by process {}", absent.join(", ")),
        }
    }

    fn over(&self, result: Result<(), String>) -> Assembled {
        let hold = |(place, member): (usize, &Member)| {
            let passage = Passage {
                hold_ns: self.gathering.held_ns(place),
                ..member.passage
            };
            Hold::at(Mechanism::Stop, passage)
        };
        Assembled {
            result,
            holds: self.members.iter().enumerate().map(hold).collect(),
        }
    }
}

impl Member {
    fn pid(&self) -> Pid {
        self.slot.pid()
    }

    /// Adds an attempt.
    fn add(&mut self, progress: &Progress) {
        let (Progress::Pending(passage)
        | Progress::Done(passage)
        | Progress::Late(passage)
        | Progress::Missed(passage)
        | Progress::GoneBy(passage)
        | Progress::Stored { passage, .. }) = *progress;
        self.passage = Passage {
            hits: self.passage.hits + passage.hits,
            misses: self.passage.misses + passage.misses,
            passed: self.passage.passed + passage.passed,
            missed_ns: self.passage.missed_ns + passage.missed_ns,
            ..passage
        };
    }
}

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
                    members.push(member(one.point, one.key, one.slot, (set.old, set.new)));
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
            let gathering = Arc::clone(&group.assembly.gathering);
            gathering.give_up("it was called off".to_owned(), Again::Never);
            let assembled = self
                .waiting
                .rendezvous()
                .ok()
                .and_then(|rendezvous| group.assembly.poll(rendezvous));
            let assembled = assembled.unwrap_or_else(|| {
                let decided = gathering.outcome().unwrap_or(Ok(()));
                group.assembly.over(decided.map_err(|scattered| scattered.reason))
            });
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
        } = self.writer(pid)?.prepare_undo(change.intent.change)?;
        let prepared = SyncPoint::resolve(&space, &sync)
            .map_err(|error| error.to_string())
            .and_then(|point| Ok((point, bond.key.resolve(&space, &sync)?)));
        let values = (returning.set.new, returning.set.old);
        match prepared {
            Ok((point, key)) => Ok(Some((returning, member(point, key, Arc::new(slot), values)))),
            Err(why) => {
                let outcome = RevertOutcome::Failed(why.clone());
                self.writer(pid)?.conclude_undo(returning, outcome, None)?;
                Err(refused(why))
            }
        }
    }
}

fn member(point: SyncPoint, key: KeyPlace, slot: Arc<Slot>, change: (Bytes, Bytes)) -> Member {
    Member {
        point,
        key,
        slot,
        change,
        ticket: None,
        passage: Passage::default(),
    }
}
