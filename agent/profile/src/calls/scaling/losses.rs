//! Lost threads of an iteration, by cause.

use super::{IterationParts, LoopSizes};

/// The additional work in regions, compared with the work of a single thread; in threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Inflation {
    /// The work of a single thread was measured.
    Measured(f64),
    /// The work of a single thread is extrapolated by a straight line through the measured sizes.
    Extrapolated(f64),
    /// Only one size was measured, and not that of a single thread.
    #[default]
    Unknown,
}

/// The speedup of an iteration, and its lost threads by cause. The sum of `speedup` and all causes is
/// `threads`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    pub threads: u32,
    /// An upper bound while the inflation is unknown.
    pub speedup: f64,
    /// Lost to code outside regions.
    pub sequential: f64,
    /// Lost to waiting for the last thread at the ends of regions.
    pub imbalance: f64,
    pub starting_and_ending: f64,
    /// Threads that are not in the smaller teams of some regions.
    pub small_teams: f64,
    /// Negative if more threads work less in sum, for instance because their data fits into their caches.
    pub inflation: Inflation,
}

impl Inflation {
    /// The number of lost threads; `None` if unknown.
    pub fn threads(self) -> Option<f64> {
        match self {
            Inflation::Measured(threads) | Inflation::Extrapolated(threads) => Some(threads),
            Inflation::Unknown => None,
        }
    }
}

impl Losses {
    /// `single`: the work of a single thread in an iteration, in nanoseconds, and whether it was measured.
    pub(super) fn of(threads: u32, parts: &IterationParts, single: Option<(f64, bool)>) -> Losses {
        let p = f64::from(threads);
        let time = parts.time.max(1.0);
        let work = single.map_or(parts.working, |(work, _)| work);
        let inflation = (parts.working - work) / time;
        Losses {
            threads,
            speedup: (parts.sequential + work) / time,
            sequential: (p - 1.0) * parts.sequential / time,
            imbalance: parts.waiting / time,
            starting_and_ending: (parts.starting + parts.ending) / time,
            small_teams: parts.left_out / time,
            inflation: match single {
                Some((_, true)) => Inflation::Measured(inflation),
                Some((_, false)) => Inflation::Extrapolated(inflation),
                None => Inflation::Unknown,
            },
        }
    }

    pub fn efficiency(&self) -> f64 {
        self.speedup / f64::from(self.threads.max(1))
    }

    /// The lost threads by the name of their cause in exports; `None` if unknown.
    pub fn by_cause(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("sequential", Some(self.sequential)),
            ("imbalance", Some(self.imbalance)),
            ("starting_and_ending", Some(self.starting_and_ending)),
            ("small_teams", Some(self.small_teams)),
            ("work_inflation", self.inflation.threads()),
        ]
    }

    /// The known causes with their lost threads, the greatest first.
    pub fn causes(&self) -> Vec<(&'static str, f64)> {
        let mut causes = vec![
            ("code outside parallel regions", self.sequential),
            ("imbalance", self.imbalance),
            ("start and end of regions", self.starting_and_ending),
            ("regions with smaller teams", self.small_teams),
        ];
        causes.extend(
            self.inflation
                .threads()
                .map(|threads| ("work inflation", threads)),
        );
        causes.sort_by(|one, other| other.1.total_cmp(&one.1));
        causes
    }
}

impl LoopSizes {
    /// The work of a single thread in an iteration, in nanoseconds, and whether it was measured. If it was
    /// not, it is extrapolated by a straight line through the work of at least two sizes.
    pub(super) fn single(&self) -> Option<(f64, bool)> {
        let known: Vec<(f64, f64, f64)> = self
            .measured()
            .map(|(threads, size)| (f64::from(*threads), size.mean.working, size.count as f64))
            .collect();
        if let Some((_, work, _)) = known.first().filter(|(threads, ..)| *threads <= 1.0) {
            return Some((*work, true));
        }
        let sum = |of: fn(&(f64, f64, f64)) -> f64| known.iter().map(of).sum::<f64>();
        let weights = sum(|known| known.2);
        let (threads, work) = (
            sum(|known| known.0 * known.2) / weights,
            sum(|known| known.1 * known.2) / weights,
        );
        let (mut both, mut squares) = (0.0, 0.0);
        for known in &known {
            both += known.2 * (known.0 - threads) * (known.1 - work);
            squares += known.2 * (known.0 - threads) * (known.0 - threads);
        }
        (known.len() >= 2).then(|| ((work - both / squares * (threads - 1.0)).max(0.0), false))
    }
}
