//! The module that holds a stream program up, for users and for other programs.

use serde::{Deserialize, Serialize};

use super::{ModuleVerdict, TimeShares};
use crate::format::percent;

/// The module to act on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    #[serde(skip)]
    pub module: usize,
    pub name: String,
    pub verdict: ModuleVerdict,
    pub shares: TimeShares,
    /// The nearest to it first.
    pub victims: Vec<Victim>,
}

/// A module that waits for the bottleneck, directly or through others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    pub name: String,
    pub verdict: ModuleVerdict,
    /// The share of its time in which it waits.
    pub share: f64,
    /// Modules from the bottleneck to the victim.
    pub path: Vec<String>,
}

impl Bottleneck {
    /// `xz holds the pipeline up: busy 98 % of the time; awk is blocked 61 % of the time by xz`
    pub fn sentence(&self) -> String {
        let shares = &self.shares;
        let mut does = Vec::new();
        if shares.busy >= 0.005 {
            does.push(format!(
                "busy {} of the time{}",
                percent(shares.busy),
                shares.asleep()
            ));
        }
        if shares.waits_for_cpu >= 0.05 {
            does.push(format!("{} waiting for a CPU", percent(shares.waits_for_cpu)));
        }
        let head = match shares.holds() {
            holds if holds < 0.5 => format!("no module is busy for most of the time; first is {}", self.name),
            _ => format!("{} holds the pipeline up", self.name),
        };
        let victims = self.victims.iter().map(|victim| {
            let by = victim.path.iter().rev().nth(1).map_or("", String::as_str);
            let (share, name) = (percent(victim.share), &victim.name);
            match victim.verdict {
                ModuleVerdict::Blocked => format!("; {name} is blocked writing to {by} {share}"),
                _ => format!("; {name} waits {share} for input from {by}"),
            }
        });
        format!("{head}: {}{}", does.join(", "), victims.collect::<String>())
    }
}
