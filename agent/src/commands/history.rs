//! `tuneagent journal` and `tuneagent undo`: what was changed, and putting it back.

use plan::SyncPoint;
use serde_json::json;
use tuner::{
    actuator::{ActuatorRefusalKind, ChangeNumber, ClientError, RevertSummary},
    journal::{ActionRecord, Change, RevertOutcome, StateDir, Status, WriteHold},
    lock::writer_of,
    process::Pid,
};

use super::target;
use crate::{
    actuator::{Actuator, StartOptions, hold_text, passage_text},
    cli::{JournalArgs, UndoArgs},
    console::printable,
    control,
    discover::{Discovery, Job},
    exit::{Code, CommandResult, Failure},
    format::plural,
    rights,
};

pub(super) fn journal(args: &JournalArgs) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::not_there)?;
    let mut histories = state.histories().map_err(Failure::not_there)?;
    if let Some(target) = &args.target {
        let wanted = wanted_pids(target)?;
        histories.retain(|(_, history)| {
            history
                .changes()
                .first()
                .is_some_and(|change| wanted.contains(&change.intent.target.pid))
        });
    }
    if args.json {
        let changes = histories.iter().flat_map(|(_, history)| history.changes());
        return super::print_json(&changes.map(|change| as_json(&change)).collect::<Vec<_>>());
    }
    let mut shown = 0;
    for (path, history) in &histories {
        for change in history.changes() {
            shown += 1;
            print(&change);
        }
        for line in &history.unreadable {
            let text = printable(&line.text);
            say!("{}:{}: not understood: {text}", path.display(), line.line);
        }
    }
    if shown == 0 {
        say!(
            "nothing was changed (journals are kept in {})",
            state.path().display()
        );
    }
    Ok(Code::Done)
}

/// One change, with all that [`print()`] says of it.
fn as_json(change: &Change) -> serde_json::Value {
    let intent = &change.intent;
    json!({
        "at": intent.at.wall,
        "program": intent.target.executable,
        "pid": intent.target.pid.number,
        "change": intent.change,
        "action": intent.action.to_string(),
        "status": status(change),
        "confirmed": change.confirmed && intent.rule.is_some(),
        "rule": intent.rule,
        "user": intent.who.user,
        "why": intent.why,
        "mechanism": change.hold.map(|hold| hold.mechanism),
        "hold_ns": change.hold.map(|hold| hold.hold_ns),
    })
}

/// `tuneagent explain change N`: what the journals say of the changes of this number, one in each process
/// that was changed.
pub(super) fn explain(number: u64) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::not_there)?;
    let histories = state.histories().map_err(Failure::not_there)?;
    let changes = histories.iter().flat_map(|(_, history)| history.changes());
    let changes: Vec<Change> = changes.filter(|change| change.intent.change == number).collect();
    if changes.is_empty() {
        return Err(Failure::not_there(format!(
            "no journal in {} has a change {number}; all changes: tuneagent journal",
            state.path().display()
        )));
    }
    for change in &changes {
        print(change);
        if matches!(change.status, Status::Applied | Status::Pending) {
            let pid = change.intent.target.pid;
            say!(
                "    revert it: {}",
                crate::hint::as_we_are(&format!("undo {pid} {number}"))
            );
        }
    }
    Ok(Code::Done)
}

fn wanted_pids(target: &str) -> Result<Vec<Pid>, Failure> {
    let pid = target::pid(target)?;
    let job = Discovery::default().job_of(pid).map_err(Failure::not_there)?;
    Ok(job.members.iter().map(|member| member.process.pid).collect())
}

fn print(change: &Change) {
    let intent = &change.intent;
    let program = intent.target.executable.rsplit('/').next().unwrap_or("?");
    // A journal of an older version may hold names as programs chose them.
    say!(
        "{}  {} {}  change {}  {}  {}",
        intent.at.wall,
        printable(program),
        intent.target.pid,
        intent.change,
        printable(&intent.action.to_string()),
        status(change),
    );
    let by = intent
        .rule
        .as_ref()
        .map_or_else(|| "by hand".to_owned(), |rule| format!("by the rule {rule}"));
    let hold = match (&intent.action, change.hold) {
        (ActionRecord::Affinity(_), Some(_)) => ", with sched_setaffinity".to_owned(),
        (_, Some(hold)) => format!(", {}", said(&hold, intent.action.sync())),
        (_, None) => String::new(),
    };
    say!("    {by}, for {}{hold}", intent.who.user);
    intent.why.iter().for_each(|why| say!("    {}", printable(why)));
}

/// How it was written, in words.
fn said(hold: &WriteHold, place: Option<&SyncPoint>) -> String {
    match (place, &hold.passage) {
        (Some(place), Some(passage)) => passage_text(place, hold.mechanism, passage),
        _ => hold_text(hold.mechanism, hold.hold_ns),
    }
}

fn status(change: &Change) -> String {
    let confirmed = match (change.confirmed, &change.intent.rule) {
        (true, Some(_)) => ", confirmed",
        (true, None) => ", by hand",
        (false, _) => "",
    };
    match change.status {
        Status::Pending => "begun; undo finds out whether it was written".into(),
        Status::Applied => match &change.result {
            Some(result) if change.intent.action.inverse().is_some() => {
                format!("returned {result}, in force{confirmed}")
            }
            _ => format!("in force{confirmed}"),
        },
        Status::Failed => "not written".into(),
        Status::Done => format!("returned {}", change.result.as_deref().unwrap_or("?")),
        Status::RevertPending => "being reverted".into(),
        Status::Reverted => "reverted".into(),
        Status::ChangedSince => "changed by the program since".into(),
        Status::Superseded { by } => format!("replaced by change {by}"),
    }
}

pub(super) fn undo(args: &UndoArgs) -> CommandResult {
    let pid = target::pid(&args.target)?;
    let mut discovery = Discovery::default();
    let job = target::job(&mut discovery, &args.target, args.any_user)?;
    let mut actuator = Actuator::start(StartOptions {
        keeps: true,
        has_sync_points: true,
    })
    .map_err(Failure::not_there)?;
    rights::only_look().map_err(Failure::not_permitted)?;
    let pids: Vec<Pid> = job.members.iter().map(|member| member.process.pid).collect();
    let reverted = match args.change {
        // A change has a number in its own process only.
        Some(change) => match pids.iter().find(|member| member.number == pid) {
            Some(member) => one(&mut actuator, *member, change),
            None => Ok(RevertSummary::default()),
        },
        None if args.last => last(&mut actuator, &pids),
        None => actuator.client.revert_all(&pids),
    };
    let reverted = reverted.map_err(|error| Failure {
        code: super::by_hand::code(&error),
        message: error.to_string(),
    })?;
    actuator.finish().map_err(Failure::no)?;
    say(&reverted)
}

fn one(actuator: &mut Actuator, pid: Pid, change: u64) -> Result<RevertSummary, ClientError> {
    let (reverted, mut summary) = actuator.client.revert_each(&[ChangeNumber { pid, change }]);
    for reverted in reverted {
        summary.reverted.push((pid, reverted?));
    }
    Ok(summary)
}

/// The newest change in force of each process, all in one go. One that a crash left undecided is settled by
/// trying, and may turn out never to have been written; then it is the one before.
fn last(actuator: &mut Actuator, pids: &[Pid]) -> Result<RevertSummary, ClientError> {
    let state = StateDir::usual().map_err(|error| ClientError::Io(std::io::Error::other(error)))?;
    let mut left = Vec::new();
    for pid in pids {
        let history = state.history(*pid);
        let history = history.map_err(|error| ClientError::Io(std::io::Error::other(error)))?;
        left.push((*pid, history.standing().into_iter()));
    }
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

fn number_of(pid: Pid, change: &Change) -> ChangeNumber {
    let change = change.intent.change;
    ChangeNumber { pid, change }
}

/// Who else may write into a job that this session is to change, and what earlier sessions left in its
/// processes, a line each: what was to stay, and what a crash left behind. What is in force of a session that
/// runs is none of it: to revert that is the session's.
pub(super) fn left_behind(job: &Job, typed: &str, applies: bool) -> Vec<String> {
    let other = applies.then(|| other_writer(job)).flatten();
    let mut lines: Vec<String> = other.into_iter().collect();
    let Ok(state) = StateDir::usual() else {
        return lines;
    };
    let standing: Vec<Change> = job
        .members
        .iter()
        .filter(|member| writer_of(member.process.pid).is_none())
        .filter_map(|member| state.history(member.process.pid).ok())
        .flat_map(|history| history.standing())
        .collect();
    let kept = standing.iter().filter(|change| change.confirmed).count();
    let lost = standing.len() - kept;
    let command = crate::hint::as_we_are(&format!("undo {typed}"));
    let line = |number, what: &str| format!("note: {} {what}. Revert: {command}", plural(number, "change"));
    if lost > 0 {
        lines.push(line(
            lost,
            "of an earlier session that did not end properly may be in force",
        ));
    }
    if kept > 0 {
        lines.push(line(
            kept,
            "of earlier sessions, left in place on purpose, in force",
        ));
    }
    lines
}

/// The session that may write into processes of a job: one of ours that says so, else a process that has the
/// right to write into one of them.
fn other_writer(job: &Job) -> Option<String> {
    let pids: Vec<i32> = job
        .members
        .iter()
        .map(|member| member.process.pid.number)
        .collect();
    let is_of_job =
        |view: &crate::request::SessionView| view.applies && view.pids.iter().any(|pid| pids.contains(pid));
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
    Some(format!(
        "note: {who} may write into this program, and only one session may: this one can change nothing until that one ends. Details: {}",
        crate::hint::as_we_are("session list")
    ))
}

fn say(summary: &RevertSummary) -> CommandResult {
    let mut code = Code::Done;
    for (pid, reverted) in &summary.reverted {
        let said = match &reverted.outcome {
            RevertOutcome::Reverted => "is as it was".to_owned(),
            RevertOutcome::ChangedSince(_) => {
                code = Code::No;
                "was changed by the program since; left alone".to_owned()
            }
            RevertOutcome::Failed(reason) => {
                code = Code::No;
                format!("could not be reverted: {reason}")
            }
        };
        say!("{pid:>8}  change {}: {} {said}", reverted.change, reverted.symbol);
    }
    for (number, refusal) in &summary.failed {
        code = Code::No;
        say!("{:>8}  change {}: {refusal}", number.pid, number.change);
    }
    for (pid, refusal) in &summary.refused {
        // A process that has ended took its changes with it.
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
