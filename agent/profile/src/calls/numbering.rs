//! Numbers the iterations of the detected loops of all processes. The loop of each rank is detected for
//! itself, at another time; iterations of ranks that begin at about the same time get the same number.

use std::collections::{BTreeMap, VecDeque};

/// Begins of iterations of a process that others are compared with.
const RECENT: usize = 64;

/// The numbers of iterations.
#[derive(Debug, Default)]
pub struct IterationNumbers {
    processes: BTreeMap<u32, Numbered>,
}

/// The last iterations of a process, with their numbers.
#[derive(Debug, Default)]
struct Numbered {
    is_rank: bool,
    /// When iterations began, by CLOCK_MONOTONIC, and their numbers.
    recent: VecDeque<(u64, u64)>,
    /// Begins and ends up to this time were reported.
    until_ns: u64,
}

impl IterationNumbers {
    /// Numbers an iteration of the process in `slot` that began; begins of a process come in the order of time.
    /// `is_rank` if the process is a rank of the job. `None` if it has a number already, or began too early:
    /// before its loop was detected, the process was reported to be in none.
    pub fn begin(&mut self, slot: u32, is_rank: bool, (begin_ns, continues): (u64, bool)) -> Option<u64> {
        let own = self.processes.get(&slot);
        let last = own.and_then(|own| own.recent.back());
        if own.is_some_and(|own| begin_ns <= own.until_ns)
            || last.is_some_and(|(last_ns, _)| begin_ns <= *last_ns)
        {
            return None;
        }
        let least = last.map_or(0, |(_, number)| number + 1);
        let number = match is_rank && !continues {
            true => self.number_of_others(slot, begin_ns).max(least),
            false => least,
        };
        let own = self.processes.entry(slot).or_default();
        own.is_rank = is_rank;
        if own.recent.len() == RECENT {
            own.recent.pop_front();
        }
        own.recent.push_back((begin_ns, number));
        Some(number)
    }

    /// The number of the process's last iteration, if that began then.
    pub fn number(&self, slot: u32, begin_ns: u64) -> Option<u64> {
        let (last_ns, number) = self.processes.get(&slot)?.recent.back()?;
        (*last_ns == begin_ns).then_some(*number)
    }

    /// All begins and ends of the process's iterations up to `until_ns` were reported. Returns whether that is
    /// new.
    pub fn advance(&mut self, slot: u32, until_ns: u64) -> bool {
        let own = self.processes.entry(slot).or_default();
        let is_new = until_ns > own.until_ns;
        own.until_ns = own.until_ns.max(until_ns);
        is_new
    }

    /// The number of the iteration of another rank that began nearest, if that is within half of an iteration;
    /// else a number that no rank has used.
    fn number_of_others(&self, slot: u32, begin_ns: u64) -> u64 {
        let others = self
            .processes
            .iter()
            .filter(|(of, known)| **of != slot && known.is_rank);
        let unused = others
            .clone()
            .filter_map(|(_, known)| Some(known.recent.back()?.1 + 1))
            .max();
        let near = others.filter_map(|(_, known)| {
            let (other_ns, number) = known
                .recent
                .iter()
                .min_by_key(|(other_ns, _)| other_ns.abs_diff(begin_ns))?;
            let apart_ns = other_ns.abs_diff(begin_ns);
            let is_near = known.length_ns().is_none_or(|length_ns| 2 * apart_ns < length_ns);
            is_near.then_some((apart_ns, *number))
        });
        near.min()
            .map(|(_, number)| number)
            .or(unused)
            .unwrap_or_default()
    }
}

impl Numbered {
    /// The time between its last two begins.
    fn length_ns(&self) -> Option<u64> {
        let before = self.recent.len().checked_sub(2)?;
        Some(self.recent.back()?.0 - self.recent.get(before)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers a begin that continues the last iteration.
    fn next(numbers: &mut IterationNumbers, slot: u32, begin_ns: u64) -> Option<u64> {
        numbers.begin(slot, true, (begin_ns, true))
    }

    /// Numbers a begin after calls were missed, or the first one.
    fn anew(numbers: &mut IterationNumbers, slot: u32, begin_ns: u64) -> Option<u64> {
        numbers.begin(slot, true, (begin_ns, false))
    }

    #[test]
    fn ranks_whose_loops_were_detected_at_different_times_number_the_same_iterations_alike() {
        let mut numbers = IterationNumbers::default();
        assert_eq!(anew(&mut numbers, 0, 200), Some(0));
        for at in 1..4 {
            assert_eq!(next(&mut numbers, 0, 200 + 100 * at), Some(at));
        }
        // Rank 1 is a little late, and its loop was detected two iterations later.
        assert_eq!(anew(&mut numbers, 1, 409), Some(2));
        assert_eq!(next(&mut numbers, 1, 509), Some(3));
        // It is read before rank 0 from then on.
        assert_eq!(next(&mut numbers, 1, 609), Some(4));
        assert_eq!(next(&mut numbers, 0, 600), Some(4));
        assert_eq!((numbers.number(0, 600), numbers.number(0, 500)), (Some(4), None));
    }

    #[test]
    fn ranks_stay_aligned_after_calls_were_missed() {
        let mut numbers = IterationNumbers::default();
        for (at, number) in [(50, 0), (150, 1)] {
            for slot in [0, 1] {
                let begin = if number == 0 { anew } else { next };
                assert_eq!(begin(&mut numbers, slot, at), Some(number));
            }
        }
        assert_eq!(anew(&mut numbers, 0, 900), Some(2));
        assert_eq!(anew(&mut numbers, 1, 903), Some(2));
        // Rank 1 alone missed calls.
        assert_eq!(
            [1_000, 1_100].map(|at| next(&mut numbers, 0, at)),
            [Some(3), Some(4)]
        );
        assert_eq!(anew(&mut numbers, 1, 1_101), Some(4));
    }

    #[test]
    fn processes_that_are_no_ranks_count_for_themselves() {
        let mut numbers = IterationNumbers::default();
        assert_eq!(numbers.begin(0, false, (10, false)), Some(0));
        assert_eq!(numbers.begin(0, false, (500, false)), Some(1));
        assert_eq!(numbers.begin(1, false, (500, false)), Some(0));
    }

    #[test]
    fn iterations_that_began_in_a_time_that_was_reported_to_have_none_get_no_number() {
        let mut numbers = IterationNumbers::default();
        assert!(numbers.advance(0, 500));
        assert_eq!(anew(&mut numbers, 0, 400), None);
        assert_eq!(anew(&mut numbers, 0, 600), Some(0));
        assert_eq!(anew(&mut numbers, 0, 600), None, "it has one");
        assert!(numbers.advance(0, 799));
        assert!(!numbers.advance(0, 799) && !numbers.advance(0, 700));
        assert_eq!(next(&mut numbers, 0, 800), Some(1));
    }
}
