//! The threads that an iteration loses, and what it loses them to.

use super::{IterationParts, LoopSizes};

/// How much more the threads work in regions than a single thread would.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inflation {
    /// Compared with iterations of a single thread.
    Measured(f64),
    /// Compared with the work of a single thread on the straight line through the known sizes.
    Extrapolated(f64),
    /// Only one size was seen.
    Unknown,
}

/// The speedup of an iteration, and the lost threads by cause. `speedup` and all causes add up to `threads`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    pub threads: u32,
    /// An upper bound while the inflation is unknown.
    pub speedup: f64,
    /// Code outside of regions.
    pub sequential: f64,
    /// Waiting at the ends of regions for the last thread.
    pub imbalance: f64,
    pub starting_and_ending: f64,
    /// Threads that regions with smaller teams leave out.
    pub small_teams: f64,
    /// Negative where more threads work less, for instance because their data fits their caches.
    pub inflation: Inflation,
}

impl Inflation {
    /// In threads; `None` if unknown.
    pub fn threads(self) -> Option<f64> {
        match self {
            Inflation::Measured(threads) | Inflation::Extrapolated(threads) => Some(threads),
            Inflation::Unknown => None,
        }
    }
}

impl Losses {
    /// `single` is the work of a single thread in an iteration, in nanoseconds, and whether it was measured.
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

    /// The causes with the lost threads, the greatest first; those that are unknown are left out.
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
    /// The work of a single thread in an iteration, in nanoseconds, and whether it was measured. Else it is
    /// extrapolated from at least two sizes, by a straight line through their work.
    pub(super) fn single(&self) -> Option<(f64, bool)> {
        let known: Vec<(f64, f64, f64)> = self
            .sizes
            .iter()
            .filter(|(_, size)| size.has_mean)
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
