//! Statistics of repeated measurements: median, spread, confidence intervals.

use std::fmt;

/// Median, minimum and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// Returns `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        Some(Spread {
            least: quantile(values, 0.0)?,
            median: quantile(values, 0.5)?,
            greatest: quantile(values, 1.0)?,
            count: values.len(),
        })
    }

    /// NaN without values, such as for a scenario that the quick form omits.
    pub(crate) fn or_nan(values: &[f64]) -> Spread {
        Spread::of(values).unwrap_or(Spread::exactly(f64::NAN))
    }

    /// The spread in units of `value`.
    pub(crate) fn over(self, value: f64) -> Spread {
        Spread {
            least: self.least / value,
            median: self.median / value,
            greatest: self.greatest / value,
            ..self
        }
    }

    /// A value without spread that was not measured here.
    pub(crate) fn exactly(value: f64) -> Spread {
        Spread {
            least: value,
            median: value,
            greatest: value,
            count: 1,
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = figure(self.median);
        if self.count < 2 {
            return f.write_str(&median);
        }
        write!(
            f,
            "{median} ({} to {})",
            figure(self.least),
            figure(self.greatest)
        )
    }
}

/// Quantile with linear interpolation, the default of R and NumPy.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted.get(below)?, sorted.get(above)?);
    Some(low + (high - low) * (place - place.floor()))
}

/// Upper bound of the median with 95 % confidence, for any distribution: an order statistic of the values.
/// `None` for fewer than five values.
pub(crate) fn median_below(values: &[f64]) -> Option<f64> {
    let (sorted, place) = bounded(values, 0.05)?;
    sorted.get(place).copied()
}

/// Confidence interval (95 %) of the median, for any distribution. `None` for fewer than six values.
pub(crate) fn median_between(values: &[f64]) -> Option<(f64, f64)> {
    let (sorted, place) = bounded(values, 0.025)?;
    let high = sorted.get(place)?;
    Some((*sorted.get(sorted.len() - 1 - place)?, *high))
}

/// Sorted values, and the smallest index whose value is below the true median with at most the probability
/// `most`. `None` if no value is.
fn bounded(values: &[f64], most: f64) -> Option<(Vec<f64>, usize)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // Probability that all values up to `place` lie below the median: at least `place` heads in `count` coin
    // tosses.
    let (mut chance, mut ways, mut place) = (0.0, 0.5_f64.powi(i32::try_from(count).ok()?), count);
    while place > 0 {
        chance += ways;
        if chance > most {
            break;
        }
        ways *= place as f64 / (count - place + 1) as f64;
        place -= 1;
    }
    (place < count).then_some((sorted, place))
}

/// Formats three digits, which is the accuracy of these measurements.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Decrease from `before` to `now` in percent.
pub(crate) fn less(now: f64, before: f64) -> f64 {
    100.0 * (1.0 - now / before)
}

/// Change from `before` to `now` in percent, as text.
pub(crate) fn change(now: f64, before: f64) -> String {
    format!("{:+.1} %", 0.0 - less(now, before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_between_two_where_there_is_no_middle() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[4.0]), Some(Spread::exactly(4.0)));
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.least, spread.median, spread.greatest), (1.0, 2.5, 4.0));
        assert_eq!(spread.to_string(), "2.50 (1.00 to 4.00)");
        assert_eq!(quantile(&[0.0, 10.0], 0.99), Some(9.9));
    }

    #[test]
    fn the_bound_of_a_median_is_that_of_the_sign_test() {
        let first = |count: usize| (1..=count).map(|value| value as f64).collect::<Vec<_>>();
        for (count, bound) in [
            (4, None),
            (5, Some(5.0)),
            (8, Some(7.0)),
            (10, Some(9.0)),
            (12, Some(10.0)),
        ] {
            assert_eq!(median_below(&first(count)), bound, "{count} values");
        }
    }

    #[test]
    fn the_bounds_of_a_median_leave_out_as_many_values_at_both_ends() {
        let first = |count: usize| (1..=count).map(|value| value as f64).collect::<Vec<_>>();
        for (count, bounds) in [
            (5, None),
            (6, Some((1.0, 6.0))),
            (10, Some((2.0, 9.0))),
            (100, Some((40.0, 61.0))),
        ] {
            assert_eq!(median_between(&first(count)), bounds, "{count} values");
        }
    }

    #[test]
    fn the_gain_is_of_the_time_before() {
        assert_eq!(less(75.0, 100.0), 25.0);
        assert_eq!(less(110.0, 100.0).round(), -10.0);
    }
}
