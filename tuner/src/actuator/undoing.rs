//! The taking back of changes: those that were made at a sync point there, within [`UNDO_WAIT`], all others at once. What belongs together
//! is taken back in `together`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Refusal;
use super::armed::{Armed, How, Over};
use super::session::Session;
use super::waiting::not_reached;
use crate::journal::{Change, Deed, RevertOutcome, Status};
use crate::process::Pid;
use crate::sync::SyncPoint;
use crate::write::WriteError;
use crate::writer::{Attempt, Back, Returning, Undone, reverted};

/// How long taking back waits for sync points, all together.
pub(super) const UNDO_WAIT: Duration = Duration::from_secs(5);
/// How often it looks whether they were reached.
pub(super) const UNDO_LOOK: Duration = Duration::from_millis(1);

/// A change that is being taken back at its sync point.
struct ArmedUndo {
    returning: Returning,
    armed: Armed,
}

impl Session {
    /// Takes one change back: at its sync point, if it has one. What fails in processes that were forked since is tried again at the end
    /// of the session.
    pub(super) fn undo(&mut self, pid: Pid, change: u64) -> Result<Undone, Refusal> {
        let undone = self.undo_here(pid, change)?;
        self.undo_in_offspring(pid, &[change]);
        Ok(undone)
    }

    fn undo_here(&mut self, pid: Pid, change: u64) -> Result<Undone, Refusal> {
        if let Some(undone) = self.undo_bonded(pid, change)? {
            return Ok(undone);
        }
        let is_at_point = |deed: &Deed| matches!(deed, Deed::Set(set) if set.sync.is_some());
        let has_point = |known: &Change| known.intent.change == change && is_at_point(&known.intent.deed);
        if !self.writer(pid)?.changes().iter().any(has_point) {
            return Ok(self.writer(pid)?.undo(change)?);
        }
        let mut back = self.arm_undo(pid, change, &|_| false)?;
        let over = self.wait_for(&mut back, Instant::now() + UNDO_WAIT);
        self.conclude_undo(pid, back, over)
    }

    /// Takes back the changes in force that are wanted, newest first; those with a sync point there, and in one passage as many as have followed
    /// each other at the same place. One that cannot be taken back
    /// does not keep the others from it, nor one process those of another. What was forked from them since is told with them.
    pub(super) fn undo_all(
        &mut self,
        mut pids: Vec<Pid>,
        wanted: &dyn Fn(Pid, &Change) -> bool,
    ) -> BTreeMap<Pid, Result<Vec<Attempt>, Refusal>> {
        let until = Instant::now() + UNDO_WAIT;
        let mut tried = BTreeSet::new();
        // All or none: these are taken back first, in all their processes.
        let mut done: BTreeMap<Pid, Vec<Attempt>> = self.undo_groups(&pids, wanted);
        for (pid, attempts) in &done {
            tried.extend(attempts.iter().map(|attempt| (*pid, attempt.change)));
        }
        let mut broken = BTreeMap::new();
        while !pids.is_empty() {
            let mut armed = Vec::new();
            for pid in std::mem::take(&mut pids) {
                match self.undo_plain_and_arm(pid, wanted, &mut tried) {
                    Ok((attempts, next)) => {
                        done.entry(pid).or_default().extend(attempts);
                        armed.extend(next.map(|back| (pid, back)));
                    }
                    Err(refusal) => drop(broken.insert(pid, refusal)),
                }
            }
            for (pid, mut back) in armed {
                pids.push(pid);
                let over = self.wait_for(&mut back, until);
                let (change, symbol) = (back.returning.change, back.returning.set.symbol.clone());
                let with_it = std::mem::take(&mut back.returning.with_it);
                let attempts = done.entry(pid).or_default();
                match self.conclude_undo(pid, back, over) {
                    Ok(undone) => attempts.extend(of_each(undone, with_it)),
                    Err(refusal) => attempts.push(failed(change, symbol, &refusal)),
                }
            }
        }
        let tried = done.iter().map(|(pid, attempts)| (*pid, numbers(attempts)));
        for (pid, changes) in tried.collect::<Vec<_>>() {
            for (child, attempt) in self.undo_in_offspring(pid, &changes) {
                done.entry(child).or_default().push(attempt);
            }
        }
        let mut results: BTreeMap<_, _> = done
            .into_iter()
            .map(|(pid, attempts)| (pid, Ok(attempts)))
            .collect();
        results.extend(broken.into_iter().map(|(pid, refusal)| (pid, Err(refusal))));
        results
    }

    /// Takes back what needs no sync point, and arms the newest change that does and was not tried yet. What was done to the code
    /// waits until all later changes were tried: a library must not go before the variables in it.
    fn undo_plain_and_arm(
        &mut self,
        pid: Pid,
        wanted: &dyn Fn(Pid, &Change) -> bool,
        tried: &mut BTreeSet<(Pid, u64)>,
    ) -> Result<(Vec<Attempt>, Option<ArmedUndo>), Refusal> {
        let mut attempts = Vec::new();
        loop {
            let is_left = |change: &Change| {
                change.status == Status::Applied
                    && change.intent.deed.together().is_none()
                    && wanted(pid, change)
                    && !tried.contains(&(pid, change.intent.change))
            };
            let has_point = |change: &Change| is_left(change) && change.intent.deed.sync().is_some();
            let next = self.writer(pid)?.changes().into_iter().rev().find(has_point);
            let at_once = |change: &Change| {
                let is_newer = |next: &Change| change.intent.change > next.intent.change;
                let may_go = matches!(change.intent.deed, Deed::Set(_)) || next.as_ref().is_none_or(is_newer);
                is_left(change) && change.intent.deed.sync().is_none() && may_go
            };
            let gone = self.writer(pid)?.undo_all(at_once)?;
            tried.extend(gone.iter().map(|attempt| (pid, attempt.change)));
            attempts.extend(gone);
            let Some(Change { intent, .. }) = next else {
                return Ok((attempts, None));
            };
            let change = intent.change;
            tried.insert((pid, change));
            match self.arm_undo(pid, change, &|earlier| wanted(pid, earlier)) {
                Ok(back) => return Ok((attempts, Some(back))),
                Err(refusal) => attempts.push(failed(change, intent.deed.symbol().to_owned(), &refusal)),
            }
        }
    }

    fn arm_undo(
        &mut self,
        pid: Pid,
        change: u64,
        with_it: &dyn Fn(&Change) -> bool,
    ) -> Result<ArmedUndo, Refusal> {
        let Back {
            space,
            slot,
            sync,
            returning,
        } = self.writer(pid)?.prepare_undo(change, with_it)?;
        let values = (returning.set.new, returning.set.old);
        let armed = SyncPoint::resolve(&space, &sync)
            .map_err(Refusal::from)
            .and_then(|point| self.waiting.arm(point, Arc::new(slot), values, How::default()));
        match armed {
            Ok(armed) => Ok(ArmedUndo { returning, armed }),
            Err(refusal) => {
                let outcome = RevertOutcome::Failed(refusal.message.clone());
                self.writer(pid)?.conclude_undo(returning, outcome, None)?;
                Err(refusal)
            }
        }
    }

    fn wait_for(&mut self, back: &mut ArmedUndo, until: Instant) -> Over {
        loop {
            match self.waiting.poll(&mut back.armed) {
                Some(over) => return over,
                None if Instant::now() >= until || !back.armed.slot().pid().is_alive() => {
                    return self.waiting.stop(&back.armed);
                }
                None => std::thread::sleep(UNDO_LOOK),
            }
        }
    }

    fn conclude_undo(&mut self, pid: Pid, back: ArmedUndo, over: Over) -> Result<Undone, Refusal> {
        let ArmedUndo { returning, armed } = back;
        let (outcome, hold) = match over {
            Over::There(written, hold) => (reverted(&returning.set, written), hold),
            // At which instant is not known, but what is there can be read.
            Over::Late(hold) => (
                reverted(&returning.set, armed.slot().read().map_err(WriteError::from)),
                hold,
            ),
            Over::Never(hold) => {
                let why = not_reached(armed.place(), &hold.passage.unwrap_or_default());
                (RevertOutcome::Failed(why), hold)
            }
        };
        Ok(self.writer(pid)?.conclude_undo(returning, outcome, Some(hold))?)
    }
}

/// Those before it are taken back only where it is.
fn of_each(undone: Undone, with_it: Vec<u64>) -> Vec<Attempt> {
    let with_it = match undone.outcome {
        RevertOutcome::Reverted => with_it,
        _ => Vec::new(),
    };
    let numbers = std::iter::once(undone.change).chain(with_it);
    let attempt = |change| Attempt {
        change,
        result: Ok(Undone {
            change,
            ..undone.clone()
        }),
    };
    numbers.map(attempt).collect()
}

fn numbers(attempts: &[Attempt]) -> Vec<u64> {
    attempts.iter().map(|attempt| attempt.change).collect()
}

pub(super) fn failed(change: u64, symbol: String, refusal: &Refusal) -> Attempt {
    Attempt {
        change,
        result: Ok(Undone {
            change,
            symbol,
            outcome: RevertOutcome::Failed(refusal.message.clone()),
        }),
    }
}
