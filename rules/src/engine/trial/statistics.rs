//! The interval of the effect of a change, from windows before and after it: Yuen's test (1974) of two
//! trimmed means with unequal variances, widened for autocorrelated windows.

/// One of this number of windows is left out at either end.
const TRIMMED_OF: usize = 5;
/// The normal quantile of 1 % in each direction.
const NORMAL: f64 = 2.326;
/// The prior correlation of a window with the next, and its weight in pairs. Determined from recorded
/// programs: docs/guard.md.
const ASSUMED: (f64, f64) = (0.5, 60.0);
const CORRELATION_MAX: f64 = 0.9;

/// Student's quantile for the normal quantile `z`: the expansion of Abramowitz and Stegun (1964), 26.7.5.
/// Unusable below two degrees of freedom, where it is too small; at two it is 2 % too small.
fn student(z: f64, freedom: f64) -> f64 {
    if freedom < 2.0 {
        return f64::INFINITY;
    }
    let powers = [z, z.powi(3), z.powi(5), z.powi(7), z.powi(9)];
    let term = |factors: &[f64], over: f64| {
        let sum: f64 = factors
            .iter()
            .zip(powers)
            .map(|(factor, power)| factor * power)
            .sum();
        sum / over
    };
    z + term(&[1.0, 1.0], 4.0) / freedom
        + term(&[3.0, 16.0, 5.0], 96.0) / freedom.powi(2)
        + term(&[-15.0, 17.0, 19.0, 3.0], 384.0) / freedom.powi(3)
        + term(&[-945.0, -1920.0, 1482.0, 776.0, 79.0], 92160.0) / freedom.powi(4)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The trimmed values of a run of windows.
pub(super) struct TrimmedSample {
    pub(super) mean: f64,
    /// The number of values left after trimming.
    left: usize,
    /// The winsorized sum of squared deviations.
    squares: f64,
    /// The winsorized deviations, in the order of the windows.
    deviations: Vec<f64>,
}

impl TrimmedSample {
    /// Trims by Tukey and McLaughlin (1963).
    pub(super) fn of(run: &[f64]) -> TrimmedSample {
        TrimmedSample::trimmed(run, run.len() / TRIMMED_OF)
    }

    /// Trims this number of values at either end.
    pub(super) fn trimmed(run: &[f64], trimmed: usize) -> TrimmedSample {
        let mut sorted = run.to_vec();
        sorted.sort_by(f64::total_cmp);
        let left = sorted.get(trimmed..sorted.len() - trimmed).unwrap_or_default();
        let (least, greatest) = match (left.first(), left.last()) {
            (Some(least), Some(greatest)) => (*least, *greatest),
            _ => (f64::NAN, f64::NAN),
        };
        let draw_in = |value: &f64| value.max(least).min(greatest);
        let centre = mean(&sorted.iter().map(draw_in).collect::<Vec<f64>>());
        let deviations: Vec<f64> = run.iter().map(|value| draw_in(value) - centre).collect();
        TrimmedSample {
            mean: mean(left),
            left: left.len(),
            squares: deviations.iter().map(|value| value.powi(2)).sum(),
            deviations,
        }
    }

    /// The interval of the mean of independent values, for this bound of Student's statistic.
    pub(super) fn interval(&self, bound: f64) -> Interval {
        let half = match self.error_squared() {
            Some(0.0) => 0.0,
            squared => bound * squared.unwrap_or(f64::NAN).sqrt(),
        };
        Interval::around(self.mean, half)
    }

    /// The square of the standard error of the mean of independent windows; `None` for a single one.
    pub(super) fn error_squared(&self) -> Option<f64> {
        (self.left > 1).then(|| self.squares / (self.left * (self.left - 1)) as f64)
    }
}

/// The 98 % confidence interval of a difference, with the difference itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
}

impl Interval {
    /// The interval of the mean after minus the mean before.
    pub(super) fn of(before: &TrimmedSample, after: &TrimmedSample) -> Interval {
        let middle = after.mean - before.mean;
        let (error_squared, freedom) = error(before, after);
        let half = match error_squared {
            0.0 => 0.0,
            squared => student(NORMAL, freedom) * (squared * inflation(before, after)).sqrt(),
        };
        Interval::around(middle, half)
    }

    fn around(middle: f64, half: f64) -> Interval {
        Interval {
            low: middle - half,
            middle,
            high: middle + half,
        }
    }
}

/// The square of the standard error of the difference, and Welch's degrees of freedom. A single window is
/// assumed to vary like the others.
fn error(before: &TrimmedSample, after: &TrimmedSample) -> (f64, f64) {
    match (before.error_squared(), after.error_squared()) {
        (Some(one), Some(other)) => {
            let sum = one + other;
            let parts = one * one / (before.left - 1) as f64 + other * other / (after.left - 1) as f64;
            (sum, sum * sum / parts)
        }
        (Some(squared), None) => (squared * (1 + before.left) as f64, (before.left - 1) as f64),
        (None, Some(squared)) => (squared * (1 + after.left) as f64, (after.left - 1) as f64),
        (None, None) => (f64::NAN, 0.0),
    }
}

/// The factor by which the variance of a mean exceeds that of independent windows, from the correlation of
/// consecutive windows.
fn inflation(before: &TrimmedSample, after: &TrimmedSample) -> f64 {
    let runs = [&before.deviations, &after.deviations];
    let count: usize = runs.iter().map(|run| run.len()).sum();
    let pairs: usize = runs.iter().map(|run| run.len().saturating_sub(1)).sum();
    let products = runs.iter().flat_map(|run| run.iter().zip(run.iter().skip(1)));
    let products: f64 = products.map(|(one, next)| one * next).sum();
    let found = products / (before.squares + after.squares) * count as f64 / pairs.max(1) as f64;
    // Correlations relative to the mean of the same few windows are biased downwards by this amount (Kendall
    // 1954).
    let each = count as f64 / 2.0;
    let unbiased = (found * each + 1.0) / (each - 3.0).max(1.0);
    let (assumed, weight) = ASSUMED;
    let pairs = pairs as f64;
    let correlation = (unbiased * pairs + assumed * weight) / (pairs + weight);
    let correlation = correlation.clamp(0.0, CORRELATION_MAX);
    (1.0 + correlation) / (1.0 - correlation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, table 26.10, for 97.5 and 99 %.
    #[test]
    fn students_quantile_is_that_of_published_tables() {
        let published = [
            (
                1.959_964,
                [
                    (2.0, 4.303),
                    (3.0, 3.182),
                    (4.0, 2.776),
                    (5.0, 2.571),
                    (10.0, 2.228),
                    (30.0, 2.042),
                ],
            ),
            (
                2.326_348,
                [
                    (2.0, 6.965),
                    (3.0, 4.541),
                    (4.0, 3.747),
                    (5.0, 3.365),
                    (10.0, 2.764),
                    (30.0, 2.457),
                ],
            ),
        ];
        for (z, quantiles) in published {
            for (freedom, quantile) in quantiles {
                let found: f64 = student(z, freedom);
                assert!(
                    (found / quantile - 1.0).abs() < 0.03,
                    "{freedom}: {found} {quantile}"
                );
            }
        }
        assert_eq!(student(NORMAL, 1.9), f64::INFINITY);
    }

    #[test]
    fn the_interval_is_that_of_yuens_test() {
        // The order makes the windows uncorrelated, so that only the assumed correlation widens the interval.
        let (before, after) = ([1.0, 3.0, 2.0, 4.0, 0.0], [11.0, 13.0, 12.0, 14.0, 10.0]);
        let found = Interval::of(&TrimmedSample::of(&before), &TrimmedSample::of(&after));
        assert_eq!(found.middle, 10.0);
        // Winsorized to 1, 3, 2, 3, 1: squares 4, of the mean of three 4 / 6, twice; four degrees of freedom.
        let (error, freedom) = error(&TrimmedSample::of(&before), &TrimmedSample::of(&after));
        assert!((error - 4.0 / 3.0).abs() < 1e-9 && (freedom - 4.0).abs() < 1e-9);
        assert!((found.high - found.middle - (found.middle - found.low)).abs() < 1e-9);
    }

    #[test]
    fn windows_that_follow_each_other_widen_the_interval() {
        let up: Vec<f64> = (0..40).map(f64::from).collect();
        let mixed: Vec<f64> = (0..40).map(|number| f64::from(number * 17 % 40)).collect();
        let width =
            |values: &[f64]| Interval::of(&TrimmedSample::of(values), &TrimmedSample::of(values)).high;
        assert!(width(&up) > 2.0 * width(&mixed));
    }
}
