//! Begin and end of an instance in each process that hit its boundaries.
//!
//! Start, end and whether it goes on are kept up to date at each boundary hit: they are read at most hits, and
//! every rank of a job may hit the boundaries.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::value::{ProcessId, Time};

/// Begin and, once known, end of an instance in one process.
pub(super) type Span = (Time, Option<Time>);

/// The spans of an instance by process. There is at least one.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    spans: BTreeMap<ProcessId, Span>,
    start: Time,
    /// The last of the ends that are known.
    last_end: Time,
    /// The number of processes in which it has not ended.
    unfinished: usize,
}

impl Extent {
    /// Begins in one process.
    pub(super) fn new(process: ProcessId, start: Time) -> Extent {
        Extent {
            spans: [(process, (start, None))].into(),
            start,
            last_end: Time::default(),
            unfinished: 1,
        }
    }

    /// Begins in a process in which it had not begun.
    pub(super) fn begin(&mut self, process: ProcessId, start: Time) {
        if let Entry::Vacant(index) = self.spans.entry(process) {
            index.insert((start, None));
            self.unfinished += 1;
            self.start = self.start.min(start);
        }
    }

    /// Ends in a process; false if it had not begun there or had ended.
    pub(super) fn end_in(&mut self, process: ProcessId, time: Time) -> bool {
        let Some((_, end @ None)) = self.spans.get_mut(&process) else {
            return false;
        };
        *end = Some(time);
        self.unfinished -= 1;
        self.last_end = self.last_end.max(time);
        true
    }

    /// Ends wherever it has not ended.
    pub(super) fn end_everywhere(&mut self, time: Time) {
        if self.unfinished > 0 {
            self.spans.values_mut().for_each(|(_, end)| {
                end.get_or_insert(time);
            });
            self.unfinished = 0;
            self.last_end = self.last_end.max(time);
        }
    }

    pub(super) fn start(&self) -> Time {
        self.start
    }

    /// When it ended in the last of its processes; `None` while it continues in one.
    pub(super) fn end(&self) -> Option<Time> {
        (self.unfinished == 0).then_some(self.last_end)
    }

    pub(super) fn of(&self, process: ProcessId) -> Option<Span> {
        self.spans.get(&process).copied()
    }

    /// The span of the process with the smallest number.
    pub(super) fn first(&self) -> Option<(ProcessId, Span)> {
        self.spans
            .first_key_value()
            .map(|(process, span)| (*process, *span))
    }

    /// In the order of the processes.
    pub(super) fn spans(&self) -> &BTreeMap<ProcessId, Span> {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Boundary {
        Begin,
        End,
        EndEverywhere,
    }

    fn boundary() -> impl Strategy<Value = (Boundary, u32, u64)> {
        let kind = prop_oneof![
            4 => Just(Boundary::Begin),
            4 => Just(Boundary::End),
            1 => Just(Boundary::EndEverywhere)
        ];
        (kind, 0u32..4, 0u64..50)
    }

    proptest! {
        #[test]
        fn start_and_end_are_those_of_all_spans(boundaries in prop::collection::vec(boundary(), 0..20)) {
            let mut extent = Extent::new(ProcessId(0), Time(25));
            for (kind, process, time) in boundaries {
                let (process, time) = (ProcessId(process), Time(time));
                let goes_on = matches!(extent.of(process), Some((_, None)));
                match kind {
                    Boundary::Begin => extent.begin(process, time),
                    Boundary::End => prop_assert_eq!(extent.end_in(process, time), goes_on),
                    Boundary::EndEverywhere => extent.end_everywhere(time),
                }
                let spans = || extent.spans().values();
                prop_assert_eq!(Some(extent.start()), spans().map(|(start, _)| *start).min());
                let ends: Option<Vec<Time>> = spans().map(|(_, end)| *end).collect();
                prop_assert_eq!(extent.end(), ends.and_then(|ends| ends.into_iter().max()));
            }
        }
    }
}
