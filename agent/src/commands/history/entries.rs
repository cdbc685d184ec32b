//! Changes as `journal` lists them: the alternations of one session's trial are one entry, and so is a change
//! that was made in several processes at once.

use std::{cmp::Reverse, collections::BTreeSet};

use tuner::journal::{JournalChange, Status};

/// Repetitions of a change of a process, and the last one.
pub(super) struct HistoryEntry {
    /// Number of the first change, and when it was made.
    pub(super) first: (u64, String),
    pub(super) times: usize,
    pub(super) last: JournalChange,
    /// Further processes with the same change, by number.
    pub(super) others: Vec<i32>,
}

/// The changes of a process as entries. Repetitions of a rule's changes, which its guard reverts to compare,
/// form one entry for each action. A change that another session made or reverted, or a user by hand, is no
/// part of a trial.
pub(super) fn entries(changes: Vec<JournalChange>) -> Vec<HistoryEntry> {
    let mut entries: Vec<HistoryEntry> = Vec::new();
    for change in changes {
        let rule = change.intent.rule.clone();
        let action = change.intent.action.to_string();
        // A rule may make several changes at once, which are reverted together.
        let same_rule =
            (entries.iter_mut().rev()).take_while(|entry| rule.is_some() && entry.last.intent.rule == rule);
        let mut same_action = same_rule.filter(|entry| entry.last.intent.action.to_string() == action);
        match same_action.next() {
            Some(entry) if was_reverted_to_compare(&entry.last, &change) => {
                entry.times += 1;
                entry.last = change;
            }
            _ => entries.push(HistoryEntry {
                first: (change.intent.change, change.intent.at.wall.clone()),
                times: 1,
                last: change,
                others: Vec::new(),
            }),
        }
    }
    entries
}

/// The entries of several processes, in order of time: those that differ only in the process and in time are one.
/// `details` is what else is shown of a change.
pub(super) fn merged(
    mut entries: Vec<HistoryEntry>,
    details: impl Fn(&JournalChange) -> String,
) -> Vec<HistoryEntry> {
    entries.sort_by(|one, other| one.last.intent.at.wall.cmp(&other.last.intent.at.wall));
    let mut merged: Vec<HistoryEntry> = Vec::new();
    for entry in entries {
        let is_same = |shown: &&mut HistoryEntry| {
            shown.first.0 == entry.first.0
                && shown.times == entry.times
                && is_same_decision(&shown.last, &entry.last)
                && details(&shown.last) == details(&entry.last)
        };
        match merged.iter_mut().rev().find(is_same) {
            Some(shown) => shown.others.push(entry.last.intent.target.pid.number),
            None => merged.push(entry),
        }
    }
    merged
}

/// The changes of a job, newest first.
pub(super) struct JobEntries {
    pub(super) program: String,
    /// The numbers of the processes that were changed.
    pub(super) processes: BTreeSet<i32>,
    pub(super) is_running: bool,
    pub(super) entries: Vec<HistoryEntry>,
}

/// Entries, which are in order of time, by job, newest first. Processes are of one job if some entry has both.
pub(super) fn by_job(
    entries: Vec<HistoryEntry>,
    is_running: impl Fn(&JournalChange) -> bool,
) -> Vec<JobEntries> {
    let mut jobs: Vec<JobEntries> = Vec::new();
    for entry in entries {
        let pid = entry.last.intent.target.pid.number;
        let mut of_entry = JobEntries {
            program: program(&entry.last).to_owned(),
            processes: entry.others.iter().copied().chain([pid]).collect(),
            is_running: is_running(&entry.last),
            entries: vec![entry],
        };
        let is_same = |job: &JobEntries| {
            job.program == of_entry.program && !job.processes.is_disjoint(&of_entry.processes)
        };
        let (same, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_same);
        jobs = others;
        for job in same {
            of_entry.processes.extend(job.processes);
            of_entry.is_running |= job.is_running;
            of_entry.entries.extend(job.entries);
        }
        jobs.push(of_entry);
    }
    let newest_first = |entry: &HistoryEntry| Reverse(entry.last.intent.at.wall.clone());
    for job in &mut jobs {
        job.entries.sort_by_key(newest_first);
    }
    jobs.reverse();
    jobs
}

/// Keeps the newest entries of jobs that have ended, at most so many, and all of jobs that run. Returns the number
/// of changes that were left out.
pub(super) fn leave_out_old(jobs: &mut Vec<JobEntries>, most: usize) -> usize {
    let (mut room, mut left_out) = (most, 0);
    for job in jobs.iter_mut().filter(|job| !job.is_running) {
        let kept = room.min(job.entries.len());
        let old = job.entries.drain(kept..);
        left_out += old
            .map(|entry| entry.times * (1 + entry.others.len()))
            .sum::<usize>();
        room -= kept;
    }
    jobs.retain(|job| !job.entries.is_empty());
    left_out
}

/// The name of the program in which a change was made.
pub(super) fn program(change: &JournalChange) -> &str {
    change.intent.target.executable.rsplit('/').next().unwrap_or("?")
}

/// Whether a session or command made the same change in two processes of a program, for the same reasons.
fn is_same_decision(one: &JournalChange, other: &JournalChange) -> bool {
    let reverted_by = |change: &JournalChange| change.revert.as_ref().map(|(_, who)| who.clone());
    one.intent.target.pid != other.intent.target.pid
        && is_same_change(one, other)
        && one.intent.why == other.intent.why
        && (one.status, one.confirmed, &one.result) == (other.status, other.confirmed, &other.result)
        && reverted_by(one) == reverted_by(other)
}

/// Whether one session or command made the same change of a program, under the same number.
pub(super) fn is_same_change(one: &JournalChange, other: &JournalChange) -> bool {
    let (intent, of_other) = (&one.intent, &other.intent);
    intent.target.executable == of_other.target.executable
        && (&intent.who, &intent.rule, intent.change) == (&of_other.who, &of_other.rule, of_other.change)
        && intent.action.to_string() == of_other.action.to_string()
}

/// Whether the session that made a change reverted it itself and then made the next one.
fn was_reverted_to_compare(change: &JournalChange, next: &JournalChange) -> bool {
    let session = &change.intent.who;
    let reverted_by = change.revert.as_ref().map(|(_, who)| who);
    change.status == Status::Reverted && reverted_by == Some(session) && next.intent.who == *session
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A change of a rule (or by hand) that binds a thread to a CPU, made and reverted by these processes.
    fn change(number: u64, rule: Option<&str>, cpu: &str, status: Status, by: (i32, i32)) -> JournalChange {
        let who = |pid: i32| json!({"uid": 0, "user": "root", "pid": pid});
        let at = json!({"wall": "2026-11-20T15:04:23.420Z", "monotonic_ns": number});
        let revert = (status == Status::Reverted).then(|| json!([at, who(by.1)]));
        let change = json!({
            "intent": {
                "change": number,
                "at": at,
                "who": who(by.0),
                "why": [],
                "rule": rule,
                "target": {"pid": {"number": 7, "start_time": 1}, "boot": "b", "executable": "/bin/p"},
                "action": "affinity",
                "symbol": "affinity",
                "cpus": cpu,
                "threads": [{"tid": 7, "cpus": "0-3"}],
            },
            "status": status,
            "confirmed": false,
            "revert": revert,
        });
        serde_json::from_value(change).unwrap()
    }

    #[test]
    fn the_alternations_of_a_trial_are_one_entry_for_each_of_its_actions() {
        let (back, there) = (Status::Reverted, Status::Applied);
        let (rule, other) = (Some("workers"), Some("chunks"));
        // Changes as they were made, and the first number, number of times and last number of each entry.
        let rows = [
            (
                vec![(rule, "0", back), (rule, "0", back), (rule, "0", there)],
                vec![(1, 3, 3)],
            ),
            (
                vec![
                    (rule, "0", back),
                    (rule, "1", back),
                    (rule, "0", back),
                    (rule, "1", there),
                ],
                vec![(1, 2, 3), (2, 2, 4)],
            ),
            (
                vec![(rule, "0", back), (other, "0", back), (rule, "0", there)],
                vec![(1, 1, 1), (2, 1, 2), (3, 1, 3)],
            ),
            (
                vec![(None, "0", back), (None, "0", there)],
                vec![(1, 1, 1), (2, 1, 2)],
            ),
            (
                vec![(rule, "0", there), (rule, "0", there)],
                vec![(1, 1, 1), (2, 1, 2)],
            ),
        ];
        for (made, wanted) in rows {
            let changes = (1..)
                .zip(made)
                .map(|(number, (rule, cpu, status))| change(number, rule, cpu, status, (1, 1)));
            let entries = entries(changes.collect()).into_iter();
            let entries: Vec<_> = entries
                .map(|entry| (entry.first.0, entry.times, entry.last.intent.change))
                .collect();
            assert_eq!(entries, wanted);
        }
    }

    #[test]
    fn changes_of_other_sessions_and_those_that_a_user_reverted_are_entries_of_their_own() {
        let made = |number, status, by| change(number, Some("busy"), "0", status, by);
        // Two sessions with a change each, the second one's reverted by hand, then a trial of a third.
        let changes = vec![
            made(1, Status::Reverted, (10, 10)),
            made(2, Status::Reverted, (20, 21)),
            made(3, Status::Reverted, (30, 30)),
            made(4, Status::Applied, (30, 30)),
        ];
        let found: Vec<_> = entries(changes)
            .iter()
            .map(|entry| (entry.first.0, entry.times))
            .collect();
        assert_eq!(found, [(1, 1), (2, 1), (3, 2)]);
    }

    #[test]
    fn a_change_in_several_processes_is_one_entry_and_what_differs_is_another() {
        let of = |pid: i32, number, cpu: &str, status, by| {
            let mut made = change(number, Some("busy"), cpu, status, by);
            made.intent.target.pid.number = pid;
            entries(vec![made]).remove(0)
        };
        let (there, back) = (Status::Applied, Status::Reverted);
        let listed = vec![
            of(7, 1, "0", back, (10, 10)),
            of(8, 1, "0", back, (10, 10)),
            of(9, 1, "1", back, (10, 10)),
            of(7, 2, "0", there, (20, 20)),
            of(8, 2, "0", back, (20, 20)),
            of(9, 2, "0", there, (20, 20)),
            of(9, 3, "0", there, (30, 30)),
        ];
        let found = merged(listed, |_| String::new());
        let found: Vec<(i32, u64, Vec<i32>)> = (found.into_iter())
            .map(|entry| (entry.last.intent.target.pid.number, entry.first.0, entry.others))
            .collect();
        assert_eq!(
            found,
            [
                (7, 1, vec![8]),
                (9, 1, vec![]),
                (7, 2, vec![9]),
                (8, 2, vec![]),
                (9, 3, vec![]),
            ]
        );
    }

    #[test]
    fn changes_are_listed_by_job_newest_first_and_of_ended_jobs_only_the_newest() {
        let made = |pid: i32, number: u64, others: &[i32]| {
            let mut change = change(number, None, "0", Status::Reverted, (1, 1));
            change.intent.target.pid.number = pid;
            change.intent.at.wall = format!("2026-11-20T15:04:0{number}.000Z");
            let mut entry = entries(vec![change]).remove(0);
            entry.others = others.to_vec();
            entry
        };
        // Process 9 runs; 7 and 8 are one job, which the third change shows.
        let listed = || {
            vec![
                made(7, 1, &[]),
                made(8, 2, &[]),
                made(7, 3, &[8]),
                made(9, 4, &[]),
                made(5, 5, &[6]),
                made(8, 6, &[]),
            ]
        };
        let runs = |change: &JournalChange| change.intent.target.pid.number == 9;
        let shown = |jobs: &[JobEntries]| -> Vec<(Vec<i32>, bool, Vec<u64>)> {
            let of = |job: &JobEntries| {
                let numbers = job.entries.iter().map(|entry| entry.last.intent.change);
                (
                    job.processes.iter().copied().collect(),
                    job.is_running,
                    numbers.collect(),
                )
            };
            jobs.iter().map(of).collect()
        };
        let mut jobs = by_job(listed(), runs);
        let first = (vec![7, 8], false, vec![6, 3, 2, 1]);
        let all = [first, (vec![5, 6], false, vec![5]), (vec![9], true, vec![4])];
        assert_eq!(shown(&jobs), all);
        assert_eq!((leave_out_old(&mut jobs, 5), shown(&jobs)), (0, all.to_vec()));
        assert_eq!(
            leave_out_old(&mut jobs, 2),
            4,
            "change 2, 1, and 5 in two processes"
        );
        assert_eq!(
            shown(&jobs),
            [(vec![7, 8], false, vec![6, 3]), (vec![9], true, vec![4])]
        );
    }
}
