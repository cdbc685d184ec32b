//! What came of a watched contract, for users and for other programs.

use contract::{ModulePoint, SeenRates};
use serde::{Deserialize, Serialize};

use super::{Bottleneck, ModuleVerdict, TimeShares, WINDOWS_BELOW};
use crate::format::{percent, significant};

/// What is shown of a watched contract.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractView {
    pub summary: WatchSummary,
    /// The last window; `None` if there is none yet.
    pub window: Option<WatchedWindow>,
    /// Why no window is judged, if so.
    pub not_judged: Option<String>,
}

/// What came of a contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchSummary {
    pub contract: String,
    pub windows: u32,
    /// No rate was violated in any window, of which there were enough to judge.
    pub holds: bool,
    pub rates: Vec<WatchedRate>,
    pub modules: Vec<WatchedModule>,
    /// The operating points that modules are at whose work has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ModulePoint>,
    /// Who held the program up in the last window.
    pub bottleneck: Option<Bottleneck>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedRate {
    pub feature: String,
    /// Per second, as the contract requires it.
    pub target: f64,
    /// Over all windows; `None` if there was none.
    pub rate: Option<f64>,
    pub windows_violated: u32,
    pub is_violated: bool,
    /// By how much more than the target is delivered, as a share of it.
    pub waste: Option<f64>,
}

impl WatchedRate {
    /// Its mean is below its target, which alone is no violation.
    fn is_below(&self) -> bool {
        self.rate.is_some_and(|rate| rate < self.target)
    }
}

/// A window, as a line for other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchedWindow {
    pub contract: String,
    pub end_s: f64,
    pub rates: Vec<WindowRate>,
    pub modules: Vec<WatchedModule>,
    pub bottleneck: Option<Bottleneck>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowRate {
    pub feature: String,
    /// Per second, as the contract requires it.
    pub target: f64,
    pub rate: Option<f64>,
    /// The exponentially weighted mean over all windows up to this one: for display, since loads vary.
    pub smoothed: Option<f64>,
    /// With 95 % the rate is not above this much more; `None` if one slice alone was counted.
    pub within: Option<f64>,
    /// It was below its target in three windows, one after the other.
    pub is_violated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedModule {
    pub module: String,
    pub verdict: ModuleVerdict,
    pub shares: TimeShares,
}

impl WatchSummary {
    /// A line for each rate and each module, and one with the verdict.
    pub fn lines(&self) -> Vec<String> {
        let names = self.rates.iter().map(|one| one.feature.len());
        let width = names.max().unwrap_or_default().max("rate of".len());
        let mut lines = vec![format!(
            "{:<width$}  {:>10}  {:>10}",
            "rate of", "seen", "required"
        )];
        for one in &self.rates {
            let seen = one
                .rate
                .map_or("-".to_owned(), |rate| format!("{}/s", significant(rate, 3)));
            let target = format!("{}/s", significant(one.target, 3));
            let violated = match (one.windows_violated, one.waste) {
                (0, Some(more)) => format!("  {} more than required", percent(more)),
                (0, None) => String::new(),
                (windows, _) => format!("  violated in {windows} of {} windows", self.windows),
            };
            lines.push(format!(
                "{:<width$}  {seen:>10}  {target:>10}{violated}",
                one.feature
            ));
        }
        for one in &self.modules {
            let shares = &one.shares;
            lines.push(format!(
                "{:<width$}  {}: busy {}{}, waits for a CPU {}, starved {}, blocked {}",
                one.module,
                shares.words(one.verdict),
                percent(shares.busy),
                shares.asleep(),
                percent(shares.waits_for_cpu),
                percent(shares.starved),
                percent(shares.blocked)
            ));
        }
        lines.extend(self.points.iter().map(ToString::to_string));
        lines.extend(self.bottleneck.as_ref().map(Bottleneck::sentence));
        let holds = match (self.windows < WINDOWS_BELOW, self.holds) {
            (true, _) => format!(
                "was seen in {} windows, and {WINDOWS_BELOW} are needed to judge it",
                self.windows
            ),
            (false, true) if self.rates.iter().any(WatchedRate::is_below) => {
                format!("holds: no rate was surely below its target in {WINDOWS_BELOW} windows in a row")
            }
            (false, true) => "holds".to_owned(),
            (false, false) => "does not hold".to_owned(),
        };
        lines.push(format!("the contract {} {holds}", self.contract));
        lines
    }

    /// What a picture of the contract shows of it.
    pub fn seen(&self) -> SeenRates {
        let rates = self.rates.iter();
        let modules = self.modules.iter();
        SeenRates {
            rates: rates
                .filter_map(|one| Some((one.feature.clone(), one.rate?)))
                .collect(),
            busy: modules
                .map(|one| (one.module.clone(), one.shares.holds()))
                .collect(),
            bottleneck: self.bottleneck.as_ref().map(|one| one.name.clone()),
        }
    }
}

impl WatchedModule {
    pub(crate) fn of(module: &str, shares: TimeShares) -> WatchedModule {
        WatchedModule {
            module: module.to_owned(),
            verdict: shares.verdict(),
            shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::Contract;

    use super::*;

    /// A pipeline as learned (`contract learn -o`), and what came of watching it (the last line of `contract watch
    /// --json`).
    const LEARNED: &str = include_str!("../streams/pictures/pipeline.yaml");
    const WATCHED: &str = include_str!("../streams/pictures/pipeline.json");
    const PICTURE: &str = include_str!("../../../../docs/pictures/contract.svg");

    #[test]
    fn the_picture_in_the_documents_is_that_of_a_pipeline_that_was_watched() {
        let contract = Contract::parse(LEARNED).unwrap();
        let (assessment, capacity) = contract.capacity().unwrap();
        let summary: WatchSummary = serde_json::from_str(WATCHED).unwrap();
        let drawn = contract.svg(&assessment, &capacity, Some(&summary.seen()));
        if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
            std::fs::write("../../docs/pictures/contract.svg", &drawn).unwrap();
            return;
        }
        assert_eq!(drawn, PICTURE);
    }
}
