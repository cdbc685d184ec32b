//! The guard's judgement: is the objective after the change not worse than before it?
//!
//! The means over the same number of windows are compared. A change is undone when the objective got worse by more
//! than the margin, a share of the mean before, plus an allowance for noise: the standard error of the difference of
//! the two means, √(s²ₐ/n + s²ᵦ/n), but never more than the margin again. The cap keeps a program whose pace jumps
//! about from hiding a loss behind its own noise. How often this errs is measured in `rates` and told in docs/guard.md.

use crate::rule::Guard;
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
    let (mean_before, mean_after) = (mean(before), mean(after));
    let worse = if maximize {
        mean_before - mean_after
    } else {
        mean_after - mean_before
    };
    let allowed = margin * mean_before.abs();
    let noise = (error_squared(before) + error_squared(after)).sqrt();
    let (better, poorer) = if maximize {
        (mean_after, mean_before)
    } else {
        (mean_before, mean_after)
    };
    let comparable = poorer != 0.0 && better != 0.0 && (poorer > 0.0) == (better > 0.0);
    Judgement {
        // A mean that is not a number is no ground for keeping anything.
        keep: worse <= allowed + noise.min(allowed),
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

/// Square of the standard error of the mean; a single value is taken to be without noise.
fn error_squared(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() - 1) as f64 / values.len() as f64
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
