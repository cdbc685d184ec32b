//! Begins and ends of the iterations of the detected loops of all processes, with numbers. The loop of each
//! rank is detected for itself, at another time; iterations of ranks that are in the same loop and begin at
//! about the same time get the same number.

use std::collections::{BTreeMap, VecDeque};

pub(crate) use rules::IterationTeams;
use rules::LoopNumber;

/// An iteration of the detected loop of a process begins or ends.
#[derive(Clone, Debug)]
pub struct IterationBoundary {
    pub slot: u32,
    /// The process is a rank of the job.
    pub is_rank: bool,
    pub thread: u32,
    /// By CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    pub side: BoundarySide,
}

#[derive(Clone, Debug)]
pub enum BoundarySide {
    End {
        begin_ns: u64,
        /// What its parallel regions do, or why that is not known.
        teams: Result<IterationTeams, &'static str>,
    },
    Begin(LoopSeen),
}

/// A loop as it was detected in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSeen {
    /// Counts the loops that were detected in the thread.
    pub ordinal: u32,
    /// The mean time of an iteration.
    pub length_ns: u64,
}

impl IterationBoundary {
    /// Boundaries are reported in this order: at one time, the end of an iteration comes before the begin of
    /// the next.
    pub fn order(&self) -> (u64, u32, bool) {
        (
            self.time_ns,
            self.slot,
            matches!(self.side, BoundarySide::Begin(_)),
        )
    }
}

/// Begins of iterations of a process that others are compared with.
const RECENT: usize = 64;

/// Ranks are in the same loop if their iterations differ in length by less than this factor.
const ALIKE: f64 = 1.6;

/// After this multiple of the length of an iteration, begins were missed.
const MISSED: f64 = 1.5;

/// The numbers of iterations.
#[derive(Debug, Default)]
pub struct IterationNumbers {
    processes: BTreeMap<u32, Numbered>,
    loops: u32,
}

/// The last iterations of a process, with their numbers.
#[derive(Debug, Default)]
struct Numbered {
    is_rank: bool,
    /// Number of its loop, and the loop.
    current: Option<(u32, LoopSeen)>,
    /// When iterations of the loop began, by CLOCK_MONOTONIC, and their numbers.
    recent: VecDeque<(u64, u64)>,
    /// Begins and ends up to this time were reported.
    until_ns: u64,
}

impl IterationNumbers {
    /// The number of the iteration at one of its boundaries, which come in order. `None` if its begin is known
    /// already, or was too early: before its loop was detected, the process was reported to be in none.
    pub fn number(&mut self, boundary: &IterationBoundary) -> Option<LoopNumber> {
        match boundary.side {
            BoundarySide::Begin(seen) => self.begin(boundary.slot, boundary.is_rank, boundary.time_ns, seen),
            BoundarySide::End { begin_ns, .. } => self.last(boundary.slot, begin_ns),
        }
    }

    fn begin(&mut self, slot: u32, is_rank: bool, begin_ns: u64, seen: LoopSeen) -> Option<LoopNumber> {
        let own = self.processes.entry(slot).or_default();
        own.is_rank = is_rank;
        let last = own.recent.back().copied();
        if begin_ns <= own.until_ns || last.is_some_and(|(last_ns, _)| begin_ns <= last_ns) {
            return None;
        }
        let continued = own.current.filter(|(_, known)| known.ordinal == seen.ordinal);
        let number = match (continued, last) {
            (Some((of, _)), Some(last)) => (of, self.next(slot, begin_ns, seen, of, last)),
            _ => self.first(slot, begin_ns, seen),
        };
        let own = self.processes.get_mut(&slot)?;
        if own.current.is_some_and(|(of, _)| of != number.0) {
            own.recent.clear();
        }
        own.current = Some((number.0, seen));
        if own.recent.len() == RECENT {
            own.recent.pop_front();
        }
        own.recent.push_back((begin_ns, number.1));
        Some(LoopNumber {
            of: number.0,
            iteration: number.1,
        })
    }

    /// The first number of a process in a loop: that of the rank that began an iteration of the same length
    /// nearest, or the first of a new loop.
    fn first(&mut self, slot: u32, begin_ns: u64, seen: LoopSeen) -> (u32, u64) {
        let nearest = self
            .others(slot, None)
            .filter(|(_, known, _)| known.is_like(&seen));
        let nearest = nearest.filter_map(|(of, _, numbered)| Some((numbered.nearest(begin_ns)?, of)));
        match nearest.min() {
            Some(((apart_ns, other, _), of)) if 2 * apart_ns < seen.length_ns => (of, other),
            Some(((_, _, greatest), of)) => (of, greatest + 1),
            None => {
                self.loops += 1;
                (self.loops, 0)
            }
        }
    }

    /// The number after the `last` one in loop `of`. If begins were missed, or other ranks have much greater
    /// numbers, it is theirs.
    fn next(&self, slot: u32, begin_ns: u64, seen: LoopSeen, of: u32, last: (u64, u64)) -> u64 {
        let least = last.1 + 1;
        let nearest = self.others(slot, Some(of));
        let nearest = nearest
            .filter_map(|(_, _, numbered)| numbered.nearest(begin_ns))
            .min();
        let Some((apart_ns, other, greatest)) = nearest else {
            return least;
        };
        let has_missed = (begin_ns - last.0) as f64 > MISSED * seen.length_ns as f64;
        let of_others = if 2 * apart_ns < seen.length_ns {
            other
        } else {
            greatest + 1
        };
        match has_missed || of_others > least + 1 {
            true => of_others.max(least),
            false => least,
        }
    }

    /// Other ranks that are in a loop, or in loop `of`.
    fn others(&self, slot: u32, of: Option<u32>) -> impl Iterator<Item = (u32, LoopSeen, &Numbered)> {
        let am_rank = self.processes.get(&slot).is_some_and(|own| own.is_rank);
        let others = self
            .processes
            .iter()
            .filter(move |(other, known)| am_rank && known.is_rank && **other != slot);
        others.filter_map(move |(_, known)| {
            let (in_loop, seen) = known.current?;
            of.is_none_or(|of| of == in_loop)
                .then_some((in_loop, seen, known))
        })
    }

    /// The number of the process's last iteration, if that began then.
    fn last(&self, slot: u32, begin_ns: u64) -> Option<LoopNumber> {
        let own = self.processes.get(&slot)?;
        let (last_ns, iteration) = *own.recent.back()?;
        let of = own.current?.0;
        (last_ns == begin_ns).then_some(LoopNumber { of, iteration })
    }

    /// All begins and ends of the process's iterations up to `until_ns` were reported. Returns whether that is
    /// new.
    pub fn advance(&mut self, slot: u32, until_ns: u64) -> bool {
        let own = self.processes.entry(slot).or_default();
        let is_new = until_ns > own.until_ns;
        own.until_ns = own.until_ns.max(until_ns);
        is_new
    }
}

impl LoopSeen {
    fn is_like(&self, other: &LoopSeen) -> bool {
        let ratio = self.length_ns.max(1) as f64 / other.length_ns.max(1) as f64;
        ratio < ALIKE && ratio.recip() < ALIKE
    }
}

impl Numbered {
    /// The begin that is nearest to a time: its distance and number, and the greatest number.
    fn nearest(&self, time_ns: u64) -> Option<(u64, u64, u64)> {
        let (_, greatest) = *self.recent.back()?;
        let apart = self
            .recent
            .iter()
            .map(|(begin_ns, number)| (begin_ns.abs_diff(time_ns), *number));
        apart.min().map(|(apart_ns, number)| (apart_ns, number, greatest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterations of 100 ns.
    const STEP: LoopSeen = LoopSeen {
        ordinal: 1,
        length_ns: 100,
    };

    /// The number in the first loop.
    fn step(numbers: &mut IterationNumbers, slot: u32, begin_ns: u64) -> Option<u64> {
        let number = numbers.begin(slot, true, begin_ns, STEP)?;
        assert_eq!(number.of, 1);
        Some(number.iteration)
    }

    #[test]
    fn ranks_whose_loops_were_detected_at_different_times_number_the_same_iterations_alike() {
        let mut numbers = IterationNumbers::default();
        for at in 0..4 {
            assert_eq!(step(&mut numbers, 0, 200 + 100 * at), Some(at));
        }
        // Rank 1 is a little late, and its loop was detected two iterations later.
        assert_eq!(step(&mut numbers, 1, 409), Some(2));
        assert_eq!(step(&mut numbers, 1, 509), Some(3));
        // It is read before rank 0 from then on.
        assert_eq!(step(&mut numbers, 1, 609), Some(4));
        assert_eq!(step(&mut numbers, 0, 600), Some(4));
        let last = |begin_ns| numbers.last(0, begin_ns).map(|number| number.iteration);
        assert_eq!((last(600), last(500)), (Some(4), None));
    }

    #[test]
    fn ranks_stay_aligned_after_calls_were_missed() {
        let mut numbers = IterationNumbers::default();
        for (at, number) in [(50, 0), (150, 1)] {
            for slot in [0, 1] {
                assert_eq!(step(&mut numbers, slot, at), Some(number));
            }
        }
        assert_eq!(step(&mut numbers, 0, 900), Some(2));
        assert_eq!(step(&mut numbers, 1, 903), Some(2));
        // Rank 1 alone missed calls.
        assert_eq!(
            [1_000, 1_100].map(|at| step(&mut numbers, 0, at)),
            [Some(3), Some(4)]
        );
        assert_eq!(step(&mut numbers, 1, 1_101), Some(4));
    }

    /// The loop that is detected first may be an inner one, and that of another rank the outer one.
    #[test]
    fn iterations_of_different_loops_never_have_the_same_number() {
        let mut numbers = IterationNumbers::default();
        let outer = |ordinal| LoopSeen {
            ordinal,
            length_ns: 2_000,
        };
        for at in 0..40 {
            assert_eq!(step(&mut numbers, 0, 1_000 + 100 * at), Some(at));
        }
        let number = numbers.begin(1, true, 3_000, outer(1));
        assert_eq!(number, Some(LoopNumber { of: 2, iteration: 0 }));
        // Rank 0 finds the outer loop, too.
        let number = numbers.begin(0, true, 5_000, outer(2));
        assert_eq!(number, Some(LoopNumber { of: 2, iteration: 1 }));
        let number = numbers.begin(1, true, 5_010, outer(1));
        assert_eq!(number, Some(LoopNumber { of: 2, iteration: 1 }));
    }

    #[test]
    fn processes_that_are_no_ranks_have_loops_of_their_own() {
        let mut numbers = IterationNumbers::default();
        let mut begin = |slot, begin_ns| numbers.begin(slot, false, begin_ns, STEP);
        assert_eq!(begin(0, 10), Some(LoopNumber { of: 1, iteration: 0 }));
        assert_eq!(begin(0, 500), Some(LoopNumber { of: 1, iteration: 1 }));
        assert_eq!(begin(1, 500), Some(LoopNumber { of: 2, iteration: 0 }));
    }

    #[test]
    fn iterations_that_began_in_a_time_that_was_reported_to_have_none_get_no_number() {
        let mut numbers = IterationNumbers::default();
        assert!(numbers.advance(0, 500));
        assert_eq!(step(&mut numbers, 0, 400), None);
        assert_eq!(step(&mut numbers, 0, 600), Some(0));
        assert_eq!(step(&mut numbers, 0, 600), None, "it has one");
        assert!(numbers.advance(0, 699));
        assert!(!numbers.advance(0, 699) && !numbers.advance(0, 650));
        assert_eq!(step(&mut numbers, 0, 700), Some(1));
    }
}
