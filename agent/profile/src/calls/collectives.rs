//! Splits communication efficiency into serialisation and transfer, from the times at which each rank enters
//! and leaves collectives.
//!
//! Only collectives that no rank leaves before all have entered are used. Between two of them every rank has
//! its own *way*: from leaving the first until entering the second. On a network without cost all ranks would
//! leave at the last arrival, so that a run would take the sum of the longest ways. This gives POP's factors
//! without a simulator (co-design.pop-coe.eu/metrics; Dimemas does the same for all messages): useful time U,
//! elapsed time E, serialisation efficiency = max over ranks of U / sum of longest ways, transfer efficiency
//! = sum of longest ways / E, and their product is the communication efficiency max U / E.
//!
//! Calls are matched by time alone, from the newest calls of every rank: calls of one function match if all
//! ranks are inside at one instant. The effect of other messages is not measured; if they take more than a
//! small part of the time, or if collectives do not cover all ranks, no result is reported. Pure: times come
//! with the calls.

use std::{collections::VecDeque, fmt};

use abi::Call;

use crate::format::percent;

/// Maximum number of calls that wait for matching calls of other ranks, over all ranks.
const QUEUED_MAX: usize = 1 << 18;

/// Possible difference between the clocks of two CPUs.
const SLACK_NS: u64 = 1_000;

/// Greatest share of the ranks' time in other MPI calls at which waiting there can be neglected.
const OTHER_MAX: f64 = 0.02;

/// Greatest share of collectives that do not cover all ranks; above it nothing is reported.
const APART_MAX: f64 = 0.01;

/// If this share of the collectives is unmatched after [`GIVE_UP_AFTER`] calls, the search ends.
const GIVE_UP_SHARE: f64 = 0.1;

/// Calls after which the search may end.
const GIVE_UP_AFTER: u64 = 10_000;

/// Minimum number of collectives for a result.
const COLLECTIVES_MIN: u64 = 3;

/// The recent values cover about this much time, in nanoseconds.
const RECENT_NS: u64 = 2_000_000_000;

/// The factors of communication efficiency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Efficiency lost because ranks wait for each other.
    pub serialisation: f64,
    /// Efficiency lost to the transfer of data.
    pub transfer: f64,
    /// Share of the ranks' time from entering a collective until the last rank enters.
    pub waiting: f64,
    /// Share of the ranks' time from the last arrival until they leave.
    pub transferring: f64,
    pub collectives: u64,
}

/// Why there is no [`Split`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoSplit {
    /// Too few collectives of all ranks were observed.
    TooFew,
    /// This share of the collectives did not cover all ranks.
    Apart(f64),
    /// This share of the ranks' time is in other MPI calls.
    Other(f64),
    /// More than one thread of a rank calls collectives.
    Threads,
}

impl fmt::Display for NoSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSplit::TooFew => write!(f, "too few collectives of all ranks were seen"),
            NoSplit::Apart(share) => {
                let share = percent(*share);
                write!(
                    f,
                    "{share} of the calls of collectives were not of all ranks together"
                )
            }
            NoSplit::Other(share) => {
                let share = percent(*share);
                write!(
                    f,
                    "only collectives that wait for all ranks, such as MPI_Barrier, show them, and {share} of the time is in other MPI calls"
                )
            }
            NoSplit::Threads => write!(f, "several threads of a rank call collectives"),
        }
    }
}

/// A rank's call of a collective.
#[derive(Clone, Copy, Debug)]
struct Visit {
    probe: u32,
    came_ns: u64,
    left_ns: u64,
    /// Time of the thread inside MPI until it came.
    mpi_before_ns: u64,
    /// Time of the thread inside MPI until it left.
    mpi_after_ns: u64,
    /// No call was missed since the previous visit.
    follows: bool,
}

#[derive(Clone, Debug, Default)]
struct RankVisits {
    visits: VecDeque<Visit>,
    thread: Option<u32>,
    /// No call was missed since the newest visit.
    follows: bool,
    /// A call was missed since the newest collective of all ranks.
    is_broken: bool,
}

/// Sums over the ways from one collective of all ranks to the next.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    ways: u64,
    /// From one last arrival to the next.
    elapsed_ns: u64,
    longest_ns: u64,
    /// Outside MPI on the ways, by rank.
    useful_ns: Vec<u64>,
    /// Inside MPI on the ways, over all ranks.
    other_ns: u64,
    waiting_ns: u64,
    transfer_ns: u64,
}

/// Matches the collectives of all ranks of a job as they are read.
#[derive(Clone, Debug, Default)]
pub struct Collectives {
    ranks: Vec<RankVisits>,
    /// Arrival of the last rank at the newest matched collective, and each rank's visit to it.
    newest: Option<(u64, Vec<Visit>)>,
    sums: Sums,
    /// Earlier sums with their times, for the recent values.
    before: VecDeque<(u64, Sums)>,
    met: u64,
    /// Calls without a match on other ranks.
    apart: u64,
    has_threads: bool,
    is_given_up: bool,
}

impl Collectives {
    /// Sets the number of ranks. If it changes, the state is reset, because new ranks took no part in earlier
    /// calls.
    pub fn expect(&mut self, ranks: usize) {
        if ranks != self.ranks.len() {
            *self = Collectives {
                ranks: vec![RankVisits::default(); ranks],
                ..Collectives::default()
            };
        }
    }

    /// Takes the content of a rank's ring: calls in order, `None` for each that was overwritten, and the
    /// number of overwritten calls before them. `is_one` selects the probes of collectives that no rank
    /// leaves before all have entered.
    pub fn take(&mut self, rank: usize, calls: &[Option<Call>], skipped: u64, is_one: impl Fn(u32) -> bool) {
        let most = (QUEUED_MAX / self.ranks.len().max(1)).max(1);
        let Some(rank) = self.ranks.get_mut(rank).filter(|_| !self.is_given_up) else {
            return;
        };
        rank.follows &= skipped == 0;
        for call in calls {
            match call {
                Some(call) if is_one(call.probe) => {
                    self.has_threads |= rank.thread.is_some_and(|thread| thread != call.thread);
                    rank.thread = Some(call.thread);
                    rank.push(call, most);
                }
                Some(_) => {}
                None => rank.follows = false,
            }
        }
    }

    /// Matches the queued calls.
    pub fn meet(&mut self) {
        while let Some((came, left, is_same)) = self.heads() {
            if is_same && came <= left + SLACK_NS {
                self.add(came);
                continue;
            }
            // A visit that ended before another rank came belongs to another collective. If the functions
            // differ, the visit that ended first is unmatched.
            let over = if came > left + SLACK_NS {
                came - SLACK_NS
            } else {
                left + 1
            };
            let counts = self
                .ranks
                .iter()
                .all(|rank| rank.visits.front().is_some_and(|head| head.follows));
            for rank in &mut self.ranks {
                if rank.visits.front().is_some_and(|head| head.left_ns < over) {
                    rank.leave();
                    self.apart += u64::from(counts);
                }
            }
        }
        let seen = self.apart + self.met * self.ranks.len() as u64;
        if seen >= GIVE_UP_AFTER && self.apart as f64 > GIVE_UP_SHARE * seen as f64 {
            self.is_given_up = true;
            self.ranks
                .iter_mut()
                .for_each(|rank| rank.visits = VecDeque::new());
        }
    }

    /// Records the sums at this time, for the recent values.
    pub fn look(&mut self, now_ns: u64) {
        self.before.push_back((now_ns, self.sums.clone()));
        while self.before.len() > 2 && now_ns.saturating_sub(self.before[1].0) >= RECENT_NS {
            self.before.pop_front();
        }
    }

    /// Over all observed collectives.
    pub fn split(&self) -> Result<Split, NoSplit> {
        self.split_of(&self.sums)
    }

    pub fn recent_split(&self) -> Result<Split, NoSplit> {
        let before = self.before.front().map(|(_, sums)| sums);
        self.split_of(&before.map_or_else(|| self.sums.clone(), |before| self.sums.since(before)))
    }

    fn split_of(&self, sums: &Sums) -> Result<Split, NoSplit> {
        let ranks = self.ranks.len() as u64;
        let share_apart = self.apart as f64 / (self.apart + self.met * ranks).max(1) as f64;
        if self.has_threads {
            return Err(NoSplit::Threads);
        }
        if share_apart > APART_MAX {
            return Err(NoSplit::Apart(share_apart));
        }
        if sums.ways < COLLECTIVES_MIN || sums.elapsed_ns == 0 || sums.longest_ns == 0 {
            return Err(NoSplit::TooFew);
        }
        let share = |ns: u64| ns as f64 / (sums.elapsed_ns as f64 * ranks as f64);
        if share(sums.other_ns) > OTHER_MAX {
            return Err(NoSplit::Other(share(sums.other_ns)));
        }
        let useful = sums.useful_ns.iter().copied().max().unwrap_or_default();
        Ok(Split {
            serialisation: useful as f64 / sums.longest_ns as f64,
            transfer: sums.longest_ns as f64 / sums.elapsed_ns as f64,
            waiting: share(sums.waiting_ns),
            transferring: share(sums.transfer_ns),
            collectives: sums.ways,
        })
    }

    /// For the oldest visits of all ranks: the last arrival, the first departure, and whether all are calls
    /// of one function.
    fn heads(&self) -> Option<(u64, u64, bool)> {
        let first = self.ranks.first()?.visits.front()?;
        let (mut came, mut left, mut is_same) = (first.came_ns, first.left_ns, true);
        for rank in &self.ranks {
            let head = rank.visits.front()?;
            came = came.max(head.came_ns);
            left = left.min(head.left_ns);
            is_same &= head.probe == first.probe;
        }
        Some((came, left, is_same))
    }

    /// The oldest visits of all ranks form one collective.
    fn add(&mut self, came: u64) {
        let heads: Vec<Visit> = self.ranks.iter_mut().filter_map(RankVisits::leave).collect();
        let is_broken = self
            .ranks
            .iter_mut()
            .fold(false, |any, rank| any | std::mem::take(&mut rank.is_broken));
        self.met += 1;
        if let (Some((before, left)), false) = (&self.newest, is_broken) {
            self.sums.add(left, &heads, *before, came);
        }
        self.newest = Some((came, heads));
    }
}

impl RankVisits {
    /// Removes the oldest visit.
    fn leave(&mut self) -> Option<Visit> {
        let oldest = self.visits.pop_front()?;
        self.is_broken |= !oldest.follows;
        Some(oldest)
    }

    fn push(&mut self, call: &Call, most: usize) {
        if self.visits.len() >= most {
            self.leave();
            self.is_broken = true;
        }
        self.visits.push_back(Visit {
            probe: call.probe,
            came_ns: call.entered_ns,
            left_ns: call.entered_ns + call.duration_ns,
            mpi_before_ns: call.closed_ns.saturating_sub(call.duration_ns),
            mpi_after_ns: call.closed_ns,
            follows: self.follows,
        });
        self.follows = true;
    }
}

impl Sums {
    /// Adds the ways from one collective, whose last arrival was at `before`, to the next.
    fn add(&mut self, from: &[Visit], to: &[Visit], before: u64, came: u64) {
        self.useful_ns.resize(to.len(), 0);
        let mut longest = 0;
        for ((from, to), useful) in from.iter().zip(to).zip(&mut self.useful_ns) {
            let way = to.came_ns.saturating_sub(from.left_ns);
            let other = to.mpi_before_ns.saturating_sub(from.mpi_after_ns).min(way);
            longest = longest.max(way);
            *useful += way - other;
            self.other_ns += other;
            self.transfer_ns += from.left_ns.saturating_sub(before);
            self.waiting_ns += came.saturating_sub(to.came_ns);
        }
        self.ways += 1;
        self.elapsed_ns += came.saturating_sub(before);
        self.longest_ns += longest;
    }

    fn since(&self, before: &Sums) -> Sums {
        let useful = self.useful_ns.iter().enumerate();
        let earlier = |rank: usize| before.useful_ns.get(rank).copied().unwrap_or_default();
        Sums {
            ways: self.ways - before.ways,
            elapsed_ns: self.elapsed_ns - before.elapsed_ns,
            longest_ns: self.longest_ns - before.longest_ns,
            useful_ns: useful.map(|(rank, ns)| ns - earlier(rank)).collect(),
            other_ns: self.other_ns - before.other_ns,
            waiting_ns: self.waiting_ns - before.waiting_ns,
            transfer_ns: self.transfer_ns - before.transfer_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: u32 = 1;
    const OTHER: u32 = 2;

    /// Simulated ranks that compute, meet and go on, with the calls that each has made.
    struct Job {
        now: Vec<u64>,
        mpi: Vec<u64>,
        calls: Vec<Vec<Option<Call>>>,
    }

    impl Job {
        fn of(ranks: usize) -> Job {
            Job {
                now: vec![1_000; ranks],
                mpi: vec![0; ranks],
                calls: vec![Vec::new(); ranks],
            }
        }

        fn call(&mut self, rank: usize, probe: u32, until: u64) {
            let duration_ns = until - self.now[rank];
            self.mpi[rank] += duration_ns;
            self.calls[rank].push(Some(Call {
                probe,
                entered_ns: self.now[rank],
                duration_ns,
                closed_ns: self.mpi[rank],
                thread: rank as u32,
                ..Call::default()
            }));
            self.now[rank] = until;
        }

        /// Each rank computes for the given time, then all meet; then the transfer takes the given time of
        /// each.
        fn meet(&mut self, computes: &[u64], transfer: &[u64]) {
            let pairs = self.now.iter_mut().zip(computes);
            pairs.for_each(|(now, computes)| *now += computes);
            let last = self.now.iter().copied().max().unwrap();
            for (rank, transfer) in transfer.iter().enumerate() {
                self.call(rank, ALL, last + transfer);
            }
        }

        fn seen(&self) -> Collectives {
            let mut seen = Collectives::default();
            seen.expect(self.calls.len());
            for (rank, calls) in self.calls.iter().enumerate() {
                seen.take(rank, calls, 0, |probe| probe == ALL);
            }
            seen.meet();
            seen
        }
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn ranks_that_take_turns_lose_to_serialisation_and_a_slow_network_to_transfer() {
        let mut job = Job::of(2);
        for round in 0..20 {
            let computes = if round % 2 == 0 {
                [60_000, 20_000]
            } else {
                [20_000, 60_000]
            };
            job.meet(&computes, &[20_000, 20_000]);
        }
        // The first way is not observed, because it began before. Ten of the other 19 are long for rank 1.
        let found = job.seen().split().unwrap();
        let (useful, longest, elapsed) = (10.0 * 60.0 + 9.0 * 20.0, 19.0 * 60.0, 19.0 * 80.0);
        assert!(near(found.serialisation, useful / longest), "{found:?}");
        assert!(near(found.transfer, longest / elapsed), "{found:?}");
        assert!(
            near(found.waiting, 0.25) && near(found.transferring, 0.25),
            "{found:?}"
        );
        assert_eq!(found.collectives, 19);
    }

    #[test]
    fn ranks_that_were_not_all_attached_at_once_are_put_together_all_the_same() {
        let mut job = Job::of(3);
        for _ in 0..20 {
            job.meet(&[50, 10, 30], &[5, 5, 5]);
        }
        let overall = job.seen().split().unwrap();
        job.calls[0].drain(..3);
        job.calls[2].drain(..1);
        let found = job.seen().split().unwrap();
        assert_eq!(found.collectives, overall.collectives - 3);
        assert!(
            near(found.transfer, overall.transfer) && near(found.serialisation, 1.0),
            "{found:?}"
        );
    }

    #[test]
    fn ways_in_which_calls_were_missed_do_not_count() {
        let mut job = Job::of(2);
        for _ in 0..40 {
            job.meet(&[90_000, 50_000], &[10_000, 10_000]);
        }
        job.calls[1][10] = None;
        job.calls[1][11] = None;
        let found = job.seen().split().unwrap();
        // The lost call makes two collectives unusable, and so three ways.
        assert_eq!(found.collectives, 39 - 3);
        assert!(near(found.transfer, 0.9), "{found:?}");
    }

    #[test]
    fn collectives_of_some_ranks_only_leave_nothing_said() {
        let mut job = Job::of(4);
        for round in 0..100_u64 {
            for pair in [[0, 1], [2, 3]] {
                // The second pair lags behind by a growing amount.
                let end = job.now[pair[0]].max(job.now[pair[1]])
                    + 1_000_000
                    + 40_000 * pair[0] as u64 * (round % 7);
                for rank in pair {
                    job.now[rank] = end - 20_000 * (1 + rank as u64 % 2);
                    job.call(rank, ALL, end);
                }
            }
        }
        let found = job.seen().split();
        assert!(
            matches!(found, Err(NoSplit::Apart(_) | NoSplit::TooFew)),
            "{found:?}"
        );
    }

    #[test]
    fn other_messages_that_take_their_time_leave_nothing_said() {
        let mut job = Job::of(2);
        for _ in 0..20 {
            job.now[0] += 1_000;
            job.call(0, OTHER, job.now[0] + 30_000);
            job.meet(&[60_000, 91_000], &[9_000, 9_000]);
        }
        let found = job.seen().split();
        assert!(
            matches!(found, Err(NoSplit::Other(share)) if near(share, 0.15)),
            "{found:?}"
        );
    }

    #[test]
    fn a_program_that_never_meets_is_given_up_and_keeps_nothing() {
        let mut job = Job::of(2);
        for round in 0..20_000 {
            let rank = round % 2;
            let at = 1_000_000 * round as u64 + 10_000;
            job.now[rank] = at;
            job.call(rank, ALL, at + 5_000);
        }
        let seen = job.seen();
        assert!(seen.is_given_up && seen.ranks.iter().all(|rank| rank.visits.is_empty()));
        assert!(matches!(seen.split(), Err(NoSplit::Apart(_))));
    }

    proptest! {
        /// The product is the communication efficiency max U / E, and no factor is above 1.
        #[test]
        fn factors_multiply_to_the_communication_efficiency(
            rounds in prop::collection::vec((prop::collection::vec(1_u64..1_000_000, 3), prop::collection::vec(1_u64..100_000, 3)), 5..40)
        ) {
            let mut job = Job::of(3);
            for (computes, transfer) in &rounds {
                job.meet(computes, transfer);
            }
            let seen = job.seen();
            let found = seen.split().unwrap();
            let useful = seen.sums.useful_ns.iter().max().unwrap();
            let communication = *useful as f64 / seen.sums.elapsed_ns as f64;
            prop_assert!(near(found.serialisation * found.transfer, communication));
            prop_assert!(found.serialisation <= 1.0 && found.transfer <= 1.0);
            prop_assert_eq!(found.collectives, rounds.len() as u64 - 1);
        }
    }
}
