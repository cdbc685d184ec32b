//! Which probes' hits may be aggregated at the probe and why others may not, and which of the others must be
//! waited for. [`super::pending_sums`] places the aggregates.

use super::keyed_intake::{ByKey, is_looked_at};
use super::not_summed::NotSummed;
use crate::function::Reduction;
use crate::partial_sum::{Grouping, PlannedSum, SummedValue, VALUES_MAX};
use crate::plan::Delivery;
use crate::read::{Base, Layout};
use crate::rule::{CheckedRule, Trigger};
use crate::target::Site;
use crate::term::{Field, Fold, Rowed, Statistic, Term, Typed};
use crate::value::Scalar;
use crate::window::{Boundaries, Straddle, Window};

impl CheckedRule {
    /// Aggregates the hits of probes that no formula needs one by one, and marks the other probes that must
    /// be waited for.
    pub(crate) fn plan_sums(&mut self) {
        let by_key = ByKey::of(self);
        let partial_sums = (0..self.probes.len()).map(|probe| self.partial_sum(probe, &by_key).ok());
        let partial_sums: Vec<Option<PlannedSum>> = partial_sums.collect();
        let summed = |probe: usize| partial_sums.get(probe).is_some_and(Option::is_some);
        let windows = self.windows.iter().zip(&self.folds);
        let parted = windows
            .filter(|(_, folds)| (0..partial_sums.len()).any(|probe| summed(probe) && folds.uses(probe)));
        let boundaries: Vec<usize> = parted
            .filter_map(|(window, _)| window.boundaries())
            .flat_map(|boundaries| boundaries.begins_at().into_iter().chain(boundaries.to))
            .collect();
        let decides: Vec<bool> = (0..self.probes.len())
            .map(|probe| self.decides_at(probe))
            .collect();
        for (index, (planned, partial_sum)) in self.plan.probes.iter_mut().zip(partial_sums).enumerate() {
            planned.parts_sums = boundaries.contains(&index);
            planned.decides = decides.get(index) == Some(&true);
            if partial_sum.is_some() {
                planned.delivers = Delivery::PartialSums;
                planned.partial_sum = partial_sum;
            }
        }
    }

    /// Whether something may become due at a probe's hits, or at pairs that contain them.
    fn decides_at(&self, probe: usize) -> bool {
        let pairs = self.joins.iter().zip(self.probes.len()..);
        let of_probe = pairs.filter(|(join, _)| join.of.0 == probe || join.of.1 == probe);
        let mut indices = std::iter::once(probe).chain(of_probe.map(|(_, index)| index));
        indices.any(|index| self.may_close_with(index) || self.is_trigger(index))
    }

    pub(super) fn is_paired(&self, probe: usize) -> bool {
        let mut joins = self.joins.iter();
        joins.any(|join| join.of.0 == probe || join.of.1 == probe)
    }

    fn is_trigger(&self, probe: usize) -> bool {
        let mut triggers = self.tunes.iter().map(|tune| tune.trigger);
        triggers.any(|trigger| matches!(trigger, Trigger::Hit { probe: at, .. } if at == probe))
    }

    /// Whether windows close with hits of a probe, or whether a window that does not close at an end hit
    /// alone uses them.
    fn may_close_with(&self, probe: usize) -> bool {
        let mut windows = self.windows.iter().zip(&self.folds).enumerate();
        windows.any(|(index, (window, folds))| {
            window.boundaries().is_some_and(|boundaries| {
                let has_to_do = || folds.uses(probe) || is_looked_at(self, index, boundaries, probe);
                match is_plain(boundaries, self.probes.len()) {
                    true => boundaries.closes_at() == Some(probe),
                    false => boundaries.are_at(probe) || has_to_do(),
                }
            })
        })
    }

    /// The aggregates of a probe's hits, or why each hit is needed.
    pub(super) fn partial_sum(&self, probe: usize, by_key: &ByKey) -> Result<PlannedSum, NotSummed> {
        let planned = self.plan.probes.get(probe).ok_or(NotSummed::IsPair)?;
        if !planned.delivers.are_hits() {
            return Err(NotSummed::TotalsAreEnough);
        }
        if planned.to.is_some() {
            return Err(NotSummed::IsOfSpans);
        }
        if planned.is_switched {
            return Err(NotSummed::IsSwitched);
        }
        if planned
            .captures
            .iter()
            .any(|capture| matches!(capture.layout, Some(Layout::Str(_))))
        {
            return Err(NotSummed::HasText);
        }
        if self.is_of_time(probe) {
            return Err(NotSummed::BetweenTotals);
        }
        if self.is_paired(probe) {
            return Err(NotSummed::IsPaired);
        }
        if self.is_trigger(probe) {
            return Err(NotSummed::TriggersTune);
        }
        self.closes_at_hits(probe)?;
        let by = match by_key.windows(probe) {
            Some(windows) => Grouping::Read(self.common_key(probe, windows)?),
            None => self.by_epoch(probe)?,
        };
        let folds = self.folds.iter().flat_map(|folds| folds.gathered());
        let folds = folds.filter(|(fold, _)| fold.probe == probe);
        let mut values = Vec::new();
        for (fold, _) in folds {
            let value = self.aggregated(fold)?;
            values.extend(value.filter(|value| !values.contains(value)));
        }
        if values.len() > VALUES_MAX {
            return Err(NotSummed::TooManyValues);
        }
        Ok(PlannedSum { by, values })
    }

    /// Whether a timed window needs its hits.
    fn is_of_time(&self, probe: usize) -> bool {
        let windows = self.windows.iter().zip(&self.folds);
        let mut folded = windows.filter(|(window, folds)| window.boundaries().is_none() && folds.uses(probe));
        let mut extremes = false;
        for formula in (0..self.windows.len()).flat_map(|index| self.formulas_of(index)) {
            formula.visit(&mut |term| {
                let is_extreme = |statistic: &Statistic| matches!(statistic, Statistic::Min | Statistic::Max);
                extremes |= matches!(term, Term::Hits { probe: of, statistic, .. } if *of == probe && is_extreme(statistic));
            });
        }
        folded.next().is_some() || extremes
    }

    /// Whether every window that folds its hits closes at boundary hits, which determine when to read the
    /// aggregate.
    fn closes_at_hits(&self, probe: usize) -> Result<(), NotSummed> {
        for (index, (window, folds)) in self.windows.iter().zip(&self.folds).enumerate() {
            let Some(boundaries) = window.boundaries() else {
                continue;
            };
            if boundaries.are_at(probe) {
                return Err(NotSummed::IsBoundary);
            }
            if is_looked_at(self, index, boundaries, probe) {
                return Err(NotSummed::IsLookedAt);
            }
            if folds.keeps(probe) {
                return Err(NotSummed::NeedsClose);
            }
            if folds.uses(probe) && self.is_bounded_by_loop(boundaries) {
                return Err(NotSummed::IsOfLoop);
            }
            if folds.uses(probe) && !is_plain(boundaries, self.probes.len()) {
                return Err(NotSummed::NoEndAlone);
            }
        }
        Ok(())
    }

    /// The read that is the key of all windows that fold hits of a probe.
    fn common_key(&self, probe: usize, windows: &[(usize, usize)]) -> Result<usize, NotSummed> {
        let mut captures = windows.iter().map(|(_, capture)| *capture);
        let first = captures.next().ok_or(NotSummed::NotFolded)?;
        if captures.any(|capture| capture != first) {
            return Err(NotSummed::SeveralKeys);
        }
        self.integer_read(probe, first).ok_or(NotSummed::KeyIsNoInteger)
    }

    /// Hits without a key belong to the time between two boundary hits, if those are of the same process.
    fn by_epoch(&self, probe: usize) -> Result<Grouping, NotSummed> {
        let role = self.probes.get(probe).map(|probe| probe.role);
        let windows = self.windows.iter().zip(&self.folds);
        let windows = windows.filter(|(_, folds)| folds.uses(probe));
        for boundaries in windows.filter_map(|(window, _)| window.boundaries()) {
            let mut ends = boundaries.begins_at().into_iter().chain(boundaries.to);
            if !ends.all(|end| self.probes.get(end).map(|end| end.role) == role) {
                return Err(NotSummed::IsOfOtherProcess);
            }
            if boundaries.keys.get(probe).copied().flatten().is_some() {
                return Err(NotSummed::HasKey);
            }
        }
        Ok(Grouping::Epoch)
    }

    /// Whether a fold of the probe's hits prevents their aggregation.
    pub(super) fn is_of_fold(&self, probe: usize, why: NotSummed) -> bool {
        let mut folds = self.folds.iter().flat_map(|folds| folds.gathered());
        folds.any(|(fold, _)| fold.probe == probe && self.aggregated(fold) == Err(why))
    }

    /// The value of each hit that a fold sums; `None` if it counts hits.
    pub(super) fn aggregated(&self, fold: &Fold) -> Result<Option<SummedValue>, NotSummed> {
        let is_added = matches!(
            fold.reduction,
            Reduction::Count
                | Reduction::Sum
                | Reduction::Mean
                | Reduction::Stddev
                | Reduction::Min
                | Reduction::Max
        );
        if !is_added || fold.second.is_some() {
            return Err(NotSummed::OtherReduction);
        }
        if fold.filter.is_some() {
            return Err(NotSummed::HasCondition);
        }
        if matches!(fold.by, Some(Rowed::By(_))) {
            return Err(NotSummed::OtherRows);
        }
        let has_duration = self
            .probes
            .get(fold.probe)
            .is_some_and(|probe| probe.site != Site::Entry);
        let value = |of: &Typed| match of.term {
            Term::Field(Field::Duration) if has_duration => Some(SummedValue::Duration),
            Term::Field(Field::Capture(index)) => self.integer_read(fold.probe, index).map(SummedValue::Read),
            _ => None,
        };
        match &fold.of {
            None => Ok(None),
            Some(of) => value(of).map(Some).ok_or(NotSummed::OtherValue),
        }
    }

    /// The read of a capture, if it is an integer without conversion, or may be: types from the debug
    /// information are known when the probe is attached.
    pub(super) fn integer_read(&self, probe: usize, index: usize) -> Option<usize> {
        use syntax::ast::Operator;
        let probe = self.probes.get(probe)?;
        let one = |term: &Term| matches!(term, Term::Constant(Scalar::Number(factor)) if *factor == 1.0);
        let read = match &probe.captures.get(index)?.1.term {
            Term::Read(at) => *at,
            Term::Arithmetic(Operator::Multiply, left, right) => match (&left.term, &right.term) {
                (Term::Read(at), factor) | (factor, Term::Read(at)) if one(factor) => *at,
                _ => return None,
            },
            _ => return None,
        };
        let planned = probe.reads.get(read)?;
        let is_complete = !matches!(
            planned.layout,
            Some(Layout::F32 | Layout::F64 | Layout::Bool | Layout::Str(_))
        );
        (is_complete && !matches!(planned.source.base, Base::Known(_))).then_some(read)
    }
}

/// Begun and ended only by hits of probes.
fn is_plain(boundaries: &Boundaries, probes: usize) -> bool {
    let ends = || boundaries.begins_at().into_iter().chain(boundaries.to);
    boundaries.from.len() == 1
        && boundaries.begins_at().is_some()
        && ends().all(|probe| probe < probes)
        && boundaries.until.is_none()
        && boundaries.within.is_none()
        && boundaries.complete.is_empty()
        && boundaries.straddle == Straddle::End
}

/// The windows from probe to probe that fold the hits of a probe.
pub(super) fn folds_in<'r>(rule: &'r CheckedRule, probe: usize) -> impl Iterator<Item = usize> + 'r {
    let windows = rule.windows.iter().zip(&rule.folds).enumerate();
    let uses =
        move |(_, (window, folds)): &(usize, (&Window, &std::sync::Arc<crate::folds::WindowFolds>))| {
            window.boundaries().is_some() && folds.uses(probe)
        };
    windows.filter(uses).map(|(index, _)| index)
}
