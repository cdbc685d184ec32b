//! What the lines of a journal mean together: the changes and their states. Pure: others read the text.

use std::collections::BTreeMap;

use plan::Bytes;
use serde::{Deserialize, Serialize};

use super::action::{ActionRecord, Assignment};
use super::record::{Intent, JournalRecord, Outcome, RevertOutcome, WriteHold};
use crate::arena::Arena;
use crate::author::Author;
use crate::clock::Instant;
use crate::process::ThreadId;

/// The state of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The intent is in the journal, but not the result: memory decides ([`settle`]).
    Pending,
    Applied,
    Failed,
    /// Done, and cannot be reverted: a call without an inverse.
    Done,
    /// As pending, for the revert.
    RevertPending,
    Reverted,
    /// The program has written something else since.
    ChangedSince,
    /// A later change of the same variable is in force.
    Superseded {
        by: u64,
    },
}

impl Status {
    /// Nothing of it is in memory any more.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Status::Failed | Status::Reverted | Status::ChangedSince)
    }
}

/// A change and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalChange {
    /// What was to be written, and why.
    pub intent: Intent,
    pub status: Status,
    /// The guard found that it is an improvement.
    pub confirmed: bool,
    /// When it was known to be in memory, by CLOCK_MONOTONIC: after the write, or, after a crash, when it was
    /// found there.
    #[serde(default)]
    pub applied_ns: Option<u64>,
    /// How it was written; `None` before that is known, or if no process lived to report it.
    pub hold: Option<WriteHold>,
    /// The return value of a call, as bits.
    pub returned: Option<u64>,
    /// The return value of a call, as text.
    pub result: Option<String>,
    /// The value read just before a call that has an inverse, as bits.
    #[serde(default)]
    pub was: Option<u64>,
    /// The thread that made a call that has an inverse.
    #[serde(default)]
    pub thread: Option<ThreadId>,
    /// When the last revert began, and for whom.
    #[serde(default)]
    pub revert: Option<(Instant, Author)>,
    /// It began because the session that made the change had ended or died.
    #[serde(default)]
    pub reverted_at_end: bool,
    /// Memory that was mapped to revert it.
    pub revert_arena: Option<Arena>,
    /// The oldest change that the same write was to revert.
    pub revert_through: Option<u64>,
}

/// A line that cannot be parsed. The last one can be torn, by a crash or a full disk in the middle of a
/// write: what it announced was not done, since the target is written only after the complete line is in the
/// file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its number, from 1.
    pub line: usize,
    /// It is the last line and lacks its end.
    pub is_torn: bool,
    pub text: String,
}

/// All changes of a journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    changes: BTreeMap<u64, JournalChange>,
    lines: usize,
    /// Lines that cannot be parsed.
    pub unreadable: Vec<Unreadable>,
}

impl History {
    /// Reads the text of a journal. Never fails: lines that cannot be parsed are reported.
    pub fn parse(text: &[u8]) -> History {
        let mut history = History::default();
        history.extend(text);
        history
    }

    /// Reads further lines. A torn line is counted as read.
    pub(super) fn extend(&mut self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            let (line, is_torn) = match line.strip_suffix(b"\n") {
                Some(line) => (line, false),
                None => (line, true),
            };
            match serde_json::from_slice(line) {
                // A torn line may lack more than its newline.
                Ok(record) if !is_torn => self.record(record),
                _ if line.is_empty() => {}
                _ => {
                    let text = String::from_utf8_lossy(line).into_owned();
                    self.unreadable.push(Unreadable {
                        line: self.lines,
                        is_torn,
                        text,
                    });
                }
            }
        }
    }

    /// Adds a line whose record is known.
    pub(super) fn add(&mut self, record: JournalRecord) {
        self.lines += 1;
        self.record(record);
    }

    fn record(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Intent(intent) => {
                let change = JournalChange::announced(*intent);
                self.changes.entry(change.intent.change).or_insert(change);
            }
            JournalRecord::Outcome {
                change,
                at,
                outcome,
                hold,
                ..
            } => {
                if let Some(change) = self.changes.get_mut(&change) {
                    change.hold = hold;
                    change.applied_ns = (outcome == Outcome::Applied).then_some(at.monotonic_ns);
                    change.status = match outcome {
                        Outcome::Applied => Status::Applied,
                        Outcome::NotWritten(_) => Status::Failed,
                        Outcome::Overwritten(_) => Status::ChangedSince,
                    };
                }
            }
            JournalRecord::Returned {
                change,
                word,
                result,
                was,
                thread,
                hold,
                ..
            } => {
                if let Some(known) = self.changes.get_mut(&change) {
                    (known.hold, known.was, known.thread) = (hold, was, thread);
                }
                self.returned(change, word, result);
            }
            JournalRecord::Confirmed { change, .. } => {
                if let Some(change) = self.changes.get_mut(&change) {
                    change.confirmed = true;
                }
            }
            JournalRecord::RevertIntent {
                change,
                at,
                who,
                arena,
                through,
                at_end,
            } => {
                self.set(change, Status::RevertPending);
                if let Some(change) = self.changes.get_mut(&change) {
                    change.revert = Some((at, who));
                    change.reverted_at_end = at_end;
                    change.revert_arena = arena;
                    change.revert_through = through;
                }
            }
            JournalRecord::RevertOutcome { change, outcome, .. } => match outcome {
                RevertOutcome::Reverted => self.reverted(change),
                RevertOutcome::ChangedSince(_) => self.set(change, Status::ChangedSince),
                RevertOutcome::Failed(_) => self.set(change, Status::Applied),
            },
        }
    }

    /// A library is in force as long as it is loaded, a call with an inverse until that is made. Any other
    /// call leaves nothing to revert.
    fn returned(&mut self, change: u64, word: u64, result: String) {
        if let Some(change) = self.changes.get_mut(&change) {
            change.returned = Some(word);
            change.result = Some(result);
            change.status = match change.intent.action {
                ActionRecord::Load(_) => Status::Applied,
                _ if change.intent.action.inverse().is_some() => Status::Applied,
                _ => Status::Done,
            };
        }
    }

    fn reverted(&mut self, change: u64) {
        let through = self.changes.get(&change).and_then(|known| known.revert_through);
        let oldest = through.unwrap_or(change);
        let run = self.run_of(change).map(|(number, _)| number);
        let with_it: Vec<u64> = run.take_while(|number| *number >= oldest).collect();
        with_it
            .into_iter()
            .for_each(|number| self.set(number, Status::Reverted));
        self.set(change, Status::Reverted);
    }

    fn set(&mut self, change: u64, status: Status) {
        if let Some(change) = self.changes.get_mut(&change) {
            change.status = status;
        }
    }

    /// All changes, oldest first.
    pub fn changes(&self) -> Vec<JournalChange> {
        self.changes
            .keys()
            .filter_map(|number| self.change(*number))
            .collect()
    }

    /// All changes as recorded, oldest first, without checking whether a later one supersedes them.
    pub(crate) fn written(&self) -> impl Iterator<Item = &JournalChange> {
        self.changes.values()
    }

    /// One change. An applied change is superseded while a later change of the same variable is in force.
    pub fn change(&self, number: u64) -> Option<JournalChange> {
        let mut change = self.changes.get(&number)?.clone();
        if change.status == Status::Applied {
            let again = |later: &&JournalChange| {
                !later.status.is_over() && later.intent.action.overlaps(&change.intent.action)
            };
            let by = self
                .changes
                .range(number + 1..)
                .map(|(_, later)| later)
                .find(again);
            if let Some(by) = by {
                change.status = Status::Superseded { by: by.intent.change };
            }
        }
        Some(change)
    }

    /// The chain of sets that ends with `number`, newest first: all at the same place and sync point, each
    /// found what the one before had written. One write reverts the newest n of them: it restores what the
    /// oldest of these n had found.
    pub(crate) fn run_of(&self, number: u64) -> impl Iterator<Item = (u64, &Assignment)> {
        let mut earlier = self.changes.range(..=number).rev().map(|(_, change)| change);
        let newest = earlier.next().filter(|newest| newest.intent.change == number);
        let mut last = newest.and_then(|newest| Some((newest, set_of(newest)?)));
        std::iter::from_fn(move || {
            let (change, set) = last.take()?;
            let is_there = |known: &&JournalChange| {
                !known.status.is_over() && known.intent.action.overlaps(&change.intent.action)
            };
            last = earlier
                .find(is_there)
                .filter(|known| known.status == Status::Applied)
                .and_then(|known| Some((known, set_of(known)?)))
                .filter(|(_, known)| known.leads_to(set));
            Some((change.intent.change, set))
        })
    }

    /// The changes that may still be in force, newest first, including those that a crash left undecided.
    pub fn standing(&self) -> Vec<JournalChange> {
        let mut standing = self.changes();
        standing.retain(|change| {
            matches!(
                change.status,
                Status::Applied | Status::Pending | Status::RevertPending
            )
        });
        standing.reverse();
        standing
    }

    /// The number of the newest change; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.changes.last_key_value().map_or(0, |(number, _)| *number)
    }
}

/// The state of a pending change according to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The old value is there: not written, or reverted.
    Old,
    /// The new value is there.
    New,
    /// The program has written another value since; our result is unknown.
    Neither,
}

/// Decides by the bytes in memory: a write is one store, so it is complete or was not done.
pub fn settle(set: &Assignment, found: Bytes) -> Settled {
    match found {
        found if found == set.new => Settled::New,
        found if found == set.old => Settled::Old,
        _ => Settled::Neither,
    }
}

fn set_of(change: &JournalChange) -> Option<&Assignment> {
    match &change.intent.action {
        ActionRecord::Set(set) => Some(set),
        _ => None,
    }
}

impl JournalChange {
    /// A change with only its intent known.
    fn announced(intent: Intent) -> JournalChange {
        JournalChange {
            intent,
            status: Status::Pending,
            confirmed: false,
            applied_ns: None,
            hold: None,
            returned: None,
            result: None,
            was: None,
            thread: None,
            revert: None,
            reverted_at_end: false,
            revert_arena: None,
            revert_through: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, LinkAddress};
    use crate::author::Author;
    use crate::clock;
    use crate::journal::ChangedProcess;
    use crate::process::Pid;
    use plan::{Value, ValueType};
    use proptest::prelude::*;

    fn intent(change: u64, address: u64) -> JournalRecord {
        JournalRecord::Intent(Box::new(Intent {
            change,
            at: clock::now(),
            who: Author::current(),
            why: vec!["16 ranks share 4 CPUs".into()],
            rule: None,
            target: ChangedProcess {
                pid: Pid {
                    number: 7,
                    start_time: 9,
                },
                boot: "b".into(),
                executable: "/bin/app".into(),
            },
            action: ActionRecord::Set(Assignment {
                module: "/bin/app".into(),
                build_id: None,
                symbol: "chunk".into(),
                link_address: LinkAddress(address),
                address: Address(address),
                chain: None,
                value_type: ValueType::I32,
                old: Value::I32(1).to_bytes(),
                new: Value::I32(2).to_bytes(),
                sync: None,
                together: None,
            }),
        }))
    }

    fn outcome(change: u64, outcome: Outcome) -> JournalRecord {
        JournalRecord::Outcome {
            change,
            at: clock::now(),
            outcome,
            recovered: false,
            hold: None,
        }
    }

    fn reverted(change: u64) -> JournalRecord {
        let outcome = RevertOutcome::Reverted;
        JournalRecord::RevertOutcome {
            change,
            at: clock::now(),
            outcome,
            recovered: false,
            hold: None,
        }
    }

    fn text(records: &[JournalRecord]) -> Vec<u8> {
        let lines = records
            .iter()
            .map(|record| serde_json::to_string(record).unwrap() + "\n");
        lines.collect::<String>().into_bytes()
    }

    fn statuses(records: &[JournalRecord]) -> Vec<Status> {
        History::parse(&text(records))
            .changes()
            .iter()
            .map(|change| change.status)
            .collect()
    }

    #[test]
    fn a_change_is_pending_until_its_outcome_is_known() {
        assert_eq!(statuses(&[intent(1, 8)]), [Status::Pending]);
        assert_eq!(
            statuses(&[intent(1, 8), outcome(1, Outcome::Applied)]),
            [Status::Applied]
        );
        assert_eq!(
            statuses(&[intent(1, 8), outcome(1, Outcome::NotWritten("gone".into()))]),
            [Status::Failed]
        );
    }

    /// A set from one value to another.
    fn step(change: u64, address: u64, (old, new): (i32, i32)) -> [JournalRecord; 2] {
        let JournalRecord::Intent(mut step) = intent(change, address) else {
            panic!("it is an intent")
        };
        if let ActionRecord::Set(set) = &mut step.action {
            set.old = Value::I32(old).to_bytes();
            set.new = Value::I32(new).to_bytes();
        }
        [JournalRecord::Intent(step), outcome(change, Outcome::Applied)]
    }

    fn revert_intent(change: u64, through: Option<u64>) -> JournalRecord {
        JournalRecord::RevertIntent {
            change,
            at: clock::now(),
            who: Author::current(),
            arena: None,
            through,
            at_end: false,
        }
    }

    #[test]
    fn sets_that_follow_each_other_at_a_place_are_taken_back_by_one_write() {
        let mut records: Vec<JournalRecord> = [
            step(1, 8, (1, 2)),
            step(2, 64, (1, 9)),
            step(3, 8, (2, 3)),
            step(4, 8, (3, 1)),
            step(5, 8, (1, 4)),
        ]
        .concat();
        let run = |records: &[JournalRecord], number| -> Vec<u64> {
            let history = History::parse(&text(records));
            history.run_of(number).map(|(number, _)| number).collect()
        };
        assert_eq!(run(&records, 5), [5, 4, 3, 1]);
        records.push(revert_intent(5, Some(3)));
        assert_eq!(statuses(&records)[4], Status::RevertPending);
        records.push(reverted(5));
        let (back, there) = (Status::Reverted, Status::Applied);
        assert_eq!(statuses(&records), [there, there, back, back, back]);
        assert_eq!(run(&records, 1), [1]);
    }

    #[test]
    fn a_revert_because_its_session_ended_is_distinguished_from_an_order() {
        for at_end in [false, true] {
            let mut announced = revert_intent(1, None);
            if let JournalRecord::RevertIntent { at_end: of, .. } = &mut announced {
                *of = at_end;
            }
            let records = [&step(1, 8, (1, 2))[..], &[announced, reverted(1)]].concat();
            let changes = History::parse(&text(&records)).changes();
            assert_eq!(changes[0].reverted_at_end, at_end);
        }
    }

    #[test]
    fn a_run_ends_where_the_program_wrote_or_a_change_is_undecided() {
        let run = |records: &[JournalRecord]| -> Vec<u64> {
            let history = History::parse(&text(records));
            history.run_of(3).map(|(number, _)| number).collect()
        };
        // The third found another value than the second had written.
        let written = [step(1, 8, (1, 2)), step(2, 8, (2, 3)), step(3, 8, (7, 4))].concat();
        assert_eq!(run(&written), [3]);
        let [announced, _] = step(2, 8, (2, 3));
        let [first, applied] = step(1, 8, (1, 2));
        let third = step(3, 8, (3, 4));
        let undecided = [&[first, applied, announced][..], &third].concat();
        assert_eq!(run(&undecided), [3]);
        // A reverted change is skipped.
        let gone = [
            &step(1, 8, (1, 2))[..],
            &step(2, 8, (2, 3)),
            &[reverted(2)],
            &step(3, 8, (2, 4)),
        ];
        assert_eq!(run(&gone.concat()), [3, 1]);
    }

    #[test]
    fn a_journal_from_when_there_was_nothing_but_set_is_read() {
        let JournalRecord::Intent(now) = intent(1, 8) else {
            panic!("it is an intent")
        };
        let line = text(&[intent(1, 8)]);
        let mut fields: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let action = fields.as_object_mut().unwrap().remove("action");
        assert_eq!(action, Some("set".into()));
        let read = History::parse(format!("{fields}\n").as_bytes());
        assert_eq!(read.change(1).unwrap().intent.action, now.action);
        // An unknown action must not be parsed as a set, whatever its other fields are.
        fields["action"] = "paint".into();
        assert_eq!(
            History::parse(format!("{fields}\n").as_bytes()).unreadable.len(),
            1
        );
    }

    #[test]
    fn a_change_is_superseded_until_the_later_one_is_taken_back() {
        let mut records = vec![
            intent(1, 8),
            outcome(1, Outcome::Applied),
            intent(2, 8),
            outcome(2, Outcome::Applied),
        ];
        assert_eq!(
            statuses(&records),
            [Status::Superseded { by: 2 }, Status::Applied]
        );
        records.push(reverted(2));
        assert_eq!(statuses(&records), [Status::Applied, Status::Reverted]);
        let other_place = [
            intent(1, 8),
            outcome(1, Outcome::Applied),
            intent(2, 16),
            outcome(2, Outcome::Applied),
        ];
        assert_eq!(statuses(&other_place), [Status::Applied, Status::Applied]);
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_keeps_its_complete_lines_and_reports_the_torn_one(cut: prop::sample::Index) {
            let whole = text(&[intent(1, 8), outcome(1, Outcome::Applied), intent(2, 16)]);
            let part = &whole[..cut.index(whole.len())];
            let history = History::parse(part);
            let ends = part.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(history.changes().len(), [0, 1, 1][ends]);
            let is_torn = part.last().is_some_and(|byte| *byte != b'\n');
            prop_assert_eq!(history.unreadable.iter().any(|line| line.is_torn), is_torn);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            let _ = History::parse(&bytes);
        }

        #[test]
        fn damage_in_the_middle_costs_only_its_line(at: prop::sample::Index) {
            let first = text(&[intent(1, 8)]);
            let mut bytes = first.clone();
            let place = at.index(first.len() - 1);
            bytes[place] = 0xff;
            bytes.extend(text(&[intent(2, 16)]));
            let history = History::parse(&bytes);
            prop_assert!(history.change(2).is_some());
            prop_assert_eq!(history.unreadable.len(), 1);
        }
    }
}
