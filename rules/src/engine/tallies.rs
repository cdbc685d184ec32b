//! What was added up of hits where they happened finds its instance: by the key that its hits have in common, or by the times of
//! the first and the last of them. All of them belong to one instance, or to none; where that cannot be told, the instance is
//! partial. Which probes are added up is decided in [`super::tallied`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Running;
use super::advance::Fill;
use super::desk::{ByKey, Instances};
use super::ledger::{Belongs, Ledger};
use super::output::Dropped;
use super::tallied::folds_in;
use crate::rule::CheckedRule;
use crate::tally::{Group, Tally, TallyValue};
use crate::term::Field;
use crate::value::{Key, ProcessId, Scalar, Time};

/// Groups of hits that may wait for their instance.
const MOST_WAITING: usize = 65_536;

/// Why an instance is partial that has only a part of what was added up.
const ACROSS: &str = "hits were aggregated across one of its boundaries";

/// What was added up and has not found its instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    of_probe: Vec<Option<Tallied>>,
    /// By window, process, probe and group.
    waiting: BTreeMap<(usize, ProcessId, usize, Group), Tally>,
}

/// A probe whose hits are added up.
#[derive(Clone, Debug)]
struct Tallied {
    /// The windows that fold its hits.
    windows: Vec<usize>,
    /// The parts of a hit, each with the place of its sums.
    parts: Vec<(Field, usize)>,
    values: usize,
}

/// Where hits belong that were added up.
enum Fate {
    To(u64),
    /// Some belong to it, and some do not.
    Across(Vec<u64>),
    Late,
    Outside,
    Waits,
}

impl Tallies {
    pub(super) fn of(rule: &CheckedRule) -> Tallies {
        let tallied = |probe: usize| {
            let tally = rule.plan.probes.get(probe)?.tally.as_ref()?;
            let place = |value: TallyValue| tally.values.iter().position(|known| *known == value);
            let captures = rule.probes.get(probe).map_or(0, |probe| probe.captures.len());
            let captures = (0..captures).filter_map(|capture| {
                let read = rule.whole_read(probe, capture)?;
                Some((Field::Capture(capture), place(TallyValue::Read(read))?))
            });
            let duration = place(TallyValue::Duration).map(|place| (Field::Duration, place));
            Some(Tallied {
                windows: folds_in(rule, probe).collect(),
                parts: captures.chain(duration).collect(),
                values: tally.values.len(),
            })
        };
        Tallies {
            of_probe: (0..rule.probes.len()).map(tallied).collect(),
            waiting: BTreeMap::new(),
        }
    }

    fn tallied(&self, probe: usize) -> Option<&Tallied> {
        self.of_probe.get(probe)?.as_ref()
    }

    /// Takes what was added up; false if there is no room for it. What the plan does not ask for is ignored.
    pub(super) fn push(&mut self, probe: usize, process: ProcessId, tally: &Tally) -> bool {
        let Some(tallied) = self.of_probe.get(probe).and_then(Option::as_ref) else {
            return true;
        };
        if tally.sums.len() != tallied.values {
            return true;
        }
        for window in &tallied.windows {
            let of = (*window, process, probe, tally.group);
            let room = self.waiting.len() < MOST_WAITING;
            match self.waiting.entry(of) {
                Entry::Occupied(known) => known.into_mut().add(tally),
                Entry::Vacant(place) if room => {
                    place.insert(tally.clone());
                }
                Entry::Vacant(_) => return false,
            }
        }
        true
    }

    /// When the last hit was of those that wait.
    pub(super) fn last(&self) -> Option<Time> {
        self.waiting.values().map(|tally| tally.last).max()
    }

    /// A process is there no longer.
    pub(super) fn forget(&mut self, process: ProcessId) {
        self.waiting.retain(|(_, of, _, _), _| *of != process);
    }

    /// Places what is known to belong to an instance, or to none, when everything up to `reach` is known.
    pub(super) fn settle(
        &mut self,
        reach: Time,
        by_key: &ByKey,
        ledgers: &mut [Ledger],
        dropped: &mut Dropped,
        fill: &mut Fill<'_>,
    ) {
        for (of, tally) in std::mem::take(&mut self.waiting) {
            let (window, process, probe, group) = of;
            let fate = match (group, ledgers.get_mut(window)) {
                (Group::Key(key), Some(ledger)) if by_key.has(probe) => keyed(ledger, key, &tally, reach),
                (Group::Stretch(_), _) if !by_key.has(probe) => {
                    timed(&fill.spans(window, process), &tally, reach)
                }
                _ => Fate::Outside,
            };
            match fate {
                Fate::Waits => {
                    self.waiting.insert(of, tally);
                }
                Fate::To(number) => {
                    let parts = self.tallied(probe).map_or(&[][..], |tallied| &tallied.parts);
                    let there = fill.fill(window, number, |content| {
                        content.take_tally(process, probe, &tally, parts);
                    });
                    dropped.late += if there { 0 } else { tally.count };
                }
                Fate::Across(numbers) => {
                    dropped.late += tally.count;
                    for number in numbers {
                        fill.spoil(window, number, ACROSS);
                    }
                }
                Fate::Late => dropped.late += tally.count,
                Fate::Outside => dropped.outside += tally.count,
            }
        }
    }
}

/// By the key that the hits have in common.
fn keyed(ledger: &mut Ledger, key: i64, tally: &Tally, reach: Time) -> Fate {
    let key = Key::of(&Scalar::Number(key as f64));
    let ends = (ledger.find(&key, tally.first), ledger.find(&key, tally.last));
    match ends {
        // It may end before the last of them: that is known when everything up to there is.
        (Belongs::To(_), Belongs::To(_)) if tally.last > reach => Fate::Waits,
        (Belongs::To(number), Belongs::To(_)) => Fate::To(number),
        (Belongs::To(number), Belongs::Late) | (Belongs::Outside, Belongs::To(number)) => {
            Fate::Across(vec![number])
        }
        (Belongs::Outside, Belongs::Late) => Fate::Across(ledger.of_key(&key).into_iter().collect()),
        (Belongs::Late, _) => Fate::Late,
        (Belongs::Outside, Belongs::Outside) => Fate::Outside,
        _ => Fate::Waits,
    }
}

/// By their times, in their own process: `spans` has the number, begin and end of each instance there, the newest first.
fn timed(spans: &[(u64, Time, Option<Time>)], tally: &Tally, reach: Time) -> Fate {
    let apart =
        |start: Time, end: Option<Time>| tally.last < start || end.is_some_and(|end| end < tally.first);
    let meets = |(_, start, end): &&(u64, Time, Option<Time>)| !apart(*start, *end);
    let met: Vec<&(u64, Time, Option<Time>)> = spans.iter().filter(meets).collect();
    let is_within =
        |start: Time, end: Option<Time>| start <= tally.first && end.is_none_or(|end| tally.last <= end);
    match met.as_slice() {
        // A border may follow.
        [] if tally.last > reach => Fate::Waits,
        [(_, start, None)] if *start <= tally.first && tally.last > reach => Fate::Waits,
        [] => Fate::Outside,
        [(number, start, end), ..] if is_within(*start, *end) => Fate::To(*number),
        across => Fate::Across(across.iter().map(|(number, _, _)| *number).collect()),
    }
}

impl Running {
    /// Takes what was added up of hits of a process.
    pub(super) fn take_tally(&mut self, probe: usize, process: ProcessId, tally: &Tally) {
        if tally.last < self.since || tally.count == 0 {
            return;
        }
        if tally.first < self.since {
            // Which of them were before the rule was there is not known.
            return self.stream.lose(self.since, tally.last);
        }
        if !self.tallies.push(probe, process, tally) {
            self.stream.overflow(tally.last);
        }
    }
}
