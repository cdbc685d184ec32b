//! Extrapolates the counters of functions that are sampled in windows: the counted values plus an estimate
//! for the gaps, from the pace of the last windows. The result is never less than what was counted, and never
//! less than an earlier estimate.
//!
//! Pace is calls per CPU time, because a program that is preempted calls less often, watched or not. Of the
//! CPU time w of a window the process had w − n·c for itself, with n hits of price c. So calls in a gap are
//! faster than in the windows by w / (w − n·c). That holds for a program that sets its own pace. If it is
//! busy waiting, the waiting may absorb the price, and the true pace is that of the windows; if ranks wait
//! for each other, the prices that other ranks pay slow it down too. The range covers both cases. If the
//! range is too wide, the program may sleep for most of the time: then pace is calls per time in which its threads
//! run or sleep, of which the price is a smaller part, and the range covers both. The narrower range is used. If it is
//! too wide, too, calls are estimated at the pace of the windows, as a lower bound. Time inside is estimated by its
//! share of the time in the windows.
//!
//! CPU time that a rank takes while it waits in MPI does not make it call more often: the more of its CPU time
//! was that, the more its pace is calls per elapsed time. The range covers both clocks, and how the pace varied
//! within the windows and between them.

mod clock;
mod pace;
mod scatter;

use std::collections::{BTreeSet, VecDeque};

use abi::Totals;

pub use clock::CountTime;
use clock::ProgramClock;
pub(super) use pace::PRICE_ERROR;
use pace::Pace;
use scatter::{Marks, PaceSlice, Slices};

/// Gaps are estimated from this many preceding windows.
const WINDOWS: usize = 4;

/// One process in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessWindow {
    pub length: CountTime,
    /// Threads that call MPI; if none does, those that hit probes.
    pub threads: u64,
    /// Threads that hit probes.
    pub probed: u64,
    /// CPU time of the process that its hits took, in nanoseconds.
    pub cost_ns: f64,
    /// Time that hits took in a thread of each other process, summed, in nanoseconds.
    pub others_ns: f64,
    /// Time of its threads inside the library, in nanoseconds.
    pub inside_ns: u64,
    /// The part of `inside_ns` spent waiting for a CPU.
    pub waited_ns: u64,
    /// At its end a thread was inside the library.
    pub ends_inside: bool,
}

/// The part of the CPU time of windows that was spent inside the library.
fn inside_share(windows: impl Iterator<Item = (ProcessWindow, f64)>) -> f64 {
    let (mut cpu_ns, mut inside_ns) = (0.0, 0.0);
    for (window, weight) in windows {
        cpu_ns += weight * window.length.cpu_ns as f64;
        inside_ns += weight * window.inside_ns.saturating_sub(window.waited_ns) as f64;
    }
    // Without CPU time elapsed time is the only clock.
    if cpu_ns > 0.0 {
        (inside_ns / cpu_ns).min(1.0)
    } else {
        1.0
    }
}

/// For one function: calls, nested calls, timed calls, time, bytes, calls with unknown bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amounts([f64; 6]);

/// Amounts that follow the pace of calls; the time inside calls is proportional to elapsed time.
const PACED: [bool; 6] = [true, true, true, false, true, true];

impl Amounts {
    fn of(totals: &Totals) -> [u64; 6] {
        let Totals {
            calls,
            nested,
            timed,
            time_ns,
            bytes,
            bytes_unknown,
            ..
        } = *totals;
        [calls, nested, timed, time_ns, bytes, bytes_unknown]
    }

    fn between(from: &Totals, to: &Totals) -> Amounts {
        let (from, to) = (Amounts::of(from), Amounts::of(to));
        Amounts(std::array::from_fn(|index| {
            to[index].saturating_sub(from[index]) as f64
        }))
    }

    fn calls(&self) -> f64 {
        self.0[0]
    }

    fn time(&self) -> f64 {
        self.0[3]
    }

    fn add_time(&mut self, ns: f64) {
        self.0[3] += ns;
    }

    fn limit_time(&mut self, most_ns: f64) {
        self.0[3] = self.0[3].min(most_ns);
    }

    fn add(&mut self, other: &Amounts) {
        self.add_weighted(other, 1.0);
    }

    fn add_weighted(&mut self, other: &Amounts, weight: f64) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, more)| *sum += weight * more);
    }
}

/// Calls of one function of which only one end was recorded.
fn unpaired(counted: &[Totals], probe: u32) -> u64 {
    counted.get(probe as usize).map_or(0, |totals| totals.unpaired)
}

/// The estimate for gaps, in addition to what was counted in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct GapEstimate {
    amounts: Amounts,
    /// Calls at the pace of the windows.
    calls_min: f64,
    /// Calls at the greatest pace.
    calls_max: f64,
    /// How many calls more these are than by CPU time alone.
    between_clocks: f64,
    /// The square of the calls by which the pace may vary.
    scatter: f64,
    is_unbounded: bool,
    /// The part of the time inside that was spent waiting for a CPU.
    waited_ns: f64,
    /// Returns without an entry, and entries without a return, which occur because entry and return probes
    /// are attached and detached at different times. They are no losses.
    unpaired_at_ends: u64,
}

impl GapEstimate {
    fn add(&mut self, other: &GapEstimate) {
        self.amounts.add(&other.amounts);
        self.calls_min += other.calls_min;
        self.calls_max += other.calls_max;
        self.between_clocks += other.between_clocks;
        self.scatter += other.scatter;
        self.is_unbounded |= other.is_unbounded;
        self.waited_ns += other.waited_ns;
        self.unpaired_at_ends += other.unpaired_at_ends;
    }
}

#[derive(Clone, Copy, Debug)]
struct Clocks {
    elapsed: f64,
    cpu: f64,
    /// By the program's clock, and by elapsed time as far as it is busy inside the library.
    estimated: f64,
}

/// The calls of a function in the preceding windows, and their length, both weighted.
#[derive(Clone, Debug, Default)]
struct WindowCalls {
    amounts: Amounts,
    cpu_ns: f64,
    /// By the program's clock.
    own_ns: f64,
    at_ns: f64,
    slices: Slices,
}

impl WindowCalls {
    /// A time by each clock, in lengths of the windows: elapsed time, CPU time, and what lies between them where
    /// this part of the CPU time is spent inside the library.
    fn clocks(&self, (inside, clock): (f64, ProgramClock), of: CountTime) -> Clocks {
        let elapsed = of.at_ns as f64 / self.at_ns.max(1.0);
        let ratio = |length: u64, all: f64| match all > 0.0 {
            true => length as f64 / all,
            false => elapsed,
        };
        let own = ratio(of.by(clock), self.own_ns);
        Clocks {
            elapsed,
            cpu: ratio(of.cpu_ns, self.cpu_ns),
            estimated: own + inside * (elapsed - own),
        }
    }
}

/// A gap that has not ended.
#[derive(Clone, Debug, Default)]
struct Gap {
    since: CountTime,
    /// The counters when the gap began; probes are detached a moment later.
    counted: Vec<Totals>,
    functions: BTreeSet<u32>,
    /// By function in ascending order: what the preceding windows had of it. Contains only functions that were
    /// sampled before.
    seen: Vec<(u32, WindowCalls)>,
    pace: Option<Pace>,
    clock: ProgramClock,
    /// The part of the CPU time that was spent inside the library.
    inside: f64,
    waited: f64,
}

/// A function in a window: what was counted, and its pace.
type FunctionWindow = (u32, Amounts, Vec<PaceSlice>);

/// The uncertainty of an estimated number of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// Calls that were counted.
    pub counted: u64,
    pub counted_bytes: u64,
    /// Lower bound of the number of calls.
    pub from: u64,
    /// Upper bound; `None` if unknown.
    pub to: Option<u64>,
    /// The part of the time in which calls were counted.
    pub watched: f64,
}

impl Estimate {
    /// For a function whose calls were all counted.
    pub fn exact(calls: u64, bytes: u64) -> Estimate {
        Estimate {
            counted: calls,
            counted_bytes: bytes,
            from: calls,
            to: Some(calls),
            watched: 1.0,
        }
    }

    /// The sum for two processes that were watched equally long.
    pub fn and(self, other: Estimate) -> Estimate {
        Estimate {
            counted: self.counted + other.counted,
            counted_bytes: self.counted_bytes + other.counted_bytes,
            from: self.from + other.from,
            to: self.to.zip(other.to).map(|(one, other)| one + other),
            watched: self.watched.min(other.watched),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Unwatched {
    /// The begin of the open window, and the counters at that time.
    opened: Option<(CountTime, Vec<Totals>)>,
    /// Since the last gap, which may be longer than the open window.
    marks: Marks,
    windows: VecDeque<(ProcessWindow, Vec<FunctionWindow>)>,
    gap: Option<Gap>,
    beyond: Vec<GapEstimate>,
    /// Total length of past gaps, by function.
    gaps_ns: Vec<u64>,
}

impl Unwatched {
    /// Whether some function was not watched at some time.
    pub fn has_gaps(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// A window begins: fixes the estimate for the gap.
    pub fn open(&mut self, at: CountTime, counted: &[Totals]) {
        if let Some(gap) = self.gap.take() {
            for probe in &gap.functions {
                let index = *probe as usize;
                let of_gap = gap.beyond(*probe, at, counted);
                let (Some(beyond), Some(gaps_ns)) = (self.beyond.get_mut(index), self.gaps_ns.get_mut(index))
                else {
                    continue;
                };
                beyond.add(&of_gap);
                beyond.unpaired_at_ends +=
                    unpaired(counted, *probe).saturating_sub(unpaired(&gap.counted, *probe));
                *gaps_ns += at.since(gap.since).at_ns;
            }
        }
        self.opened = Some((at, counted.to_vec()));
    }

    /// The program may have changed: the pace of earlier windows is not used for gaps that begin from now on.
    pub fn forget_pace(&mut self) {
        self.windows.clear();
    }

    /// The program was changed: how its pace varied before says nothing about the time from now on.
    pub fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }

    /// The counters at a reading. In a gap they are of no use.
    pub fn mark(&mut self, at: CountTime, counted: &[Totals]) {
        if self.gap.is_none() {
            self.marks.add(at, counted);
        }
    }

    /// The begin of the open window, and the counters at that time.
    pub fn opened(&self) -> Option<(CountTime, &[Totals])> {
        self.opened.as_ref().map(|(at, counted)| (*at, &counted[..]))
    }

    /// The window ends, and `functions` are not watched from now on. `open` contains calls of them that have
    /// not returned, with the time they took until now: their returns will not be recorded.
    pub fn close_window(
        &mut self,
        at: CountTime,
        counted: &[Totals],
        open: &[(u32, u64)],
        functions: &BTreeSet<u32>,
        window: ProcessWindow,
    ) {
        // A process that joined while no window was open has no counters at the begin.
        let opened = self.opened.take();
        let (opened, before) = opened.unwrap_or_else(|| (at, counted.to_vec()));
        let marks = std::mem::take(&mut self.marks);
        let probes = functions.last().map_or(0, |last| *last as usize + 1);
        let probes = probes.max(counted.len()).max(self.beyond.len());
        self.beyond.resize(probes, GapEstimate::default());
        self.gaps_ns.resize(self.beyond.len(), 0);
        let nothing = Totals::default();
        let seen = functions.iter().filter_map(|probe| {
            let to = counted.get(*probe as usize)?;
            let from = before.get(*probe as usize).unwrap_or(&nothing);
            let mut amounts = Amounts::between(from, to);
            let open = open
                .iter()
                .filter(|(of, _)| of == probe)
                .map(|(_, ns)| *ns)
                .sum::<u64>() as f64;
            amounts.add_time(open);
            // Counters are read a moment after the window ends: on a busy machine that is long.
            amounts.limit_time((window.length.at_ns * window.threads.max(window.probed).max(1)) as f64);
            self.beyond.get_mut(*probe as usize)?.amounts.add_time(open);
            let slices = marks.slices(*probe, (opened, &before), (at, counted));
            Some((*probe, amounts, slices))
        });
        let seen: Vec<_> = seen.collect();
        if window.length.at_ns > 0 {
            self.windows.push_back((window, seen));
        }
        if self.windows.len() > WINDOWS {
            self.windows.pop_front();
        }
        self.gap = Some(self.gap_from(at, counted, functions));
    }

    fn gap_from(&self, at: CountTime, counted: &[Totals], functions: &BTreeSet<u32>) -> Gap {
        // The pace may have changed since a long window, such as that at the start: it counts for no more than
        // the last one.
        let last_ns = self.windows.back().map_or(0, |(window, _)| window.length.at_ns) as f64;
        let weight = |window: &ProcessWindow| (last_ns / window.length.at_ns.max(1) as f64).min(1.0);
        let windows = || self.windows.iter().map(|(window, _)| (*window, weight(window)));
        let threads = self.windows.back().map_or(1, |(window, _)| window.threads);
        let (pace, clock) = Pace::by_fitting_clock(windows(), threads);
        let of_function = |probe: &u32| {
            // A function that was added recently has only its own windows.
            let mut all = WindowCalls::default();
            for (window, seen) in &self.windows {
                if let Some((_, amounts, slices)) = seen.iter().find(|(of, ..)| of == probe) {
                    all.at_ns += weight(window) * window.length.at_ns as f64;
                    all.cpu_ns += weight(window) * window.length.cpu_ns as f64;
                    all.own_ns += weight(window) * window.length.by(clock) as f64;
                    all.amounts.add_weighted(amounts, weight(window));
                    all.slices.of.extend(slices);
                    all.slices.windows += 1;
                    all.slices.calls += amounts.calls();
                }
            }
            (all.at_ns > 0.0).then_some((*probe, all))
        };
        let inside: f64 = windows()
            .map(|(window, weight)| weight * window.inside_ns as f64)
            .sum();
        let waited: f64 = windows()
            .map(|(window, weight)| weight * window.waited_ns as f64)
            .sum();
        Gap {
            since: at,
            counted: counted.to_vec(),
            functions: functions.clone(),
            seen: functions.iter().filter_map(of_function).collect(),
            pace: Some(pace),
            clock,
            inside: inside_share(windows()),
            waited: if inside > 0.0 {
                (waited / inside).min(1.0)
            } else {
                0.0
            },
        }
    }

    /// The estimated totals of all functions, given the counters at a moment.
    pub fn estimated(&self, at: CountTime, counted: &[Totals]) -> Vec<Totals> {
        let estimated = counted.iter().zip(0_u32..).map(|(counted_of, probe)| {
            let beyond = self.beyond_of(probe, at, counted);
            let more = beyond.amounts.0.map(|amount| amount as u64);
            Totals {
                calls: counted_of.calls + more[0],
                nested: counted_of.nested + more[1],
                timed: counted_of.timed + more[2],
                time_ns: counted_of.time_ns + more[3],
                bytes: counted_of.bytes + more[4],
                bytes_unknown: counted_of.bytes_unknown + more[5],
                unpaired: match self.gap.as_ref().filter(|gap| gap.has(probe)) {
                    Some(gap) => unpaired(&gap.counted, probe),
                    None => counted_of.unpaired,
                }
                .saturating_sub(beyond.unpaired_at_ends),
                ..*counted_of
            }
        });
        estimated.collect()
    }

    /// Estimated time inside MPI in gaps, and the part of it spent waiting for a CPU, in addition to what was
    /// counted, in nanoseconds. `is_of_mpi` selects its functions: those of the program may contain MPI calls.
    pub fn inside_ns(
        &self,
        at: CountTime,
        counted: &[Totals],
        is_of_mpi: impl Fn(usize) -> bool,
    ) -> (u64, u64) {
        let of_mpi = (0..self.beyond.len()).filter(|index| is_of_mpi(*index));
        let sum = of_mpi.fold(GapEstimate::default(), |mut sum, index| {
            sum.add(&self.beyond_of(index as u32, at, counted));
            sum
        });
        (sum.amounts.time() as u64, sum.waited_ns as u64)
    }

    /// The longest time up to a moment for which a function was not watched, in nanoseconds.
    pub fn gaps_ns(&self, at: CountTime) -> u64 {
        let of = |(index, past): (usize, &u64)| {
            let gap = self.gap.as_ref().filter(|gap| gap.has(index as u32));
            past + gap.map_or(0, |gap| at.since(gap.since).at_ns)
        };
        self.gaps_ns.iter().enumerate().map(of).max().unwrap_or_default()
    }

    /// The uncertainty of the calls of a function, over `of_ns` in which it could have been watched; `None`
    /// if it was watched all the time.
    pub fn estimate(&self, probe: u32, at: CountTime, of_ns: u64, counted: &[Totals]) -> Option<Estimate> {
        let index = probe as usize;
        let going_on = self.gap.as_ref().filter(|gap| gap.has(probe));
        let gaps_ns = self.gaps_ns.get(index).copied().unwrap_or_default()
            + going_on.map_or(0, |gap| at.since(gap.since).at_ns);
        if gaps_ns == 0 {
            return None;
        }
        let beyond = self.beyond_of(probe, at, counted);
        let Totals {
            calls: counted,
            bytes,
            ..
        } = *counted.get(index)?;
        let unknown = beyond.between_clocks.abs() + beyond.scatter.sqrt();
        let most = (counted as f64 + beyond.calls_max + unknown).ceil() as u64;
        Some(Estimate {
            counted,
            counted_bytes: bytes,
            from: counted + (beyond.calls_min - unknown).max(0.0) as u64,
            to: (!beyond.is_unbounded).then_some(most),
            watched: 1.0 - (gaps_ns as f64 / of_ns.max(gaps_ns) as f64),
        })
    }

    fn beyond_of(&self, probe: u32, at: CountTime, counted: &[Totals]) -> GapEstimate {
        let mut beyond = self.beyond.get(probe as usize).copied().unwrap_or_default();
        if let Some(gap) = &self.gap {
            beyond.add(&gap.beyond(probe, at, counted));
        }
        beyond
    }
}

impl Gap {
    fn has(&self, probe: u32) -> bool {
        self.functions.contains(&probe)
    }

    /// The estimate for this gap minus what was counted in it: probes are detached a moment after it begins.
    fn beyond(&self, probe: u32, at: CountTime, counted: &[Totals]) -> GapEstimate {
        let index = self.seen.binary_search_by_key(&probe, |(of, _)| *of);
        let Some((_, seen)) = index.ok().and_then(|index| self.seen.get(index)) else {
            return GapEstimate {
                is_unbounded: self.has(probe),
                ..GapEstimate::default()
            };
        };
        let length = at.since(self.since);
        let by = (self.inside, self.clock);
        let clocks = seen.clocks(by, length);
        let pace = self.pace.unwrap_or(Pace {
            estimated: 1.0,
            most: None,
        });
        let nothing = Totals::default();
        let ends = [&self.counted[..], counted].map(|totals| totals.get(probe as usize).unwrap_or(&nothing));
        let there = Amounts::between(ends[0], ends[1]);
        let beyond = |amount: f64, faster: f64, there: f64| (amount * faster - there).max(0.0);
        let amounts = Amounts(std::array::from_fn(|index| {
            let (clock, faster) = match PACED[index] {
                true => (clocks.estimated, pace.estimated),
                false => (clocks.elapsed, 1.0),
            };
            beyond(seen.amounts.0[index] * clock, faster, there.0[index])
        }));
        let calls = seen.amounts.calls() * clocks.estimated;
        let of_slice = |slice| seen.clocks(by, slice).estimated;
        let scatter = calls * seen.slices.share(of_slice, length);
        GapEstimate {
            waited_ns: self.waited * amounts.time(),
            amounts,
            calls_min: beyond(calls, 1.0, there.calls()),
            calls_max: beyond(calls, pace.most.unwrap_or(pace.estimated), there.calls()),
            between_clocks: seen.amounts.calls() * (clocks.estimated - clocks.cpu),
            scatter: scatter * scatter,
            is_unbounded: pace.most.is_none() && calls > 0.0,
            unpaired_at_ends: 0,
        }
    }
}

#[cfg(test)]
mod tests;
