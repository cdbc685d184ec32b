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

/// A module of a contract, with what its first computation takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleOutline {
    pub name: String,
    /// Several computations, or a contract of its own.
    pub is_compound: bool,
    pub takes: Vec<String>,
    pub gives: Vec<String>,
    /// The number of workers; `None` if it is not stated.
    pub workers: Option<u32>,
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
            let first = module.computations.first();
            ModuleOutline {
                name: module.name.clone(),
                is_compound: module.part.is_some() || module.computations.len() > 1,
                takes: first.map_or(Vec::new(), |it| it.takes.iter().map(|&at| name(at)).collect()),
                gives: first.map_or(Vec::new(), |it| {
                    it.gives.iter().map(|(at, _)| name(*at)).collect()
                }),
                workers: module.workers.as_ref().and_then(|workers| workers.count),
            }
        };
        self.modules.iter().map(outline).collect()
    }
}
