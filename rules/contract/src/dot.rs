//! The graph of a contract for Graphviz.

use std::fmt::Write as _;

use syntax::quantity::{percent, significant};

use super::assess::Assessment;
use super::capacity::Capacity;
use super::model::{Contract, ModuleKind};
use super::system::{Feature, System};

impl Contract {
    /// Modules and streams with their rates, the use of modules, and the bottleneck.
    pub fn dot(&self, assessment: &Assessment, capacity: &Capacity) -> String {
        let system = System::of(self);
        let rate = |feature| {
            let column = system.column(feature)?;
            Some(format!(
                "{}/s",
                significant(assessment.features.get(column)?.rate, 3)
            ))
        };
        let first = capacity.resources.first().map(|one| one.resource.as_str());
        let mut out = format!("digraph {:?} {{\n  rankdir=LR; node [shape=box];\n", self.name);
        for (module, one) in self.modules.iter().enumerate() {
            let rates = (0..one.computations.len())
                .filter_map(|computation| rate(Feature::Activation { module, computation }));
            let kind = match one.kind {
                ModuleKind::Sequential => None,
                ModuleKind::DataParallel => Some("data-parallel".to_string()),
                ModuleKind::TaskParallel => Some("task-parallel".to_string()),
            };
            let used = capacity
                .resources
                .iter()
                .find(|resource| resource.resource == one.name);
            let used = used.map(|resource| format!("{} used", percent(resource.utilisation)));
            let lines: Vec<String> = [one.name.clone()]
                .into_iter()
                .chain(kind)
                .chain(rates)
                .chain(used)
                .collect();
            let bold = if first == Some(&one.name) {
                ", style=bold, color=red"
            } else {
                ""
            };
            let _ = writeln!(out, "  m{module} [label=\"{}\"{bold}];", lines.join("\\n"));
        }
        for (stream, one) in self.streams.iter().enumerate() {
            for from in &one.from {
                for to in &one.to {
                    let rate =
                        rate(Feature::on_edge(stream, one.from.len(), (*from, *to))).unwrap_or_default();
                    let style = if one.on_demand { ", style=dashed" } else { "" };
                    let _ = writeln!(out, "  m{from} -> m{to} [label=\"{} {rate}\"{style}];", one.name);
                }
            }
        }
        out.push_str("}\n");
        out
    }
}
