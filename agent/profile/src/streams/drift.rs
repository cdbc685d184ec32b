//! Numbers that a contract states, and that the program no longer has: then its promises do not hold.

use std::collections::BTreeMap;

use rules::contract::{Assessment, Contract};

use super::{End, ItemsAre, ObservedGraph, ObservedStream};
use crate::format::{bytes, duration, significant};
use crate::statistics::ratio;
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

/// A number that a contract states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StatedNumber {
    /// How long the workers of a module are busy with an activation, in seconds.
    Time { module: String },
    /// Items that a module sends on a stream in an activation.
    Items { module: String, stream: String },
    /// The mean size of the items of a stream, in bytes.
    Size { stream: String },
}

/// Compares what a program has with what its contract states.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    stated: BTreeMap<StatedNumber, f64>,
    /// What was measured in the last windows, one after the other, in which it was more than stated, or less.
    measured: BTreeMap<StatedNumber, Vec<f64>>,
    /// What was said to have drifted, with what was measured.
    said: BTreeMap<StatedNumber, f64>,
}

impl Drift {
    pub(super) fn of(contract: &Contract, assessment: &Assessment) -> Drift {
        let mut stated = BTreeMap::new();
        for module in contract
            .module_outlines()
            .into_iter()
            .filter(|module| !module.is_compound)
        {
            if let Some(busy_s) = contract.busy_s(&module.name) {
                stated.insert(
                    StatedNumber::Time {
                        module: module.name.clone(),
                    },
                    busy_s,
                );
            }
            let rate = assessment
                .rate(&module.name)
                .filter(|rate| *rate > 0.0 && !module.takes.is_empty());
            for stream in module.gives {
                let sent = assessment.rate(&format!("{}.{stream}", module.name));
                if let Some((sent, rate)) = sent.zip(rate) {
                    let module = module.name.clone();
                    stated.insert(StatedNumber::Items { module, stream }, sent / rate);
                }
            }
        }
        for stream in contract.stream_outlines() {
            if let Some(size) = stream.item_bytes {
                stated.insert(StatedNumber::Size { stream: stream.name }, size);
            }
        }
        Drift {
            stated,
            ..Drift::default()
        }
    }

    /// A module in a window: the share of its time in which it was busy, and its activations per second. Returns a
    /// line once it has drifted in as many windows as a violated rate needs.
    pub(super) fn take(&mut self, module: &str, busy: f64, rate: f64) -> Option<String> {
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
    ) -> Vec<String> {
        let mut lines = Vec::new();
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
                lines.extend(self.compare(number, items / activations, ITEMS_MIN / activations));
            }
        }
        if sent.iter().any(|end| sum(&end.items) > 0.0) && stream.item.is_some() {
            let stated = StatedNumber::Size {
                stream: name.to_owned(),
            };
            lines.extend(self.compare(stated, stream.item_bytes, 0.0));
        }
        lines
    }

    /// What was measured in a window, and how much of it is chance.
    fn compare(&mut self, number: StatedNumber, value: f64, chance: f64) -> Option<String> {
        let stated = *self.stated.get(&number)?;
        let factor = match number {
            StatedNumber::Time { .. } => TIME_FACTOR,
            StatedNumber::Items { .. } | StatedNumber::Size { .. } => COUNT_FACTOR,
        };
        let is_more = |value: f64| value > stated;
        let differs = (value > stated * factor || value < stated / factor) && (value - stated).abs() > chance;
        let measured = self.measured.entry(number.clone()).or_default();
        if !differs
            || measured
                .last()
                .is_some_and(|last| is_more(*last) != is_more(value))
        {
            measured.clear();
        }
        measured.extend(differs.then_some(value));
        if measured.len() > WINDOWS_BELOW as usize {
            measured.remove(0);
        }
        if measured.len() < WINDOWS_BELOW as usize || self.said.contains_key(&number) {
            return None;
        }
        let mean = ratio(measured, &vec![1.0; measured.len()]);
        self.said.insert(number.clone(), mean.value);
        let shown = |value: f64| number.shown(value.max(0.0));
        Some(format!(
            "{}, and the contract states {}: measured [{}, {}]; `contract learn` makes one of the program as it is",
            number.sentence(&shown(mean.value)),
            shown(stated),
            shown(mean.value - mean.half),
            shown(mean.value + mean.half)
        ))
    }

    /// What modules were measured to send in an activation, where the contract states something else: module, stream,
    /// and items.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.said.iter().filter_map(|(number, measured)| match number {
            StatedNumber::Items { module, stream } => Some((module.as_str(), stream.as_str(), *measured)),
            StatedNumber::Time { .. } | StatedNumber::Size { .. } => None,
        })
    }

    /// The number of workers of modules has changed: the times that the contract states are of other numbers.
    pub(super) fn end(&mut self) {
        self.stated
            .retain(|number, _| !matches!(number, StatedNumber::Time { .. }));
    }
}

impl StatedNumber {
    fn shown(&self, value: f64) -> String {
        match self {
            StatedNumber::Time { .. } => duration(value * 1e9),
            StatedNumber::Items { .. } => significant(value, 3),
            StatedNumber::Size { .. } => bytes(value),
        }
    }

    fn sentence(&self, value: &str) -> String {
        match self {
            StatedNumber::Time { module } => format!("{module} takes {value} for an activation"),
            StatedNumber::Items { module, stream } => {
                format!("{module} sends {value} items of {stream} in an activation")
            }
            StatedNumber::Size { stream } => format!("an item of {stream} has {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = "contract: film\nstreams: {s: {from: a, to: b}}\nmodules:\n  a: {gives: {s: 1}}\n  \
         b: {kind: task-parallel, takes: [s], work: encode, workers: 2}\nwork: {encode: {time: 40ms}}\nrequire: [s >= 10/s]\n";

    fn drift() -> Drift {
        let contract = Contract::parse(CONTRACT).unwrap();
        Drift::of(&contract, &contract.assess().unwrap())
    }

    #[test]
    fn a_service_time_that_is_not_the_stated_one_for_three_windows_is_said_once() {
        // Two workers take 40 ms each: an activation every 20 ms.
        let mut it = drift();
        assert_eq!(it.take("b", 1.0, 20.0), None);
        assert_eq!(it.take("b", 1.0, 20.0), None);
        let line = it.take("b", 1.0, 20.0).unwrap();
        assert!(
            line.starts_with("b takes 50 ms for an activation, and the contract states 20 ms: "),
            "{line}"
        );
        // Three windows of 49, 50 and 51 ms: the mean within 2.92 times its error of 0.577 ms.
        let mut it = drift();
        let lines = [0.98, 1.0, 1.02].map(|busy| it.take("b", busy, 20.0));
        let line = lines[2].as_deref().unwrap();
        assert!(
            line.contains(": measured [48.3 ms, 51.7 ms]; `contract learn` makes"),
            "{line}"
        );
        assert_eq!(it.take("b", 1.0, 20.0), None);
    }

    #[test]
    fn less_work_is_drift_too_and_windows_must_agree() {
        let mut it = drift();
        for rate in [100.0, 20.0, 100.0, 100.0] {
            assert_eq!(it.take("b", 1.0, rate), None, "{rate}");
        }
        assert!(it.take("b", 1.0, 100.0).unwrap().starts_with("b takes 10 ms"));
    }

    #[test]
    fn noise_modules_without_a_time_and_other_numbers_of_workers_are_no_drift() {
        let mut it = drift();
        for (module, busy, rate) in [
            ("b", 1.0, 45.0),
            ("b", 0.01, 20.0),
            ("b", 1.0, 0.0),
            ("a", 1.0, 1.0),
        ] {
            for _ in 0..4 {
                assert_eq!(it.take(module, busy, rate), None, "{module} {busy} {rate}");
            }
        }
        it.end();
        for _ in 0..4 {
            assert_eq!(it.take("b", 1.0, 20.0), None);
        }
    }
}
