//! A contract compared with its running program, window by window: which rates are below their targets, and who
//! has to act.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use contract::{Assessment, ComputationOutline, Contract, ModuleOutline, StreamOutline};

use super::bottleneck::bottleneck;
use super::counted::Names;
use super::drift::{Drift, Drifted};
use super::patterns::SameStream;
use super::standing::Standing;
use super::target::{Target, line};
use super::{End, MeasuredModule, ObservedGraph, ObservedModule, ObservedStream, Pipe, Pipeline};
use crate::format::significant;
use crate::statistics::Estimate;
use crate::stream_views::{
    Bottleneck, ModuleVerdict, TimeShares, WINDOWS_BELOW, WatchSummary, WatchedModule, WatchedRate,
    WatchedWindow, WindowRate,
};

/// A rate that exceeds its target by less than this share is no waste.
const WASTE_SHARE: f64 = 0.1;

/// Why a contract cannot be compared with a program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotComparable {
    #[error("the contract's module `{0}` states a contract of its own, which is not watched")]
    Compound(String),
    #[error("the contract's stream `{0}` has no `item`, so its bytes are not items")]
    NoSize(String),
    #[error("the contract is about another program: it has {wanted}, and here {found}")]
    Other { wanted: String, found: String },
}

/// The targets of a contract, and what came of them.
#[derive(Clone, Debug)]
pub struct ContractWatch {
    contract: Contract,
    targets: Vec<Target>,
    modules: BTreeMap<String, Mean>,
    bottleneck: Option<Bottleneck>,
    /// What the last window saw, with the means of all windows as the shares of its modules.
    mean: ObservedGraph,
    windows: u32,
    /// What the modules did in the last window.
    last: Vec<WatchedModule>,
    /// The newest windows since something was changed.
    recent: VecDeque<Vec<MeasuredModule>>,
    /// A rate was violated that is no longer required.
    was_violated: bool,
    drift: Drift,
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
                stream: stream.clone(),
                factor: least / at(module, &stream.name).unwrap_or(least),
                is_sent,
                standing: Standing::default(),
            };
        let find = |name: &String| streams.iter().find(|stream| stream.name == *name);
        let of_computation = |module: &ModuleOutline, one: &ComputationOutline| {
            // An input belongs to one computation, and an output may belong to several.
            let is_own = |stream: &&String| {
                let mut others = module.computations.iter().filter(|other| *other != one);
                !others.any(|other| other.gives.contains(stream))
            };
            let sent = one.gives.iter().find(is_own);
            let counted = one.takes.first().or(sent).and_then(find)?;
            let least = assessment.rate(&one.feature).filter(|least| *least > 0.0)?;
            let is_sent = one.takes.is_empty();
            Some(target(&one.feature, least, &module.name, counted, is_sent))
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
            if module.computations.is_empty() {
                return Err(NotComparable::Compound(module.name.clone()));
            }
            let computations = module.computations.iter();
            targets.extend(computations.filter_map(|one| of_computation(module, one)));
        }
        for stream in &streams {
            targets.extend(of_stream(stream));
        }
        Ok(ContractWatch {
            contract: contract.clone(),
            targets,
            modules: BTreeMap::new(),
            bottleneck: None,
            mean: ObservedGraph::default(),
            windows: 0,
            last: Vec::new(),
            recent: VecDeque::new(),
            was_violated: false,
            drift: Drift::of(contract),
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
        self.drift = new.drift.with(contract, &self.drift);
        (self.contract, self.targets) = (new.contract, new.targets);
        self.take_measured();
        Ok(changed)
    }

    /// The streams' bytes can be counted as items.
    ///
    /// # Errors
    /// If a stream states no size of its items.
    pub fn has_sizes(&self) -> Result<(), NotComparable> {
        let mut streams = self.targets.iter().map(|target| &target.stream);
        match streams.find(|stream| stream.item_bytes.is_none()) {
            Some(stream) => Err(NotComparable::NoSize(stream.name.clone())),
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
            .filter(|target| target.stream.from.len() + target.stream.to.len() > 2)
        {
            let streams = seen.streams.iter().enumerate();
            let parts = streams.filter(|(_, stream)| stream.sent.len() + stream.received.len() == 2);
            let parts: Vec<usize> = parts
                .filter(|(_, stream)| target.has(stream, seen))
                .map(|(at, _)| at)
                .collect();
            if !parts.is_empty() {
                groups.insert(
                    &target.stream.name,
                    SameStream {
                        parts,
                        is_on_demand: target.stream.is_on_demand,
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
            let mut streams = targets.clone().map(|target| &target.stream);
            streams.any(|stream| stream.from.contains(&name) || stream.to.contains(&name))
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
        if self.targets.iter().any(|target| target.counted(seen).is_none()) {
            return Err(self.other(seen));
        }
        let mut drifted = self.drifted_streams(seen);
        let counts: Vec<Estimate> = self
            .targets
            .iter()
            .filter_map(|target| target.counted(seen))
            .collect();
        let seconds = seen.duration_s();
        let mut changed = Vec::new();
        for (target, counted) in self.targets.iter_mut().zip(counts) {
            if target.standing.take(counted, target.least, seconds) {
                changed.push(target.clone());
            }
        }
        self.windows += 1;
        for module in &seen.modules {
            let mean = self.modules.entry(module.name.clone()).or_default();
            mean.sum += module.shares;
            mean.windows += 1.0;
        }
        self.bottleneck = bottleneck(seen);
        self.mean = seen.clone();
        for module in &mut self.mean.modules {
            let mean = self.modules.get(&module.name).map(Mean::shares);
            module.shares = mean.unwrap_or(module.shares);
        }
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
        drifted.extend(self.drifted_times(seen));
        let drifted = drifted.into_iter();
        lines.extend(drifted.map(|line| format!("{:>7} s  {line}", significant(end_s, 4))));
        Ok(lines)
    }

    /// A line for each service time of the contract that the program has no longer.
    fn drifted_times(&mut self, seen: &ObservedGraph) -> Vec<String> {
        let of = |module: &ObservedModule| {
            let mut targets = self.targets.iter();
            let rate = targets
                .find(|target| target.feature == module.name)?
                .standing
                .last?
                .value;
            self.drift.take(&module.name, module.shares.busy, rate)
        };
        let drifted: Vec<Drifted> = seen.modules.iter().filter_map(of).collect();
        self.drift.settle(&self.contract, &drifted)
    }

    /// A line for each number of the contract's streams that the program has no longer. Targets follow from what was
    /// measured then.
    fn drifted_streams(&mut self, seen: &ObservedGraph) -> Vec<String> {
        let mut drifted = Vec::new();
        let named: BTreeMap<&str, &Target> = self
            .targets
            .iter()
            .map(|target| (target.stream.name.as_str(), target))
            .collect();
        for (name, target) in named {
            if let Some(stream) = target.stream_in(seen) {
                drifted.extend(self.drift.take_stream(name, stream, seen));
            }
        }
        let lines = self.drift.settle(&self.contract, &drifted);
        if !lines.is_empty() {
            self.take_measured();
        }
        lines
    }

    /// Replaces what the contract states of items in an activation by what was measured. Where no rates follow from that, the
    /// targets stay.
    fn take_measured(&mut self) {
        let contract = self.as_measured();
        let assessed = contract.assess().ok();
        let Some(Ok(new)) = assessed.map(|assessment| ContractWatch::of(&contract, &assessment)) else {
            return;
        };
        for target in &mut self.targets {
            if let Some(new) = new.targets.iter().find(|new| new.feature == target.feature) {
                (target.least, target.factor) = (new.least, new.factor);
            }
        }
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

    /// The contract with what was measured of items, in place of what it states.
    pub(super) fn as_measured(&self) -> Contract {
        self.drift.as_measured(&self.contract)
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
            .map(|target| &target.stream)
            .map(|stream| format!("{} to {}", stream.from.join(" and "), stream.to.join(" and ")))
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
            contract: self.contract.name().to_owned(),
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
            contract: self.contract.name().to_owned(),
            windows: self.windows,
            holds: self.windows >= WINDOWS_BELOW
                && !self.was_violated
                && self
                    .targets
                    .iter()
                    .all(|target| target.standing.windows_violated == 0),
            rates: rates.collect(),
            modules: modules.collect(),
            points: self.drift.points().to_vec(),
            bottleneck: bottleneck(&self.mean),
        }
    }
}

impl Mean {
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
