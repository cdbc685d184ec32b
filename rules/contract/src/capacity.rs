//! Capacity: how much of each resource a contract uses (47), (48), the greatest rate, and what binds it.

use std::collections::BTreeMap;

use serde::Serialize;
use syntax::diag::Diagnostic;
use syntax::unit::Dimension;

use super::assess::Assessment;
use super::error::ContractError;
use super::exact::to_f64;
use super::model::StatedNumber;
use super::model::{Contract, Module, Requirement};
use super::points::ModulePoint;
use super::service::{placement, use_of, workers};
use super::system::{Feature, System};

/// What resources a contract uses, and how far they reach.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The feature that rates below are about: the first required one.
    pub feature: String,
    /// Its rate per second as assessed.
    pub rate: f64,
    /// The greatest rate of it, if all rates grow alike; `None` if nothing limits it.
    pub greatest: Option<f64>,
    /// Resources, the most used first: the first is the bottleneck.
    pub resources: Vec<Resource>,
    /// What an addition to a resource is worth.
    pub additions: Vec<Addition>,
    /// What is not limited by the contract, and why.
    pub unknown: Vec<String>,
    /// The operating points that service times are of, where a work has several.
    pub points: Vec<ModulePoint>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Resource {
    pub resource: String,
    /// The share that the assessed rates use; above 1 it cannot deliver them.
    pub utilisation: f64,
    /// The rate of the feature at which it is used completely.
    pub binds_at: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Addition {
    /// Such as `one worker more in C2`.
    pub addition: String,
    /// Growth of the greatest rate, per second.
    pub gain: f64,
}

/// A resource with its use, and its use if something is added to it.
struct Load {
    resource: String,
    use_now: f64,
    additions: Vec<(String, f64)>,
}

/// What a link is widened by to find its value.
const MORE_BYTES_PER_S: f64 = 1.25e6;

impl Contract {
    /// The greatest rate, and what binds it.
    ///
    /// A contract with one degree of freedom needs no requirement: all rates follow from any.
    ///
    /// # Errors
    /// If it cannot be assessed, or modules are placed where they cannot run.
    pub fn capacity(&self) -> Result<(Assessment, Capacity), Vec<Diagnostic>> {
        let contract = self.required();
        let assessment = contract.assess()?;
        let wrong = contract.misplaced();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let Some(first) = contract.requirements.first() else {
            return Err(vec![Diagnostic::wrong("E0176", self.span, "nothing is required")]);
        };
        let system = System::of(&contract);
        let column = system
            .resolve(&contract, &first.feature, first.span)
            .map_err(|wrong| vec![wrong])?;
        let rate = assessment.features[column].rate;
        let (mut loads, mut unknown) = (Vec::new(), Vec::new());
        loads_of(&contract, &assessment, "", &mut loads, &mut unknown);
        loads.sort_by(|a, b| b.use_now.total_cmp(&a.use_now));
        let greatest = greatest(loads.iter().map(|load| load.use_now), rate);
        let capacity = Capacity {
            feature: first.feature.clone(),
            rate,
            greatest,
            additions: additions(&loads, rate, greatest),
            resources: loads
                .into_iter()
                .map(|load| Resource {
                    resource: load.resource,
                    utilisation: load.use_now,
                    binds_at: rate / load.use_now,
                })
                .collect(),
            unknown,
            points: contract.operating_points(),
        };
        Ok((assessment, capacity))
    }

    /// The contract; without requirements, with one on a module that sends nothing.
    fn required(&self) -> Contract {
        let mut contract = self.clone();
        let mut sinks = self.modules.iter().enumerate().filter(|(at, module)| {
            let sends = self.streams.iter().any(|stream| stream.from.contains(at));
            !sends && module.part.is_none() && module.computations.len() == 1
        });
        if let (true, Some((_, sink))) = (self.requirements.is_empty(), sinks.next_back()) {
            contract.requirements.push(Requirement {
                feature: sink.name.clone(),
                least: super::exact::Exact::from_integer(1),
                span: self.span,
                conversion: None,
            });
        }
        contract
    }

    /// Modules that cannot run where they are placed, here and in parts.
    fn misplaced(&self) -> Vec<Diagnostic> {
        let mut wrong = placement(self);
        wrong.extend(self.parts.iter().flat_map(Contract::misplaced));
        wrong
    }

    /// The error for rates that resources cannot deliver; `None` if they can.
    pub fn exceeded(&self, capacity: &Capacity) -> Option<Diagnostic> {
        let over: Vec<&Resource> = capacity
            .resources
            .iter()
            .filter(|one| one.utilisation > 1.0 + 1e-9)
            .collect();
        let greatest = capacity.greatest.filter(|_| !over.is_empty())?;
        let rate = syntax::quantity::significant;
        let message = format!(
            "`{}` is required at {}/s, and can be at most {}/s",
            capacity.feature,
            rate(capacity.rate, 4),
            rate(greatest, 4)
        );
        let span = self.requirements.first().map_or(self.span, |one| one.span);
        let names: Vec<String> = over
            .iter()
            .map(|one| {
                format!(
                    "{} would be used to {}",
                    one.resource,
                    syntax::quantity::percent(one.utilisation)
                )
            })
            .collect();
        Some(
            Diagnostic::error("E0180", message)
                .at(span, "required")
                .help(names.join("; ")),
        )
    }

    /// Changes a number before an assessment: `C2.workers = 4`, `lan.bandwidth = 1Gbit/s`, `C2.time = 60ms`,
    /// `pictures.item = 2MB`.
    ///
    /// # Errors
    /// If it names nothing that can be changed so.
    pub fn suppose(&mut self, written: &str) -> Result<(), ContractError> {
        let form = || ContractError::NotAChange {
            written: written.to_owned(),
        };
        let (name, value) = written.split_once('=').ok_or_else(form)?;
        let (owner, what) = name.trim().rsplit_once('.').ok_or_else(form)?;
        let value = value.trim();
        match what {
            "workers" => {
                // `-1`, `2.5` and `two` are wrong for the same reason, which the text says.
                let count = value.parse().ok();
                let count = count.ok_or_else(|| ContractError::NotAWorkerCount {
                    written: value.to_owned(),
                })?;
                self.set_workers(owner, count)?;
            }
            "bandwidth" => {
                let link = self.links.iter_mut().find(|link| link.name == owner);
                let link = link.ok_or_else(|| ContractError::NoLink {
                    link: owner.to_owned(),
                })?;
                link.bytes_per_s = constant_of(value, BANDWIDTH)?;
            }
            "item" => {
                let size = constant_of(value, SIZE)?;
                let stream = owner.to_owned();
                self.observe(&StatedNumber::Size { stream }, size)?;
            }
            "time" => {
                let time_s = constant_of(value, TIME)?;
                self.measure(owner, time_s, None)?;
            }
            _ => return Err(form()),
        }
        Ok(())
    }

    pub(super) fn set_workers(&mut self, owner: &str, count: u32) -> Result<(), ContractError> {
        if !(1..=1_000_000).contains(&count) {
            let written = count.to_string();
            return Err(ContractError::NotAWorkerCount { written });
        }
        let named = || owner.to_owned();
        let module = self.modules.iter_mut().find(|module| module.name == owner);
        let module = module.ok_or_else(|| ContractError::NoModule { module: named() })?;
        let Some(workers) = &mut module.workers else {
            return Err(ContractError::NoWorkers { module: named() });
        };
        if module.place.machines.len() > 1 {
            return Err(ContractError::SeveralKinds { module: named() });
        }
        workers.count = Some(count);
        for (_, machines) in &mut module.place.machines {
            *machines = 0;
        }
        Ok(())
    }
}

/// A quantity that can be changed, with a value as an example.
#[derive(Clone, Copy)]
struct SettableQuantity {
    name: &'static str,
    example: &'static str,
    dimension: Dimension,
}

const BANDWIDTH: SettableQuantity = SettableQuantity {
    name: "bandwidth",
    example: "1Gbit/s",
    dimension: Dimension { time: -1, bytes: 1 },
};

const SIZE: SettableQuantity = SettableQuantity {
    name: "size",
    example: "2MB",
    dimension: Dimension::BYTES,
};

const TIME: SettableQuantity = SettableQuantity {
    name: "time",
    example: "60ms",
    dimension: Dimension::TIME,
};

/// A positive constant of this quantity.
fn constant_of(written: &str, quantity: SettableQuantity) -> Result<f64, ContractError> {
    let text = syntax::text::Text::elsewhere(written, syntax::diag::Span::default());
    let expr = syntax::parser::parse(&text).ok();
    let found = expr.and_then(|expr| super::exact::constant(&expr, &|_| None).ok());
    let found = found.filter(|found| found.dimension == quantity.dimension);
    let number = found.map(|found| to_f64(found.value));
    number
        .filter(|number| *number > 0.0)
        .ok_or_else(|| ContractError::NotAQuantity {
            written: written.to_owned(),
            quantity: quantity.name,
            example: quantity.example,
        })
}

fn greatest(uses: impl Iterator<Item = f64>, rate: f64) -> Option<f64> {
    let most = uses.fold(0.0, f64::max);
    (most > 0.0).then(|| rate / most)
}

fn additions(loads: &[Load], rate: f64, now: Option<f64>) -> Vec<Addition> {
    let mut out = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        for (addition, use_then) in &load.additions {
            let others = loads.iter().enumerate().filter(|(other, _)| *other != at);
            let uses = others.map(|(_, load)| load.use_now).chain([*use_then]);
            let gain = greatest(uses, rate)
                .zip(now)
                .map_or(0.0, |(then, now)| then - now);
            out.push(Addition {
                addition: addition.clone(),
                gain: gain.max(0.0),
            });
        }
    }
    out
}

/// The loads of a contract and of its parts, whose names begin with `prefix`.
fn loads_of(
    contract: &Contract,
    assessment: &Assessment,
    prefix: &str,
    loads: &mut Vec<Load>,
    unknown: &mut Vec<String>,
) {
    let system = System::of(contract);
    let rate = |feature| {
        system
            .column(feature)
            .map_or(0.0, |column| assessment.features[column].rate)
    };
    let mut shared: BTreeMap<usize, f64> = BTreeMap::new();
    for (index, module) in contract.modules.iter().enumerate() {
        let rates = contract.activations(&system, assessment, index);
        match module_use(contract, module, &rates, 0) {
            Ok(None) => {}
            Ok(Some(use_now)) => match own_machine(contract, module) {
                Some(machine) => *shared.entry(machine).or_default() += use_now,
                None => {
                    let more = module_use(contract, module, &rates, 1).ok().flatten();
                    let more = more.filter(|_| module.workers.is_some() && module.place.machines.len() <= 1);
                    let name = format!("{prefix}{}", module.name);
                    loads.push(Load {
                        additions: more
                            .map(|more| (format!("one worker more in {name}"), more))
                            .into_iter()
                            .collect(),
                        resource: name,
                        use_now,
                    });
                }
            },
            Err(why) => unknown.push(why.to_string()),
        }
    }
    for (machine, use_now) in shared {
        loads.push(Load {
            resource: format!("{prefix}machine {}", contract.machines[machine].name),
            use_now,
            additions: Vec::new(),
        });
    }
    links(contract, &rate, prefix, loads, unknown);
    for (name, inner) in &assessment.parts {
        let module = contract.modules.iter().find(|module| module.name == *name);
        if let Some(part) = module.and_then(|module| module.part.as_ref()) {
            loads_of(
                &contract.parts[part.contract],
                inner,
                &format!("{prefix}{name}."),
                loads,
                unknown,
            );
        }
    }
}

/// The one machine of its kind that a module runs on, and that others may run on too.
pub(super) fn own_machine(contract: &Contract, module: &Module) -> Option<usize> {
    match module.place.machines.as_slice() {
        [(machine, _)] if contract.machines[*machine].count == 1 => Some(*machine),
        _ => None,
    }
}

/// The share of the workers' time that the activations take; `None` if the module states no work.
fn module_use(
    contract: &Contract,
    module: &Module,
    rates: &[f64],
    more: u32,
) -> Result<Option<f64>, ContractError> {
    if !module.has_work() {
        return Ok(None);
    }
    let (mut machines, count) = workers(module)?;
    if let [(_, machines)] = machines.as_mut_slice() {
        *machines += more;
    }
    use_of(contract, module, rates, &machines, count + more).map(Some)
}

fn links(
    contract: &Contract,
    rate: &dyn Fn(Feature) -> f64,
    prefix: &str,
    loads: &mut Vec<Load>,
    unknown: &mut Vec<String>,
) {
    for link in &contract.links {
        let mut bytes_per_s = 0.0;
        for &stream in &link.streams {
            let one = &contract.streams[stream];
            let Some(size) = one.item_bytes else {
                unknown.push(format!(
                    "`{}` carries `{}`, whose items have no size",
                    link.name, one.name
                ));
                continue;
            };
            // A broadcast crosses the link once for each receiver.
            let received: f64 = match one.to.is_empty() {
                true => rate(Feature::Outside { stream }),
                false => one
                    .to
                    .iter()
                    .map(|&module| rate(Feature::Input { module, stream }))
                    .sum(),
            };
            bytes_per_s += size * received;
        }
        let name = format!("{prefix}link {}", link.name);
        loads.push(Load {
            use_now: bytes_per_s / link.bytes_per_s,
            additions: vec![(
                format!("10 Mbit/s more on {name}"),
                bytes_per_s / (link.bytes_per_s + MORE_BYTES_PER_S),
            )],
            resource: name,
        });
    }
}
