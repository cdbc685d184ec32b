//! Measures the time that a probe adds to a call, for `hits` and `sites`. Each round runs
//! `agent/benches/hits.rs` and then the other tools. These probe the first byte of the same functions, as
//! their users do.
//!
//! Ratios are computed within a round. Tables show the median, least and greatest over the rounds.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tuneagent_e2e::programs;

use super::instrument::Instrument;
use super::tools::{Program, Telling, Tool};
use crate::Result;
use crate::measure::Settings;
use crate::measure::stats::Spread;
use crate::measure::table::{Cell, Table, cells};

/// Number of rounds, and of calls per function and way. The ring has room for all hits of one way.
const FULL: (u32, u64) = (11, 50_000);
const QUICK: (u32, u64) = (3, 5_000);

/// An instruction of a function that can be probed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) function: String,
    pub(super) bytes: u64,
    pub(super) instruction: String,
    /// How the kernel executes the instruction.
    pub(super) cost: String,
}

impl Place {
    fn of(line: &Value) -> Option<Place> {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Place {
            function: text("function")?,
            bytes: line["bytes"].as_u64()?,
            instruction: text("instruction")?,
            cost: text("cost")?,
        })
    }
}

/// Nanoseconds that each way of probing adds to a call, one value per round.
#[derive(Default)]
pub(super) struct Added {
    /// Ways in the order of measurement.
    pub(super) ways: Vec<String>,
    pub(super) values: BTreeMap<(Place, String), Vec<f64>>,
    /// Tools that failed on this machine, with the error.
    pub(super) problems: BTreeMap<Tool, String>,
}

/// Name of a way of another tool in the tables.
pub(super) fn theirs(tool: Tool, telling: Telling) -> String {
    format!("{}: {telling:?}", tool.name())
}

impl Added {
    /// Measures all our ways at the sites of `functions`. If `functions` is empty, measures some ways at all
    /// places of all functions.
    pub(super) fn measure(settings: &Settings, functions: &[&str], tellings: &[Telling]) -> Result<Added> {
        let (rounds, calls) = settings.either(QUICK, FULL);
        let program = programs::c("sites")?;
        let mut instrument = Instrument::start(&program, calls, functions)?;
        let mut added = Added::default();
        let mut others = None;
        for round in 0..rounds {
            instrument.round(|line, ns| added.add(Place::of(line)?, line["way"].as_str()?, ns))?;
            let sites = added.sites();
            if round == 0 {
                others = added.prepare(&program, &sites);
            }
            if let Some(others) = &others {
                for site in &sites {
                    added.of_others(others, site, tellings, calls)?;
                }
            }
        }
        Ok(added)
    }

    /// Prepares the program for the other tools. On failure none of them is measured.
    fn prepare(&mut self, program: &Path, sites: &[Place]) -> Option<Program> {
        let functions: Vec<&str> = sites.iter().map(|site| site.function.as_str()).collect();
        let made = Program::of(program, &functions);
        made.map_err(|problem| {
            self.problems
                .extend(Tool::ALL.map(|tool| (tool, problem.clone())))
        })
        .ok()
    }

    pub(super) fn add(&mut self, place: Place, way: &str, ns: f64) -> Option<()> {
        if !self.ways.iter().any(|known| known == way) {
            self.ways.push(way.to_owned());
        }
        self.values.entry((place, way.to_owned())).or_default().push(ns);
        Some(())
    }

    /// Measures one round of the other tools at a function. A tool that fails is skipped in later rounds.
    fn of_others(&mut self, others: &Program, site: &Place, tellings: &[Telling], calls: u64) -> Result<()> {
        let bare = others.bare_ns(&site.function, calls)?;
        for tool in Tool::ALL.into_iter().filter(|tool| tool.is_here()) {
            for telling in tellings {
                if self.problems.contains_key(&tool) {
                    continue;
                }
                match others.ns_under((tool, *telling), &site.function, calls) {
                    Ok(None) => {}
                    Ok(Some(ns)) => {
                        let key = (site.clone(), theirs(tool, *telling));
                        self.values.entry(key).or_default().push(ns - bare);
                    }
                    Err(problem) => {
                        self.problems.insert(tool, problem);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.values.keys().map(|(place, _)| place.clone()).collect();
        places.dedup();
        places
    }

    /// The probed place of each function, which is its last place.
    pub(super) fn sites(&self) -> Vec<Place> {
        let mut sites = self.places();
        sites.reverse();
        sites.dedup_by(|before, site| before.function == site.function);
        sites.reverse();
        sites
    }

    pub(super) fn site(&self, function: &str) -> Option<Place> {
        let mut sites = self.sites().into_iter();
        sites.find(|site| site.function == function)
    }

    fn of(&self, place: &Place, way: &str) -> &[f64] {
        let values = self.values.get(&(place.clone(), way.to_owned()));
        values.map_or(&[], Vec::as_slice)
    }

    pub(super) fn cell(&self, place: &Place, way: &str) -> Cell {
        let spread = Spread::of(self.of(place, way));
        spread.map_or_else(|| "not measured".into(), Cell::from)
    }

    /// Ratio of the added time to that of another way and place, within each round.
    pub(super) fn ratio(
        &self,
        (place, way): (&Place, &str),
        (other, floor): (&Place, &str),
    ) -> Option<Spread> {
        let rounds = self.of(place, way).iter().zip(self.of(other, floor));
        let ratios: Vec<f64> = rounds.map(|(one, other)| one / other).collect();
        Spread::of(&ratios)
    }

    /// Compares another tool at the first byte of each function with our equivalent way at the site.
    pub(super) fn beside(&self, tool: Tool, same: &[(Telling, &str, &str)]) -> Table {
        let name = tool.name();
        let mut table = Table::new(["function", "what", "ours", name, "times ours"]);
        for site in self.sites() {
            for (telling, what, way) in same {
                let theirs = theirs(tool, *telling);
                if let Some(times) = self.ratio((&site, &theirs), (&site, way)) {
                    table.row(cells![
                        &*site.function,
                        *what,
                        self.cell(&site, way),
                        self.cell(&site, &theirs),
                        times,
                    ]);
                }
            }
        }
        table
    }

    /// The reason why a tool has no table.
    pub(super) fn note(&self, tool: Tool) -> Option<String> {
        let name = tool.name();
        if !tool.is_here() {
            return Some(format!(
                "{name}: not here (cargo xtask setup --only bench brings it)"
            ));
        }
        let problem = self.problems.get(&tool)?;
        Some(format!("{name}: not measured: {problem}"))
    }

    pub(super) fn figures(&self) -> Value {
        let figure = |((place, way), values): (&(Place, String), &Vec<f64>)| {
            json!({
                "function": place.function,
                "bytes": place.bytes,
                "instruction": place.instruction,
                "cost": place.cost,
                "way": way,
                "added_ns": values,
            })
        };
        self.values.iter().map(figure).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn place(function: &str, bytes: u64, cost: &str) -> Place {
        Place {
            function: function.to_owned(),
            bytes,
            instruction: "push".to_owned(),
            cost: cost.to_owned(),
        }
    }

    #[test]
    fn other_tools_are_held_against_ours_at_the_site_round_by_round() {
        let (first, site) = (place("f", 0, "single-stepped"), place("f", 4, "emulated"));
        let mut added = Added::default();
        for (place, way, values) in [
            (&first, "count", [900.0, 900.0, 900.0]),
            (&site, "count", [120.0, 240.0, 150.0]),
            (&site, "bpftrace: Count", [1200.0, 1200.0, 1500.0]),
        ] {
            for ns in values {
                added.add(place.clone(), way, ns).unwrap();
            }
        }
        assert_eq!(added.sites(), [site]);
        let same = [
            (Telling::Count, "calls counted", "count"),
            (Telling::Histogram, "times in a histogram", "time in a histogram"),
        ];
        let table = added.beside(Tool::Bpftrace, &same).to_string();
        assert!(
            table.contains("calls counted") && table.contains("| 10.0 (5.00 to 10.0) |"),
            "{table}"
        );
        assert!(!table.contains("histogram"));
        assert_eq!(added.figures()[1]["added_ns"], json!([1200.0, 1200.0, 1500.0]));
    }
}
