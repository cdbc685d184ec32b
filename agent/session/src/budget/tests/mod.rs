//! Tables of costs and effects. A job keeps one CPU busy; function 0 is in the sequence of calls, 1 is
//! polled, a rule needs each call of 2, and rules only count 3.

mod back_off;
mod costs;
mod counting;
mod joining;
mod regions;
mod sampling;

use std::collections::BTreeSet;

use super::*;

/// One second in nanoseconds.
pub(super) const S: u64 = 1_000_000_000;

pub(super) const STATE: SamplingState = SamplingState {
    detaching: Detaching::Possible,
    is_judged: false,
    ticks_per_s: 2.0,
    is_recorded: false,
};

pub(super) fn budget() -> Budget {
    Budget::new(BudgetShare::default(), false, 4..6, 0, 1)
}

pub(super) fn functions() -> Functions<'static> {
    let function = |name, need, is_apart| WatchedFunction {
        name,
        price_ns: 100.0,
        need,
        is_apart,
    };
    Functions::from([
        (0, function("MPI_Send", CallNeed::Profile, false)),
        (1, function("MPI_Iprobe", CallNeed::Profile, true)),
        (2, function("solve", CallNeed::Each, true)),
        (3, function("step", CallNeed::Count, true)),
    ])
}

/// Costs up to a second, if each function has taken these parts of a CPU all the time.
pub(super) fn spent(at_s: u64, costs: [f64; 4]) -> Spent {
    let ns = |cost: f64| cost * (at_s * S) as f64;
    Spent {
        at_ns: at_s * S,
        job_ns: at_s * S,
        agent_ns: 0,
        costs: (0..).zip(costs.map(ns)).collect(),
    }
}

/// The effects of checks with these costs, each second from the first on.
pub(super) fn looks(
    budget: &mut Budget,
    costs: [f64; 4],
    seconds: u64,
    state: SamplingState,
) -> Vec<BudgetEffects> {
    let look = |at_s| budget.look(spent(at_s, costs), &functions(), state);
    (1..=seconds).map(look).collect()
}

/// The detached functions.
pub(super) fn detached(effects: &[BudgetEffect]) -> Option<BTreeSet<u32>> {
    effects.iter().find_map(|effect| match effect {
        BudgetEffect::Detach(functions) => Some(functions.clone()),
        _ => None,
    })
}

/// The lines that are said.
pub(super) fn said(effects: &[BudgetEffect]) -> Vec<&str> {
    let lines = effects.iter().filter_map(|effect| match effect {
        BudgetEffect::Say(line) => Some(line.as_str()),
        _ => None,
    });
    lines.collect()
}
