//! A contract as data. Modules, streams, works and machines are named by their index.

use std::collections::BTreeMap;

use syntax::diag::Span;

use super::calibrate::FittedWork;
use super::exact::Exact;

/// A contract: the model of a program, what is required of it, and where it runs.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    pub(crate) name: String,
    pub(crate) streams: Vec<Stream>,
    pub(crate) modules: Vec<Module>,
    pub(crate) works: Vec<Work>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) links: Vec<NetworkLink>,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) adaptations: Vec<Adaptation>,
    /// Works that were fitted to measured times.
    pub(crate) calibrations: Vec<FittedWork>,
    /// The contracts of modules that are programs themselves.
    pub(crate) parts: Vec<Contract>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// The modules that send. Empty: an input of the component.
    pub(crate) from: Vec<usize>,
    /// The modules that receive. Empty: an output of the component.
    pub(crate) to: Vec<usize>,
    /// Each item goes to one receiver, not to all.
    pub(crate) on_demand: bool,
    pub(crate) item_bytes: Option<f64>,
    /// Items that a receiver can have waiting, for simulations.
    pub(crate) buffer: Option<u32>,
    /// Items that are there before anything runs.
    pub(crate) initial: Option<u32>,
    pub(crate) latency_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleKind {
    Sequential,
    DataParallel,
    TaskParallel,
}

#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) kind: ModuleKind,
    /// Empty if it has a contract of its own.
    pub(crate) computations: Vec<Computation>,
    pub(crate) part: Option<SubContract>,
    pub(crate) workers: Option<Workers>,
    /// The used share of the power of this number of workers, sorted; empty: all of it.
    pub(crate) efficiency: Vec<(u32, f64)>,
    /// How long its workers were seen to be busy with an activation.
    pub(crate) measured_s: Option<f64>,
    pub(crate) place: ModulePlace,
}

/// A group of inputs that activates together, and what an activation sends.
#[derive(Clone, Debug)]
pub(crate) struct Computation {
    /// Empty for the only computation of a module.
    pub(crate) name: String,
    pub(crate) takes: Vec<usize>,
    /// Streams, with the mean number of items that an activation sends.
    pub(crate) gives: Vec<(usize, Exact)>,
    pub(crate) work: Option<usize>,
}

/// The contract of a module that is a program itself.
#[derive(Clone, Debug)]
pub(crate) struct SubContract {
    /// Index in `parts`.
    pub(crate) contract: usize,
    /// Maps a stream of this contract to a stream of the part.
    pub(crate) map: BTreeMap<usize, usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// The parameter that states the number.
    pub(crate) name: Option<String>,
    /// `None`: a variable of the program that has no value in the file.
    pub(crate) count: Option<u32>,
}

/// The work of an activation, by operating point; the first whose conditions hold applies.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) points: Vec<OperatingPoint>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct OperatingPoint {
    /// Its conditions as the file has them; empty without any.
    pub(crate) condition: String,
    /// The least properties of the machine.
    pub(crate) properties: BTreeMap<String, f64>,
    /// The least numbers of the program.
    pub(crate) numbers: Vec<LeastNumber>,
    /// A measured service time, which holds on every machine.
    pub(crate) time_s: Option<f64>,
    pub(crate) amounts: BTreeMap<String, f64>,
    /// The metrics overlap: the longest counts, not the sum.
    pub(crate) overlapped: bool,
}

/// A number that a contract states, and of which its running program may have another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatedNumber {
    /// How long the workers of a module are busy with an activation, in seconds.
    Time { module: String },
    /// Items that a module sends on a stream in an activation.
    Items { module: String, stream: String },
    /// The mean size of the items of a stream, in bytes.
    Size { stream: String },
}

/// A condition on what is measured while the program runs.
#[derive(Clone, Debug)]
pub(crate) struct LeastNumber {
    pub(crate) number: StatedNumber,
    pub(crate) least: f64,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ModulePlace {
    pub(crate) span: Span,
    /// Kinds of machines, each with how many; 0: as many as there are workers.
    pub(crate) machines: Vec<(usize, u32)>,
    pub(crate) host: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) has: Vec<String>,
    pub(crate) properties: BTreeMap<String, f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) count: u32,
    /// Work per second, by metric.
    pub(crate) power: BTreeMap<String, f64>,
    pub(crate) properties: BTreeMap<String, f64>,
    pub(crate) domain: Option<String>,
    pub(crate) has: Vec<String>,
    pub(crate) cost: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct NetworkLink {
    pub(crate) name: String,
    pub(crate) bytes_per_s: f64,
    pub(crate) streams: Vec<usize>,
}

/// `feature >= least`, in items or activations per second.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    pub(crate) feature: String,
    pub(crate) least: Exact,
    pub(crate) span: Span,
    /// How the rate follows from a time, if it was stated as one.
    pub(crate) conversion: Option<String>,
}

/// What may be changed in a module to hold the contract.
#[derive(Clone, Debug)]
pub(crate) struct Adaptation {
    pub(crate) module: usize,
    pub(crate) variable: String,
    /// The function at whose entry the variable is set; `None`: anywhere.
    pub(crate) at: Option<String>,
    pub(crate) least: u32,
    pub(crate) most: u32,
}

impl Module {
    /// The name of a computation in requirements and reports.
    pub(crate) fn computation_name(&self, computation: usize) -> String {
        match self.computations[computation].name.as_str() {
            "" => self.name.clone(),
            name => format!("{}.{name}", self.name),
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        self.computations
            .iter()
            .any(|computation| computation.work.is_some())
    }
}

impl OperatingPoint {
    /// A service time that holds everywhere.
    pub(crate) fn of_time(time_s: f64) -> OperatingPoint {
        OperatingPoint {
            time_s: Some(time_s),
            ..OperatingPoint::default()
        }
    }
}

impl Machine {
    /// Whether it has at least these properties.
    pub(crate) fn has_at_least(&self, needed: &BTreeMap<String, f64>) -> bool {
        let mut needed = needed.iter();
        needed.all(|(name, least)| self.properties.get(name).is_some_and(|has| has >= least))
    }
}

impl ModulePlace {
    /// The stated number of machines of all kinds; 0 if as many as there are workers.
    pub(crate) fn stated_machines(&self) -> u32 {
        self.machines.iter().map(|(_, count)| count).sum()
    }
}

impl Contract {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The features of which a rate is required.
    pub fn required_features(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|required| required.feature.as_str())
    }

    /// Works that were fitted to measured times.
    pub fn calibrations(&self) -> &[FittedWork] {
        &self.calibrations
    }

    /// The least and the greatest number of workers that may be set.
    pub(crate) fn range(&self, module: usize) -> Option<(u32, u32)> {
        let found = self.adaptations.iter().find(|one| one.module == module)?;
        Some((found.least, found.most))
    }
}
