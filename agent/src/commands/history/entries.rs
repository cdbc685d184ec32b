//! The changes of a process as `journal` lists them: the alternations of a trial are one entry.

use tuner::journal::{Change, Status};

/// Repetitions of a change of a process, and the last one.
pub(super) struct Entry {
    /// Number of the first change.
    pub(super) first: u64,
    pub(super) times: usize,
    pub(super) last: Change,
}

/// The changes of a process as entries. Repetitions of a rule's changes, which its guard reverts to compare,
/// form one entry for each action.
pub(super) fn entries(changes: Vec<Change>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for change in changes {
        let rule = change.intent.rule.clone();
        let action = change.intent.action.to_string();
        // A rule may make several changes at once, which are reverted together.
        let same_rule =
            (entries.iter_mut().rev()).take_while(|entry| rule.is_some() && entry.last.intent.rule == rule);
        let mut same_action = same_rule.filter(|entry| entry.last.intent.action.to_string() == action);
        match same_action.next() {
            Some(entry) if entry.last.status == Status::Reverted => {
                entry.times += 1;
                entry.last = change;
            }
            _ => entries.push(Entry {
                first: change.intent.change,
                times: 1,
                last: change,
            }),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A change of a rule (or by hand) that binds a thread to a CPU.
    fn change(number: u64, rule: Option<&str>, cpu: &str, status: Status) -> Change {
        let change = json!({
            "intent": {
                "change": number,
                "at": {"wall": "2026-11-20T15:04:23.420Z", "monotonic_ns": number},
                "who": {"uid": 0, "user": "root", "pid": 1},
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
                .map(|(number, (rule, cpu, status))| change(number, rule, cpu, status));
            let entries = entries(changes.collect()).into_iter();
            let entries: Vec<_> = entries
                .map(|entry| (entry.first, entry.times, entry.last.intent.change))
                .collect();
            assert_eq!(entries, wanted);
        }
    }
}
