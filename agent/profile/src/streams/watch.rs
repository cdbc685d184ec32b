//! A contract compared with its running program, window by window: which rates are below their targets, and who
//! has to act.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rules::contract::{Assessment, Contract, ModuleOutline, StreamOutline};

use super::bottleneck::bottleneck;
use super::counted::Names;
use super::drift::Drift;
use super::patterns::SameStream;
use super::standing::Standing;
use super::{End, ItemsAre, MeasuredModule, ObservedGraph, ObservedModule, ObservedStream, Pipe, Pipeline};
use crate::format::significant;
use crate::statistics::{Estimate, rate};
use crate::stream_views::{
    Bottleneck, ModuleVerdict, TimeShares, WINDOWS_BELOW, WatchSummary, WatchedModule, WatchedRate,
    WatchedWindow, WindowRate,
};

/// A rate that exceeds its target by less than this share is no waste.
const WASTE_SHARE: f64 = 0.1;

/// Bytes that move at once: a count of bytes is uncertain by them.
const BLOCK_BYTES: f64 = 65536.0;

/// Why a contract cannot be compared with a program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotComparable {
    #[error(
        "the contract's module `{0}` states a contract of its own, or several computations: those are not watched"
    )]
    Compound(String),
    #[error("the contract's stream `{0}` has no `item`, so its bytes are not items")]
    NoSize(String),
    #[error("the contract is about another program: it has {wanted}, and here {found}")]
    Other { wanted: String, found: String },
}

/// The targets of a contract, and what came of them.
#[derive(Clone, Debug)]
pub struct ContractWatch {
    name: String,
    targets: Vec<Target>,
    modules: BTreeMap<String, Mean>,
    bottleneck: Option<Bottleneck>,
    windows: u32,
    /// What the modules did in the last window.
    last: Vec<WatchedModule>,
    /// The newest windows since something was changed.
    recent: VecDeque<Vec<MeasuredModule>>,
    /// A rate was violated that is no longer required.
    was_violated: bool,
    drift: Drift,
}

/// A rate that the contract requires of a module or a stream. It needs no other rate to be judged.
#[derive(Clone, Debug)]
struct Target {
    feature: String,
    /// The contract states it; the others follow from it.
    is_stated: bool,
    least: f64,
    /// The module whose end of the stream is counted.
    module: String,
    stream: String,
    from: Vec<String>,
    to: Vec<String>,
    is_on_demand: bool,
    item_bytes: Option<f64>,
    /// Activations per item, for a module that is counted by what it sends.
    factor: f64,
    is_sent: bool,
    standing: Standing,
}

/// The mean of a module's shares over windows.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: TimeShares,
    windows: f64,
}

impl ContractWatch {
    /// The targets that an assessment gives to the modules and streams of a contract.
    ///
    /// # Errors
    /// If it has modules or streams that cannot be compared with a program's.
    pub fn of(contract: &Contract, assessment: &Assessment) -> Result<ContractWatch, NotComparable> {
        let (streams, modules) = (contract.stream_outlines(), contract.module_outlines());
        let at = |module: &str, stream: &str| assessment.rate(&format!("{module}.{stream}"));
        let target =
            |feature: &str, least: f64, module: &str, stream: &StreamOutline, is_sent: bool| Target {
                feature: feature.to_owned(),
                is_stated: contract.required_features().any(|stated| stated == feature),
                least,
                module: module.to_owned(),
                stream: stream.name.clone(),
                from: stream.from.clone(),
                to: stream.to.clone(),
                is_on_demand: stream.is_on_demand,
                item_bytes: stream.item_bytes,
                factor: least / at(module, &stream.name).unwrap_or(least),
                is_sent,
                standing: Standing::default(),
            };
        let find = |name: &String| streams.iter().find(|stream| stream.name == *name);
        let of_module = |module: &ModuleOutline| {
            if module.is_compound {
                return Err(NotComparable::Compound(module.name.clone()));
            }
            let counted = module.takes.first().or(module.gives.first()).and_then(find);
            let least = assessment.rate(&module.name).filter(|least| *least > 0.0);
            let Some((stream, least)) = counted.zip(least) else {
                return Ok(None);
            };
            let is_sent = module.takes.is_empty();
            Ok(Some(target(&module.name, least, &module.name, stream, is_sent)))
        };
        let of_stream = |stream: &StreamOutline| {
            let targets = stream.to.iter().filter_map(|module| {
                let least = at(module, &stream.name).filter(|least| *least > 0.0)?;
                let feature = match stream.to.as_slice() {
                    [_] => stream.name.clone(),
                    _ => format!("{module}.{}", stream.name),
                };
                Some(target(&feature, least, module, stream, false))
            });
            targets.collect::<Vec<Target>>()
        };
        let mut targets = Vec::new();
        for module in &modules {
            targets.extend(of_module(module)?);
        }
        for stream in &streams {
            targets.extend(of_stream(stream));
        }
        Ok(ContractWatch {
            name: contract.name().to_owned(),
            targets,
            modules: BTreeMap::new(),
            bottleneck: None,
            windows: 0,
            last: Vec::new(),
            recent: VecDeque::new(),
            was_violated: false,
            drift: Drift::of(contract, assessment),
        })
    }

    /// Other targets from the next window on, for a contract with other requirements. Returns what has changed.
    ///
    /// # Errors
    /// If it cannot be compared with the program; then nothing has changed.
    pub fn require(
        &mut self,
        contract: &Contract,
        assessment: &Assessment,
    ) -> Result<Vec<String>, NotComparable> {
        let new = ContractWatch::of(contract, assessment)?;
        let before = |feature: &str| self.targets.iter().find(|target| target.feature == feature);
        let stated = new.targets.iter().filter(|target| target.is_stated);
        let changed = stated.filter_map(|target| {
            let now = format!(
                "{} is required at {}/s",
                target.feature,
                significant(target.least, 3)
            );
            match before(&target.feature) {
                Some(before) if before.least == target.least => None,
                Some(before) => Some(format!("{now}, no longer at {}/s", significant(before.least, 3))),
                None => Some(now),
            }
        });
        let changed = changed.collect();
        self.was_violated |= self
            .targets
            .iter()
            .any(|target| target.standing.windows_violated > 0);
        self.targets = new.targets;
        Ok(changed)
    }

    /// The streams' bytes can be counted as items.
    ///
    /// # Errors
    /// If a stream states no size of its items.
    pub fn has_sizes(&self) -> Result<(), NotComparable> {
        let unsized_one = self.targets.iter().find(|target| target.item_bytes.is_none());
        match unsized_one {
            Some(target) => Err(NotComparable::NoSize(target.stream.clone())),
            None => Ok(()),
        }
    }

    /// Whether every stream of the contract is in what was seen: an item has arrived at each end of the graph.
    ///
    /// # Errors
    /// If there are streams that the contract does not have: what is missing, and what is there instead.
    pub fn is_filled(&self, seen: &ObservedGraph) -> Result<bool, NotComparable> {
        let seen = &self.as_stated(seen);
        let mut targets = self.targets.iter();
        if targets.all(|target| target.stream_in(seen).is_some()) {
            return Ok(true);
        }
        let is_known = |stream: &ObservedStream| self.targets.iter().any(|target| target.has(stream, seen));
        match seen.streams.iter().all(is_known) {
            true => Ok(false),
            false => Err(self.other(seen)),
        }
    }

    /// Messages between two modules each, as the streams with several ends that the contract states.
    fn as_stated(&self, seen: &ObservedGraph) -> ObservedGraph {
        let mut groups: BTreeMap<&str, SameStream> = BTreeMap::new();
        for target in self
            .targets
            .iter()
            .filter(|target| target.from.len() + target.to.len() > 2)
        {
            let streams = seen.streams.iter().enumerate();
            let parts = streams.filter(|(_, stream)| stream.sent.len() + stream.received.len() == 2);
            let parts: Vec<usize> = parts
                .filter(|(_, stream)| target.has(stream, seen))
                .map(|(at, _)| at)
                .collect();
            if !parts.is_empty() {
                groups.insert(
                    &target.stream,
                    SameStream {
                        parts,
                        is_on_demand: target.is_on_demand,
                    },
                );
            }
        }
        let groups: Vec<SameStream> = groups.into_values().collect();
        let mut stated = seen.clone();
        stated.join(&groups);
        stated
    }

    /// The part of a pipeline that the contract is about: pipes between processes with names of its modules.
    pub fn part_of(&self, pipeline: &Pipeline) -> Pipeline {
        let targets = self.targets.iter();
        let is_named = |at: &usize| {
            let name = Names::cleaned(&pipeline.stages[*at].name);
            let is_same = |known: &String| *known == name;
            targets
                .clone()
                .any(|target| target.from.iter().chain(&target.to).any(is_same))
        };
        let named = |ends: &[usize]| ends.iter().copied().filter(is_named).collect::<Vec<usize>>();
        let pipes = pipeline.pipes.iter().map(|pipe| Pipe {
            from: named(&pipe.from),
            to: named(&pipe.to),
        });
        Pipeline {
            pipes: pipes
                .filter(|pipe| !pipe.from.is_empty() && !pipe.to.is_empty())
                .collect(),
            ..pipeline.clone()
        }
    }

    /// Judges a window that ends at this time. Returns a line for each thing that has changed.
    ///
    /// # Errors
    /// If the program does not have the contract's streams.
    pub fn window(&mut self, end_s: f64, seen: &ObservedGraph) -> Result<Vec<String>, NotComparable> {
        let seen = &self.as_stated(seen);
        let counts: Option<Vec<Estimate>> = self.targets.iter().map(|target| target.counted(seen)).collect();
        let counts = counts.ok_or_else(|| self.other(seen))?;
        let seconds = seen.duration_s();
        let mut changed = Vec::new();
        for (target, counted) in self.targets.iter_mut().zip(counts) {
            if target.standing.take(counted, target.least, seconds) {
                changed.push(target.clone());
            }
        }
        self.windows += 1;
        for module in &seen.modules {
            self.modules
                .entry(module.name.clone())
                .or_default()
                .add(&module.shares);
        }
        self.bottleneck = bottleneck(seen);
        self.last = seen
            .modules
            .iter()
            .map(|one| WatchedModule::of(&one.name, one.shares))
            .collect();
        self.recent.push_back(self.measured_in(seen));
        if self.recent.len() > WINDOWS_BELOW as usize {
            self.recent.pop_front();
        }
        let lines = [true, false].into_iter();
        let mut lines: Vec<String> = lines
            .filter_map(|is_violated| line(&changed, is_violated, end_s))
            .collect();
        if let (false, true, Some(bottleneck)) = (changed.is_empty(), self.is_violated(), &self.bottleneck) {
            lines.push(format!(
                "{:>7} s  {}",
                significant(end_s, 4),
                bottleneck.sentence()
            ));
        }
        lines.extend(self.drifted(end_s, seen));
        Ok(lines)
    }

    /// A line for each number of the contract that the program does not have.
    fn drifted(&mut self, end_s: f64, seen: &ObservedGraph) -> Vec<String> {
        let mut lines = Vec::new();
        for module in &seen.modules {
            let mut targets = self.targets.iter();
            let target = targets.find(|target| target.feature == module.name);
            if let Some(counted) = target.and_then(|target| target.standing.last) {
                lines.extend(self.drift.take(&module.name, module.shares.busy, counted.value));
            }
        }
        let named: BTreeMap<&str, &Target> = self
            .targets
            .iter()
            .map(|target| (target.stream.as_str(), target))
            .collect();
        for (name, target) in named {
            if let Some(stream) = target.stream_in(seen) {
                lines.extend(self.drift.take_stream(name, stream, seen));
            }
        }
        let lines = lines.into_iter();
        lines
            .map(|line| format!("{:>7} s  {line}", significant(end_s, 4)))
            .collect()
    }

    /// The modules of a window that has been judged, with the rates of their activations.
    fn measured_in(&self, seen: &ObservedGraph) -> Vec<MeasuredModule> {
        let of = |module: &ObservedModule| {
            let mut targets = self.targets.iter();
            let target = targets.find(|target| target.feature == module.name)?;
            Some(MeasuredModule {
                name: module.name.clone(),
                holds: module.shares.holds(),
                rate: target.standing.last?.value,
                processes: module.processes.clone(),
                counted_per_s: module.counted / seen.duration_s().max(f64::MIN_POSITIVE),
            })
        };
        seen.modules.iter().filter_map(of).collect()
    }

    fn is_violated(&self) -> bool {
        self.targets.iter().any(|target| target.standing.is_violated)
    }

    /// The module that has to act: a rate is violated, and it is compute-bound.
    pub fn has_to_act(&self) -> Option<&str> {
        let it = self.bottleneck.as_ref().filter(|_| self.is_violated())?;
        (it.verdict == ModuleVerdict::ComputeBound).then_some(it.name.as_str())
    }

    /// The means of the newest windows.
    pub fn measured(&self) -> Vec<MeasuredModule> {
        MeasuredModule::means(&self.recent)
    }

    /// The modules as they were in that of the newest windows in which an activation took longest.
    pub(super) fn slowest(&self) -> Vec<MeasuredModule> {
        let busy_s = |one: &MeasuredModule| one.busy_s().unwrap_or_default();
        let slowest = |last: &MeasuredModule| {
            let same = self.recent.iter().flatten().filter(|one| one.name == last.name);
            same.max_by(|a, b| busy_s(a).total_cmp(&busy_s(b)))
                .unwrap_or(last)
                .clone()
        };
        self.recent.back().into_iter().flatten().map(slowest).collect()
    }

    /// Every rate has reached its target in each of the newest windows, of which there are enough since something
    /// was changed.
    pub(super) fn is_met(&self) -> bool {
        let is_above = |target: &Target| target.standing.windows_met >= WINDOWS_BELOW;
        self.recent.len() >= WINDOWS_BELOW as usize && self.targets.iter().all(is_above)
    }

    /// Something was changed: what was seen before says nothing of what follows.
    pub fn begin_again(&mut self) {
        self.recent.clear();
        self.drift.end();
        self.targets
            .iter_mut()
            .for_each(|target| target.standing.below = 0);
    }

    fn other(&self, seen: &ObservedGraph) -> NotComparable {
        let wanted = self
            .targets
            .iter()
            .filter(|target| target.counted(seen).is_none());
        let wanted: BTreeSet<String> = wanted
            .map(|target| format!("{} to {}", target.from.join(" and "), target.to.join(" and ")))
            .collect();
        let name = |end: &End| seen.modules[end.module].name.clone();
        let found = seen.streams.iter().map(|stream| {
            let [from, to] =
                [&stream.sent, &stream.received].map(|ends| ends.iter().map(name).collect::<Vec<_>>());
            format!("{} to {}", from.join(" and "), to.join(" and "))
        });
        NotComparable::Other {
            wanted: wanted.into_iter().collect::<Vec<_>>().join(", "),
            found: match seen.streams.is_empty() {
                true => "nothing joins modules of those names".to_owned(),
                false => format!("are {}", found.collect::<Vec<_>>().join(", ")),
            },
        }
    }

    /// The last window, which ended at this time.
    pub fn last_window(&self, end_s: f64) -> WatchedWindow {
        let rates = self.targets.iter().map(|target| WindowRate {
            feature: target.feature.clone(),
            target: target.least,
            rate: target.standing.last.map(|last| last.value),
            smoothed: target.standing.smoothed,
            within: target
                .standing
                .last
                .map(|last| last.half)
                .filter(|half| half.is_finite()),
            is_violated: target.standing.is_violated,
        });
        WatchedWindow {
            contract: self.name.clone(),
            end_s,
            rates: rates.collect(),
            modules: self.last.clone(),
            bottleneck: self.bottleneck.clone(),
        }
    }

    pub fn summary(&self) -> WatchSummary {
        let rates = self.targets.iter().map(|target| {
            let standing = &target.standing;
            let rate = (standing.seconds > 0.0).then(|| standing.counted / standing.seconds);
            let more = rate.map(|rate| rate / target.least - 1.0);
            WatchedRate {
                feature: target.feature.clone(),
                target: target.least,
                rate,
                windows_violated: standing.windows_violated,
                is_violated: standing.is_violated,
                waste: more.filter(|more| *more > WASTE_SHARE),
            }
        });
        let modules = self
            .modules
            .iter()
            .map(|(module, mean)| WatchedModule::of(module, mean.shares()));
        WatchSummary {
            contract: self.name.clone(),
            windows: self.windows,
            holds: self.windows >= WINDOWS_BELOW
                && !self.was_violated
                && self
                    .targets
                    .iter()
                    .all(|target| target.standing.windows_violated == 0),
            rates: rates.collect(),
            modules: modules.collect(),
            bottleneck: self.bottleneck.clone(),
        }
    }
}

impl Target {
    /// It is this stream, or a part of it.
    fn has(&self, stream: &ObservedStream, seen: &ObservedGraph) -> bool {
        let are = |ends: &[End], names: &[String]| {
            ends.iter()
                .all(|end| names.contains(&seen.modules[end.module].name))
        };
        are(&stream.sent, &self.from) && are(&stream.received, &self.to)
    }

    fn is(&self, stream: &ObservedStream, seen: &ObservedGraph) -> bool {
        let ends = (stream.sent.len(), stream.received.len());
        ends == (self.from.len(), self.to.len()) && self.has(stream, seen)
    }

    fn stream_in<'a>(&self, seen: &'a ObservedGraph) -> Option<&'a ObservedStream> {
        seen.streams.iter().find(|stream| self.is(stream, seen))
    }

    /// The rate in the contract's items or activations; `None` without such a stream. It is uncertain by its
    /// variation in the window, and by a block or a message.
    fn counted(&self, seen: &ObservedGraph) -> Option<Estimate> {
        let stream = self.stream_in(seen)?;
        let mut ends = if self.is_sent {
            &stream.sent
        } else {
            &stream.received
        }
        .iter();
        let end = ends.find(|end| seen.modules[end.module].name == self.module)?;
        let (scale, block) = match (stream.items_are, self.item_bytes) {
            (ItemsAre::Bytes, Some(bytes)) => (stream.item_bytes / bytes, BLOCK_BYTES / stream.item_bytes),
            (ItemsAre::Bytes, None) => return None,
            (ItemsAre::Messages, _) => (1.0, 1.0),
        };
        let scale = scale * self.factor;
        let estimate = rate(&end.items, &seen.slices_ns);
        let block = block / seen.duration_s().max(f64::MIN_POSITIVE);
        Some(Estimate {
            value: estimate.value * scale,
            half: estimate.half.max(block) * scale,
        })
    }
}

/// One line for the rates that have become violated, or are no longer: the one that the contract states, and the
/// names of the others.
fn line(changed: &[Target], is_violated: bool, end_s: f64) -> Option<String> {
    let mut group: Vec<&Target> = changed
        .iter()
        .filter(|target| target.standing.is_violated == is_violated)
        .collect();
    let stated = group.iter().position(|target| target.is_stated);
    let first = group.remove(stated.or(group.len().checked_sub(1))?);
    let others = match &group[..] {
        [] => String::new(),
        others => {
            let names: Vec<&str> = others.iter().map(|target| target.feature.as_str()).collect();
            format!("; also {}", names.join(", "))
        }
    };
    let what = if is_violated {
        "violated"
    } else {
        "no longer violated"
    };
    let rate = first.standing.last.map_or(0.0, |last| last.value);
    Some(format!(
        "{:>7} s  {}: {}/s of {}/s, {what}{others}",
        significant(end_s, 4),
        first.feature,
        significant(rate, 3),
        significant(first.least, 3)
    ))
}

impl Mean {
    fn add(&mut self, shares: &TimeShares) {
        self.sum.busy += shares.busy;
        self.sum.outside += shares.outside;
        self.sum.waits_for_cpu += shares.waits_for_cpu;
        self.sum.starved += shares.starved;
        self.sum.blocked += shares.blocked;
        self.windows += 1.0;
    }

    fn shares(&self) -> TimeShares {
        let mean = |sum: f64| sum / self.windows.max(1.0);
        TimeShares {
            busy: mean(self.sum.busy),
            outside: mean(self.sum.outside),
            waits_for_cpu: mean(self.sum.waits_for_cpu),
            starved: mean(self.sum.starved),
            blocked: mean(self.sum.blocked),
        }
    }
}
