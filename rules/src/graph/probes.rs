//! The combined probes of several rules: a function is probed once, with the captures of all rules.

use super::Graph;
use crate::check::READS_MAX;
use crate::plan::{Delivery, PlannedProbe};
use crate::read::{Base, Known, PlannedCapture};
use crate::rule::CheckedRule;
use crate::target::Site;

/// A function, or a set of them, that is probed for one rule or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProbe {
    pub function: String,
    pub entry: bool,
    pub returns: bool,
    /// The most that any rule requires.
    pub delivers: Delivery,
    /// All its captures, without duplicates.
    pub captures: Vec<PlannedCapture>,
    /// The rules with their names for it: `optimal-workers.send`.
    pub used_by: Vec<String>,
}

impl SharedProbe {
    /// By how many values it exceeds the reads of a probe.
    pub fn reads_too_many(&self) -> usize {
        let read = self.captures.iter();
        let read = read.filter(|capture| !matches!(capture.source.base, Base::Known(_)));
        read.count().saturating_sub(READS_MAX)
    }

    fn add(&mut self, rule: &str, probe: &PlannedProbe) {
        self.entry |= probe.site != Site::Return;
        self.returns |= probe.site != Site::Entry;
        self.delivers = self.delivers.max(probe.delivers);
        // The values of an iteration are known without a probe.
        let is_read =
            |capture: &&PlannedCapture| !matches!(capture.source.base, Base::Known(Known::Iteration(_)));
        for capture in probe.captures.iter().filter(is_read) {
            if !self.captures.contains(capture) {
                self.captures.push(capture.clone());
            }
        }
        self.used_by.push(format!("{rule}.{}", probe.name));
    }
}

pub(super) fn shared(rules: &[CheckedRule]) -> Vec<SharedProbe> {
    let mut out: Vec<SharedProbe> = Vec::new();
    for rule in rules {
        let probes = rule.plan.probes.iter();
        for probe in probes.filter(|probe| probe.delivers != Delivery::Nothing) {
            let known = out.iter_mut().find(|known| known.function == probe.function);
            if let Some(known) = known {
                known.add(&rule.name, probe);
                continue;
            }
            let mut new = SharedProbe {
                function: probe.function.clone(),
                entry: false,
                returns: false,
                delivers: probe.delivers,
                captures: Vec::new(),
                used_by: Vec::new(),
            };
            new.add(&rule.name, probe);
            out.push(new);
        }
    }
    out
}

impl Graph {
    /// The probes, one line each.
    pub(super) fn probe_lines(&self) -> Vec<String> {
        let line = |probe: &SharedProbe| {
            let site = match (probe.entry, probe.returns) {
                (true, true) => "entry and return",
                (true, false) => "entry",
                (false, _) => "return",
            };
            let captures = probe.captures.iter();
            let captures: Vec<String> = captures.map(|capture| capture.source.to_string()).collect();
            let captures = match captures.is_empty() {
                true => String::new(),
                false => format!(", reads {}", captures.join(", ")),
            };
            let too_many = match probe.reads_too_many() {
                0 => String::new(),
                more => format!(" ({more} more than a probe reads: these rules cannot share it)"),
            };
            let (function, delivers, used_by) = (&probe.function, probe.delivers, probe.used_by.join(", "));
            format!("{function}: {site}, {delivers}{captures}{too_many}; for {used_by}")
        };
        self.probes.iter().map(line).collect()
    }
}
