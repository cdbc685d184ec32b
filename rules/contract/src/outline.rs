//! What others than this module need to know of a contract's graph: names, ends, sizes.

use super::model::Contract;

/// A stream of a contract, with the modules at its ends by name.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOutline {
    pub name: String,
    pub from: Vec<String>,
    pub to: Vec<String>,
    pub item_bytes: Option<f64>,
    /// Receivers share the items; otherwise each of them gets every one.
    pub is_on_demand: bool,
}

/// A module of a contract.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleOutline {
    pub name: String,
    /// None if it has a contract of its own.
    pub computations: Vec<ComputationOutline>,
}

/// A computation of a module, with the streams that it takes from and sends on.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputationOutline {
    /// As requirements name its activations: the module, or `module.computation` of several.
    pub feature: String,
    pub takes: Vec<String>,
    pub gives: Vec<String>,
}

impl Contract {
    pub fn stream_outlines(&self) -> Vec<StreamOutline> {
        let names = |ends: &[usize]| ends.iter().map(|&at| self.modules[at].name.clone()).collect();
        let outline = |stream: &super::model::Stream| StreamOutline {
            name: stream.name.clone(),
            from: names(&stream.from),
            to: names(&stream.to),
            item_bytes: stream.item_bytes,
            is_on_demand: stream.on_demand,
        };
        self.streams.iter().map(outline).collect()
    }

    pub fn module_outlines(&self) -> Vec<ModuleOutline> {
        let name = |stream: usize| self.streams[stream].name.clone();
        let outline = |module: &super::model::Module| {
            let computations = module.computations.iter().enumerate();
            let computations = computations.map(|(at, it)| ComputationOutline {
                feature: module.computation_name(at),
                takes: it.takes.iter().map(|&at| name(at)).collect(),
                gives: it.gives.iter().map(|(at, _)| name(*at)).collect(),
            });
            ModuleOutline {
                name: module.name.clone(),
                computations: computations.collect(),
            }
        };
        self.modules.iter().map(outline).collect()
    }
}
