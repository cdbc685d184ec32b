//! The changes of a process as `journal` lists them: the alternations of one session's trial are one entry.

use tuner::journal::{JournalChange, Status};

/// Repetitions of a change of a process, and the last one.
pub(super) struct HistoryEntry {
    /// Number of the first change, and when it was made.
    pub(super) first: (u64, String),
    pub(super) times: usize,
    pub(super) last: JournalChange,
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
            }),
        }
    }
    entries
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
}
