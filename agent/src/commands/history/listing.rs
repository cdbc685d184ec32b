//! `tuneagent journal` and `tuneagent explain change`: list changes, newest first.

use std::path::PathBuf;

use job::Discovery;
use profile::format::plural;
use report::console::printable;
use serde_json::json;
use tuner::Pid;
use tuner::journal::{ActionRecord, History, JournalChange, StateDir, Status};

use super::entries::{HistoryEntry, JobEntries, by_job, entries, leave_out_old, merged, program};
use crate::{
    actuator::{hold_text, passage_text},
    cli::JournalArgs,
    commands::{print_json, target},
    exit::{Code, CommandResult, Failure},
    rights,
};

/// Maximum number of entries of ended programs that are shown without `--all`, and with their reasons.
const SHOWN: usize = 20;
const SHOWN_WITH_REASONS: usize = 5;

/// Maximum number of processes that an entry names.
const PROCESSES_SHOWN: usize = 4;

pub(in crate::commands) fn journal(args: &JournalArgs) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::invalid)?;
    let mut histories = state.histories().map_err(Failure::invalid)?;
    histories.reverse();
    if let Some(target) = &args.target {
        retain(&mut histories, target)?;
    }
    if args.json {
        let changes = histories.iter().flat_map(|(_, history)| history.changes());
        return print_json(&changes.map(|change| as_json(&change)).collect::<Vec<_>>());
    }
    let listed = histories
        .iter()
        .flat_map(|(_, history)| entries(history.changes()));
    let mut jobs = by_job(merged(listed.collect(), details), is_running);
    let older = match (args.all, &args.target) {
        (true, _) => 0,
        (false, Some(_)) => leave_out_old(&mut jobs, SHOWN_WITH_REASONS),
        (false, None) => leave_out_old(&mut jobs, SHOWN),
    };
    say_jobs(&jobs, args.target.is_some());
    for (path, history) in &histories {
        for line in &history.unreadable {
            let text = printable(&line.text);
            say!("{}:{}: not understood: {text}", path.display(), line.line);
        }
    }
    if !jobs.is_empty() && args.target.is_none() {
        say!("why: tuneagent journal TARGET");
    }
    let target = args.target.as_deref().map(|target| format!("{target} "));
    match (jobs.len(), older) {
        (0, 0) => say!("no change is recorded in {}", state.path().display()),
        (_, 0) => {}
        _ => say!(
            "and {} of programs that have ended: tuneagent journal {}--all",
            plural(older, "older change"),
            target.unwrap_or_default()
        ),
    }
    Ok(Code::Done)
}

/// Prints the changes of each job, and below which title unless there is one job, which runs.
fn say_jobs(jobs: &[JobEntries], with_reasons: bool) {
    let has_titles = !matches!(jobs, [job] if job.is_running);
    for job in jobs {
        if has_titles {
            let processes = plural(job.processes.len(), "process");
            let state = if job.is_running { "running" } else { "ended" };
            say!("{}: {processes}, {state}", printable(&job.program));
        }
        job.entries.iter().for_each(|entry| print(entry, with_reasons));
    }
}

type Histories = Vec<(PathBuf, History)>;

/// Keeps the histories of a target: if it runs, those of the job's processes; otherwise those of ended
/// processes with this number or name.
fn retain(histories: &mut Histories, target: &str) -> Result<(), Failure> {
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
        _ => Ok(()),
    }
}

/// Whether the process of a change runs.
fn is_running(change: &JournalChange) -> bool {
    change.intent.target.pid.is_alive()
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
pub(in crate::commands) fn explain(pid: Option<i32>, number: u64) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let state = StateDir::usual().map_err(Failure::invalid)?;
    let histories = state.histories().map_err(Failure::invalid)?;
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
        return Err(Failure::invalid(format!(
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
        return Err(Failure::invalid(format!(
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
    let job = Discovery::default().job_of(pid).map_err(Failure::invalid)?;
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
    say!("    {by}, started by {}{how}", intent.who.user);
    if *times > 1 {
        let each = if others.is_empty() { "" } else { " in each process" };
        say!("    made {times} times{each} since {since}: the guard reverts a change to compare");
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
    format!("{:?} {}", said(change), is_running(change))
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
        Status::Applied if !is_running(change) => {
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
            // No user gave an order for it.
            Some((at, _)) if change.reverted_at_end => {
                format!("reverted {} when its session ended", at.wall)
            }
            // Its guard or its rule reverted it.
            Some((at, who)) if *who == change.intent.who => {
                format!("reverted {} by its session", at.wall)
            }
            Some((at, who)) => format!("reverted {} by order of {}", at.wall, who.user),
            None => "reverted".into(),
        },
        Status::ChangedSince => "changed by the program since".into(),
        Status::Superseded { by } => format!("replaced by change {by}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revert_is_by_order_of_a_user_or_by_its_session_or_because_that_ended() {
        for (by, reverted_at_end, said) in [
            (9, false, "reverted 2026-11-20T15:04:23.420Z by order of ana"),
            (8, false, "reverted 2026-11-20T15:04:23.420Z by its session"),
            (
                8,
                true,
                "reverted 2026-11-20T15:04:23.420Z when its session ended",
            ),
        ] {
            let at = json!({"wall": "2026-11-20T15:04:23.420Z", "monotonic_ns": 1});
            let who = |pid| json!({"uid": 1000, "user": "ana", "pid": pid});
            let change = json!({
                "intent": {
                    "change": 1,
                    "at": at,
                    "who": who(8),
                    "why": [],
                    "target": {"pid": {"number": 7, "start_time": 1}, "boot": "b", "executable": "/bin/p"},
                    "action": "affinity",
                    "symbol": "affinity",
                    "cpus": "0",
                    "threads": [{"tid": 7, "cpus": "0-3"}],
                },
                "status": Status::Reverted,
                "confirmed": false,
                "revert": [at, who(by)],
                "reverted_at_end": reverted_at_end,
            });
            assert_eq!(status(&serde_json::from_value(change).unwrap()), said);
        }
    }
}
