//! Means and ratios of counts by slice, each with its 90 % interval.

use crate::student::student_90;

/// A value, and half the width of its 90 % interval: with 95 % it is below `value + half`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) half: f64,
}

/// The rate of counts per second. With one slice its interval is unbounded.
pub(crate) fn rate(counts: &[f64], slices_ns: &[u64]) -> Estimate {
    let seconds: Vec<f64> = slices_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
    ratio(counts, &seconds)
}

/// The ratio of two sums, with the interval of a ratio estimator.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> Estimate {
    let (sum, base): (f64, f64) = (of.iter().sum(), to.iter().sum());
    let value = if base > 0.0 { sum / base } else { 0.0 };
    let count = of.len().min(to.len());
    if count < 2 || base <= 0.0 {
        return Estimate {
            value,
            half: f64::INFINITY,
        };
    }
    let squares: f64 = of.iter().zip(to).map(|(of, to)| (of - value * to).powi(2)).sum();
    let freedom = (count - 1) as f64;
    // The deviation of the sum of all slices, relative to the base.
    let error = (count as f64 * squares / freedom).sqrt() / base;
    Estimate {
        value,
        half: error * student_90(count - 1),
    }
}
