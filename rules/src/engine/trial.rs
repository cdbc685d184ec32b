//! The guard's judgement: is the objective after the change not worse than before it?
//!
//! Trimmed means over the same number of windows are compared: the least and the greatest fifth of the windows are left
//! out, so that a rare window of twice the length decides nothing. A change is undone when the objective got worse by
//! more than the margin, a share of the mean before, plus an allowance for noise: the standard error of the difference
//! of the two means, but never more than the margin again. The cap keeps a program whose pace jumps about from hiding a
//! loss behind its own noise. What a change does to few windows only is seen by the plain means: they may be worse by ten
//! margins. How often this errs is measured in `rates` and told in docs/guard.md.

use crate::guard::Guard;
use crate::unit::human;

/// What came of comparing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) keep: bool,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// Above 1 for better.
    pub(crate) ratio: Option<f64>,
}

/// Compares the windows before with those after; `maximize` says which way is better, `margin` is a share.
pub(crate) fn judge(before: &[f64], after: &[f64], maximize: bool, margin: f64) -> Judgement {
    let (middle_before, middle_after) = (Middle::of(before), Middle::of(after));
    let (mean_before, mean_after) = (middle_before.mean, middle_after.mean);
    let worse = |before: f64, after: f64| if maximize { before - after } else { after - before };
    let allowed = margin * mean_before.abs();
    let noise = (middle_before.error_squared + middle_after.error_squared).sqrt();
    // What is not a number is within no bound.
    let within = worse(mean(before), mean(after)) <= OUTLIERS_MAY_COST * margin * mean(before).abs();
    let (better, poorer) = if maximize {
        (mean_after, mean_before)
    } else {
        (mean_before, mean_after)
    };
    let comparable = poorer != 0.0 && better != 0.0 && (poorer > 0.0) == (better > 0.0);
    Judgement {
        // A mean that is not a number is no ground for keeping anything.
        keep: worse(mean_before, mean_after) <= allowed + noise.min(allowed) && within,
        before: mean_before,
        after: mean_after,
        ratio: comparable.then(|| better / poorer),
    }
}

impl Judgement {
    /// `91.4 ms -> 1.31 ms (10 windows each): 70 times; kept`.
    pub(crate) fn text(&self, guard: &Guard) -> String {
        let dimension = guard.objective.of.dimension();
        let shown = |value| human(value, dimension, guard.objective.of.percent);
        let change = match self.ratio {
            Some(ratio) if ratio >= 1.995 => {
                format!(": {} times", human(round_ratio(ratio), Default::default(), false))
            }
            Some(ratio) => format!(": {:+.1} %", (ratio - 1.0) * 100.0),
            None => String::new(),
        };
        let end = if self.keep { "kept" } else { "undone" };
        format!(
            "{} -> {} ({} windows each){change}; {end}",
            shown(self.before),
            shown(self.after),
            guard.over
        )
    }
}

/// Tens and more in whole numbers: nobody needs 69.8 times.
fn round_ratio(ratio: f64) -> f64 {
    if ratio >= 9.95 {
        ratio.round()
    } else {
        (ratio * 10.0).round() / 10.0
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What windows that are left out of the means may cost, in margins.
const OUTLIERS_MAY_COST: f64 = 10.0;
/// Of so many windows one is left out at either end.
const TRIMMED_OF: usize = 5;

/// The mean of the values in the middle, and the square of its standard error.
struct Middle {
    mean: f64,
    error_squared: f64,
}

impl Middle {
    /// Tukey and McLaughlin (1963): the error follows from the values with the outermost drawn in to those that are left. A
    /// single value is taken to be without noise.
    fn of(values: &[f64]) -> Middle {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let trimmed = values.len() / TRIMMED_OF;
        let left = sorted.get(trimmed..values.len() - trimmed).unwrap_or_default();
        let (Some(least), Some(greatest)) = (left.first(), left.last()) else {
            return Middle {
                mean: f64::NAN,
                error_squared: 0.0,
            };
        };
        let drawn_in: Vec<f64> = sorted
            .iter()
            .map(|value| value.max(*least).min(*greatest))
            .collect();
        let centre = mean(&drawn_in);
        let squares: f64 = drawn_in.iter().map(|value| (value - centre).powi(2)).sum();
        let error_squared = match left.len() {
            0 | 1 => 0.0,
            many => squares / (many * (many - 1)) as f64,
        };
        Middle {
            mean: mean(left),
            error_squared,
        }
    }
}

#[cfg(test)]
mod rates;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gain_is_kept_and_a_loss_beyond_the_margin_undone() {
        let cases = [
            (true, vec![100.0; 5], vec![10000.0; 5], true, Some(100.0)),
            (true, vec![100.0; 5], vec![96.0; 5], true, Some(0.96)),
            (true, vec![100.0; 5], vec![94.0; 5], false, Some(0.94)),
            (false, vec![0.1; 5], vec![0.001; 5], true, Some(100.0)),
            (false, vec![1.0; 5], vec![1.06; 5], false, None),
            (true, vec![0.0; 5], vec![5.0; 5], true, None),
            (true, vec![100.0; 5], vec![0.0; 5], false, None),
        ];
        for (maximize, before, after, keep, ratio) in cases {
            let found = judge(&before, &after, maximize, 0.05);
            assert_eq!(found.keep, keep, "{before:?} {after:?}");
            if let Some(ratio) = ratio {
                assert!((found.ratio.unwrap() - ratio).abs() < 1e-9 * ratio);
            }
        }
    }

    #[test]
    fn noise_widens_the_margin_and_at_most_doubles_it() {
        let noisy = [100.0, 90.0, 110.0, 95.0, 105.0];
        assert!(judge(&noisy, &[93.0; 5], true, 0.05).keep);
        let wild = [10.0, 190.0, 100.0, 20.0, 180.0];
        assert!(!judge(&wild, &[89.0; 5], true, 0.05).keep);
    }

    #[test]
    fn what_is_not_a_number_is_not_kept() {
        assert!(!judge(&[1.0], &[f64::NAN], true, 0.05).keep);
        assert!(!judge(&[], &[], true, 0.05).keep);
        assert!(!judge(&[1.0; 5], &[1.0, 1.0, f64::NAN, 1.0, 1.0], true, 0.05).keep);
    }

    #[test]
    fn a_rare_long_window_decides_nothing_unless_it_costs_ten_margins() {
        let mut after = [1.0; 5];
        after[2] = 2.0;
        assert!(judge(&[1.0; 5], &after, false, 0.05).keep);
        assert!(judge(&after, &[1.0; 5], false, 0.05).keep);
        after[2] = 4.0;
        assert!(!judge(&[1.0; 5], &after, false, 0.05).keep);
        after[3] = 1.2;
        after[2] = 1.2;
        assert!(!judge(&[1.0; 5], &after.map(|value| value * 1.08), false, 0.05).keep);
    }

    proptest! {
        #[test]
        fn what_is_not_worse_in_the_mean_is_always_kept(values in prop::collection::vec(0.1f64..1e6, 1..20), gain in 1.0f64..100.0) {
            let more: Vec<f64> = values.iter().map(|value| value * gain).collect();
            prop_assert!(judge(&values, &more, true, 0.0).keep);
            prop_assert!(judge(&more, &values, false, 0.0).keep);
        }

        #[test]
        fn a_loss_of_more_than_twice_the_margin_is_always_undone(values in prop::collection::vec(0.1f64..1e6, 1..20)) {
            let less: Vec<f64> = values.iter().map(|value| value * 0.89).collect();
            prop_assert!(!judge(&values, &less, true, 0.05).keep);
        }
    }
}
