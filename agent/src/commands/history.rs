//! `tuneagent journal` and `tuneagent undo`: list changes, and revert them.

mod entries;

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use job::{Discovery, Job, rfc3339};
use profile::format::plural;
use report::console::printable;
use rustix::{
    fs::{Access, access},
    process::getuid,
};
use serde_json::json;
use tuner::actuator::{ActuatorRefusalKind, ChangeNumber, ClientError, RevertSummary};
use tuner::journal::{ActionRecord, History, JournalChange, RevertOutcome, StateDir, Status};
use tuner::{Pid, writer_of};

use self::entries::{HistoryEntry, entries, merged};
use super::target;
use crate::{
    actuator::{Actuator, StartOptions, hold_text, passage_text},
    cli::{JournalArgs, UndoArgs},
    control,
    exit::{Code, CommandResult, Failure},
    rights,
};

/// Changes of processes that ended longer ago are shown only with `--all`.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of processes that an entry names.
const PROCESSES_SHOWN: usize = 4;

pub(super) fn journal(args: &JournalArgs) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::not_there)?;
    let mut histories = state.histories().map_err(Failure::not_there)?;
    // The newest is the last line on the screen.
    histories.reverse();
    let is_running = match &args.target {
        Some(target) => retain(&mut histories, target)?,
        None => true,
    };
    if args.json {
        let changes = histories.iter().flat_map(|(_, history)| history.changes());
        return super::print_json(&changes.map(|change| as_json(&change)).collect::<Vec<_>>());
    }
    let older = match args.all || args.target.is_some() && is_running {
        true => 0,
        false => leave_out_old(&mut histories),
    };
    let mut shown = 0;
    let listed = histories
        .iter()
        .flat_map(|(_, history)| entries(history.changes()))
        .collect();
    for entry in &merged(listed, details) {
        shown += 1;
        print(entry, args.target.is_some());
    }
    if !is_running && shown > 0 {
        say!("none of these processes runs now");
    }
    for (path, history) in &histories {
        for line in &history.unreadable {
            let text = printable(&line.text);
            say!("{}:{}: not understood: {text}", path.display(), line.line);
        }
    }
    if shown > 0 && args.target.is_none() {
        say!("why: tuneagent journal TARGET");
    }
    match (shown, older) {
        (0, 0) => say!(
            "nothing was changed (journals are kept in {})",
            state.path().display()
        ),
        (_, 0) => {}
        _ => {
            let target = args
                .target
                .as_deref()
                .map_or_else(String::new, |name| format!("{name} "));
            say!(
                "and {} of earlier processes: tuneagent journal {target}--all",
                plural(older, "change")
            );
        }
    }
    Ok(Code::Done)
}

type Histories = Vec<(PathBuf, History)>;

/// Keeps the histories of a target: if it runs, those of the job's processes; otherwise those of ended
/// processes with this number or name. Returns whether it runs.
fn retain(histories: &mut Histories, target: &str) -> Result<bool, Failure> {
    let running = wanted_pids(target);
    let is_of = |change: &JournalChange| {
        let process = &change.intent.target;
        match &running {
            Ok(pids) => pids.contains(&process.pid),
            Err(_) => process.pid.to_string() == target || program(change) == target,
        }
    };
    histories.retain(|(_, history)| history.changes().first().is_some_and(is_of));
    match running {
        Err(failure) if histories.is_empty() => {
            let message = format!(
                "{}, and no journal has a change of it (ranks that have ended are listed by their own numbers or their name: \
                 tuneagent journal)",
                failure.error
            );
            Err(Failure::new(failure.code, message))
        }
        running => Ok(running.is_ok()),
    }
}

/// Keeps the histories of processes that run or were changed within a day. Returns the number of changes in
/// the others.
fn leave_out_old(histories: &mut Histories) -> usize {
    let a_day_ago = SystemTime::now() - DAY;
    let since_epoch = a_day_ago.duration_since(UNIX_EPOCH).unwrap_or_default();
    let a_day_ago = rfc3339(since_epoch.as_secs(), 0);
    let is_recent = |change: &JournalChange| {
        let intent = &change.intent;
        intent.at.wall > a_day_ago || intent.target.pid.is_alive()
    };
    let count = |histories: &Histories| -> usize {
        let of_each = histories.iter().map(|(_, history)| history.changes().len());
        of_each.sum()
    };
    let all = count(histories);
    histories.retain(|(_, history)| history.changes().last().is_none_or(is_recent));
    all - count(histories)
}

fn program(change: &JournalChange) -> &str {
    change.intent.target.executable.rsplit('/').next().unwrap_or("?")
}

/// A change with everything that [`print()`] shows.
fn as_json(change: &JournalChange) -> serde_json::Value {
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

/// `tuneagent explain change PID:N`: the journal entry of a change. The process may be the launcher of a job, and may
/// be omitted if only one has a change with this number.
pub(super) fn explain(pid: Option<i32>, number: u64) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::not_there)?;
    let histories = state.histories().map_err(Failure::not_there)?;
    let of = |pids: Option<&[i32]>| -> Vec<JournalChange> {
        let changes = histories.iter().flat_map(|(_, history)| history.changes());
        let is_it = |change: &JournalChange| {
            let pid = change.intent.target.pid.number;
            change.intent.change == number && pids.is_none_or(|pids| pids.contains(&pid))
        };
        changes.filter(is_it).collect()
    };
    let mut changes = of(pid.as_ref().map(std::slice::from_ref));
    if let Some(launcher) = pid.filter(|_| changes.is_empty()) {
        let ranks = wanted_pids(&launcher.to_string()).unwrap_or_default();
        let ranks: Vec<i32> = ranks.into_iter().map(|rank| rank.number).collect();
        changes = of(Some(&ranks));
    }
    if let [first, _, ..] = changes.as_slice()
        && pid.is_none()
    {
        let pid = first.intent.target.pid;
        return Err(Failure::not_there(format!(
            "{} processes have a change {number}: give the process too, as in `tuneagent explain change {pid}:{number}` ({}, the last one)",
            changes.len(),
            printable(program(first)),
        )));
    }
    if changes.is_empty() {
        let what = match pid {
            Some(pid) => format!(
                "no journal in {} has a change {number} of process {pid}",
                state.path().display()
            ),
            None => format!("no journal in {} has a change {number}", state.path().display()),
        };
        return Err(Failure::not_there(format!(
            "{what}; all changes: tuneagent journal --all"
        )));
    }
    let single = |change: JournalChange| HistoryEntry {
        first: (number, change.intent.at.wall.clone()),
        times: 1,
        last: change,
        others: Vec::new(),
    };
    for entry in merged(changes.into_iter().map(single).collect(), details) {
        print(&entry, true);
        let change = &entry.last;
        if let Some(rule) = &change.intent.rule
            && rules::shipped_text(rule).is_some()
        {
            say!("    what the rule does and assumes: tuneagent explain {rule}");
        }
        if matches!(change.status, Status::Applied | Status::Pending) {
            // A launcher stands for all its ranks.
            let pid = pid.unwrap_or(change.intent.target.pid.number);
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

/// Prints two lines for each change, and for the changes of a target also the reasons.
fn print(entry: &HistoryEntry, with_reasons: bool) {
    let HistoryEntry {
        first: (first, since),
        times,
        last,
        others,
    } = entry;
    let (change, intent) = (last, &last.intent);
    let number = match times {
        1 => format!("change {}", intent.change),
        times if first + *times as u64 == intent.change + 1 => {
            format!("changes {first} to {}", intent.change)
        }
        // Those of another action of the rule are between them.
        _ => format!("changes {first}, ..., {}", intent.change),
    };
    // A journal of an older version may contain unescaped names.
    say!(
        "{}  {} {}  {number}  {}  {}",
        intent.at.wall,
        printable(program(change)),
        processes(intent.target.pid, others),
        printable(&intent.action.to_string()),
        status(change),
    );
    let by = intent
        .rule
        .as_ref()
        .map_or_else(|| "by hand".to_owned(), |rule| format!("by the rule {rule}"));
    let how = said(change).map_or_else(String::new, |how| format!(", {how}"));
    say!("    {by}, for {}{how}", intent.who.user);
    if *times > 1 {
        say!("    made {times} times since {since}: the guard reverts a change to compare");
    }
    if with_reasons {
        intent.why.iter().for_each(|why| say!("    {}", printable(why)));
    }
}

/// The number of a process, and of the others with the same change: `7, 8, 9 and 5 more`.
fn processes(pid: Pid, others: &[i32]) -> String {
    let shown = others.iter().take(PROCESSES_SHOWN - 1).map(i32::to_string);
    let shown: Vec<String> = [pid.to_string()].into_iter().chain(shown).collect();
    match others.len().saturating_sub(PROCESSES_SHOWN - 1) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What an entry shows of a change besides the change itself.
fn details(change: &JournalChange) -> String {
    format!("{:?} {}", said(change), change.intent.target.pid.is_alive())
}

/// How a change was written, or was attempted at its sync point. `None` if there was no write and no hold.
fn said(change: &JournalChange) -> Option<String> {
    let hold = change.hold.as_ref()?;
    let is_written = change.status != Status::Failed;
    match (&change.intent.action, change.intent.action.sync(), &hold.passage) {
        (_, Some(place), Some(passage)) => Some(passage_text(place, hold.mechanism, passage, is_written)),
        (ActionRecord::Affinity(_), ..) => is_written.then(|| "with sched_setaffinity".to_owned()),
        _ if is_written || hold.hold_ns > 0 => Some(hold_text(hold.mechanism, hold.hold_ns)),
        _ => None,
    }
}

fn status(change: &JournalChange) -> String {
    let confirmed = match (change.confirmed, &change.intent.rule) {
        (true, Some(_)) => ", confirmed",
        // That it was made by hand is said in the next line.
        (true, None) | (false, _) => "",
    };
    match change.status {
        Status::Pending => {
            "not known to be in force (tuneagent ended while it was made): undo reverts it if it is".into()
        }
        Status::Applied if !change.intent.target.pid.is_alive() => {
            format!("ended with its program{confirmed}")
        }
        Status::Applied => match &change.result {
            Some(result) if change.intent.action.inverse().is_some() && result != "nothing" => {
                format!("returned {result}, in force{confirmed}")
            }
            _ => format!("in force{confirmed}"),
        },
        Status::Failed => "not written".into(),
        Status::Done => match change.result.as_deref() {
            Some("nothing") => "called".into(),
            result => format!("returned {}", result.unwrap_or("?")),
        },
        Status::RevertPending => "being reverted".into(),
        Status::Reverted => match &change.revert {
            Some((at, who)) => format!("reverted {} for {}", at.wall, who.user),
            None => "reverted".into(),
        },
        Status::ChangedSince => "changed by the program since".into(),
        Status::Superseded { by } => format!("replaced by change {by}"),
    }
}

pub(super) fn undo(args: &UndoArgs) -> CommandResult {
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
        Some(change) => numbered(&mut actuator, &with_change(&args.target, &pids, change)?),
        None if args.last => last(&mut actuator, &pids),
        None => actuator.client.revert_all(&pids),
    };
    let reverted = reverted.map_err(|error| Failure::new(super::by_hand::code(&error), error))?;
    actuator.finish().map_err(Failure::no)?;
    say(&reverted)
}

/// The change with this number of the process that the target names. A name or a launcher stands for all processes
/// with that change; it is an error if their changes with this number are not one decision, because numbers are unique
/// only within a process.
fn with_change(target: &str, pids: &[Pid], change: u64) -> Result<Vec<ChangeNumber>, Failure> {
    if let Some(pid) = pids.iter().find(|pid| pid.number.to_string() == target) {
        return Ok(vec![ChangeNumber { pid: *pid, change }]);
    }
    let all = standing(pids).map_err(Failure::no)?.into_iter();
    let all = all.flat_map(|(_, standing)| standing);
    let found: Vec<JournalChange> = all.filter(|known| known.intent.change == change).collect();
    let is_other = |other: &&JournalChange| !entries::is_same_change(&found[0], other);
    if let Some(other) = found.iter().skip(1).find(is_other) {
        let of =
            |change: &JournalChange| format!("undo {} {}", change.intent.target.pid, change.intent.change);
        return Err(Failure::no(format!(
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
        lines.push(line(
            kept,
            "of earlier sessions, left in place on purpose, in force",
        ));
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
                code = Code::No;
                format!("left alone: the program has changed {symbol} since")
            }
            RevertOutcome::Failed(reason) => {
                code = Code::No;
                format!("not reverted: {symbol}: {reason}")
            }
        };
        say!("{pid:>8}  change {} {said}", reverted.change);
    }
    for (number, refusal) in &summary.failed {
        code = Code::No;
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
