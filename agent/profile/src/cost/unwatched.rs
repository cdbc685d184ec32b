//! Extrapolates the counters of functions that are sampled in windows: what was counted, plus an estimate for
//! the gaps, from the pace of the last windows. Never less than was counted, and never less than an earlier
//! estimate.
//!
//! Pace is calls per CPU time, since a program that others keep from its CPUs calls less often, watched or
//! not. Of the CPU time w of a window the process had w − n·c for itself, with n hits of price c. So calls in
//! a gap are faster than in the windows by w / (w − n·c). That is true of a program that sets its own pace.
//! If it is busy waiting, the price may be absorbed by that, and the truth is the pace of the windows; if
//! ranks wait for each other, the prices that others pay slow it down too: the range goes from the one to the
//! other. If the range is too wide, calls are estimated at the pace of the windows, as the least possible
//! number. Time inside is estimated as the share of the time that it had in the windows.

use std::collections::{BTreeSet, VecDeque};

use abi::Totals;

/// A price may be so much higher, as part of itself: it was measured in a loop, with everything in the
/// caches. What it is beside what calls take more in a program is held by a test, 0.6 at least
/// (docs/performance.md).
pub(super) const PRICE_ERROR: f64 = 0.67;

/// A pace is estimated if its greatest possible value is at most this many times the least.
const TELLABLE: f64 = 1.5;

/// Gaps are estimated from this many windows before them.
const WINDOWS: usize = 4;

/// When something was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountTime {
    pub at_ns: u64,
    /// By the CPU time of the process.
    pub cpu_ns: u64,
}

impl CountTime {
    /// What passed of both since another one.
    pub fn since(self, before: CountTime) -> CountTime {
        CountTime {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
        }
    }
}

/// One process while a window was open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    pub length: CountTime,
    pub threads: u64,
    /// CPU time that the hits took of them, in nanoseconds.
    pub cost_ns: f64,
    /// What the hits took of a thread of each other process, added up, in nanoseconds.
    pub others_ns: f64,
    /// Time of its threads inside the library, in nanoseconds.
    pub inside_ns: u64,
    /// Of it, time waiting for a CPU.
    pub waited_ns: u64,
}

/// How many times as fast as in the windows a process calls while it is not watched.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    estimated: f64,
    /// None where nothing bounds it.
    most: Option<f64>,
}

impl Pace {
    fn of(windows: impl Iterator<Item = Window>) -> Pace {
        let (mut ns, mut cpu_ns, mut own, mut cost, mut others) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for window in windows {
            let threads = window.threads.max(1) as f64;
            ns += window.length.at_ns as f64;
            cpu_ns += window.length.cpu_ns as f64;
            cost += window.cost_ns;
            own += window.cost_ns / threads;
            // What others pay delays a thread only while it waits for them.
            let inside = window.inside_ns as f64 / threads;
            others += (window.others_ns * (1.0 + PRICE_ERROR)).min(inside);
        }
        if ns <= 0.0 || cpu_ns <= 0.0 {
            return Pace {
                estimated: 1.0,
                most: None,
            };
        }
        let faster = |lost: f64| (lost < 1.0).then(|| 1.0 / (1.0 - lost));
        // Threads that do not call may wait for the one that does.
        let lost = (cost / cpu_ns).max(own / ns) * (1.0 + PRICE_ERROR) + others / ns;
        let most = faster(lost).filter(|most| *most <= TELLABLE);
        let estimated = most.and_then(|_| faster(cost / cpu_ns));
        Pace {
            estimated: estimated.unwrap_or(1.0),
            most,
        }
    }
}

/// Of one function: calls, nested ones, timed ones, time, bytes, calls whose bytes are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amounts([f64; 6]);

/// Those that follow the pace of the calls, by CPU time; the others follow the time.
const PACED: [bool; 6] = [true, true, false, false, true, true];

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
        Amounts(std::array::from_fn(|place| {
            to[place].saturating_sub(from[place]) as f64
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

    /// What each is of: CPU time or time.
    fn clocks(length: CountTime) -> [f64; 6] {
        PACED.map(|is_paced| {
            if is_paced {
                length.cpu_ns as f64
            } else {
                length.at_ns as f64
            }
        })
    }

    fn add(&mut self, other: &Amounts) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, more)| *sum += more);
    }
}

/// Calls of one function whose two ends were not both seen.
fn unpaired(counted: &[Totals], probe: u32) -> u64 {
    counted.get(probe as usize).map_or(0, |totals| totals.unpaired)
}

/// The estimate for gaps, beyond what was counted in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Beyond {
    amounts: Amounts,
    /// Calls at the pace of the windows.
    least: f64,
    /// Calls at the greatest pace.
    most: f64,
    has_no_most: bool,
    /// Returns without an entry, because probes for the ones are on and off before and after those for the
    /// others: no loss.
    at_ends: u64,
}

/// A gap that goes on.
#[derive(Clone, Debug, Default)]
struct Gap {
    since: CountTime,
    /// What had been counted when it began: probes come off a moment later.
    counted: Vec<Totals>,
    functions: BTreeSet<u32>,
    /// In their order, what those of them have of it in a nanosecond of their clocks that were seen before,
    /// and at which pace.
    rates: Vec<(u32, Amounts)>,
    pace: Option<Pace>,
    waited: f64,
}

/// An estimate of calls, and how certain it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Calls that were counted.
    pub counted: u64,
    pub counted_bytes: u64,
    /// The fewest that there were.
    pub from: u64,
    /// The most; none where that is not known.
    pub to: Option<u64>,
    /// The part of the time in which they were counted.
    pub watched: f64,
}

impl Estimate {
    /// Of calls that all were counted.
    pub fn exact(calls: u64, bytes: u64) -> Estimate {
        Estimate {
            counted: calls,
            counted_bytes: bytes,
            from: calls,
            to: Some(calls),
            watched: 1.0,
        }
    }

    /// Of two processes together, that were watched equally long.
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
    /// When the window began, and what had been counted by then.
    opened: Option<(CountTime, Vec<Totals>)>,
    windows: VecDeque<(Window, Vec<(u32, Amounts)>)>,
    gap: Option<Gap>,
    beyond: Vec<Beyond>,
    /// Time of gaps that are over, by function.
    gaps_ns: Vec<u64>,
    waited_ns: f64,
}

impl Unwatched {
    /// Whether something was not watched at some time.
    pub fn has_gaps(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// A window began then: what came of the gap is fixed.
    pub fn open(&mut self, at: CountTime, counted: &[Totals]) {
        if let Some(gap) = self.gap.take() {
            for probe in &gap.functions {
                let place = *probe as usize;
                let of_gap = gap.beyond(*probe, at, counted);
                let (Some(beyond), Some(gaps_ns)) = (self.beyond.get_mut(place), self.gaps_ns.get_mut(place))
                else {
                    continue;
                };
                beyond.amounts.add(&of_gap.amounts);
                beyond.least += of_gap.least;
                beyond.most += of_gap.most;
                beyond.has_no_most |= of_gap.has_no_most;
                beyond.at_ends += unpaired(counted, *probe).saturating_sub(unpaired(&gap.counted, *probe));
                *gaps_ns += at.since(gap.since).at_ns;
            }
            self.waited_ns += gap.inside_ns(at, counted).1;
        }
        self.opened = Some((at, counted.to_vec()));
    }

    /// When the window that is open began, and what had been counted by then.
    pub fn opened(&self) -> Option<(CountTime, &[Totals])> {
        self.opened.as_ref().map(|(at, counted)| (*at, &counted[..]))
    }

    /// The window is over, and these functions are not watched from now on. `open` are calls of theirs that
    /// have not returned, of which nothing will be known but what they took up to now.
    pub fn shut(
        &mut self,
        at: CountTime,
        counted: &[Totals],
        open: &[(u32, u64)],
        functions: &BTreeSet<u32>,
        window: Window,
    ) {
        // One that came while no window was open was never seen.
        let opened = self.opened.take();
        let before = opened.map_or_else(|| counted.to_vec(), |(_, before)| before);
        let places = functions.last().map_or(0, |last| *last as usize + 1);
        let places = places.max(counted.len()).max(self.beyond.len());
        self.beyond.resize(places, Beyond::default());
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
            self.beyond.get_mut(*probe as usize)?.amounts.add_time(open);
            Some((*probe, amounts))
        });
        let seen: Vec<(u32, Amounts)> = seen.collect();
        if window.length.at_ns > 0 {
            self.windows.push_back((window, seen));
        }
        if self.windows.len() > WINDOWS {
            self.windows.pop_front();
        }
        self.gap = Some(self.gap_from(at, counted, functions));
    }

    fn gap_from(&self, at: CountTime, counted: &[Totals], functions: &BTreeSet<u32>) -> Gap {
        let windows = || self.windows.iter().map(|(window, _)| *window);
        let rate = |probe: &u32| {
            // For one that is new among them, only its own windows count.
            let (mut length, mut sum) = (CountTime::default(), Amounts::default());
            for (window, seen) in &self.windows {
                if let Some((_, amounts)) = seen.iter().find(|(of, _)| of == probe) {
                    length.at_ns += window.length.at_ns;
                    length.cpu_ns += window.length.cpu_ns;
                    sum.add(amounts);
                }
            }
            let clocks = Amounts::clocks(length);
            let rates = std::array::from_fn(|place| sum.0[place] / clocks[place].max(1.0));
            (length.at_ns > 0).then_some((*probe, Amounts(rates)))
        };
        let inside: u64 = windows().map(|window| window.inside_ns).sum();
        let waited: u64 = windows().map(|window| window.waited_ns).sum();
        Gap {
            since: at,
            counted: counted.to_vec(),
            functions: functions.clone(),
            rates: functions.iter().filter_map(rate).collect(),
            pace: Some(Pace::of(windows())),
            waited: if inside > 0 {
                (waited as f64 / inside as f64).min(1.0)
            } else {
                0.0
            },
        }
    }

    /// The estimates of all functions at a moment with these counts.
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
                .saturating_sub(beyond.at_ends),
                ..*counted_of
            }
        });
        estimated.collect()
    }

    /// Estimated time inside the library, and of it time waiting for a CPU, in gaps beyond what was counted,
    /// in nanoseconds.
    pub fn inside_ns(&self, at: CountTime, counted: &[Totals]) -> (u64, u64) {
        let over: f64 = self.beyond.iter().map(|beyond| beyond.amounts.time()).sum();
        let (inside, waited) = self
            .gap
            .as_ref()
            .map_or((0.0, 0.0), |gap| gap.inside_ns(at, counted));
        ((over + inside) as u64, (self.waited_ns + waited) as u64)
    }

    /// What is known of the calls of a function, out of a time that it might have been watched; none where it
    /// always was.
    pub fn estimate(&self, probe: u32, at: CountTime, of_ns: u64, counted: &[Totals]) -> Option<Estimate> {
        let place = probe as usize;
        let going_on = self.gap.as_ref().filter(|gap| gap.has(probe));
        let gaps_ns = self.gaps_ns.get(place).copied().unwrap_or_default()
            + going_on.map_or(0, |gap| at.since(gap.since).at_ns);
        if gaps_ns == 0 {
            return None;
        }
        let beyond = self.beyond_of(probe, at, counted);
        let Totals {
            calls: counted,
            bytes,
            ..
        } = *counted.get(place)?;
        let most = (counted as f64 + beyond.most).ceil() as u64;
        Some(Estimate {
            counted,
            counted_bytes: bytes,
            from: counted + beyond.least as u64,
            to: (!beyond.has_no_most).then_some(most),
            watched: 1.0 - (gaps_ns as f64 / of_ns.max(gaps_ns) as f64),
        })
    }

    fn beyond_of(&self, probe: u32, at: CountTime, counted: &[Totals]) -> Beyond {
        let mut beyond = self.beyond.get(probe as usize).copied().unwrap_or_default();
        if let Some(gap) = &self.gap {
            let of_gap = gap.beyond(probe, at, counted);
            beyond.amounts.add(&of_gap.amounts);
            beyond.least += of_gap.least;
            beyond.most += of_gap.most;
            beyond.has_no_most |= of_gap.has_no_most;
        }
        beyond
    }
}

impl Gap {
    fn has(&self, probe: u32) -> bool {
        self.functions.contains(&probe)
    }

    /// Beyond what the probes, which come off a moment after it began, counted in it.
    fn beyond(&self, probe: u32, at: CountTime, counted: &[Totals]) -> Beyond {
        let place = self.rates.binary_search_by_key(&probe, |(of, _)| *of);
        let Some((_, rate)) = place.ok().and_then(|place| self.rates.get(place)) else {
            return Beyond {
                has_no_most: self.has(probe),
                ..Beyond::default()
            };
        };
        let clocks = Amounts::clocks(at.since(self.since));
        let pace = self.pace.unwrap_or(Pace {
            estimated: 1.0,
            most: None,
        });
        let nothing = Totals::default();
        let ends = [&self.counted[..], counted].map(|totals| totals.get(probe as usize).unwrap_or(&nothing));
        let there = Amounts::between(ends[0], ends[1]);
        let beyond = |amount: f64, faster: f64, there: f64| (amount * faster - there).max(0.0);
        let amounts = std::array::from_fn(|place| {
            let faster = if PACED[place] { pace.estimated } else { 1.0 };
            beyond(rate.0[place] * clocks[place], faster, there.0[place])
        });
        Beyond {
            amounts: Amounts(amounts),
            least: beyond(rate.calls() * clocks[0], 1.0, there.calls()),
            most: beyond(
                rate.calls() * clocks[0],
                pace.most.unwrap_or(pace.estimated),
                there.calls(),
            ),
            has_no_most: pace.most.is_none() && rate.calls() > 0.0,
            at_ends: 0,
        }
    }

    /// As [`Unwatched::inside_ns`], of this gap.
    fn inside_ns(&self, at: CountTime, counted: &[Totals]) -> (f64, f64) {
        let probes = self.rates.iter().map(|(probe, _)| *probe);
        let inside = probes.map(|probe| self.beyond(probe, at, counted).amounts.time());
        let inside: f64 = inside.sum();
        (inside, self.waited * inside)
    }
}

#[cfg(test)]
mod tests;
