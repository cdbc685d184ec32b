//! Reverting changes: those with a sync point there, within [`REVERT_WAIT`], all others at once. Changes that
//! several processes share are reverted in `reverting_together`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::armed::{Armed, WriteEnd, WriteOptions};
use super::calling::InverseAtSyncPoint;
use super::session::Session;
use super::waiting::{PlaceWait, not_reached};
use super::{ChangeNumber, Refusal, RevertSummary};
use crate::journal::{ActionRecord, JournalChange, RevertOutcome, Status};
use crate::process::Pid;
use crate::revert::{Attempt, PendingRevert, Returning, RevertReceipt, outcome_of};
use crate::sync::ResolvedPoint;
use crate::write::WriteError;
use crate::writer::WriterError;

/// Bound on waiting for the sync points of all reverts together.
pub(super) const REVERT_WAIT: Duration = Duration::from_secs(5);
/// Interval at which it is checked whether they were reached.
pub(super) const REVERT_LOOK: Duration = Duration::from_millis(1);

/// A change that is being reverted at its sync point.
enum ArmedRevert {
    Set(Box<ArmedSet>),
    Call(u64, Box<InverseAtSyncPoint>),
}

/// A set that is being reverted at its sync point.
struct ArmedSet {
    returning: Returning,
    armed: Armed,
    wait: PlaceWait,
}

/// An attempt to revert a change.
pub(super) type Tried = Attempt<Refusal>;

/// The attempts in a process, or why nothing could be tried.
pub(super) type TriedIn = Result<Vec<Tried>, Refusal>;

impl Session {
    /// Reverts these changes, as [`Session::revert_all`] does. Returns the result of each in the given order,
    /// and the attempts in the processes that have inherited them.
    pub(super) fn revert_these(
        &mut self,
        changes: &[ChangeNumber],
    ) -> (Vec<Result<RevertReceipt, Refusal>>, RevertSummary) {
        let these: BTreeSet<_> = changes.iter().map(|number| (number.pid, number.change)).collect();
        let pids: BTreeSet<Pid> = these.iter().map(|(pid, _)| *pid).collect();
        let is_one = |pid: Pid, change: &JournalChange| these.contains(&(pid, change.intent.change));
        let (mut results, mut inherited) = (BTreeMap::new(), RevertSummary::default());
        for (pid, tried) in self.revert_all(pids.into_iter().collect(), &is_one) {
            let of = these.iter().filter(|(of, _)| *of == pid);
            match tried {
                Ok(tried) => {
                    let is_given = |one: &Tried| these.contains(&(pid, one.change));
                    let (given, others): (Vec<_>, Vec<_>) = tried.into_iter().partition(is_given);
                    results.extend(given.into_iter().map(|one| ((pid, one.change), one.result)));
                    inherited.add(pid, others);
                }
                Err(refusal) => results.extend(of.map(|number| (*number, Err(refusal.clone())))),
            }
        }
        // They are reported once more at the end of the session.
        inherited.refused.clone_from(&self.left_alone);
        inherited.shorten();
        let result = |ChangeNumber { pid, change }: &ChangeNumber| match results.remove(&(*pid, *change)) {
            Some(result) => result,
            None => self.not_tried(*pid, *change),
        };
        (changes.iter().map(result).collect(), inherited)
    }

    /// The result for a change that was not in force, or was just reverted with another process of its group.
    fn not_tried(&mut self, pid: Pid, change: u64) -> Result<RevertReceipt, Refusal> {
        let known = self.writer(pid)?.known(change)?;
        let action = &known.intent.action;
        match known.status {
            Status::Reverted if action.together().is_some() => Ok(RevertReceipt {
                change,
                symbol: action.symbol().to_owned(),
                outcome: RevertOutcome::Reverted,
            }),
            status => Err(WriterError::NotInForce { change, status }.into()),
        }
    }

    /// Reverts the wanted changes in force, newest first: those with a sync point there, and consecutive
    /// changes of one place by one write. A failure does not stop the other changes or processes. Attempts in
    /// processes forked since are included.
    pub(super) fn revert_all(
        &mut self,
        pids: Vec<Pid>,
        wanted: &dyn Fn(Pid, &JournalChange) -> bool,
    ) -> BTreeMap<Pid, TriedIn> {
        let mut reverting = Reverting {
            wanted,
            wait: PlaceWait::lasting(REVERT_WAIT),
            tried: BTreeSet::new(),
            done: BTreeMap::new(),
            broken: BTreeMap::new(),
        };
        // Changes of groups first, in all their processes. Reverting changes of single processes may bring
        // changes of groups into force again.
        let mut before = None;
        while before.replace(reverting.tried.len()) != Some(reverting.tried.len()) {
            self.revert_groups(&pids, &mut reverting);
            self.revert_one_by_one(pids.clone(), &mut reverting);
        }
        let Reverting { mut done, broken, .. } = reverting;
        let tried = done.iter().map(|(pid, tried)| (*pid, numbers(tried)));
        for (pid, changes) in tried.collect::<Vec<_>>() {
            for (child, attempt) in self.revert_in_offspring(pid, &changes) {
                done.entry(child).or_default().push(attempt);
            }
        }
        let mut results: BTreeMap<_, _> = done.into_iter().map(|(pid, tried)| (pid, Ok(tried))).collect();
        results.extend(broken.into_iter().map(|(pid, refusal)| (pid, Err(refusal))));
        results
    }

    /// Reverts the changes that belong to no group. All processes wait for their sync points at the same
    /// time.
    fn revert_one_by_one(&mut self, mut pids: Vec<Pid>, reverting: &mut Reverting) {
        while !pids.is_empty() {
            let mut armed = Vec::new();
            for pid in std::mem::take(&mut pids) {
                match self.revert_plain_and_arm(pid, reverting) {
                    Ok(next) => armed.extend(next.map(|back| (pid, back))),
                    Err(refusal) => drop(reverting.broken.insert(pid, refusal)),
                }
            }
            for (pid, back) in armed {
                pids.push(pid);
                let tried = match back {
                    ArmedRevert::Call(change, inverse) => {
                        let result = self.wait_for_inverse(*inverse);
                        vec![Tried { change, result }]
                    }
                    ArmedRevert::Set(mut back) => {
                        let over = self.wait_for(&mut back);
                        let change = back.returning.change;
                        let with_it = std::mem::take(&mut back.returning.with_it);
                        let result = self.conclude_revert(pid, *back, over);
                        Tried::of_each(change, result, with_it)
                    }
                };
                reverting.have_tried(pid, tried);
            }
        }
    }

    /// Reverts what needs no sync point, and arms the newest change that needs one and was not tried yet.
    /// Changes of code wait until all later changes were tried: a library must not be unloaded before its
    /// variables are reverted.
    fn revert_plain_and_arm(
        &mut self,
        pid: Pid,
        reverting: &mut Reverting,
    ) -> Result<Option<ArmedRevert>, Refusal> {
        loop {
            let is_left = |change: &JournalChange| {
                reverting.is_left(pid, change) && change.intent.action.together().is_none()
            };
            let has_point = |change: &JournalChange| {
                change.status == Status::Applied && change.intent.action.sync().is_some() && is_left(change)
            };
            let next = self.writer(pid)?.changes().into_iter().rev().find(has_point);
            let at_once = |change: &JournalChange| {
                let is_newer = |next: &JournalChange| change.intent.change > next.intent.change;
                let may_go = matches!(change.intent.action, ActionRecord::Set(_))
                    || next.as_ref().is_none_or(is_newer);
                is_left(change) && change.intent.action.sync().is_none() && may_go
            };
            let gone = self.writer(pid)?.revert_all(at_once)?;
            reverting.have_tried(pid, gone.into_iter().map(Tried::from));
            let Some(JournalChange { intent, .. }) = next else {
                return Ok(None);
            };
            let change = intent.change;
            // Before the wait: it must not be armed again meanwhile.
            reverting.tried.insert((pid, change));
            let wanted = reverting.wanted;
            let armed = match (&intent.action, intent.action.sync()) {
                (ActionRecord::Call(_), Some(at)) => self
                    .arm_inverse(pid, change, at.clone(), reverting.wait)
                    .map(|inverse| ArmedRevert::Call(change, Box::new(inverse))),
                _ => self
                    .arm_revert(pid, change, &|earlier| wanted(pid, earlier), reverting.wait)
                    .map(|set| ArmedRevert::Set(Box::new(set))),
            };
            match armed {
                Ok(back) => return Ok(Some(back)),
                Err(refusal) => {
                    let result = Err(refusal);
                    reverting.have_tried(pid, [Tried { change, result }]);
                }
            }
        }
    }

    fn arm_revert(
        &mut self,
        pid: Pid,
        change: u64,
        with_it: &dyn Fn(&JournalChange) -> bool,
        wait: PlaceWait,
    ) -> Result<ArmedSet, Refusal> {
        let PendingRevert {
            space,
            place,
            sync,
            returning,
        } = self.writer(pid)?.prepare_revert(change, with_it)?;
        let values = (returning.set.new, returning.set.old);
        let armed = ResolvedPoint::resolve(&space, &sync)
            .map_err(Refusal::from)
            .and_then(|point| {
                self.waiting
                    .arm(point, Arc::new(place), values, WriteOptions::default())
            });
        match armed {
            Ok(armed) => Ok(ArmedSet {
                returning,
                armed,
                wait,
            }),
            Err(refusal) => {
                let outcome = RevertOutcome::Failed(refusal.message.clone());
                self.writer(pid)?.conclude_revert(returning, outcome, None)?;
                Err(refusal)
            }
        }
    }

    fn wait_for(&mut self, back: &mut ArmedSet) -> WriteEnd {
        loop {
            match self.waiting.poll(&mut back.armed) {
                Some(over) => return over,
                None if Instant::now() >= back.wait.until || !back.armed.target().pid().is_alive() => {
                    return self.waiting.stop(&back.armed);
                }
                None => std::thread::sleep(REVERT_LOOK),
            }
        }
    }

    fn conclude_revert(
        &mut self,
        pid: Pid,
        back: ArmedSet,
        over: WriteEnd,
    ) -> Result<RevertReceipt, Refusal> {
        let ArmedSet {
            returning,
            armed,
            wait,
        } = back;
        let (outcome, hold) = match over {
            WriteEnd::There(written, hold) => (outcome_of(&returning.set, written), hold),
            // The instant is unknown, but the current value can be read.
            WriteEnd::Late(hold) => (
                outcome_of(&returning.set, armed.target().read().map_err(WriteError::from)),
                hold,
            ),
            WriteEnd::Never(hold) => {
                let why = not_reached(armed.place(), &hold.passage.unwrap_or_default(), (wait, pid));
                (RevertOutcome::Failed(why), hold)
            }
        };
        Ok(self
            .writer(pid)?
            .conclude_revert(returning, outcome, Some(hold))?)
    }
}

/// The state of reverting: which changes are wanted, and which were tried.
pub(super) struct Reverting<'a> {
    pub(super) wanted: &'a dyn Fn(Pid, &JournalChange) -> bool,
    wait: PlaceWait,
    tried: BTreeSet<(Pid, u64)>,
    done: BTreeMap<Pid, Vec<Tried>>,
    broken: BTreeMap<Pid, Refusal>,
}

impl Reverting<'_> {
    /// It is wanted and was not tried, whether in force or superseded.
    pub(super) fn is_left(&self, pid: Pid, change: &JournalChange) -> bool {
        (self.wanted)(pid, change) && !self.tried.contains(&(pid, change.intent.change))
    }

    pub(super) fn have_tried(&mut self, pid: Pid, tried: impl IntoIterator<Item = Tried>) {
        let done = self.done.entry(pid).or_default();
        for one in tried {
            self.tried.insert((pid, one.change));
            done.push(one);
        }
    }
}

impl From<Attempt> for Tried {
    fn from(Attempt { change, result }: Attempt) -> Tried {
        let result = result.map_err(Refusal::from);
        Attempt { change, result }
    }
}

fn numbers(tried: &[Tried]) -> Vec<u64> {
    tried.iter().map(|one| one.change).collect()
}
