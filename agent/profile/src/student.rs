//! Quantiles of Student's distribution, for intervals from few values.

/// Student's quantile for a two-sided interval of 90 % with at least one degree of freedom. More than seven are
/// treated as seven.
pub(crate) fn student_90(freedom: usize) -> f64 {
    const QUANTILES: [f64; 7] = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89];
    QUANTILES[freedom.clamp(1, QUANTILES.len()) - 1]
}
