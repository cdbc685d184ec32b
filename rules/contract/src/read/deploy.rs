//! Works, machines, links and places of a contract file.

use std::collections::BTreeMap;

use syntax::diag::Diagnostic;
use syntax::fields::{Fields, text};
use syntax::text::Text;
use syntax::unit::Dimension;
use syntax::yaml::{Tree, YamlNode};

use super::super::calibrate::{FittedWork, least_squares};
use super::super::keys;
use super::super::model::{Contract, Machine, ModulePlace, NetworkLink, OperatingPoint, Work};
use super::{ContractReader, entries, section};

/// Work and power, each number with the place where it is written.
type Amounts = BTreeMap<String, (f64, Dimension)>;

const BANDWIDTH: Dimension = Dimension { time: -1, bytes: 1 };

impl ContractReader<'_, '_> {
    pub(super) fn deployment(&mut self, fields: &Fields<'_>, out: &mut Contract) {
        let mut powers: BTreeMap<String, Dimension> = BTreeMap::new();
        for (name, tree) in self.machines.clone() {
            if let Some((machine, units)) = self.machine(name, tree) {
                out.machines.push(machine);
                powers.extend(units);
            }
        }
        for (name, tree) in self.works.clone() {
            let items = match &tree.node {
                YamlNode::Sequence(items) => items.iter().collect(),
                _ => vec![tree],
            };
            let mut points = Vec::new();
            for item in items {
                match measured(item) {
                    Some(times) => points.extend(self.calibrated(name, times, out)),
                    None => points.extend(self.operating_point(item, &powers, &out.machines)),
                }
            }
            out.works.push(Work {
                name: name.raw.clone(),
                points,
            });
        }
        for (name, tree) in section(fields, "links", self.wrong) {
            out.links.extend(self.link(name, tree));
        }
    }

    /// Constants by name, with their dimensions.
    fn amounts(&mut self, tree: &Tree, place: &str) -> Amounts {
        let mut out = Amounts::new();
        for (name, value) in entries(tree, place, self.wrong) {
            let Some(found) = self.constant(value) else {
                continue;
            };
            if let Some(number) = self.positive(value, found.dimension, &format!("`{}`", name.raw)) {
                out.insert(name.raw.clone(), (number, found.dimension));
            }
        }
        out
    }

    fn machine(&mut self, name: &Text, tree: &Tree) -> Option<(Machine, BTreeMap<String, Dimension>)> {
        let fields = Fields::of(tree, &keys::MACHINE, self.wrong)?;
        let mut amounts = |key: &str| {
            let tree = fields.get(key);
            tree.map(|tree| self.amounts(tree, &format!("`{key}`")))
                .unwrap_or_default()
        };
        let (power, properties) = (amounts("power"), amounts("properties"));
        let units = power.iter().filter_map(|(metric, (_, unit))| {
            // A power is work per time.
            Some((metric.clone(), unit.times(Dimension::TIME)?))
        });
        let count = fields
            .get("count")
            .map(|value| self.count(value, "the number of machines"));
        let cost = fields
            .get("cost")
            .map(|value| self.positive(value, Dimension::NONE, "a cost"));
        let machine = Machine {
            name: name.raw.clone(),
            count: count.unwrap_or(Some(1))?,
            power: numbers(&power),
            properties: numbers(&properties),
            domain: fields.text("domain", self.wrong).map(|text| text.raw),
            has: self.list(&fields, "has"),
            cost: cost.unwrap_or(Some(1.0))?,
        };
        Some((machine, units.collect()))
    }

    fn list(&mut self, fields: &Fields<'_>, key: &str) -> Vec<String> {
        let names = self.names_of(fields, key).into_iter();
        names.map(|name| name.raw).collect()
    }

    fn operating_point(
        &mut self,
        tree: &Tree,
        powers: &BTreeMap<String, Dimension>,
        machines: &[Machine],
    ) -> Option<OperatingPoint> {
        let YamlNode::Mapping(all) = &tree.node else {
            syntax::fields::wrong_shape(tree, "a work", "amounts by metric", self.wrong);
            return None;
        };
        let mut point = OperatingPoint::default();
        for (key, value) in all {
            match key.raw.as_str() {
                "if" => self.conditions(value, machines, &mut point),
                "time" => point.time_s = Some(self.positive(value, Dimension::TIME, "a service time")?),
                "combine" => {
                    let word = text(value, self.wrong)?;
                    if !keys::COMBINATIONS.contains(&word.raw.as_str()) {
                        let message = "the times of metrics are added (`sum`) or overlap (`max`)";
                        self.push("E0174", word.span, message);
                    }
                    point.overlapped = word.raw == "max";
                }
                metric => {
                    let found = self.constant(value)?;
                    let unit = powers.get(metric).copied().unwrap_or(found.dimension);
                    let amount = self.positive(value, unit, &format!("work in `{metric}`"))?;
                    if !powers.is_empty() && !powers.contains_key(metric) {
                        let message = format!("no machine states its power in `{metric}`");
                        self.push("E0174", key.span, message);
                    }
                    point.amounts.insert(metric.to_string(), amount);
                }
            }
        }
        if point.amounts.is_empty() && point.time_s.is_none() {
            let message = "a work has amounts by metric, or a `time`";
            self.wrong.push(Diagnostic::wrong("E0111", tree.span, message));
        }
        Some(point)
    }

    /// The work that fits measured times on machines best.
    fn calibrated(&mut self, work: &Text, tree: &Tree, out: &mut Contract) -> Option<OperatingPoint> {
        let (mut machines, mut times) = (Vec::new(), Vec::new());
        for (name, value) in entries(tree, "`measured`", self.wrong) {
            let machine = self.index(|it| &it.machines, "machine", name)?;
            machines.push(out.machines.get(machine)?);
            times.push(self.positive(value, Dimension::TIME, "a measured time")?);
        }
        let metrics: Vec<&String> = machines
            .first()
            .map_or(Vec::new(), |first| first.power.keys().collect());
        let row = |machine: &&Machine| -> Option<Vec<f64>> {
            metrics
                .iter()
                .map(|metric| Some(1.0 / machine.power.get(*metric)?))
                .collect()
        };
        let rows = machines.iter().map(row).collect::<Option<Vec<Vec<f64>>>>();
        let fitted = rows.and_then(|rows| Some((least_squares(&rows, &times)?, rows)));
        let Some(((amounts, condition), rows)) = fitted else {
            let message = "the measured times do not determine the work";
            let help = "at least as many machines as metrics of power, of different proportions, all with the same metrics";
            self.wrong
                .push(Diagnostic::wrong("E0181", tree.span, message).help(help));
            return None;
        };
        if let Some((metric, _)) = metrics.iter().zip(&amounts).find(|(_, amount)| **amount <= 0.0) {
            let message = format!("the measured times fit only with work below 0 in `{metric}`");
            self.push("E0181", tree.span, message);
            return None;
        }
        let predicted = |row: &Vec<f64>| row.iter().zip(&amounts).map(|(a, b)| a * b).sum::<f64>();
        let residuals = machines.iter().zip(&rows).zip(&times);
        let residuals_s =
            residuals.map(|((machine, row), time)| (machine.name.clone(), time - predicted(row)));
        let named: BTreeMap<String, f64> = metrics
            .iter()
            .map(|metric| (*metric).clone())
            .zip(amounts.iter().copied())
            .collect();
        let calibration = FittedWork {
            work: work.raw.clone(),
            residuals_s: residuals_s.collect(),
            amounts: named.clone(),
            condition,
        };
        out.calibrations.push(calibration);
        Some(OperatingPoint {
            amounts: named,
            ..OperatingPoint::default()
        })
    }

    fn link(&mut self, name: &Text, tree: &Tree) -> Option<NetworkLink> {
        let fields = Fields::of(tree, &keys::LINK, self.wrong)?;
        let bandwidth = fields.required("bandwidth", name.span, self.wrong);
        let streams = fields.required("streams", name.span, self.wrong)?;
        let names = self.names(streams);
        Some(NetworkLink {
            name: name.raw.clone(),
            bytes_per_s: self.positive(bandwidth?, BANDWIDTH, "a bandwidth")?,
            streams: names.iter().filter_map(|name| self.stream(name)).collect(),
        })
    }

    pub(super) fn place(&mut self, tree: &Tree) -> Option<ModulePlace> {
        let fields = Fields::of(tree, &keys::PLACE, self.wrong)?;
        let mut machines = Vec::new();
        match fields.get("machines") {
            Some(tree) if matches!(tree.node, YamlNode::Mapping(_)) => {
                for (name, value) in entries(tree, "`machines`", self.wrong) {
                    let machine = self.index(|it| &it.machines, "machine", name);
                    let count = self.count(value, "the number of machines");
                    machines.extend(machine.zip(count));
                }
            }
            Some(tree) => {
                let name = text(tree, self.wrong)?;
                machines.extend(
                    self.index(|it| &it.machines, "machine", &name)
                        .map(|machine| (machine, 0)),
                );
            }
            None => {}
        }
        let needs = fields.get("needs").map(|tree| self.amounts(tree, "`needs`"));
        Some(ModulePlace {
            span: tree.span,
            machines,
            host: fields.text("host", self.wrong).map(|text| text.raw),
            domain: fields.text("domain", self.wrong).map(|text| text.raw),
            has: self.list(&fields, "has"),
            properties: numbers(&needs.unwrap_or_default()),
        })
    }
}

/// The value of `measured` of a work.
fn measured(tree: &Tree) -> Option<&Tree> {
    match &tree.node {
        YamlNode::Mapping(entries) => match entries.as_slice() {
            [(key, value)] if key.raw == "measured" => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn numbers(amounts: &Amounts) -> BTreeMap<String, f64> {
    amounts
        .iter()
        .map(|(name, (number, _))| (name.clone(), *number))
        .collect()
}
