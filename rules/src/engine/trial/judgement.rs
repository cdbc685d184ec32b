//! The guard's judgement: the meaning of an interval, and the first comparison, of the windows before and
//! after a change.
//!
//! Trimmed means are compared, by their ratio if all values are positive: the least and the greatest fifth of
//! the windows are left out, so that a rare window of twice the length has no influence. A change is
//! confirmed if the entire interval of its effect is a gain and the gain is relevant. It is worse if the
//! objective got worse by more than the margin, a share of the mean before, plus an allowance for noise: the
//! standard error of the difference of the two means, but at most the margin. The cap prevents a program with
//! an unsteady pace from hiding a loss in its own noise. Effects on only a few windows are detected by the
//! plain means, which may be worse by ten margins. `rates` measures the error rates, docs/guard.md reports
//! them.

use plan::GuardEffect;
use syntax::quantity::quantity;

use super::statistics::{Interval, TrimmedSample, mean};
use crate::guard::Guard;

/// A smaller gain is irrelevant.
const RELEVANT: f64 = 0.02;
/// Number of windows before a change that show whether the pace jumps by itself.
const HISTORY_MIN: usize = 40;
/// Factor of improvement that no jump of the program itself explains.
const UNMISTAKABLE: f64 = 10.0;
/// A step of the history times this factor must stay below the effect.
const STEP_NEAR: f64 = 2.0;
/// An interval whose ends differ by this factor is too uncertain to be shown.
const VAGUE: f64 = 100.0;
/// Permitted loss from windows that are left out of the trimmed means, in margins.
const OUTLIERS_MAY_COST: f64 = 10.0;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) verdict: GuardEffect,
    /// Whether a loss is within the bound of the verdict "worse"; false for an objective that is not a
    /// number.
    pub(crate) is_bearable: bool,
    /// Means of the objective; geometric ones for positive values, from which the ratio is computed.
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// Above 1 for better.
    pub(crate) ratio: Option<f64>,
    /// The interval that contains the ratio with 98 % confidence.
    pub(crate) interval: Option<(f64, f64)>,
}

/// The direction of improvement, and the share by which the objective may get worse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectiveAim {
    pub(crate) maximize: bool,
    pub(crate) margin: f64,
}

/// The scale on which values are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// On this scale, shares are differences.
    Logarithms,
    /// For values that are not all positive; with the mean before.
    Plain(f64),
}

impl Scale {
    pub(super) fn of(values: impl Iterator<Item = f64>, before: f64) -> Scale {
        let mut values = values;
        if values.all(|value| value > 0.0) {
            Scale::Logarithms
        } else {
            Scale::Plain(before)
        }
    }

    /// The difference that corresponds to this share of the mean before.
    fn share(self, share: f64) -> f64 {
        match self {
            Scale::Logarithms => (1.0 + share).ln(),
            Scale::Plain(before) => share * before.abs(),
        }
    }
}

impl ObjectiveAim {
    pub(super) fn of(guard: &Guard) -> ObjectiveAim {
        ObjectiveAim {
            maximize: guard.maximize,
            margin: guard.margin,
        }
    }

    /// The value on the scale, with the sign such that more is better.
    pub(super) fn better(self, value: f64, scale: Scale) -> f64 {
        let value = if scale == Scale::Logarithms {
            value.ln()
        } else {
            value
        };
        if self.maximize { value } else { -value }
    }

    /// Whether a difference, positive for a gain, is a loss of at most the margin.
    pub(super) fn bears(self, difference: f64, scale: Scale) -> bool {
        difference >= -scale.share(self.margin)
    }

    pub(super) fn judgement(
        self,
        effect: &Interval,
        scale: Scale,
        is_bearable: bool,
        (before, after): (f64, f64),
    ) -> Judgement {
        let is_ratio = scale == Scale::Logarithms;
        let may_be_gain = effect.high > 0.0;
        let verdict = if !is_bearable && !may_be_gain {
            GuardEffect::Worse
        } else if effect.low > 0.0 && effect.middle >= scale.share(RELEVANT) {
            GuardEffect::Confirmed
        } else if is_bearable
            && effect.low > -scale.share(self.margin)
            && effect.high < scale.share(self.margin)
        {
            GuardEffect::NoEffect
        } else {
            GuardEffect::Inconclusive
        };
        Judgement {
            verdict,
            is_bearable,
            before,
            after: match (is_ratio, self.maximize) {
                (true, true) => before * effect.middle.exp(),
                (true, false) => before / effect.middle.exp(),
                (false, _) => after,
            },
            ratio: match is_ratio {
                true => Some(effect.middle.exp()),
                false => ratio(before, after, self.maximize),
            },
            interval: is_ratio.then(|| (effect.low.exp(), effect.high.exp())),
        }
    }

    /// Compares the windows before and after a change.
    pub(crate) fn compare(self, before: &[f64], after: &[f64]) -> Judgement {
        let middles = (TrimmedSample::of(before), TrimmedSample::of(after));
        let scale = Scale::of(before.iter().chain(after).copied(), middles.0.mean);
        let better = |run: &[f64]| {
            let values: Vec<f64> = run.iter().map(|value| self.better(*value, scale)).collect();
            TrimmedSample::of(&values)
        };
        let (of_before, of_after) = (better(before), better(after));
        let effect = Interval::of(&of_before, &of_after);
        let is_bearable = self.is_bearable(&middles, (mean(before), mean(after)));
        let shown = self.shown(of_before.mean, scale);
        self.judgement(&effect, scale, is_bearable, (shown, middles.1.mean))
    }

    /// The inverse of `better`: a mean in measured units.
    pub(super) fn shown(self, better: f64, scale: Scale) -> f64 {
        let value = if self.maximize { better } else { -better };
        if scale == Scale::Logarithms {
            value.exp()
        } else {
            value
        }
    }

    fn is_bearable(
        self,
        (before, after): &(TrimmedSample, TrimmedSample),
        (plain_before, plain_after): (f64, f64),
    ) -> bool {
        let worse = |before: f64, after: f64| {
            if self.maximize {
                before - after
            } else {
                after - before
            }
        };
        let allowed = self.margin * before.mean.abs();
        let error = |middle: &TrimmedSample| middle.error_squared().unwrap_or(0.0);
        let noise = (error(before) + error(after)).sqrt();
        // NaN satisfies no bound.
        worse(before.mean, after.mean) <= allowed + noise.min(allowed)
            && worse(plain_before, plain_after) <= OUTLIERS_MAY_COST * self.margin * plain_before.abs()
    }
}

/// Whether an effect is believed after one comparison: the preceding history has no step of comparable size,
/// and is long enough to have shown one. A factor of ten is believed with any length, and so is an objective to
/// minimize that vanishes.
pub(crate) fn is_believable(found: &Judgement, history: &[f64], over: usize) -> bool {
    let has_vanished = found.verdict == GuardEffect::Confirmed && found.before > 0.0 && found.after == 0.0;
    let ratio = found.ratio.filter(|_| found.interval.is_some()).map(f64::ln);
    let Some(effect) = has_vanished.then_some(f64::INFINITY).or(ratio) else {
        return false;
    };
    let is_long = history.len() >= HISTORY_MIN || effect >= UNMISTAKABLE.ln();
    is_long && STEP_NEAR * largest_step(history, over) < effect
}

/// Whether an objective was above 0 in all windows before the change, and is exactly 0 in all after it. It then
/// says nothing about the pace: with one thread, a program may begin no parallel regions, which were counted.
pub(crate) fn has_ceased(before: &[f64], after: &[f64]) -> bool {
    !before.is_empty() && before.iter().all(|value| *value > 0.0) && after.iter().all(|value| *value == 0.0)
}

/// The largest step from the mean of `over` windows to that of the next `over`, in logarithms.
fn largest_step(history: &[f64], over: usize) -> f64 {
    let over = over.max(1);
    let logarithms: Vec<f64> = history.iter().map(|value| value.ln()).collect();
    let step = |windows: &[f64]| {
        let (first, next) = windows.split_at(over);
        (TrimmedSample::of(next).mean - TrimmedSample::of(first).mean).abs()
    };
    logarithms.windows(2 * over).map(step).fold(0.0, f64::max)
}

/// The factor of improvement, if both have the same sign.
fn ratio(before: f64, after: f64, maximize: bool) -> Option<f64> {
    let (better, poorer) = if maximize {
        (after, before)
    } else {
        (before, after)
    };
    let comparable = poorer != 0.0 && better != 0.0 && (poorer > 0.0) == (better > 0.0);
    comparable.then(|| better / poorer)
}

impl Judgement {
    /// Worse by more than is permitted, by an interval of half the width: not enough for a verdict, but too
    /// much to make the change again.
    pub(crate) fn seems_worse(&self) -> bool {
        let upper = self.ratio.zip(self.interval);
        !self.is_bearable && upper.is_some_and(|(ratio, (_, high))| ratio * high < 1.0)
    }

    /// `91.4 ms -> 1.31 ms (10 windows each): 70 times less [65, 74]`, where `seen` describes what was
    /// compared.
    pub(crate) fn text(&self, guard: &Guard, seen: &str) -> String {
        let effect = self.effect_text(guard.maximize);
        let (before, after) = (guard.shown(self.before), guard.shown(self.after));
        format!("{before} -> {after} ({seen}){effect}")
    }

    /// The factor of improvement, or the change of the value in per cent, with the interval; empty if
    /// unknown.
    fn effect_text(&self, maximize: bool) -> String {
        let times = |ratio: f64| quantity(round_ratio(ratio), Default::default());
        let of_value = |ratio: f64| if maximize { ratio } else { 1.0 / ratio };
        // Adding 0.0 removes the sign of a negative zero.
        let share = |ratio: f64| format!("{:+.1}", ((of_value(ratio) - 1.0) * 1000.0).round() / 10.0 + 0.0);
        let less = if maximize { "" } else { " less" };
        let is_many = self.ratio.is_some_and(|ratio| ratio >= 1.995);
        let interval = self
            .interval
            .filter(|(low, high)| low.is_finite() && high.is_finite());
        match (self.ratio, interval) {
            (Some(ratio), Some((low, high))) if high > VAGUE * low && low > 1.0 => {
                format!(": about {} times{less}, at least {}", times(ratio), times(low))
            }
            (_, Some((low, high))) if high > VAGUE * low => {
                ": the gain is not known, as the values vary too much".to_owned()
            }
            (Some(ratio), Some((low, high))) if is_many => {
                format!(": {} times{less} [{}, {}]", times(ratio), times(low), times(high))
            }
            (Some(ratio), None) if is_many => format!(": {} times{less}", times(ratio)),
            (Some(ratio), Some((low, high))) => {
                let (from, to, hint) = match maximize {
                    true => (low, high, ""),
                    false => (high, low, " (less is better)"),
                };
                format!(": {} % [{}, {}]{hint}", share(ratio), share(from), share(to))
            }
            (Some(ratio), None) => format!(": {} %", share(ratio)),
            (None, _) => String::new(),
        }
    }
}

/// Rounds factors of ten and more to integers: 69.8 times is needlessly precise.
fn round_ratio(ratio: f64) -> f64 {
    if ratio >= 9.95 {
        ratio.round()
    } else {
        (ratio * 10.0).round() / 10.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(before: &[f64], after: &[f64], maximize: bool, margin: f64) -> Judgement {
        ObjectiveAim { maximize, margin }.compare(before, after)
    }

    #[test]
    fn a_gain_is_confirmed_and_a_loss_beyond_the_margin_worse() {
        let cases = [
            (
                true,
                vec![100.0; 5],
                vec![10000.0; 5],
                GuardEffect::Confirmed,
                Some(100.0),
            ),
            (
                true,
                vec![100.0; 5],
                vec![101.0; 5],
                GuardEffect::NoEffect,
                Some(1.01),
            ),
            (
                true,
                vec![100.0; 5],
                vec![96.0; 5],
                GuardEffect::NoEffect,
                Some(0.96),
            ),
            (
                true,
                vec![100.0; 5],
                vec![94.0; 5],
                GuardEffect::Worse,
                Some(0.94),
            ),
            (
                false,
                vec![0.1; 5],
                vec![0.001; 5],
                GuardEffect::Confirmed,
                Some(100.0),
            ),
            (false, vec![1.0; 5], vec![1.06; 5], GuardEffect::Worse, None),
            (true, vec![0.0; 5], vec![5.0; 5], GuardEffect::Confirmed, None),
            (true, vec![100.0; 5], vec![0.0; 5], GuardEffect::Worse, None),
            (false, vec![-1.0; 5], vec![-2.0; 5], GuardEffect::Confirmed, None),
        ];
        for (maximize, before, after, verdict, ratio) in cases {
            let found = judge(&before, &after, maximize, 0.05);
            assert_eq!(found.verdict, verdict, "{before:?} {after:?}");
            assert_eq!(
                found.is_bearable,
                verdict != GuardEffect::Worse,
                "{before:?} {after:?}"
            );
            if let Some(ratio) = ratio {
                assert!((found.ratio.unwrap() - ratio).abs() < 1e-9 * ratio);
            }
        }
    }

    #[test]
    fn the_factor_is_that_of_the_values_shown_and_what_is_not_known_has_none() {
        let found = judge(&[1.0, 10.0, 100.0, 1000.0], &[35_000.0; 4], true, 0.05);
        assert!(
            (found.after / found.before / found.ratio.unwrap() - 1.0).abs() < 1e-9,
            "{found:?}"
        );
        for (maximize, ratio, interval, text) in [
            (true, 55.2, Some((31.0, 97.0)), ": 55 times [31, 97]"),
            (false, 2.3, Some((2.1, 2.5)), ": 2.3 times less [2.1, 2.5]"),
            (true, 1.2, Some((1.1, 1.3)), ": +20.0 % [+10.0, +30.0]"),
            (
                false,
                1.489,
                Some((0.96, 2.3)),
                ": -32.8 % [-56.5, +4.2] (less is better)",
            ),
            (false, 1.5, None, ": -33.3 %"),
            (true, 80.0, Some((2.4, 2_702.0)), ": about 80 times, at least 2.4"),
            (
                true,
                362.0,
                Some((0.0, 5.4e8)),
                ": the gain is not known, as the values vary too much",
            ),
            (
                false,
                362.0,
                Some((0.001, 5.4)),
                ": the gain is not known, as the values vary too much",
            ),
        ] {
            let found = Judgement {
                ratio: Some(ratio),
                interval,
                ..found.clone()
            };
            assert_eq!(found.effect_text(maximize), text);
        }
    }

    #[test]
    fn what_varies_more_than_it_gains_is_inconclusive_and_has_an_interval() {
        let (before, after) = (
            [100.0, 60.0, 140.0, 80.0, 120.0],
            [120.0, 72.0, 168.0, 96.0, 144.0],
        );
        let found = judge(&before, &after, true, 0.05);
        assert_eq!(found.verdict, GuardEffect::Inconclusive);
        let (low, high) = found.interval.unwrap();
        assert!(low < 1.0 && 1.2 < high, "{low} {high}");
    }

    #[test]
    fn noise_widens_the_margin_and_at_most_doubles_it() {
        let noisy = [100.0, 90.0, 110.0, 95.0, 105.0];
        assert!(judge(&noisy, &[93.0; 5], true, 0.05).is_bearable);
        let wild = [10.0, 190.0, 100.0, 20.0, 180.0];
        assert!(!judge(&wild, &[89.0; 5], true, 0.05).is_bearable);
    }

    #[test]
    fn what_is_not_a_number_is_worse() {
        for (before, after) in [
            (vec![1.0], vec![f64::NAN]),
            (vec![], vec![]),
            (vec![1.0; 5], vec![1.0, 1.0, f64::NAN, 1.0, 1.0]),
        ] {
            let found = judge(&before, &after, true, 0.05);
            assert!(
                !found.is_bearable && found.verdict == GuardEffect::Worse,
                "{before:?} {after:?}"
            );
        }
    }

    #[test]
    fn a_rare_long_window_decides_nothing_unless_it_costs_ten_margins() {
        let mut after = [1.0; 5];
        after[2] = 2.0;
        assert!(judge(&[1.0; 5], &after, false, 0.05).is_bearable);
        assert!(judge(&after, &[1.0; 5], false, 0.05).is_bearable);
        after[2] = 4.0;
        assert!(!judge(&[1.0; 5], &after, false, 0.05).is_bearable);
        after[3] = 1.2;
        after[2] = 1.2;
        assert!(!judge(&[1.0; 5], &after.map(|value| value * 1.08), false, 0.05).is_bearable);
    }

    #[test]
    fn an_objective_has_ceased_if_it_is_0_in_all_windows_after_the_change_and_was_in_none_before() {
        for (before, after, ceased) in [
            (&[84.0, 80.0, 90.0][..], &[0.0; 3][..], true),
            (&[84.0], &[-0.0; 5], true),
            (&[84.0; 3], &[0.0, 0.001, 0.0], false),
            (&[84.0, 0.0, 84.0], &[0.0; 3], false),
            (&[0.0; 3], &[0.0; 3], false),
            (&[-1.0; 3], &[0.0; 3], false),
            (&[], &[0.0; 3], false),
            (&[f64::NAN], &[0.0; 3], false),
            (&[84.0; 3], &[0.0, f64::NAN, 0.0], false),
        ] {
            assert_eq!(has_ceased(before, after), ceased, "{before:?} {after:?}");
        }
    }

    #[test]
    fn an_effect_is_believed_where_the_history_has_no_such_step_and_is_long_enough() {
        let effect = |ratio: f64| judge(&[1.0; 5], &[ratio; 5], true, 0.05);
        let calm = |length| vec![1.0; length];
        let mut jumped = calm(30);
        jumped.extend(vec![1.5; 30]);
        assert!(is_believable(&effect(1.5), &calm(40), 5));
        assert!(!is_believable(&effect(1.5), &calm(39), 5));
        assert!(is_believable(&effect(12.0), &calm(5), 5));
        assert!(!is_believable(&effect(1.5), &jumped, 5));
        assert!(is_believable(&effect(3.0), &jumped, 5));
        let vanished = |minimize: bool| judge(&[50.0, 47.0, 52.0, 49.0, 51.0], &[0.0; 5], !minimize, 0.05);
        assert!(is_believable(&vanished(true), &[50.0, 47.0, 52.0, 49.0, 51.0], 5));
        assert!(
            !is_believable(&vanished(true), &[vec![0.0; 5], vec![50.0; 5]].concat(), 5),
            "it vanishes by itself"
        );
        assert!(!is_believable(&vanished(false), &calm(40), 5));
    }

    proptest! {
        #[test]
        fn what_is_not_worse_in_the_mean_is_always_bearable(values in prop::collection::vec(0.1f64..1e6, 1..20), gain in 1.0f64..100.0) {
            let more: Vec<f64> = values.iter().map(|value| value * gain).collect();
            prop_assert!(judge(&values, &more, true, 0.0).is_bearable);
            prop_assert!(judge(&more, &values, false, 0.0).is_bearable);
        }

        #[test]
        fn a_loss_of_more_than_twice_the_margin_is_never_bearable(values in prop::collection::vec(0.1f64..1e6, 1..20)) {
            let less: Vec<f64> = values.iter().map(|value| value * 0.89).collect();
            prop_assert!(!judge(&values, &less, true, 0.05).is_bearable);
        }

        #[test]
        fn the_interval_holds_the_ratio_and_a_confirmed_one_is_all_gain(
            before in prop::collection::vec(0.1f64..1e3, 2..20),
            after in prop::collection::vec(0.1f64..1e3, 2..20),
        ) {
            let found = judge(&before, &after, true, 0.05);
            let ((low, high), ratio) = (found.interval.unwrap(), found.ratio.unwrap());
            prop_assert!(low <= ratio && ratio <= high);
            prop_assert!(found.verdict != GuardEffect::Confirmed || low > 1.0 && ratio > 1.0199);
        }
    }
}
