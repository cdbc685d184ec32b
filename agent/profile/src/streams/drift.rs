//! Numbers that a contract states, and that the program no longer has: then its predictions do not hold.

use std::collections::BTreeMap;

use contract::{Contract, ModulePoint, StatedNumber};

use super::{End, ItemsAre, ObservedGraph, ObservedStream};
use crate::format::{bytes, duration, significant};
use crate::statistics::{Estimate, ratio};
use crate::stream_views::WINDOWS_BELOW;

/// A service time that differs by less than this factor is no drift: windows differ as much by themselves.
const TIME_FACTOR: f64 = 1.25;

/// The same of items in an activation, and of the size of an item, which are counted.
const COUNT_FACTOR: f64 = 1.1;

/// The service time of a module that is busy for less of its time is noise.
const BUSY_MIN: f64 = 0.05;

/// Items by which the number that is sent in a window differs by chance: a group that has begun before or is not
/// complete.
const ITEMS_MIN: f64 = 2.0;

/// A number that the contract states, and what the program has.
#[derive(Clone, Debug)]
struct Tracked {
    stated: f64,
    /// What is no news: the stated number, or the one that was measured since.
    expected: f64,
    /// What the program has instead; of a time also the last that was measured, on which operating points may depend.
    measured: Option<f64>,
    /// The values of the last windows, one after the other, in which it was more than expected, or less.
    windows: Vec<f64>,
}

impl Tracked {
    fn of(stated: f64) -> Tracked {
        Tracked {
            stated,
            expected: stated,
            measured: None,
            windows: Vec::new(),
        }
    }
}

/// A number that was another than expected in as many windows as a violated rate needs.
pub(super) struct Drifted {
    number: StatedNumber,
    value: Estimate,
    stated: f64,
    /// It is the stated one again.
    is_back: bool,
}

/// Compares what a program has with what its contract states.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    numbers: BTreeMap<StatedNumber, Tracked>,
    /// The operating points that modules are at.
    points: Vec<ModulePoint>,
    /// The number of workers was changed.
    without_times: bool,
}

impl Drift {
    pub(super) fn of(contract: &Contract) -> Drift {
        let mut stated = Vec::new();
        for module in contract.module_outlines() {
            // What takes nothing is counted by what it sends.
            let [computation] = module.computations.as_slice() else {
                continue;
            };
            let gives = computation.gives.iter().filter(|_| !computation.takes.is_empty());
            stated.extend(gives.map(|stream| StatedNumber::Items {
                module: module.name.clone(),
                stream: stream.clone(),
            }));
        }
        let streams = contract.stream_outlines().into_iter();
        stated.extend(streams.map(|stream| StatedNumber::Size { stream: stream.name }));
        let numbers = stated.into_iter().filter_map(|number| {
            let value = contract.number(&number).filter(|value| *value > 0.0)?;
            Some((number, Tracked::of(value)))
        });
        let numbers = numbers.collect();
        let mut drift = Drift {
            numbers,
            points: contract.operating_points(),
            without_times: false,
        };
        drift.state_times(contract);
        drift
    }

    /// The same for a contract with other requirements: what was measured of numbers that it states as before stays.
    pub(super) fn with(mut self, contract: &Contract, before: &Drift) -> Drift {
        self.without_times = before.without_times;
        for (number, tracked) in &mut self.numbers {
            match before.numbers.get(number) {
                Some(known) if known.stated == tracked.stated => tracked.clone_from(known),
                Some(known) if is_time(number) => tracked.measured = known.measured,
                _ => {}
            }
        }
        let measured = self.as_measured(contract);
        self.points = measured.operating_points();
        self.state_times(&measured);
        self
    }

    /// Takes the service times of modules from the operating points that this contract is at.
    fn state_times(&mut self, contract: &Contract) {
        for module in contract.module_outlines() {
            let busy_s = contract.busy_s(&module.name).filter(|_| !self.without_times);
            let number = StatedNumber::Time { module: module.name };
            let known = self.numbers.get(&number);
            match busy_s {
                Some(busy_s) if known.is_some_and(|known| known.stated == busy_s) => {}
                Some(busy_s) => {
                    let measured = known.and_then(|known| known.measured);
                    let new = Tracked::of(busy_s);
                    self.numbers.insert(number, Tracked { measured, ..new });
                }
                // No operating point holds, or none states a time.
                None => drop(self.numbers.remove(&number)),
            }
        }
    }

    /// A module in a window: the share of its time in which it was busy, and its activations per second.
    pub(super) fn take(&mut self, module: &str, busy: f64, rate: f64) -> Option<Drifted> {
        let is_measured = rate > 0.0 && busy >= BUSY_MIN;
        let module = module.to_owned();
        is_measured.then(|| self.compare(StatedNumber::Time { module }, busy / rate, 0.0))?
    }

    /// A stream of the contract in a window: what its senders send in an activation, and the size of its items.
    pub(super) fn take_stream(
        &mut self,
        name: &str,
        stream: &ObservedStream,
        seen: &ObservedGraph,
    ) -> Vec<Drifted> {
        let mut drifted = Vec::new();
        let sum = |items: &[f64]| items.iter().sum::<f64>();
        let sent: &[End] = match stream.items_are {
            ItemsAre::Messages => &stream.sent,
            // How many bytes make an item is what the contract says.
            ItemsAre::Bytes => &[],
        };
        for end in sent {
            let (items, activations) = (sum(&end.items), sum(seen.activations(end.module)));
            let (module, stream) = (seen.modules[end.module].name.clone(), name.to_owned());
            if activations > 0.0 {
                let number = StatedNumber::Items { module, stream };
                drifted.extend(self.compare(number, items / activations, ITEMS_MIN / activations));
            }
        }
        if sent.iter().any(|end| sum(&end.items) > 0.0) && stream.item.is_some() {
            let stated = StatedNumber::Size {
                stream: name.to_owned(),
            };
            drifted.extend(self.compare(stated, stream.item_bytes, 0.0));
        }
        drifted
    }

    /// What was measured in a window, and how much of it is chance.
    fn compare(&mut self, number: StatedNumber, value: f64, chance: f64) -> Option<Drifted> {
        let tracked = self.numbers.get_mut(&number)?;
        let factor = match number {
            StatedNumber::Time { .. } => TIME_FACTOR,
            StatedNumber::Items { .. } | StatedNumber::Size { .. } => COUNT_FACTOR,
        };
        let differs = |value: f64, from: f64| {
            (value > from * factor || value < from / factor) && (value - from).abs() > chance
        };
        let is_more = |value: f64| value > tracked.expected;
        let is_other = differs(value, tracked.expected);
        let mut windows = tracked.windows.iter();
        if !is_other || windows.any(|last| is_more(*last) != is_more(value)) {
            tracked.windows.clear();
        }
        tracked.windows.extend(is_other.then_some(value));
        if tracked.windows.len() < WINDOWS_BELOW as usize {
            return None;
        }
        let windows = std::mem::take(&mut tracked.windows);
        let value = ratio(&windows, &vec![1.0; windows.len()]);
        let is_back = !differs(value.value, tracked.stated);
        tracked.expected = if is_back { tracked.stated } else { value.value };
        tracked.measured = (!is_back || is_time(&number)).then_some(value.value);
        let stated = tracked.stated;
        Some(Drifted {
            number,
            value,
            stated,
            is_back,
        })
    }

    /// Takes what has drifted: modules may be at other operating points then. Returns a line for each thing that is new.
    pub(super) fn settle(&mut self, contract: &Contract, drifted: &[Drifted]) -> Vec<String> {
        if drifted.is_empty() {
            return Vec::new();
        }
        let measured = self.as_measured(contract);
        let points = measured.operating_points();
        let before = std::mem::replace(&mut self.points, points);
        let moved = self.moves(&before, &measured);
        let explains = |work: &str, one: &&Drifted| contract.depends_on(work, &one.number);
        let mut lines: Vec<String> = Vec::new();
        for (line, work) in &moved {
            let why = drifted.iter().filter(|one| explains(work, one));
            let why: Vec<String> = why.map(Drifted::sentence).collect();
            lines.push(format!("{}: {line}", why.join(", ")));
        }
        let is_said = |one: &&Drifted| moved.iter().any(|(_, work)| explains(work, one));
        lines.extend(drifted.iter().filter(|one| !is_said(one)).map(Drifted::line));
        self.state_times(&measured);
        lines
    }

    /// A line for each module that is at another operating point than before, with its work.
    fn moves(&self, before: &[ModulePoint], measured: &Contract) -> Vec<(String, String)> {
        let mut moves = Vec::new();
        for point in self.points.iter().filter(|point| !before.contains(point)) {
            let time = measured.busy_s(&point.module).map_or(String::new(), |busy_s| {
                format!(": it states {} for an activation", duration(busy_s * 1e9))
            });
            moves.push((format!("{point}{time}"), point.work.clone()));
        }
        let is_at_none = |point: &&ModulePoint| !self.points.iter().any(|now| now.module == point.module);
        moves.extend(before.iter().filter(is_at_none).map(|point| {
            let line = format!("no operating point of {} holds for {}", point.work, point.module);
            (line, point.work.clone())
        }));
        moves
    }

    /// The contract with what was measured in place of what it states, but for service times.
    pub(super) fn as_measured(&self, contract: &Contract) -> Contract {
        let mut measured = contract.clone();
        for (number, tracked) in &self.numbers {
            if let Some(value) = tracked.measured {
                // The contract states it, and it is positive: so it can be replaced.
                let _ = measured.observe(number, value);
            }
        }
        measured
    }

    /// The operating points that modules are at whose work has several.
    pub(super) fn points(&self) -> &[ModulePoint] {
        &self.points
    }

    /// The number of workers of modules has changed: the times that the contract states are of other numbers.
    pub(super) fn end(&mut self) {
        self.without_times = true;
        self.numbers.retain(|number, _| !is_time(number));
    }
}

fn is_time(number: &StatedNumber) -> bool {
    matches!(number, StatedNumber::Time { .. })
}

impl Drifted {
    fn line(&self) -> String {
        let interval = [
            self.value.value - self.value.half,
            self.value.value + self.value.half,
        ];
        let [least, most] = interval.map(|value| self.shown(value));
        let measured = format!("measured [{least}, {most}]");
        match self.is_back {
            true => format!("{}, as the contract states: {measured}", self.sentence()),
            false => format!(
                "{}, and the contract states {}: {measured}; `contract learn` makes one of the program as it is",
                self.sentence(),
                self.shown(self.stated)
            ),
        }
    }

    fn shown(&self, value: f64) -> String {
        let value = value.max(0.0);
        match self.number {
            StatedNumber::Time { .. } => duration(value * 1e9),
            StatedNumber::Items { .. } => significant(value, 3),
            StatedNumber::Size { .. } => bytes(value),
        }
    }

    /// `rank1 takes 60 ms for an activation`
    fn sentence(&self) -> String {
        let value = self.shown(self.value.value);
        match &self.number {
            StatedNumber::Time { module } => format!("{module} takes {value} for an activation"),
            StatedNumber::Items { module, stream } => {
                format!("{module} sends {value} items of {stream} in an activation")
            }
            StatedNumber::Size { stream } => format!("an item of {stream} has {value}"),
        }
    }
}

#[cfg(test)]
mod tests;
