//! The folds of a window as data: what is aggregated while it is open.

use crate::function::Reduction;
use crate::term::{Field, Fold, Rowed, Term, Typed};

/// The index of a fold that has no place in a window yet.
pub(crate) const NOWHERE: usize = usize::MAX;

/// A fold, prepared for the intake of hits.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    pub(crate) reduction: Reduction,
    pub(crate) of: Source,
    pub(crate) second: Option<Typed>,
    pub(crate) filter: Option<Typed>,
    /// The keys of its rows, unless they are processes.
    pub(crate) by: Option<Typed>,
    /// The fold waits for the close, and its hits are kept.
    pub(crate) waits: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WindowFolds {
    pub(crate) folds: Vec<Intake>,
    /// The checked folds, each with the number of formulas that use it.
    pub(crate) gathered: Vec<(Fold, usize)>,
    /// For each probe, then each join, its name.
    pub(crate) names: Vec<String>,
    /// For each probe, the folds that are updated at its hits.
    pub(crate) of_probe: Vec<Vec<usize>>,
    /// For each probe, whether its hits are kept.
    pub(crate) keeps: Vec<bool>,
    /// The folds over the newest hits: fold, probe, and number of hits.
    pub(crate) newest: Vec<(usize, usize, u32)>,
    /// Whether there is a fold over every instance.
    pub(crate) runs: bool,
}

impl WindowFolds {
    /// The folds, each with the number of formulas that use it.
    pub(crate) fn gathered(&self) -> impl Iterator<Item = (&Fold, usize)> {
        self.gathered.iter().map(|(fold, uses)| (fold, *uses))
    }

    /// Whether a fold over hits of the probe has a row for each process.
    pub(crate) fn has_row_of_each(&self, probe: usize) -> bool {
        let mut of_probe = self.gathered.iter().filter(|(fold, _)| fold.probe == probe);
        of_probe.any(|(fold, _)| matches!(fold.by, Some(Rowed::ByProcess)))
    }

    /// Whether a fold of the window goes over hits of the probe.
    pub(crate) fn uses(&self, probe: usize) -> bool {
        self.keeps(probe) || self.of_probe.get(probe).is_some_and(|of| !of.is_empty())
    }

    /// The index of a fold among those of its probe that are updated at hits.
    pub(crate) fn at(&self, probe: usize, slot: usize) -> Option<usize> {
        self.of_probe.get(probe)?.iter().position(|index| *index == slot)
    }

    /// Whether the probe's hits are kept until the close.
    pub(crate) fn keeps(&self, probe: usize) -> bool {
        self.keeps.get(probe) == Some(&true)
    }
}

impl Intake {
    pub(crate) fn of(fold: &Fold) -> Intake {
        let by = match &fold.by {
            Some(Rowed::By(by)) => Some(by.clone()),
            Some(Rowed::ByProcess) | None => None,
        };
        Intake {
            reduction: fold.reduction,
            of: Source::of(fold),
            second: fold.second.clone(),
            filter: fold.filter.clone(),
            by,
            waits: waits(fold),
        }
    }
}

/// The value of each hit that is folded.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Hits,
    Duration,
    Value(Typed),
}

impl Source {
    pub(crate) fn of(fold: &Fold) -> Source {
        match &fold.of {
            None => Source::Hits,
            Some(of) if matches!(of.term, Term::Field(Field::Duration)) => Source::Duration,
            Some(of) => Source::Value(of.clone()),
        }
    }
}

/// Whether a fold depends on values known only at the close of the window, so that it cannot be updated at
/// hits.
pub(crate) fn waits(fold: &Fold) -> bool {
    let by = match &fold.by {
        Some(Rowed::By(by)) => Some(by),
        Some(Rowed::ByProcess) | None => None,
    };
    let mut parts = [&fold.of, &fold.second, &fold.filter]
        .into_iter()
        .filter_map(Option::as_ref)
        .chain(by);
    !parts.all(|part| of_hit_alone(part, false))
}

/// `called` inside a metric with a parameter, which has variables of its own.
fn of_hit_alone(of: &Typed, called: bool) -> bool {
    let known = match &of.term {
        Term::Call { body, .. } => of_hit_alone(body, true),
        Term::Variable(_) | Term::Each { .. } => called,
        Term::Constant(_)
        | Term::Field(_)
        | Term::Known(_)
        | Term::Negate(_)
        | Term::Not(_)
        | Term::Arithmetic(..)
        | Term::Both(..)
        | Term::Either(..)
        | Term::Compare { .. }
        | Term::Reduce(..)
        | Term::Apply(..) => true,
        _ => false,
    };
    known && of.children().into_iter().all(|part| of_hit_alone(part, called))
}
