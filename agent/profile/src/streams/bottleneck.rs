//! The module that holds a stream program up, and the path from it to each module that waits for it.

use std::collections::VecDeque;

use super::ObservedGraph;
use crate::stream_views::{Bottleneck, ModuleVerdict, TimeShares, Victim};

/// A module that waits for less than this share of its time is no victim.
const VICTIM_SHARE: f64 = 0.05;

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
