//! How the load of the program varies over its iterations, and the model's optimal number of workers.

use super::WORKERS_MAX;

/// A load: its phases and its number of iterations.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) iterations: usize,
    pub(super) phase: usize,
    pub(super) swing: usize,
    /// Whether every second phase is a plain one.
    pub(super) has_plain: bool,
    pub(super) work_us: usize,
    pub(super) latency_us: usize,
}

/// What a phase increases.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Plain,
    MoreWork,
    MoreLatency,
}

impl Load {
    pub(super) fn varying(quick: bool, has_plain: bool) -> Load {
        let phase = if quick { 15 } else { 100 };
        Load {
            iterations: 4 * phase,
            phase,
            swing: 8,
            has_plain,
            work_us: 36_000,
            latency_us: 500,
        }
    }

    /// A constant load with an optimum near 12 workers.
    pub(super) fn constant(quick: bool) -> Load {
        Load {
            iterations: if quick { 40 } else { 400 },
            phase: 0,
            swing: 1,
            has_plain: true,
            work_us: 72_000,
            latency_us: 500,
        }
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("no_plain", usize::from(!self.has_plain)),
            ("iterations", self.iterations),
            ("phase", self.phase),
            ("swing", self.swing),
            ("work_us", self.work_us),
            ("latency_us", self.latency_us),
        ];
        numbers.map(|(name, number)| format!("{name}={number}")).into()
    }

    pub(super) fn kind(&self, iteration: usize) -> Kind {
        let phase = iteration.checked_div(self.phase);
        let phase = phase.map(|phase| {
            if self.has_plain {
                phase % 4
            } else {
                phase % 2 * 2 + 1
            }
        });
        match phase {
            Some(1) => Kind::MoreWork,
            Some(3) => Kind::MoreLatency,
            _ => Kind::Plain,
        }
    }

    /// Work and latency of an iteration, in seconds.
    fn at(&self, iteration: usize) -> (f64, f64) {
        let kind = self.kind(iteration);
        let swings = |of| if kind == of { self.swing as f64 } else { 1.0 };
        (
            self.work_us as f64 * swings(Kind::MoreWork) / 1e6,
            self.latency_us as f64 * swings(Kind::MoreLatency) / 1e6,
        )
    }

    /// The number of workers at the minimum of the model.
    pub(super) fn optimum(&self, iteration: usize) -> f64 {
        let (work, latency) = self.at(iteration);
        (work / latency).sqrt().clamp(1.0, WORKERS_MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_latency_swing_in_turns_and_move_the_optimum_apart() {
        let optima = |load: Load| [0, 100, 250, 399].map(|iteration| load.optimum(iteration).round());
        assert_eq!(optima(Load::varying(false, true)), [8.0, 24.0, 8.0, 3.0]);
        assert_eq!(optima(Load::varying(false, false)), [24.0, 3.0, 24.0, 3.0]);
        assert_eq!(Load::constant(false).optimum(399), 12.0);
    }
}
