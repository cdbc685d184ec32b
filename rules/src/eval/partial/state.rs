//! The state of one fold: an exact aggregate, independent of the order of its values.

use serde::{Deserialize, Serialize};

use crate::aggregate::{Finite, Integers, Merge, Numbers, Product, Quantiles, Regression, Truths, WhyNone};
use crate::folds::{Intake, Source};
use crate::function::Reduction;
use crate::hit::Hit;
use crate::partial_sum::Sums;
use crate::value::{Cell, NOT_FINITE, Ordered, ProcessId, Scalar, Time, WhyMissing, boolean, finite, number};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The position of a hit in the order of all hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HitPosition {
    time: Time,
    process: u32,
    thread: u32,
    duration_ns: u64,
}

impl HitPosition {
    pub(crate) fn of(hit: &Hit) -> HitPosition {
        let Hit {
            time,
            process: ProcessId(process),
            thread,
            duration_ns,
            ..
        } = *hit;
        HitPosition {
            time,
            process,
            thread,
            duration_ns,
        }
    }

    /// For a value without a time: its number.
    pub(crate) fn number(number: u64) -> HitPosition {
        HitPosition {
            time: Time(number),
            ..HitPosition::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AggregateState {
    values: u64,
    /// Why a value was none: of several reasons the first in lexicographic order.
    wrong: Option<Box<WhyMissing>>,
    kept: Kept,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kept {
    Nothing,
    Durations(Integers),
    Numbers(Numbers),
    Least(Option<Finite>),
    Greatest(Option<Finite>),
    First(Option<(HitPosition, Scalar)>),
    Last(Option<(HitPosition, Scalar)>),
    Only(Option<Box<(Scalar, Scalar)>>),
    Truths(Truths),
    Product(Box<Product>),
    Quantiles(Box<Quantiles>),
    Line(Box<Regression>),
}

fn text_bytes(value: &Scalar) -> usize {
    match value {
        Scalar::Text(text) => text.len(),
        Scalar::Boolean(_) | Scalar::Number(_) => 0,
    }
}

/// A total order of the values of a formula, which have one kind.
fn order(a: &Scalar, b: &Scalar) -> std::cmp::Ordering {
    let class = |value: &Scalar| match value {
        Scalar::Boolean(_) => 0,
        Scalar::Number(_) => 1,
        Scalar::Text(_) => 2,
    };
    match (a, b) {
        (Scalar::Number(a), Scalar::Number(b)) => Ordered(*a).cmp(&Ordered(*b)),
        (Scalar::Boolean(a), Scalar::Boolean(b)) => a.cmp(b),
        (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
        (a, b) => class(a).cmp(&class(b)),
    }
}

impl Intake {
    pub(super) fn empty(&self) -> AggregateState {
        AggregateState::new(self.reduction, matches!(self.of, Source::Duration))
    }
}

impl AggregateState {
    /// The empty state; `durations` if the values are nanoseconds.
    pub(crate) fn new(reduction: Reduction, durations: bool) -> AggregateState {
        let kept = match reduction {
            Reduction::Sum | Reduction::Mean | Reduction::Stddev if durations => {
                Kept::Durations(Integers::default())
            }
            Reduction::Sum | Reduction::Mean | Reduction::Stddev => Kept::Numbers(Numbers::default()),
            Reduction::Count | Reduction::ArgMin | Reduction::ArgMax => Kept::Nothing,
            Reduction::Min => Kept::Least(None),
            Reduction::Max => Kept::Greatest(None),
            Reduction::First => Kept::First(None),
            Reduction::Last => Kept::Last(None),
            Reduction::Only => Kept::Only(None),
            Reduction::Any | Reduction::All => Kept::Truths(Truths::default()),
            Reduction::Product => Kept::Product(Box::default()),
            Reduction::Quantile(_) => Kept::Quantiles(Box::default()),
            Reduction::Slope | Reduction::Intercept => Kept::Line(Box::default()),
        };
        AggregateState {
            values: 0,
            wrong: None,
            kept,
        }
    }

    /// The number of values, including those that are none.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Adds a hit that is only counted.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.values = self.values.saturating_add(1);
    }

    /// Adds a duration in nanoseconds.
    #[inline]
    pub(crate) fn add_duration(&mut self, ns: u64, place: HitPosition) {
        if let Kept::Durations(integers) = &mut self.kept {
            self.values = self.values.saturating_add(1);
            integers.add(ns);
        } else {
            self.add_number(ns as f64 / 1e9, place);
        }
    }

    #[inline]
    pub(crate) fn add_number(&mut self, value: f64, place: HitPosition) {
        match &mut self.kept {
            Kept::Numbers(numbers) => {
                self.values = self.values.saturating_add(1);
                numbers.add(value);
            }
            Kept::Quantiles(quantiles) => {
                self.values = self.values.saturating_add(1);
                quantiles.add(value);
            }
            Kept::First(Some((known, Scalar::Number(_)))) if *known < place => {
                self.values = self.values.saturating_add(1);
            }
            Kept::Last(Some((known, Scalar::Number(last)))) if *known < place => {
                self.values = self.values.saturating_add(1);
                (*known, *last) = (place, value);
            }
            _ => self.add(Ok(Scalar::Number(value)), None, place),
        }
    }

    /// Adds a value, or why it is none; `second` is the x of a regression.
    pub(crate) fn add(&mut self, value: Cell, second: Option<Cell>, place: HitPosition) {
        self.values = self.values.saturating_add(1);
        if let Err(reason) = value.and_then(|value| self.kept.add(value, second, place)) {
            self.none(&reason);
        }
    }

    /// Adds an aggregate of `count` hits; `sums` is `None` if they are only counted. Durations are in
    /// nanoseconds.
    pub(crate) fn add_partial_sum(&mut self, count: u64, sums: Option<&Sums>, durations: bool) {
        self.values = self.values.saturating_add(count);
        let Some(sums) = sums else {
            if self.kept != Kept::Nothing {
                self.none(&"it was not aggregated".into());
            }
            return;
        };
        let extreme = |value: i64| {
            Finite::new(if durations {
                value as f64 / 1e9
            } else {
                value as f64
            })
        };
        let together = Integers::from_sums(count, sums.sum, sums.squares);
        match (&mut self.kept, together) {
            (Kept::Least(least), _) => *least = extreme(sums.least).into_iter().chain(*least).min(),
            (Kept::Greatest(most), _) => *most = extreme(sums.greatest).into_iter().chain(*most).max(),
            (Kept::Durations(integers), Some(together)) => integers.merge(&together),
            (Kept::Numbers(numbers), Some(together)) => numbers.merge(&Numbers::from(together)),
            _ => self.none(&"what was aggregated of it cannot be".into()),
        }
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        match &self.kept {
            Kept::Durations(integers) => integers.is_sound(),
            Kept::Numbers(numbers) => numbers.is_sound(),
            Kept::Product(product) => product.is_sound(),
            Kept::Quantiles(values) => values.is_sound(),
            Kept::Line(points) => points.is_sound(),
            Kept::Nothing
            | Kept::Least(_)
            | Kept::Greatest(_)
            | Kept::First(_)
            | Kept::Last(_)
            | Kept::Only(_)
            | Kept::Truths(_) => true,
        }
    }

    /// Whether it is a state of the same fold as another one.
    pub(crate) fn is_like(&self, other: &AggregateState) -> bool {
        std::mem::discriminant(&self.kept) == std::mem::discriminant(&other.kept)
    }

    /// Bytes of memory beyond its own size, at most.
    pub(crate) fn heap_bytes(&self) -> usize {
        let kept = match &self.kept {
            Kept::Numbers(numbers) => numbers.heap_bytes(),
            Kept::Product(product) => size_of_val(&**product),
            Kept::Quantiles(values) => size_of_val(&**values) + values.heap_bytes(),
            Kept::Line(points) => size_of_val(&**points),
            Kept::Only(Some(ends)) => size_of_val(&**ends) + text_bytes(&ends.0) + text_bytes(&ends.1),
            Kept::First(Some((_, value))) | Kept::Last(Some((_, value))) => text_bytes(value),
            _ => 0,
        };
        kept + self.wrong.as_ref().map_or(0, |reason| reason.bytes())
    }

    fn none(&mut self, reason: &WhyMissing) {
        WhyMissing::keep_first(&mut self.wrong, reason);
    }

    pub(crate) fn merge(&mut self, other: &AggregateState) {
        self.values = self.values.saturating_add(other.values);
        if let Some(reason) = &other.wrong {
            self.none(reason);
        }
        self.kept.merge(&other.kept);
    }

    /// The value of the fold; `None` if the reduction has no value without hits.
    pub(crate) fn read(&self, reduction: Reduction) -> Option<Cell> {
        if let Some(reason) = &self.wrong {
            return Some(Err((**reason).clone()));
        }
        let with_value_of_nothing = matches!(
            reduction,
            Reduction::Count | Reduction::Sum | Reduction::Product | Reduction::Any | Reduction::All
        );
        if self.values == 0 && !with_value_of_nothing {
            return None;
        }
        Some(self.cell(reduction))
    }

    fn cell(&self, reduction: Reduction) -> Cell {
        // A single value has no spread by itself; here it counts as 0.
        let spread = |found: Result<f64, WhyNone>| if self.values == 1 { Ok(0.0) } else { found };
        match (&self.kept, reduction) {
            (Kept::Nothing, Reduction::Count) => finite(self.values as f64),
            (Kept::Durations(ns), Reduction::Sum) => reported(ns.sum_in(SECOND)),
            (Kept::Durations(ns), Reduction::Mean) => reported(ns.mean_in(SECOND)),
            (Kept::Durations(ns), Reduction::Stddev) => reported(spread(ns.stddev_in(SECOND))),
            (Kept::Numbers(numbers), Reduction::Sum) => reported(numbers.sum()),
            (Kept::Numbers(numbers), Reduction::Mean) => reported(numbers.mean()),
            (Kept::Numbers(numbers), Reduction::Stddev) => reported(spread(numbers.stddev())),
            (Kept::Least(Some(value)) | Kept::Greatest(Some(value)), _) => finite(value.get()),
            (Kept::First(Some((_, value))) | Kept::Last(Some((_, value))), _) => Ok(value.clone()),
            (Kept::Only(Some(ends)), _) if order(&ends.0, &ends.1).is_eq() => Ok(ends.0.clone()),
            (Kept::Only(Some(ends)), _) => {
                Err(format!("there is not one value, but {} and {}", ends.0, ends.1).into())
            }
            (Kept::Truths(truths), Reduction::Any) => Ok(Scalar::Boolean(truths.held() > 0)),
            (Kept::Truths(truths), Reduction::All) => Ok(Scalar::Boolean(truths.failed() == 0)),
            (Kept::Product(product), _) => reported(product.product()),
            (Kept::Quantiles(values), Reduction::Quantile(share)) => reported(values.quantile(share)),
            (Kept::Line(points), Reduction::Slope) => reported(points.line().map(|line| line.slope)),
            (Kept::Line(points), Reduction::Intercept) => reported(points.line().map(|line| line.intercept)),
            _ => Err("this cannot be folded".into()),
        }
    }
}

impl Kept {
    fn add(&mut self, value: Scalar, second: Option<Cell>, place: HitPosition) -> Result<(), WhyMissing> {
        match self {
            Kept::Nothing => {}
            // Durations are added as nanoseconds; a computed value is a number.
            Kept::Durations(_) => return Err("this cannot be folded".into()),
            Kept::Numbers(numbers) => numbers.add(number(&value)?),
            Kept::Least(least) => *least = Some(real(&value)?).into_iter().chain(*least).min(),
            Kept::Greatest(most) => *most = Some(real(&value)?).into_iter().chain(*most).max(),
            Kept::First(first) => earlier(first, place, value, false),
            Kept::Last(last) => earlier(last, place, value, true),
            Kept::Only(ends) => widen(ends, &value),
            Kept::Truths(truths) => truths.add(boolean(&value)?),
            Kept::Product(product) => product.add(number(&value)?),
            Kept::Quantiles(values) => values.add(number(&value)?),
            Kept::Line(points) => {
                let x = second.unwrap_or_else(|| Err("a hit lacks one of the two values".into()))?;
                points.add(number(&x)?, number(&value)?);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Kept) {
        match (self, other) {
            (Kept::Durations(a), Kept::Durations(b)) => a.merge(b),
            (Kept::Numbers(a), Kept::Numbers(b)) => a.merge(b),
            (Kept::Least(a), Kept::Least(b)) => *a = (*a).into_iter().chain(*b).min(),
            (Kept::Greatest(a), Kept::Greatest(b)) => *a = (*a).into_iter().chain(*b).max(),
            (Kept::First(a), Kept::First(Some((place, value)))) => earlier(a, *place, value.clone(), false),
            (Kept::Last(a), Kept::Last(Some((place, value)))) => earlier(a, *place, value.clone(), true),
            (Kept::Only(a), Kept::Only(Some(ends))) => {
                widen(a, &ends.0);
                widen(a, &ends.1);
            }
            (Kept::Truths(a), Kept::Truths(b)) => a.merge(b),
            (Kept::Product(a), Kept::Product(b)) => a.merge(b),
            (Kept::Quantiles(a), Kept::Quantiles(b)) => a.merge(b),
            (Kept::Line(a), Kept::Line(b)) => a.merge(b),
            // States of one fold have the same kind.
            _ => {}
        }
    }
}

fn real(value: &Scalar) -> Result<Finite, WhyMissing> {
    Finite::new(number(value)?).ok_or_else(|| NOT_FINITE.into())
}

/// Keeps the value of the earlier position, or of the later; at equal positions, the smaller value.
fn earlier(kept: &mut Option<(HitPosition, Scalar)>, place: HitPosition, value: Scalar, later: bool) {
    let better = match kept {
        None => true,
        Some((known, old)) => {
            let by_place = if later {
                (*known).cmp(&place)
            } else {
                place.cmp(known)
            };
            by_place.then_with(|| order(&value, old)).is_lt()
        }
    };
    if better {
        *kept = Some((place, value));
    }
}

fn widen(ends: &mut Option<Box<(Scalar, Scalar)>>, value: &Scalar) {
    match ends {
        None => *ends = Some(Box::new((value.clone(), value.clone()))),
        Some(ends) if order(value, &ends.0).is_lt() => ends.0 = value.clone(),
        Some(ends) if order(value, &ends.1).is_gt() => ends.1 = value.clone(),
        Some(_) => {}
    }
}

/// A result as a cell of a formula.
fn reported(found: Result<f64, WhyNone>) -> Cell {
    found
        .map_err(|why| match why {
            WhyNone::NotFinite(_) | WhyNone::TooLarge => NOT_FINITE.into(),
            WhyNone::SameX | WhyNone::OneValue => "a line needs two different x".into(),
            WhyNone::NoValues | WhyNone::Overflow | WhyNone::NoShare => why.to_string().into(),
        })
        .and_then(finite)
}
