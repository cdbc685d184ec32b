//! The time of an iteration with team sizes that were not measured.
//!
//! Two laws are fitted to the measured times by weighted least squares. Both are linear in their coefficients,
//! none of which is negative: Amdahl's law T(p) = a + b / p (1967), and the universal scalability law
//! T(p) = a + b / p + c p (Gunther 1993), whose last term is the time in which each thread waits for all others.

use super::curve::SizeView;
use crate::student::student_90;

/// Minimum number of measured sizes.
const SIZES_MIN: usize = 3;

/// A size is predicted if it is at most this multiple of the largest measured size.
const REACH: u32 = 4;

/// Two-sided quantile of the normal distribution for 90 %.
const NORMAL_90: f64 = 1.645;

/// Lower bound on the standard error of a measured time, relative to it: iterations of one process drift.
const ERROR_MIN: f64 = 0.005;

/// A law of the time of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingLaw {
    Amdahl,
    UniversalScalability,
}

impl ScalingLaw {
    pub fn name(self) -> &'static str {
        match self {
            ScalingLaw::Amdahl => "Amdahl's law",
            ScalingLaw::UniversalScalability => "universal scalability law",
        }
    }

    /// Number of its coefficients.
    fn terms(self) -> usize {
        match self {
            ScalingLaw::Amdahl => 2,
            ScalingLaw::UniversalScalability => 3,
        }
    }
}

/// The predicted iteration with a team size that was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedSize {
    pub threads: u32,
    pub time_ns: f64,
    /// Half the width of the 90 % interval, in nanoseconds.
    pub within_ns: f64,
    /// Predicted time with one thread divided by that with `threads`.
    pub speedup: f64,
}

impl PredictedSize {
    /// The 90 % interval, in nanoseconds.
    pub fn interval_ns(&self) -> (f64, f64) {
        let least = self.time_ns - self.within_ns;
        (least.max(0.0), self.time_ns + self.within_ns)
    }
}

/// Predictions for powers of two that were not measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPrediction {
    pub law: ScalingLaw,
    pub sizes: Vec<PredictedSize>,
    /// The size with the least time by the law; `None` if it cannot be distinguished from more threads.
    pub fastest: Option<u32>,
}

/// A measured time of an iteration, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct MeasuredTime {
    threads: f64,
    time: f64,
    error: f64,
}

/// Coefficients of 1, 1 / p and p.
#[derive(Clone, Copy, Debug)]
struct FittedLaw {
    coefficients: [f64; 3],
    /// Sum of squared differences, in standard errors.
    squares: f64,
}

impl ScalingPrediction {
    /// `None` if fewer than three sizes were measured.
    pub(super) fn of(sizes: &[SizeView]) -> Option<ScalingPrediction> {
        let measured: Vec<MeasuredTime> = sizes.iter().map(MeasuredTime::of).collect();
        let largest = sizes.last().filter(|_| sizes.len() >= SIZES_MIN)?.threads;
        let amdahl = (ScalingLaw::Amdahl, left_out_error(&measured, ScalingLaw::Amdahl)?);
        let universal = ScalingLaw::UniversalScalability;
        let (law, _) = left_out_error(&measured, universal)
            .filter(|error| *error < amdahl.1)
            .map_or(amdahl, |error| (universal, error));
        let fitted = FittedLaw::best(&measured, law)?;
        let most = largest.saturating_mul(REACH);
        let powers = (0..u32::BITS)
            .map(|bit| 1 << bit)
            .take_while(|power| *power <= most);
        let unmeasured = powers.filter(|power| sizes.iter().all(|size| size.threads != *power));
        let interval = Interval::of(&measured)?;
        let half_ns = |threads: u32| interval.half_ns(&fitted, threads);
        let predicted = |threads: u32| PredictedSize {
            threads,
            time_ns: fitted.time(threads),
            within_ns: half_ns(threads),
            speedup: fitted.time(1) / fitted.time(threads),
        };
        let times = (1..=most).map(|threads| (threads, fitted.time(threads)));
        let (fastest, least) = times.min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(ScalingPrediction {
            law,
            sizes: unmeasured.map(predicted).collect(),
            fastest: (fitted.time(most) - half_ns(most) > least).then_some(fastest),
        })
    }
}

/// The uncertainty of predictions: that of the more general law, which contains the other one.
struct Interval {
    fitted: FittedLaw,
    /// Covariance of the coefficients, as if they could be negative: noise can hide a term of the law.
    covariance: [[f64; 3]; 3],
    /// Half the width of the 90 % interval divided by the standard error.
    scale: f64,
}

impl Interval {
    fn of(measured: &[MeasuredTime]) -> Option<Interval> {
        let law = ScalingLaw::UniversalScalability;
        let freedom = measured.len().checked_sub(law.terms())?;
        let fitted = FittedLaw::best(measured, law)?;
        // The errors of measured times are known; times that scatter more than they do, do not follow the law.
        let scatter = (fitted.squares / freedom.max(1) as f64).sqrt() * student_90(freedom);
        Some(Interval {
            fitted,
            covariance: solved(measured, (1 << law.terms()) - 1).1,
            scale: scatter.max(NORMAL_90),
        })
    }

    /// Half the width of an interval round the prediction by `shown` that contains that by the general law.
    fn half_ns(&self, shown: &FittedLaw, threads: u32) -> f64 {
        let terms = terms(f64::from(threads));
        let error = dot(terms, self.covariance.map(|row| dot(row, terms)));
        (self.fitted.time(threads) - shown.time(threads)).abs() + self.scale * error.max(0.0).sqrt()
    }
}

impl MeasuredTime {
    fn of(size: &SizeView) -> MeasuredTime {
        // The interval of the mean has 95 %.
        let error = size.within_ns.unwrap_or_default() / super::curve::WITHIN;
        MeasuredTime {
            threads: f64::from(size.threads),
            time: size.time_ns,
            error: error.max(ERROR_MIN * size.time_ns),
        }
    }
}

/// The sum of squared differences between each measured time and its prediction from all others, in standard
/// errors; `None` with too few sizes.
fn left_out_error(measured: &[MeasuredTime], law: ScalingLaw) -> Option<f64> {
    let without = |left_out: usize| -> Option<f64> {
        let mut others = measured.to_vec();
        let left_out = others.remove(left_out);
        let fitted = FittedLaw::best(&others, law)?;
        Some(((fitted.at(left_out.threads) - left_out.time) / left_out.error).powi(2))
    };
    let enough = measured.len() > law.terms();
    enough.then(|| (0..measured.len()).map(without).sum())?
}

fn terms(threads: f64) -> [f64; 3] {
    [1.0, 1.0 / threads, threads]
}

fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.into_iter().zip(other).map(|(one, other)| one * other).sum()
}

fn cross(one: [f64; 3], other: [f64; 3]) -> [f64; 3] {
    [
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    ]
}

impl FittedLaw {
    /// The fit without negative coefficients: the best of those that use some of the law's terms.
    fn best(measured: &[MeasuredTime], law: ScalingLaw) -> Option<FittedLaw> {
        let subsets = 1..1_usize << law.terms();
        let fits = subsets.filter_map(|subset| FittedLaw::of(measured, subset));
        fits.min_by(|one, other| one.squares.total_cmp(&other.squares))
    }

    /// The least squares fit of the terms whose bits are set in `subset`; `None` if a coefficient is negative.
    fn of(measured: &[MeasuredTime], subset: usize) -> Option<FittedLaw> {
        let (coefficients, _) = solved(measured, subset);
        let mut fitted = FittedLaw {
            coefficients,
            squares: 0.0,
        };
        let differences = measured
            .iter()
            .map(|size| (fitted.at(size.threads) - size.time) / size.error);
        fitted.squares = differences.map(|difference| difference * difference).sum();
        let is_valid = coefficients
            .iter()
            .all(|value| value.is_finite() && *value >= 0.0);
        is_valid.then_some(fitted)
    }

    fn at(&self, threads: f64) -> f64 {
        dot(self.coefficients, terms(threads))
    }

    fn time(&self, threads: u32) -> f64 {
        self.at(f64::from(threads))
    }
}

/// Solves the normal equations for the terms whose bits are set in `subset`; the other coefficients are 0. Returns the
/// coefficients and their covariance.
fn solved(measured: &[MeasuredTime], subset: usize) -> ([f64; 3], [[f64; 3]; 3]) {
    let is_used = |term: usize| subset & (1 << term) != 0;
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for size in measured {
        let terms = terms(size.threads).map(|term| term / size.error);
        for row in (0..3).filter(|row| is_used(*row)) {
            right[row] += terms[row] * size.time / size.error;
            for column in (0..3).filter(|column| is_used(*column)) {
                matrix[row][column] += terms[row] * terms[column];
            }
        }
    }
    let unused = || (0..3).filter(|term| !is_used(*term));
    unused().for_each(|term| matrix[term][term] = 1.0);
    let [first, second, third] = matrix;
    let determinant = dot(first, cross(second, third));
    // The matrix is symmetric, and its inverse, too.
    let mut inverse = [cross(second, third), cross(third, first), cross(first, second)]
        .map(|row| row.map(|value| value / determinant));
    unused().for_each(|term| inverse[term][term] = 0.0);
    (inverse.map(|row| dot(row, right)), inverse)
}

#[cfg(test)]
mod tests {
    use super::super::Losses;
    use super::*;

    fn size(threads: u32, time_ns: f64, within_ns: Option<f64>) -> SizeView {
        SizeView {
            threads,
            iterations: 20,
            time_ns,
            within_ns,
            losses: Losses {
                threads,
                speedup: 1.0,
                ..Losses::default()
            },
            ..SizeView::default()
        }
    }

    /// The prediction from exact times of these sizes.
    fn predicted(threads: &[u32], time_ns: impl Fn(f64) -> f64) -> Option<ScalingPrediction> {
        let of = |threads: &u32| size(*threads, time_ns(f64::from(*threads)), None);
        ScalingPrediction::of(&threads.iter().map(of).collect::<Vec<_>>())
    }

    #[test]
    fn three_sizes_are_needed_and_no_size_beyond_four_times_the_largest_is_predicted() {
        assert_eq!(predicted(&[2, 4], |p| 1e6 / p), None);
        let three = predicted(&[2, 4, 8], |p| 1e6 + 9e6 / p).unwrap();
        let threads: Vec<u32> = three.sizes.iter().map(|size| size.threads).collect();
        assert_eq!((three.law, &threads[..]), (ScalingLaw::Amdahl, &[1, 16, 32][..]));
        let sixteen = three.sizes[1];
        assert!((sixteen.time_ns - (1e6 + 9e6 / 16.0)).abs() < 1.0, "{sixteen:?}");
        assert!(
            (sixteen.speedup - 10.0 / (1.0 + 9.0 / 16.0)).abs() < 1e-6,
            "{sixteen:?}"
        );
        assert!(sixteen.within_ns > 0.0);
    }

    /// T(p) = 1 + 16 / p + p / 4 ms has its least value at 8 threads.
    #[test]
    fn a_program_that_more_threads_make_slower_has_a_fastest_size() {
        let prediction = predicted(&[1, 2, 4, 16], |p| 1e6 + 16e6 / p + 0.25e6 * p).unwrap();
        assert_eq!(prediction.law, ScalingLaw::UniversalScalability);
        assert_eq!(prediction.fastest, Some(8));
        assert_eq!(prediction.sizes[0].threads, 8);
        assert!((prediction.sizes[0].time_ns - 5e6).abs() < 1.0);
    }

    #[test]
    fn a_program_that_does_not_scale_has_a_flat_curve() {
        let prediction = predicted(&[2, 4, 8], |_| 5e6).unwrap();
        assert_eq!(prediction.fastest, None);
        assert!(
            prediction
                .sizes
                .iter()
                .all(|size| (size.speedup - 1.0).abs() < 1e-9)
        );
    }

    /// With a gain beyond the number of threads, the least error has no sequential time; no time is negative.
    #[test]
    fn a_superlinear_program_never_has_a_negative_time() {
        let prediction = predicted(&[1, 2, 4], |p| 8e6 / p / p).unwrap();
        assert!(
            prediction
                .sizes
                .iter()
                .all(|size| size.time_ns > 0.0 && size.within_ns > 0.2 * size.time_ns)
        );
    }

    /// A reproducible random number from -1 to 1.
    fn random(number: u64) -> f64 {
        rules::pseudo_random::mixed(number) as f64 / (u64::MAX / 2) as f64 - 1.0
    }

    /// Of 1 000 programs whose law is known, with times that differ by up to 2 % from it, the 90 % interval holds the
    /// truth in at least 900.
    #[test]
    fn the_interval_holds_the_truth() {
        let held = (0..1_000_u64).filter(|program| {
            let sequential = f64::midpoint(1.0, random(10 * program));
            let coherency = 0.01 * (1.0 + random(10 * program + 1));
            let truth = |p: f64| 1e7 * (sequential + (1.0 - sequential) / p + coherency * p);
            let sizes: Vec<SizeView> = (0..5)
                .map(|number| {
                    let threads = 1_u32 << number;
                    let (time, noise) = (truth(f64::from(threads)), random(10 * program + 2 + number));
                    size(threads, time * (1.0 + 0.02 * noise), Some(0.02 * 1.96 * time))
                })
                .collect();
            let next = ScalingPrediction::of(&sizes).unwrap().sizes[0];
            assert_eq!(next.threads, 32);
            (next.time_ns - truth(32.0)).abs() <= next.within_ns
        });
        let held = held.count();
        assert!(held >= 900, "{held}");
    }
}
