//! `tuneagent journal` and `tuneagent undo`: list changes, and revert them.

mod entries;
mod listing;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use job::{Discovery, Job};
use profile::format::plural;
use rustix::{
    fs::{Access, access},
    process::getuid,
};
use tuner::actuator::{ActuatorRefusalKind, ChangeNumber, ClientError, RevertSummary};
use tuner::journal::{ActionRecord, JournalChange, RevertOutcome, StateDir, Status};
use tuner::{Pid, writer_of};

pub(super) use self::listing::{explain, journal};
use super::target;
use crate::{
    actuator::{Actuator, StartOptions},
    cli::UndoArgs,
    control,
    exit::{Code, CommandResult, Failure},
    rights,
};

pub(super) fn undo(args: &UndoArgs) -> CommandResult {
    let mut discovery = Discovery::default();
    let job = target::job(&mut discovery, &args.target, args.users.any_user)?;
    let mut actuator = Actuator::start(StartOptions {
        keeps: true,
        has_sync_points: true,
        has_stand_in: false,
    })
    .map_err(Failure::invalid)?;
    rights::only_look().map_err(Failure::not_permitted)?;
    let pids: Vec<Pid> = job.members.iter().map(|member| member.process.pid).collect();
    let reverted = match args.change {
        Some(change) => numbered(&mut actuator, &with_change(&args.target, &pids, change)?),
        None if args.last => last(&mut actuator, &pids),
        None => actuator.client.revert_all(&pids),
    };
    let reverted = reverted.map_err(|error| Failure::new(super::by_hand::code(&error), error))?;
    actuator.finish().map_err(Failure::failed)?;
    say(&reverted)
}

/// The change with this number of the process that the target names. A name or a launcher stands for all processes
/// with that change; it is an error if their changes with this number are not one decision, because numbers are unique
/// only within a process.
fn with_change(target: &str, pids: &[Pid], change: u64) -> Result<Vec<ChangeNumber>, Failure> {
    let state = StateDir::usual().map_err(Failure::failed)?;
    let is_known = |pid: &Pid| (state.history(*pid)).is_ok_and(|history| history.change(change).is_some());
    if !pids.iter().any(is_known) {
        let list = crate::hint::as_we_are(&format!("journal {target}"));
        return Err(Failure::invalid(format!(
            "no process of {target} has a change {change}. Its changes: {list}"
        )));
    }
    if let Some(pid) = pids.iter().find(|pid| pid.number.to_string() == target) {
        return Ok(vec![ChangeNumber { pid: *pid, change }]);
    }
    let all = standing(pids).map_err(Failure::failed)?.into_iter();
    let all = all.flat_map(|(_, standing)| standing);
    let found: Vec<JournalChange> = all.filter(|known| known.intent.change == change).collect();
    let is_other = |other: &&JournalChange| !entries::is_same_change(&found[0], other);
    if let Some(other) = found.iter().skip(1).find(is_other) {
        let of =
            |change: &JournalChange| format!("undo {} {}", change.intent.target.pid, change.intent.change);
        return Err(Failure::failed(format!(
            "change {change} of process {} is not that of process {}: {} or {}",
            other.intent.target.pid,
            found[0].intent.target.pid,
            crate::hint::as_we_are(&of(&found[0])),
            crate::hint::as_we_are(&of(other)),
        )));
    }
    Ok(found
        .iter()
        .map(|known| number_of(known.intent.target.pid, known))
        .collect())
}

fn numbered(actuator: &mut Actuator, numbers: &[ChangeNumber]) -> Result<RevertSummary, ClientError> {
    let (results, mut summary) = actuator.client.revert_each(numbers);
    for (number, result) in numbers.iter().zip(results) {
        match result {
            // Of several processes, the others are reverted and shown.
            Err(ClientError::Refused(refusal)) if numbers.len() > 1 => {
                summary.failed.push((*number, refusal))
            }
            result => summary.reverted.push((number.pid, result?)),
        }
    }
    Ok(summary)
}

/// The changes of each process that may still be in force, newest first.
fn standing(pids: &[Pid]) -> std::io::Result<Vec<(Pid, Vec<JournalChange>)>> {
    let state = StateDir::usual().map_err(std::io::Error::other)?;
    let of = |pid: &Pid| {
        Ok((
            *pid,
            state.history(*pid).map_err(std::io::Error::other)?.standing(),
        ))
    };
    pids.iter().map(of).collect()
}

/// Whether these changes, given by process and number, are all that may be in force in these processes.
pub(super) fn stand_alone(pids: &[Pid], changes: &[(i32, u64)]) -> bool {
    let Ok(all) = standing(pids) else {
        return false;
    };
    let numbers = |(pid, of): &(Pid, Vec<JournalChange>)| -> Vec<(i32, u64)> {
        let of = of.iter().map(|change| (pid.number, change.intent.change));
        of.collect()
    };
    let known: BTreeSet<(i32, u64)> = all.iter().flat_map(numbers).collect();
    known == changes.iter().copied().collect()
}

/// Why ranks may not reach a place: a variable that was set by hand in several of them, so at different iterations.
pub(super) fn set_apart(pids: &[Pid]) -> Option<String> {
    let all = standing(pids).ok()?;
    let mut ranks: BTreeMap<&str, BTreeSet<Pid>> = BTreeMap::new();
    for (pid, change) in all
        .iter()
        .flat_map(|(pid, of)| of.iter().map(move |change| (pid, change)))
    {
        let intent = &change.intent;
        if let (None, ActionRecord::Set(set)) = (&intent.rule, &intent.action) {
            ranks.entry(&set.symbol).or_default().insert(*pid);
        }
    }
    let (symbol, ranks) = ranks.into_iter().find(|(_, ranks)| ranks.len() > 1)?;
    Some(format!(
        "the ranks may wait for each other: `{symbol}` was set in {} of them before, at different iterations",
        ranks.len()
    ))
}

/// Reverts the newest change in force of each process, all at once. A change that a crash left undecided is
/// tried first; if it turns out that it was never written, the one before it is reverted.
fn last(actuator: &mut Actuator, pids: &[Pid]) -> Result<RevertSummary, ClientError> {
    let all = standing(pids).map_err(ClientError::Io)?.into_iter();
    let mut left: Vec<_> = all.map(|(pid, standing)| (pid, standing.into_iter())).collect();
    let mut summary = RevertSummary::default();
    loop {
        left.retain(|(_, standing)| !standing.as_slice().is_empty());
        if left.is_empty() {
            return Ok(summary);
        }
        let tried: Vec<(ChangeNumber, Status)> = left
            .iter_mut()
            .filter_map(|(pid, standing)| Some((*pid, standing.next()?)))
            .map(|(pid, change)| (number_of(pid, &change), change.status))
            .collect();
        let numbers: Vec<ChangeNumber> = tried.iter().map(|(number, _)| *number).collect();
        let (results, inherited) = actuator.client.revert_each(&numbers);
        summary.extend(inherited);
        for ((number, status), result) in tried.into_iter().zip(results) {
            match result {
                Err(ClientError::Refused(refusal))
                    if refusal.kind == ActuatorRefusalKind::Refused && status != Status::Applied =>
                {
                    continue;
                }
                Err(ClientError::Refused(refusal)) => summary.failed.push((number, refusal)),
                Err(error) => return Err(error),
                Ok(reverted) => summary.reverted.push((number.pid, reverted)),
            }
            left.retain(|(pid, _)| *pid != number.pid);
        }
    }
}

fn number_of(pid: Pid, change: &JournalChange) -> ChangeNumber {
    let change = change.intent.change;
    ChangeNumber { pid, change }
}

/// Why no journal can be written in a folder, and therefore nothing can be changed; `None` if it can.
pub(super) fn not_writable(folder: &Path) -> Option<String> {
    let error = access(there(folder), Access::WRITE_OK).err()?;
    Some(format!(
        "{} cannot be written ({error}): nothing can be changed",
        folder.display()
    ))
}

/// The longest existing prefix of a folder's path.
pub(super) fn there(folder: &Path) -> &Path {
    let mut parts = folder.ancestors();
    parts.find(|part| part.exists()).unwrap_or(Path::new("/"))
}

/// The command that moves the journals to a folder that every user can write.
pub(super) fn command_of_own_folder() -> String {
    let folder = std::env::temp_dir().join(format!("tuneagent-{}", getuid().as_raw()));
    format!("export TUNEAGENT_STATE_DIR={}", folder.display())
}

/// A note for a session that should change something but cannot write its journal.
pub(super) fn note_of_journal() -> Option<String> {
    let state = StateDir::usual().ok()?;
    let why = not_writable(state.path())?;
    let command = command_of_own_folder();
    Some(format!("note: the journal {why}. Another folder: {command}"))
}

/// Notes on changes that earlier sessions left in the processes of a job, kept or left by a crash; a line each.
/// Excludes changes of running sessions, which revert them themselves.
pub(super) fn left_behind(job: &Job, typed: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let Ok(state) = StateDir::usual() else {
        return lines;
    };
    let standing: Vec<JournalChange> = job
        .members
        .iter()
        .filter(|member| writer_of(member.process.pid).is_none())
        .filter_map(|member| state.history(member.process.pid).ok())
        .flat_map(|history| history.standing())
        .collect();
    let kept = standing.iter().filter(|change| change.confirmed).count();
    let lost = standing.len() - kept;
    let line = |number, what: &str| {
        let undo = crate::hint::undo(typed);
        format!("note: {} {what}. Revert: {undo}", plural(number, "change"))
    };
    if lost > 0 {
        lines.push(line(
            lost,
            "of an earlier session that did not end properly may be in force",
        ));
    }
    if kept > 0 {
        lines.push(line(kept, "made by hand or kept by an earlier session, in force"));
    }
    lines
}

/// A note on the session that may write into processes of a job: one of our running sessions, or else a process with
/// the right to write into one of them.
pub(super) fn other_writer(job: &Job, applies: bool) -> Option<String> {
    let pids: Vec<i32> = job
        .members
        .iter()
        .map(|member| member.process.pid.number)
        .collect();
    let is_of_job =
        |view: &session::request::SessionView| view.applies && view.pids.iter().any(|pid| pids.contains(pid));
    let sessions = control::sessions().unwrap_or_default().sessions;
    let session = sessions
        .iter()
        .map(|session| &session.view)
        .find(|view| is_of_job(view));
    let who = match session {
        Some(view) => format!("session {} of {}", view.pid, view.user),
        None => {
            let writer = job
                .members
                .iter()
                .find_map(|member| writer_of(member.process.pid))?;
            format!("process {} of {}", writer.pid, writer.user)
        }
    };
    let list = crate::hint::as_we_are("session list");
    Some(match applies {
        true => format!(
            "note: {who} may write into this program, and only one session may: this one can change nothing until that one ends. Details: {list}"
        ),
        false => format!(
            "note: {who} may write into this program: its changes look here like the program's own values until it ends. Details: {list}"
        ),
    })
}

fn say(summary: &RevertSummary) -> CommandResult {
    let mut code = Code::Done;
    for (pid, reverted) in &summary.reverted {
        let symbol = &reverted.symbol;
        let said = match &reverted.outcome {
            RevertOutcome::Reverted => format!("reverted: {symbol}"),
            RevertOutcome::ChangedSince(_) => {
                code = Code::Failed;
                format!("left alone: the program has changed {symbol} since")
            }
            RevertOutcome::Failed(reason) => {
                code = Code::Failed;
                format!("not reverted: {symbol}: {reason}")
            }
        };
        say!("{pid:>8}  change {} {said}", reverted.change);
    }
    for (number, refusal) in &summary.failed {
        code = Code::Failed;
        say!("{:>8}  change {}: {refusal}", number.pid, number.change);
    }
    for (pid, refusal) in &summary.refused {
        // Changes in a process disappear when it ends.
        if refusal.kind != ActuatorRefusalKind::Ended {
            code = super::by_hand::code_of(refusal.kind);
        }
        say!("{pid:>8}  {refusal}");
    }
    if summary.reverted.is_empty() && summary.failed.is_empty() && summary.refused.is_empty() {
        say!("nothing to revert");
    }
    Ok(code)
}
