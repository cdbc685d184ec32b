//! The module that holds a stream program up, and the path from it to each module that waits for it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{ModuleVerdict, ObservedGraph, TimeShares};
use crate::format::percent;

/// A module that waits for less than this share of its time is no victim.
const VICTIM_SHARE: f64 = 0.05;

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

/// The module with the greatest share of time in which it waits for no other; `None` without modules.
pub fn bottleneck(seen: &ObservedGraph) -> Option<Bottleneck> {
    let holds = |at: &usize| seen.modules[*at].shares.holds();
    let module = (0..seen.modules.len()).max_by(|a, b| holds(a).total_cmp(&holds(b)))?;
    let it = &seen.modules[module];
    let verdict = match it.shares.busy >= it.shares.waits_for_cpu {
        true => ModuleVerdict::ComputeBound,
        false => ModuleVerdict::WaitsForCpu,
    };
    Some(Bottleneck {
        module,
        name: it.name.clone(),
        verdict,
        shares: it.shares,
        victims: victims(seen, module),
    })
}

/// Upstream the blocked modules, downstream the starved ones, as far as the waiting reaches.
fn victims(seen: &ObservedGraph, bottleneck: usize) -> Vec<Victim> {
    let mut victims = Vec::new();
    for (verdict, share) in [
        (
            ModuleVerdict::Blocked,
            (|it| it.blocked) as fn(&TimeShares) -> f64,
        ),
        (ModuleVerdict::Starved, |it| it.starved),
    ] {
        let mut reached = vec![false; seen.modules.len()];
        reached[bottleneck] = true;
        let mut waiting = VecDeque::from([vec![bottleneck]]);
        while let Some(path) = waiting.pop_front() {
            let Some(&last) = path.last() else { continue };
            for next in neighbours(seen, last, verdict) {
                let amount = share(&seen.modules[next].shares);
                if reached[next] || amount < VICTIM_SHARE {
                    continue;
                }
                reached[next] = true;
                let path: Vec<usize> = path.iter().copied().chain([next]).collect();
                victims.push(Victim {
                    name: seen.modules[next].name.clone(),
                    verdict,
                    share: amount,
                    path: path.iter().map(|&at| seen.modules[at].name.clone()).collect(),
                });
                waiting.push_back(path);
            }
        }
    }
    victims
}

/// The modules that send to this one, or for starved ones those that it sends to.
fn neighbours(seen: &ObservedGraph, module: usize, verdict: ModuleVerdict) -> Vec<usize> {
    let ends = match verdict {
        ModuleVerdict::Blocked => seen.inputs(module),
        _ => seen.outputs(module),
    };
    let others = ends.into_iter().flat_map(|(stream, _)| match verdict {
        ModuleVerdict::Blocked => &seen.streams[stream].sent,
        _ => &seen.streams[stream].received,
    });
    others.map(|end| end.module).collect()
}

impl Bottleneck {
    /// `xz holds the pipeline up: busy 98 % of the time; awk is blocked 61 % of the time by xz`
    pub fn sentence(&self) -> String {
        let shares = &self.shares;
        let mut does = Vec::new();
        if shares.busy >= 0.005 {
            does.push(format!("busy {} of the time", percent(shares.busy)));
        }
        if shares.outside >= 0.05 {
            does.push(format!(
                "of which {} without a CPU (disk, network, sleep)",
                percent(shares.outside)
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
