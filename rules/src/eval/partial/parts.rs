//! A content as a list of items, for messages between machines. No items have kept hits: their folds are not
//! computed on the nodes.

use serde::{Deserialize, Serialize};

use super::content::{Content, Groups, ProcessFold};
use crate::folds::WindowFolds;
use crate::value::{Key, ProcessId};

use super::state::AggregateState;

/// Entries of a node of a B-tree.
const NODE: usize = 11;

/// A fold of a content in one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ContentPart {
    process: ProcessId,
    probe: usize,
    fold: ProcessFold,
}

impl ContentPart {
    /// Bytes of its memory, at most; `None` if no hits can have led to it.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let states: Vec<&AggregateState> = match &self.fold.groups {
            Groups::One(state) => vec![state],
            Groups::Keyed(groups) => groups.values().collect(),
        };
        let rows = match &self.fold.groups {
            Groups::Keyed(groups) if !groups.is_empty() => 2 * groups.len() + NODE,
            Groups::One(_) | Groups::Keyed(_) => 0,
        };
        let text = |key: &Key| match key {
            Key::Text(text) => text.len(),
            Key::Process(_) | Key::Boolean(_) | Key::Number(_) => 0,
        };
        let keys: usize = match &self.fold.groups {
            Groups::One(_) => 0,
            Groups::Keyed(groups) => groups.keys().map(text).sum(),
        };
        let reasons = self.fold.unchosen.iter().chain(&self.fold.unkeyed);
        let reasons: usize = reasons.map(|reason| reason.bytes()).sum();
        let heap: usize = states.iter().map(|state| state.heap_bytes()).sum();
        let all =
            size_of::<ContentPart>() + rows * size_of::<(Key, AggregateState)>() + heap + keys + reasons;
        states.iter().all(|state| state.is_sound()).then_some(all)
    }
}

impl Content {
    pub(crate) fn parts(&self) -> impl Iterator<Item = ContentPart> {
        let part = |((process, probe), fold): (&(ProcessId, usize), &ProcessFold)| ContentPart {
            process: *process,
            probe: *probe,
            fold: fold.clone(),
        };
        let rows = self.rows.iter();
        rows.flat_map(move |(of, folds)| folds.iter().map(move |fold| part((of, fold))))
    }

    /// The content of `hits` hits with these parts; `None` if their order is not that of [`Content::parts`].
    pub(crate) fn of_parts(hits: u64, is_truncated: bool, parts: Vec<ContentPart>) -> Option<Content> {
        let mut content = Content {
            hits: usize::try_from(hits).ok()?,
            is_truncated,
            ..Content::default()
        };
        for ContentPart { process, probe, fold } in parts {
            content.states += fold.states();
            match content.rows.last_mut() {
                Some((of, folds)) if *of == (process, probe) => folds.push(fold),
                Some((of, _)) if *of > (process, probe) => return None,
                _ => content.rows.push(((process, probe), vec![fold])),
            }
        }
        Some(content)
    }

    /// Whether it has the folds of this window, so that it can be merged into a content of it.
    pub(crate) fn fits(&self, folds: &WindowFolds) -> bool {
        self.rows.iter().all(|((_, probe), rows)| {
            let of_probe = folds.of_probe.get(*probe).map_or(&[][..], Vec::as_slice);
            let intakes = of_probe.iter().filter_map(|place| folds.folds.get(*place));
            let is_of = |(row, intake): (&ProcessFold, &crate::folds::Intake)| match &row.groups {
                Groups::One(state) => intake.by.is_none() && state.is_like(&intake.empty()),
                Groups::Keyed(groups) => {
                    let empty = intake.empty();
                    intake.by.is_some() && groups.values().all(|state| state.is_like(&empty))
                }
            };
            rows.len() == of_probe.len() && rows.iter().zip(intakes).all(is_of)
        })
    }
}
