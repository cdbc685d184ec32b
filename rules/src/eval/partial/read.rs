//! The value of a fold at the close of a window, from the states of its processes.

use std::collections::BTreeMap;

use super::content::{Content, Groups};
use super::state::{AggregateState, HitPosition};
use crate::eval::rows::fix;
use crate::eval::{Context, WindowData};
use crate::folds::Intake;
use crate::hit::Hit;
use crate::term::{Field, Fold, FoldRange, Rowed, Term, Typed};
use crate::value::{Cell, Key, ProcessId, Scalar, Value, WhyMissing, boolean};

/// Why there is no value if hits were left out for lack of room.
pub(crate) const MORE_THAN_KEPT: &str = "it has more hits than are kept";

/// The combined state of a fold over all processes, before it is read.
struct Sum {
    overall: AggregateState,
    rows: BTreeMap<Key, AggregateState>,
    unchosen: Option<Box<WhyMissing>>,
    unkeyed: Option<Box<WhyMissing>>,
}

/// The value of a fold in a window.
pub(crate) fn value(context: Context<'_>, window: &WindowData, fold: &Fold) -> Value {
    let window = match fold.range {
        FoldRange::Enclosing(place) => match window.around.iter().find(|around| around.window == place) {
            Some(around) => &around.data,
            None => return Value::none("there is no window around it"),
        },
        FoldRange::Instance | FoldRange::Newest(_) | FoldRange::Run => window,
    };
    let Some(content) = window.content.as_deref() else {
        return Value::none("no window has closed");
    };
    let (Some(name), Some(intake)) = (
        content.folds.names.get(fold.probe),
        content.folds.folds.get(fold.slot),
    ) else {
        return Value::none("its hits were not gathered");
    };
    let lacking = window.lacking.get(fold.probe).and_then(Option::as_ref);
    if let (Some(reason), true) = (lacking, fold.range != FoldRange::Run) {
        return Value::none(reason.clone());
    }
    let overall = fold.range == FoldRange::Instance && !intake.waits && context.sees.is_none();
    let memory = window.folded.get(fold.slot).filter(|_| overall);
    if let Some(known) = memory.and_then(|cell| cell.get()) {
        return known.clone();
    }
    let value = match fold.range {
        FoldRange::Instance | FoldRange::Enclosing(_) => gathered(context, window, fold, intake, &[content]),
        FoldRange::Newest(hits) => {
            let (mut contents, mut enough) = (vec![content], u64::from(hits));
            let mut older = window.earlier.iter().rev();
            while let Some(newest) = contents.last() {
                enough = enough.saturating_sub(newest.hits_of(fold.slot, fold.probe));
                match older.next() {
                    Some(before) if enough > 0 => contents.push(before),
                    _ => break,
                }
            }
            gathered(context, window, fold, intake, &contents)
        }
        // An incomplete instance is left out of the run, as earlier ones are.
        FoldRange::Run => {
            let known = Some(content).filter(|_| lacking.is_none());
            let contents: Vec<&Content> = known.into_iter().chain(window.run.as_deref()).collect();
            gathered(context, window, fold, intake, &contents)
        }
    }
    .and_then(|sum| sum.read(window, fold, name, content.states_max()))
    .unwrap_or_else(Value::none);
    if let Some(memory) = memory {
        // It was empty when it was read above.
        let _ = memory.set(value.clone());
    }
    value
}

impl Content {
    /// The number of hits of a fold.
    pub(super) fn hits_of(&self, slot: usize, probe: usize) -> u64 {
        if self.folds.folds.get(slot).is_some_and(|fold| fold.waits) {
            return self.kept.get(probe).map_or(0, |kept| kept.len() as u64);
        }
        let of_probe = self.rows.iter().filter(|((_, of), _)| *of == probe);
        let at = self.folds.at(probe, slot);
        let rows = of_probe.filter_map(|(_, rows)| rows.get(at?));
        rows.map(|row| match &row.groups {
            Groups::One(state) => state.values(),
            Groups::Keyed(groups) => groups.values().map(AggregateState::values).sum(),
        })
        .sum()
    }
}

fn gathered(
    context: Context<'_>,
    window: &WindowData,
    fold: &Fold,
    intake: &Intake,
    contents: &[&Content],
) -> Result<Sum, WhyMissing> {
    let role = window.probe_roles.get(fold.probe);
    let counts = |process: ProcessId| {
        let seen = context
            .sees
            .is_none_or(|(of, one)| role != Some(&of) || process == one);
        seen && !window.excluded.contains(&process)
    };
    if contents.iter().any(|content| !content.has_room()) {
        return Err(MORE_THAN_KEPT.into());
    }
    let mut sum = Sum {
        overall: intake.empty(),
        rows: BTreeMap::new(),
        unchosen: None,
        unkeyed: None,
    };
    if intake.waits {
        let kept = contents.iter().filter_map(|content| content.kept.get(fold.probe));
        let hits = kept.flatten().filter(|hit| counts(hit.process));
        sum.fold(context, fold, intake, hits);
    } else {
        let at = contents
            .first()
            .and_then(|content| content.folds.at(fold.probe, fold.slot));
        let rows = contents.iter().flat_map(|content| &content.rows);
        let rows = rows.filter(|((process, probe), _)| *probe == fold.probe && counts(*process));
        for ((process, _), rows) in rows {
            if let Some(row) = at.and_then(|at| rows.get(at)) {
                for (kept, reason) in [
                    (&mut sum.unchosen, &row.unchosen),
                    (&mut sum.unkeyed, &row.unkeyed),
                ] {
                    reason
                        .iter()
                        .for_each(|reason| WhyMissing::keep_first(kept, reason));
                }
                sum.add(fold, intake, *process, &row.groups);
            }
        }
    }
    match sum.unchosen.take().or(sum.unkeyed.take()) {
        Some(reason) => Err(*reason),
        None => Ok(sum),
    }
}

impl Sum {
    fn add(&mut self, fold: &Fold, intake: &Intake, process: ProcessId, groups: &Groups) {
        match (groups, &fold.by) {
            // None of its hits was selected. Members get a row elsewhere.
            (Groups::One(state), Some(_)) if state.values() == 0 => {}
            (Groups::One(state), Some(_)) => self.row(intake, Key::Process(process)).merge(state),
            (Groups::One(state), None) => self.overall.merge(state),
            (Groups::Keyed(groups), _) => {
                for (key, state) in groups {
                    self.row(intake, key.clone()).merge(state);
                }
            }
        }
    }

    fn row(&mut self, intake: &Intake, key: Key) -> &mut AggregateState {
        self.rows.entry(key).or_insert_with(|| intake.empty())
    }

    /// Folds kept hits, with the values known at the close.
    fn fold<'h>(
        &mut self,
        context: Context<'_>,
        fold: &Fold,
        intake: &Intake,
        hits: impl Iterator<Item = &'h Hit>,
    ) {
        let fixed = |term: &Typed| fix(context, term);
        let (of, second, filter) = (
            fold.of.as_ref().map(fixed),
            fold.second.as_ref().map(fixed),
            fold.filter.as_ref().map(fixed),
        );
        let by = match &fold.by {
            Some(Rowed::By(by)) => Some(Some(fixed(by))),
            Some(Rowed::ByProcess) => Some(None),
            None => None,
        };
        for hit in hits {
            let each = |term: &Typed| context.of_hit(hit).eval(term).single();
            let chosen = filter
                .as_ref()
                .map(|filter| each(filter).and_then(|cell| boolean(&cell)));
            match chosen {
                Some(Ok(false)) => continue,
                Some(Err(reason)) => {
                    WhyMissing::keep_first(&mut self.unchosen, &reason);
                    continue;
                }
                Some(Ok(true)) | None => {}
            }
            let state = match &by {
                None => &mut self.overall,
                Some(None) => self.row(intake, Key::Process(hit.process)),
                Some(Some(by)) => match each(by) {
                    Ok(key) => self.row(intake, Key::of(&key)),
                    Err(reason) => {
                        WhyMissing::keep_first(&mut self.unkeyed, &reason);
                        continue;
                    }
                },
            };
            match &of {
                None => state.count(),
                Some(of) if second.is_none() && matches!(of.term, Term::Field(Field::Duration)) => {
                    state.add_duration(hit.duration_ns, HitPosition::of(hit));
                }
                Some(of) => state.add(each(of), second.as_ref().map(&each), HitPosition::of(hit)),
            }
        }
    }

    fn read(
        mut self,
        window: &WindowData,
        fold: &Fold,
        name: &str,
        rows_max: usize,
    ) -> Result<Value, WhyMissing> {
        let never = || Err(format!("{name} was hit 0 times in the window").into());
        let cell = |state: &AggregateState| -> Cell { state.read(fold.reduction).unwrap_or_else(never) };
        if fold.by.is_none() {
            return Ok(Value::Single(cell(&self.overall)));
        }
        if matches!(fold.by, Some(Rowed::ByProcess)) {
            for process in window.members(fold.probe) {
                let empty = || AggregateState::new(fold.reduction, false);
                self.rows.entry(Key::Process(process)).or_insert_with(empty);
            }
        }
        if self.rows.len() > rows_max {
            return Err(format!("it has more than {rows_max} rows").into());
        }
        let rows = self.rows.iter();
        Ok(Value::Table(
            rows.map(|(key, state)| (key.clone(), cell(state))).collect(),
        ))
    }
}

/// The fold of ordered values, such as the rows of a table.
pub(crate) fn of_values(reduction: crate::function::Reduction, values: &[Scalar]) -> Option<Cell> {
    let mut state = AggregateState::new(reduction, false);
    for (number, value) in (0..).zip(values) {
        match value {
            Scalar::Number(value) => state.add_number(*value, HitPosition::number(number)),
            other => state.add(Ok(other.clone()), None, HitPosition::number(number)),
        }
    }
    state.read(reduction)
}
