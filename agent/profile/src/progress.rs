//! Progress of a program and its remaining time, from a variable that counts the program's steps, or from the
//! iterations of the detected loop and their total number.
//!
//! The prediction uses the mean pace of the observed time. The observed time is divided into equal parts; the
//! variance and the drift of their paces give the prediction's interval. Attaching late causes no error,
//! because the program itself counts its completed steps (S4-22, S4-23 of SelfAnalyzer).
//!
//! Pure: times are arguments.

use std::{collections::VecDeque, time::Duration};

use crate::{calls::Iterations, student::student_90};

/// Maximum number of stored points. Beyond it, every second one is dropped.
const POINTS_MAX: usize = 256;

/// Maximum number of parts into which the observed time is divided.
const PARTS: usize = 8;

/// Minimum length of a part, in nanoseconds.
const PART_NS_MIN: u64 = 250_000_000;

/// Upper bound on the number of future parts that average out. Phases are longer than parts, so more parts do
/// not make the mean more certain.
const INDEPENDENT_MAX: f64 = 2.0;

/// A loop of which no iteration began for this many of its mean times does not advance.
const STANDS_ITERATIONS: f64 = 20.0;

/// Upper bound on the number of parts for which a drift of the pace is assumed to continue.
const DRIFT_PARTS_MAX: f64 = 16.0;

/// What counts a program's steps, and their total number.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressSource {
    /// The variable of this name, or the metric of a rule (`rule.metric`).
    Variable { step: String, total: StepCount },
    /// The iterations of the detected loop; their total number.
    Iterations(f64),
}

/// The number of steps of a run: fixed, or read from a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum StepCount {
    Number(f64),
    Variable(String),
}

impl StepCount {
    /// Name of the variable with the number of steps; `None` if the number is fixed.
    pub fn name(&self) -> Option<&str> {
        match self {
            StepCount::Variable(name) => Some(name),
            StepCount::Number(_) => None,
        }
    }
}

/// A reading of the step counter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at_ns: u64,
    done: f64,
}

/// Readings of a program's step counter over time.
#[derive(Clone, Debug, Default)]
pub struct StepProgress {
    points: VecDeque<Point>,
    total: Option<f64>,
    /// Readings since the last stored point, and the number of readings for each stored point.
    skipped: usize,
    every: usize,
    newest: Option<Point>,
}

/// Iterations of the detected loop, observed as steps.
#[derive(Clone, Debug, Default)]
pub struct LoopProgress {
    steps: StepProgress,
    /// When the first iteration of the loop began.
    first_ns: Option<u64>,
    /// No iteration began for long: the loop may have been left, so its pace predicts nothing.
    stands: bool,
}

impl LoopProgress {
    /// Adds the state of the loop. Steps are completed when iterations begin; one that takes much longer than
    /// the mean is a change of the pace.
    pub fn observe(&mut self, of: &Iterations, now_ns: u64, total: f64) {
        let (Some(first_ns), Some(newest_ns), Some(done)) = (of.first_ns(), of.newest_ns(), of.done()) else {
            return;
        };
        let is_back = self.steps.newest.is_some_and(|newest| done < newest.done);
        // Another loop, possibly one around the last one.
        if self.first_ns.replace(first_ns) != Some(first_ns) || is_back {
            self.steps = StepProgress::default();
            self.steps.observe(first_ns, of.before(), total);
        }
        let waited = now_ns.saturating_sub(newest_ns) as f64 / of.mean_ns();
        let is_late = waited > 2.0;
        self.stands = waited > STANDS_ITERATIONS;
        let at_ns = if is_late { now_ns } else { newest_ns };
        if self.steps.newest.is_none_or(|newest| newest.at_ns < at_ns) {
            self.steps.observe(at_ns, done, total);
        }
    }

    /// `is_from_start` is whether the program was watched from its start.
    pub fn view(&self, total: f64, is_from_start: bool) -> ProgressView {
        match self.steps.view() {
            Some(view) if is_from_start && self.stands => ProgressView {
                eta: Err(WithoutEta::Stands),
                ..view
            },
            Some(view) if is_from_start => view,
            Some(view) => ProgressView::without_begin(total, view.steps_per_s, WithoutEta::BegunBefore),
            None => ProgressView::without_begin(total, None, WithoutEta::NoLoop),
        }
    }
}

/// The reason why the remaining time is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutEta {
    TooShort,
    Stands,
    Over,
    /// The session began after the program, so the number of iterations before it is unknown.
    BegunBefore,
    NoLoop,
}

impl WithoutEta {
    pub fn reason(self) -> &'static str {
        match self {
            WithoutEta::TooShort => "too few steps were seen",
            WithoutEta::Stands => "the step does not advance",
            WithoutEta::Over => "the step is past the number of steps",
            WithoutEta::BegunBefore => {
                "iterations before the session are unknown (--progress names a variable or a rule's metric that counts them)"
            }
            WithoutEta::NoLoop => {
                "no loop was found whose iterations could be counted (--progress names a variable or a rule's metric)"
            }
        }
    }
}

/// The predicted remaining time, with the bounds of its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eta {
    pub remaining: Duration,
    pub least: Duration,
    /// `None` if the pace varies too much for an upper bound.
    pub most: Option<Duration>,
}

/// Progress of a program, for display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressView {
    /// `None` if unknown.
    pub done: Option<f64>,
    pub total: f64,
    pub steps_per_s: Option<f64>,
    pub eta: Result<Eta, WithoutEta>,
    /// Time until the batch system ends the job; `None` if there is no limit, or none is known.
    pub limit: Option<Duration>,
}

impl ProgressView {
    /// The step at the job's time limit, at the mean pace; `None` without a limit or a pace.
    pub fn step_at_limit(&self) -> Option<f64> {
        let steps = self.steps_per_s? * self.limit?.as_secs_f64();
        Some((self.done? + steps).min(self.total))
    }

    /// Progress in iterations of which the number so far is unknown.
    pub fn without_begin(total: f64, steps_per_s: Option<f64>, why: WithoutEta) -> ProgressView {
        ProgressView {
            done: None,
            total,
            steps_per_s,
            eta: Err(why),
            limit: None,
        }
    }
}

impl StepProgress {
    /// Adds a reading. A lower step or another number of steps starts a new run, so earlier readings are
    /// discarded.
    pub fn observe(&mut self, now_ns: u64, done: f64, total: f64) {
        let is_back = self.newest.is_some_and(|newest| done < newest.done);
        if is_back || self.total != Some(total) {
            *self = StepProgress {
                total: Some(total),
                every: 1,
                ..StepProgress::default()
            };
        }
        let point = Point { at_ns: now_ns, done };
        self.newest = Some(point);
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        self.points.push_back(point);
        if self.points.len() > POINTS_MAX {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// The reading has no new value: the step did not advance.
    pub fn stand(&mut self, now_ns: u64) {
        if let Some((newest, total)) = self.newest.zip(self.total) {
            self.observe(now_ns, newest.done, total);
        }
    }

    /// `None` before the first reading.
    pub fn view(&self) -> Option<ProgressView> {
        let (newest, total) = self.newest.zip(self.total)?;
        let steps_per_s = self.points.front().and_then(|first| pace(*first, newest));
        Some(ProgressView {
            done: Some(newest.done),
            total,
            steps_per_s,
            eta: self.eta(newest, total, steps_per_s),
            limit: None,
        })
    }

    fn eta(&self, newest: Point, total: f64, steps_per_s: Option<f64>) -> Result<Eta, WithoutEta> {
        let left = total - newest.done;
        if left < 0.0 {
            return Err(WithoutEta::Over);
        }
        let pace = steps_per_s.ok_or(WithoutEta::TooShort)?;
        let paces = self.paces(newest);
        if paces.len() < 3 {
            return Err(WithoutEta::TooShort);
        }
        if pace <= 0.0 {
            return Err(WithoutEta::Stands);
        }
        let part_s = self.observed_ns(newest) as f64 / 1e9 / paces.len() as f64;
        let within = within(&paces, (left / pace / part_s).max(1.0));
        let time = |pace: f64| Duration::try_from_secs_f64(left / pace).ok();
        Ok(Eta {
            remaining: time(pace).ok_or(WithoutEta::Stands)?,
            least: time(pace + within).unwrap_or_default(),
            most: (pace > within).then(|| time(pace - within)).flatten(),
        })
    }

    fn observed_ns(&self, newest: Point) -> u64 {
        newest.at_ns - self.points.front().map_or(newest.at_ns, |first| first.at_ns)
    }

    /// The paces in equal parts of the observed time.
    fn paces(&self, newest: Point) -> Vec<f64> {
        let observed_ns = self.observed_ns(newest);
        let parts = (observed_ns / PART_NS_MIN).min(PARTS as u64);
        let Some(first) = self.points.front().filter(|_| parts > 0) else {
            return Vec::new();
        };
        let mut ends: Vec<Point> = vec![*first];
        for part in 1..=parts {
            let end_ns = first.at_ns + observed_ns / parts * part;
            let end = self.points.iter().find(|point| point.at_ns >= end_ns);
            let end = end.filter(|_| part < parts).unwrap_or(&newest);
            ends.push(*end);
        }
        let pairs = ends.iter().zip(&ends[1..]);
        pairs.filter_map(|(from, to)| pace(*from, *to)).collect()
    }
}

/// Half the width of the 90 % interval of the mean pace over `future` parts. It is computed from the variance
/// and the drift of at least three observed paces.
fn within(paces: &[f64], future: f64) -> f64 {
    let count = paces.len() as f64;
    let mean = paces.iter().sum::<f64>() / count;
    let (mut squares, mut moves, mut spread) = (0.0, 0.0, 0.0);
    for (number, pace) in paces.iter().enumerate() {
        let from_middle = number as f64 - (count - 1.0) / 2.0;
        squares += (pace - mean) * (pace - mean);
        moves += from_middle * (pace - mean);
        spread += from_middle * from_middle;
    }
    let student = student_90(paces.len() - 1);
    let deviation = (squares / (count - 1.0)).sqrt();
    let varies = student * deviation * (1.0 / count + 1.0 / future.min(INDEPENDENT_MAX)).sqrt();
    let drift = moves / spread;
    // The drift is at least its own standard error: a smaller one cannot be distinguished from chance.
    let rest = (squares - drift * moves).max(0.0) / (count - 2.0);
    let drift = drift.abs().max((rest / spread).sqrt());
    varies.hypot(drift * f64::midpoint(count, future).min(DRIFT_PARTS_MAX))
}

/// Steps per second between two points; `None` if their times are equal.
fn pace(from: Point, to: Point) -> Option<f64> {
    let ns = to.at_ns.checked_sub(from.at_ns).filter(|ns| *ns > 0)?;
    Some((to.done - from.done) * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::CallBegin;

    /// Simulates a program of `total` steps. Step `n` takes `step_s(n)`. The program is read twice a second
    /// between the steps `from` and `until`. Returns the prediction and the actual remaining time.
    fn predicted(total: u64, (from, until): (u64, u64), step_s: impl Fn(u64) -> f64) -> (ProgressView, f64) {
        let (mut progress, mut now_s, mut next_s) = (StepProgress::default(), 0.0, 0.0);
        let mut left_s = 0.0;
        for step in from..total {
            if step >= until {
                left_s += step_s(step);
                continue;
            }
            if now_s >= next_s || step + 1 == until {
                progress.observe((now_s * 1e9) as u64, step as f64, total as f64);
                next_s = now_s + 0.5;
            }
            now_s += step_s(step);
        }
        progress.observe((now_s * 1e9) as u64, until as f64, total as f64);
        (progress.view().unwrap(), left_s)
    }

    #[test]
    fn a_steady_program_that_is_attached_to_at_half_time_is_predicted_exactly() {
        let (view, left_s) = predicted(6_000, (3_000, 3_600), |_| 0.01);
        let eta = view.eta.unwrap();
        assert!(
            (eta.remaining.as_secs_f64() - left_s).abs() < 0.01 * left_s,
            "{view:?}"
        );
        assert_eq!((view.done, view.total), (Some(3_600.0), 6_000.0));
        assert!(eta.least <= eta.remaining && eta.most.unwrap() >= eta.remaining);
        assert!(eta.most.unwrap() - eta.least < Duration::from_secs(2), "{eta:?}");
    }

    /// A reproducible random number from 0 to 1.
    fn random(seed: u64, number: u64) -> f64 {
        let mixed = rules::pseudo_random::mixed;
        (mixed(mixed(seed) ^ number) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of fifty programs of 6 000 steps with a drifting pace and phases, how many times the interval holds the truth.
    /// `phases` is the range of the phases' lengths; `watched` steps are observed, from the start or from up to
    /// `late` steps on.
    fn held_of_fifty(phases: (f64, f64), watched: u64, late: f64) -> usize {
        let holds = |seed: &u64| {
            let seed = *seed;
            let drift = 0.4 * (random(seed, 1) - 0.5);
            let phase = (phases.0 + (phases.1 - phases.0) * random(seed, 2)) as u64;
            let slower = 1.0 + random(seed, 3);
            let from = (late * random(seed, 4)) as u64;
            let step_s = |step: u64| {
                let drifted = 0.01 * (1.0 + drift * step as f64 / 6_000.0);
                let noise = 0.8 + 0.4 * random(seed, 10 + step);
                let is_slow = !(step / phase).is_multiple_of(2);
                drifted * noise * if is_slow { slower } else { 1.0 }
            };
            let (view, left_s) = predicted(6_000, (from, from + watched), step_s);
            let eta = view.eta.unwrap();
            let most = eta.most.map_or(f64::INFINITY, |most| most.as_secs_f64());
            (eta.least.as_secs_f64()..=most).contains(&left_s)
        };
        (0..50).filter(holds).count()
    }

    /// S4: at least a tenth of each program is observed, and each kind of phase at least once.
    #[test]
    fn of_fifty_programs_with_drift_and_phases_the_interval_holds_the_truth_in_at_least_42() {
        for (phases, watched, late) in [
            ((20.0, 80.0), 1_000, 3_000.0),
            ((20.0, 80.0), 600, 0.0),
            ((50.0, 300.0), 1_000, 3_000.0),
            ((50.0, 300.0), 600, 0.0),
            ((100.0, 1_000.0), 2_000, 3_000.0),
        ] {
            let held = held_of_fifty(phases, watched, late);
            assert!(held >= 42, "{held} of 50: {phases:?}, {watched}, {late}");
        }
    }

    #[test]
    fn without_steps_there_is_no_prediction_and_the_reason_is_said() {
        let mut progress = StepProgress::default();
        assert_eq!(progress.view(), None);
        progress.observe(0, 5.0, 10.0);
        let eta = |progress: &StepProgress| progress.view().unwrap().eta;
        assert_eq!(eta(&progress), Err(WithoutEta::TooShort));
        (1..10).for_each(|second| progress.observe(second * 1_000_000_000, 5.0, 10.0));
        assert_eq!(eta(&progress), Err(WithoutEta::Stands));
        progress.observe(10_000_000_000, 11.0, 10.0);
        assert_eq!(eta(&progress), Err(WithoutEta::Over));
        // A lower step starts a new run: earlier readings cannot predict its remaining time.
        progress.observe(11_000_000_000, 2.0, 10.0);
        assert_eq!(eta(&progress), Err(WithoutEta::TooShort));
    }

    #[test]
    fn iterations_of_the_loop_are_the_steps_of_a_program_that_is_watched_from_its_start() {
        const SECOND: u64 = 1_000_000_000;
        let mut steps = LoopProgress::default();
        let view = |steps: &LoopProgress, is_from_start| steps.view(100.0, is_from_start);
        assert_eq!(view(&steps, true).eta, Err(WithoutEta::NoLoop));
        let mut inner = Iterations::new(1.0);
        (0..50).for_each(|number| _ = inner.begin(at(number * SECOND / 10)));
        steps.observe(&inner, 5 * SECOND, 100.0);
        // The outer loop begins with the first iteration of the inner one; an iteration takes 2 s.
        let mut outer = Iterations::new(20.0);
        (0..=40).for_each(|number| {
            outer.begin(at(2 * number * SECOND));
            steps.observe(&outer, (2 * number + 1) * SECOND, 100.0);
        });
        let now = view(&steps, true);
        assert_eq!((now.done, now.steps_per_s), (Some(40.0), Some(0.5)));
        assert_eq!(now.eta.unwrap().remaining.as_secs(), 120);
        let late = view(&steps, false);
        assert_eq!((late.done, late.eta), (None, Err(WithoutEta::BegunBefore)));
        // No iteration ends for some time: the pace falls. Then the loop may have been left.
        steps.observe(&outer, 100 * SECOND, 100.0);
        assert_eq!(view(&steps, true).steps_per_s, Some(0.4));
        steps.observe(&outer, 160 * SECOND, 100.0);
        assert_eq!(view(&steps, true).eta, Err(WithoutEta::Stands));
        outer.begin(at(161 * SECOND));
        steps.observe(&outer, 161 * SECOND, 100.0);
        assert!(view(&steps, true).eta.is_ok());
    }

    #[test]
    fn iterations_of_gaps_and_of_before_the_window_are_estimated() {
        let mut iterations = Iterations::new(10.0);
        iterations.begin_after(70.0);
        iterations.begin(at(1_000));
        iterations.begin(at(2_000));
        iterations.gap();
        iterations.begin(at(10_000));
        iterations.begin(at(11_000));
        assert_eq!((iterations.overall().count, iterations.done()), (2, Some(80.0)));
    }

    fn at(at_ns: u64) -> CallBegin {
        CallBegin {
            at_ns,
            ..CallBegin::default()
        }
    }

    #[test]
    fn a_long_run_keeps_few_points_over_all_of_its_time() {
        let mut progress = StepProgress::default();
        (0..100_000).for_each(|second| progress.observe(second * 1_000_000_000, second as f64, 1e6));
        assert!(progress.points.len() <= POINTS_MAX);
        assert_eq!(progress.points[0].done, 0.0);
        let eta = progress.view().unwrap().eta.unwrap();
        assert_eq!(eta.remaining.as_secs(), 900_001);
    }
}
