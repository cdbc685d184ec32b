//! Alternation: the change is reverted and made again, and its effect must disappear and return with it.
//!
//! The trial continues in pairs of runs, one with the change and one without it, in random order. A pair
//! compares two adjacent moments, so that a slow drift of the pace affects neither side. Without an effect
//! the difference of a pair is equally likely to be a gain or a loss, for any pace, so that Student's
//! statistic of the differences rarely exceeds that of normal ones (Efron 1969, Student's t-test under
//! symmetry conditions). After certain numbers of pairs it is compared with a bound, and the trial ends at
//! the first that decides.

use plan::GuardEffect;

use super::judgement::{Judgement, ObjectiveAim, Scale};
use super::statistics::{TrimmedSample, mean};
use crate::pseudo_random::mixed;

/// Numbers of pairs after which the trial is judged, and the bound of the statistic there: without an effect
/// 1 % of trials exceed one of the bounds in one direction. The shape is that of Wang and Tsiatis (1987) for
/// group-sequential tests, a normal quantile of C · (n / 100)^(0.46 − 0.5), with C = 2.99 from 40 000 series
/// of normal differences.
const LOOKS: [(usize, f64); 16] = [
    (4, 14.77),
    (5, 9.27),
    (6, 7.17),
    (8, 5.46),
    (10, 4.75),
    (13, 5.77),
    (16, 5.17),
    (20, 5.08),
    (25, 4.29),
    (30, 4.12),
    (36, 3.77),
    (45, 3.60),
    (56, 3.44),
    (70, 3.35),
    (85, 3.25),
    (100, 3.19),
];
/// With more pairs than `ALL_COUNT`, the least and the greatest three tenths of the differences are left out:
/// if the pace comes in bursts, some are outliers.
const ALL_COUNT: usize = 10;
const TRIMMED: (usize, usize) = (3, 10);
/// Sufficient number of pairs if the first comparison has shown a gain: see [`Alternation::judge_repeated`].
const REPEATED: usize = 2;
/// Minimum share of the gain that each of these pairs must show.
const SHARE_REPEATED: f64 = 0.5;
pub(super) const PAIRS_MAX: usize = LOOKS[LOOKS.len() - 1].0;

/// Number of windows in a run of a trial over this number of windows.
pub(super) fn run_size(over: u32) -> usize {
    (over as usize / 4).max(1)
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    without: f64,
    with: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Alternation {
    /// Number of windows in each run.
    size: usize,
    lot: u64,
    pairs: Vec<Pair>,
    /// The mean of the first run of the present pair.
    first: Option<f64>,
    run: Vec<f64>,
    /// All windows without and with the change, including those of the first comparison, if that has shown a
    /// gain.
    repeats: Option<Sides>,
}

/// Windows without and with a change.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) without: Vec<f64>,
    pub(super) with: Vec<f64>,
}

/// The result of a window.
pub(super) enum Next {
    Wait,
    /// A run has ended; the next is with or without the change.
    Run {
        with: bool,
    },
    Judge,
}

impl Alternation {
    /// The lot is reproducible in a replay, and unpredictable for a program.
    pub(super) fn new(over: u32, number: u64, seen: &[f64], repeats: Option<Sides>) -> Alternation {
        let lot = seen
            .iter()
            .fold(number, |lot, value| mixed(lot ^ value.to_bits()));
        Alternation {
            size: run_size(over),
            lot,
            pairs: Vec::new(),
            first: None,
            run: Vec::new(),
            repeats,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn seen(&self) -> usize {
        self.run.len()
    }

    /// Whether the present pair begins with the change.
    pub(super) fn begins_with(&self) -> bool {
        mixed(self.lot.wrapping_add(self.pairs.len() as u64)) & 1 == 0
    }

    pub(super) fn window(&mut self, value: f64) -> Next {
        self.run.push(value);
        if self.run.len() < self.size {
            return Next::Wait;
        }
        let run = std::mem::take(&mut self.run);
        let last = mean(&run);
        let begins_with = self.begins_with();
        if let Some(sides) = &mut self.repeats {
            match begins_with == self.first.is_none() {
                true => sides.with.extend(run),
                false => sides.without.extend(run),
            }
        }
        let Some(first) = self.first.take() else {
            self.first = Some(last);
            return Next::Run { with: !begins_with };
        };
        let (with, without) = if begins_with { (first, last) } else { (last, first) };
        self.pairs.push(Pair { without, with });
        let is_repeated = self.repeats.is_some() && self.pairs.len() == REPEATED;
        match is_repeated || LOOKS.iter().any(|(pairs, _)| *pairs == self.pairs.len()) {
            true => Next::Judge,
            false => Next::Run {
                with: self.begins_with(),
            },
        }
    }

    pub(super) fn is_last(&self) -> bool {
        self.pairs.len() >= PAIRS_MAX
    }

    /// The result, with a description of what was compared, for display.
    pub(super) fn judge(&self, aim: ObjectiveAim) -> (Judgement, String) {
        match &self.repeats {
            Some(sides) if self.pairs.len() == REPEATED => self.judge_repeated(aim, sides),
            _ => {
                let windows = self.pairs.len() * self.size;
                (self.judge_pairs(aim), in_turns(windows, windows))
            }
        }
    }

    /// Confirms a gain that the first comparison has shown if it disappeared and returned in each of the
    /// first pairs. By chance, a program's own pace would have to pass the first comparison and then follow
    /// the lot twice, which for the second condition alone happens to one change in four.
    fn judge_repeated(&self, aim: ObjectiveAim, sides: &Sides) -> (Judgement, String) {
        let mut found = aim.compare(&sides.without, &sides.with);
        let values = sides.without.iter().chain(&sides.with).copied();
        let scale = Scale::of(values, found.before);
        let gain = |with: f64, without: f64| aim.better(with, scale) - aim.better(without, scale);
        let means = (
            TrimmedSample::of(&sides.without).mean,
            TrimmedSample::of(&sides.with).mean,
        );
        let least = SHARE_REPEATED * gain(means.1, means.0);
        let is_repeated = self
            .pairs
            .iter()
            .all(|pair| gain(pair.with, pair.without) >= least);
        if found.verdict != GuardEffect::Confirmed || !is_repeated {
            found.verdict = GuardEffect::Inconclusive;
        }
        let text = in_turns(sides.without.len(), sides.with.len());
        (found, text)
    }

    fn judge_pairs(&self, aim: ObjectiveAim) -> Judgement {
        let side = |of: fn(&Pair) -> f64| self.pairs.iter().map(of).collect::<Vec<f64>>();
        let (without, with) = (side(|pair| pair.without), side(|pair| pair.with));
        // A few bursts raise the mean far above most windows, and a margin relative to it would be too wide.
        let scale = Scale::of(without.iter().chain(&with).copied(), middle(&without).mean);
        let of_without: Vec<f64> = without.iter().map(|value| aim.better(*value, scale)).collect();
        let shown = aim.shown(middle(&of_without).mean, scale);
        let difference = |pair: &Pair| aim.better(pair.with, scale) - aim.better(pair.without, scale);
        let differences: Vec<f64> = self.pairs.iter().map(difference).collect();
        let bound = LOOKS.iter().find(|(pairs, _)| *pairs >= differences.len());
        let effect = middle(&differences).interval(bound.map_or(f64::INFINITY, |(_, bound)| *bound));
        let is_bearable = aim.bears(effect.middle, scale);
        aim.judgement(&effect, scale, is_bearable, (shown, mean(&with)))
    }
}

fn in_turns(without: usize, with: usize) -> String {
    match without == with {
        true => format!("{with} windows each, in turns"),
        false => format!("{without} and {with} windows, in turns"),
    }
}

/// The trimmed mean of the values of the pairs.
fn middle(values: &[f64]) -> TrimmedSample {
    match values.len() > ALL_COUNT {
        true => TrimmedSample::trimmed(values, values.len() * TRIMMED.0 / TRIMMED.1),
        false => TrimmedSample::trimmed(values, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIM: ObjectiveAim = ObjectiveAim {
        maximize: true,
        margin: 0.05,
    };

    /// Runs trials to their ends on a program with this pace in a window without the change, and `gain` times
    /// as much with it.
    fn tried(number: u64, gain: f64, mut pace: impl FnMut() -> f64) -> (Judgement, usize) {
        let mut trial = Alternation::new(1, number, &[], None);
        let mut with = trial.begins_with();
        loop {
            match trial.window(pace() * if with { gain } else { 1.0 }) {
                Next::Wait => unreachable!("runs of one window"),
                Next::Run { with: next } => with = next,
                Next::Judge => {
                    let (found, _) = trial.judge(AIM);
                    if found.verdict != GuardEffect::Inconclusive || trial.is_last() {
                        return (found, trial.pairs.len());
                    }
                    with = trial.begins_with();
                }
            }
        }
    }

    fn uniform(seed: &mut u64) -> f64 {
        *seed += 1;
        (mixed(*seed) >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn a_gain_in_a_steady_program_is_confirmed_after_the_first_pairs() {
        let mut seed = 0;
        let (found, pairs) = tried(1, 1.2, || 100.0 + uniform(&mut seed));
        assert_eq!((found.verdict, pairs), (GuardEffect::Confirmed, 4));
        let (low, high) = found.interval.unwrap();
        assert!(1.1 < low && low <= 1.2 && 1.19 <= high, "{low} {high}");
    }

    #[test]
    fn nothing_in_a_steady_program_is_no_effect_and_a_loss_is_worse() {
        for (gain, verdict) in [(1.0, GuardEffect::NoEffect), (0.8, GuardEffect::Worse)] {
            let mut seed = 0;
            assert_eq!(tried(1, gain, || 100.0 + uniform(&mut seed)).0.verdict, verdict);
        }
    }

    #[test]
    fn what_varies_by_itself_is_inconclusive_after_the_last_pair() {
        let mut seed = 0;
        let (found, pairs) = tried(1, 1.1, || (4.0 * uniform(&mut seed)).exp());
        assert_eq!((found.verdict, pairs), (GuardEffect::Inconclusive, PAIRS_MAX));
    }

    /// Paces for which a comparison of two periods would be wrong: a single jump, and a rhythm.
    #[test]
    fn a_pace_that_changes_by_itself_is_hardly_ever_confirmed() {
        type Pace = fn(u64, f64) -> f64;
        let paces: [Pace; 4] = [
            |_, noise| 100.0 + 40.0 * noise,
            |window, noise| 100.0 + 2.0 * noise + if window > 9 { 100.0 } else { 0.0 },
            |window, noise| 100.0 + 10.0 * noise + 3.0 * window as f64,
            |window, noise| 100.0 + 10.0 * noise + 50.0 * f64::from(window / 3 % 2 == 0),
        ];
        for pace in paces {
            let confirmed = (0..1000).filter(|number| {
                let (mut seed, mut window) = (number * 1000, 0);
                let next = || {
                    window += 1;
                    pace(window, uniform(&mut seed))
                };
                tried(*number, 1.0, next).0.verdict == GuardEffect::Confirmed
            });
            let confirmed = confirmed.count();
            assert!(confirmed <= 20, "{confirmed} of 1000");
        }
    }
}
