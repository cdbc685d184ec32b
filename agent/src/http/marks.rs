//! Findings, changes and verdicts of a session, which browsers receive at once.

use std::collections::VecDeque;

use serde::Serialize;

/// Maximum number of marks that are kept for clients that connect again.
const MARKS_MAX: usize = 256;

/// A finding, a change or a verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LiveMark {
    /// Since the probes were armed.
    pub(crate) at_s: f64,
    /// `finding`, `change` or `verdict`.
    pub(crate) kind: &'static str,
    pub(crate) rule: String,
    pub(crate) text: String,
}

/// The newest marks of a session; each has a number, from 1 on.
#[derive(Debug, Default)]
pub(super) struct MarkHistory {
    kept: VecDeque<LiveMark>,
    /// Number of the newest one.
    newest: u64,
}

/// The marks after the newest one that a client has.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct NewMarks {
    pub(super) marks: Vec<LiveMark>,
    /// Those that are no longer kept.
    missed: u64,
    /// Number of the newest one.
    #[serde(skip)]
    pub(super) newest: u64,
}

impl MarkHistory {
    pub(super) fn push(&mut self, mark: LiveMark) {
        if self.kept.len() == MARKS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(mark);
        self.newest += 1;
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// `None` if the client has all.
    pub(super) fn after(&self, known: u64) -> Option<NewMarks> {
        let new = self.newest.checked_sub(known).filter(|new| *new > 0)?;
        let count = self.kept.len().min(usize::try_from(new).unwrap_or(usize::MAX));
        Some(NewMarks {
            marks: self.kept.range(self.kept.len() - count..).cloned().collect(),
            missed: new - count as u64,
            newest: self.newest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64) -> LiveMark {
        LiveMark {
            at_s: number as f64,
            kind: "finding",
            rule: "busy".into(),
            text: String::new(),
        }
    }

    #[test]
    fn a_client_gets_the_marks_that_it_lacks_and_the_number_of_those_that_are_gone() {
        let mut history = MarkHistory::default();
        assert_eq!(history.after(0), None);
        (1..=300).for_each(|number| history.push(mark(number)));
        for (known, first, missed) in [(299, 300, 0), (44, 45, 0), (43, 45, 1), (0, 45, 44)] {
            let new = history.after(known).unwrap();
            assert_eq!(
                (new.marks.first(), new.missed),
                (Some(&mark(first)), missed),
                "{known}"
            );
            assert_eq!((new.marks.last(), new.newest), (Some(&mark(300)), 300), "{known}");
        }
        // Nothing is new to a client that has all, or a number that was never given.
        assert_eq!((history.after(300), history.after(999)), (None, None));
    }
}
