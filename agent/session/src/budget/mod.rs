//! What watching may cost and what it costs: sampling windows, detached probes, suspended activities of the
//! agent. Pure: costs are arguments with their times; what is to be attached, detached and reported is
//! returned as [`BudgetEffect`]s, which the owner carries out.

mod back_off;
mod costs;
mod counting;
mod regions;
mod sampling;
mod spent;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::Range};

pub use self::{
    back_off::{BackOff, TICK},
    costs::{CostContext, Costs},
    counting::Counting,
    regions::{RegionCounts, Regions, notice_of_rest},
    sampling::{Detaching, Sampling, SamplingState, WindowChange},
    spent::{CallNeed, Functions, Spent, WatchedFunction},
};
use profile::cost::{BudgetShare, CostView};

#[derive(Clone, Debug, PartialEq)]
pub enum BudgetEffect {
    Say(String),
    /// Say that parallel regions are detached, whose probes would cost this share of a thread's time.
    SayRegionsRest(f64),
    /// Functions are about to be sampled for the first time: the recent measurement was their first window.
    BeginSampling,
    /// Detach the links of these functions: a gap begins.
    Detach(BTreeSet<u32>),
    /// Detach the links of functions that rules only count.
    DetachCounted,
    DetachRegions,
    AttachRegions,
}

pub type BudgetEffects = Vec<BudgetEffect>;

/// All parts that keep watching within its budget.
#[derive(Debug)]
pub struct Budget {
    pub costs: Costs,
    pub sampling: Sampling,
    /// Functions that rules only count.
    pub counting: Counting,
    pub regions: Regions,
    /// Suspended activities of the agent.
    pub back_off: BackOff,
}

impl Budget {
    /// The budget of a session that took `arming_ns` to arm. `regions` are the probe requests of parallel
    /// regions; `seed` randomises the lengths of windows.
    pub fn new(
        share: BudgetShare,
        has_own_cpus: bool,
        regions: Range<usize>,
        arming_ns: u64,
        seed: u64,
    ) -> Budget {
        Budget {
            costs: Costs::armed_in(arming_ns),
            sampling: Sampling::new(share, seed, has_own_cpus),
            counting: Counting::default(),
            regions: Regions::new(regions),
            back_off: BackOff::default(),
        }
    }

    /// Checks the costs up to the last reading, while no function is sampled.
    pub fn look(&mut self, spent: Spent, functions: &Functions<'_>, state: SamplingState) -> BudgetEffects {
        self.sampling.look(spent, functions, state, &mut self.back_off)
    }

    /// As [`Budget::look`], if no process has run since the last check. `None` if there was none: then a full
    /// check is needed.
    pub fn check_idle(&mut self, read_ns: u64, state: SamplingState) -> Option<BudgetEffects> {
        let agent_ns = self.costs.agent().cpu_ns;
        let has_looked = self.sampling.check_idle(read_ns, agent_ns);
        has_looked.then(|| {
            let back_off = &mut self.back_off;
            self.sampling
                .advise(&Default::default(), &Functions::new(), state, back_off)
        })
    }

    /// Ends a sampling window.
    pub fn close_window(
        &mut self,
        spent: Spent,
        functions: &Functions<'_>,
        state: SamplingState,
    ) -> BudgetEffects {
        self.sampling
            .close_window(spent, functions, state, &mut self.back_off)
    }

    /// Checks what the functions that rules only count have cost while they are probed.
    pub fn look_at_counted(
        &mut self,
        now: Spent,
        is_judged: bool,
        functions: &Functions<'_>,
    ) -> BudgetEffects {
        self.counting.look(now, is_judged, functions, &self.sampling)
    }

    /// What is missing of functions that were not watched all the time, as text.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        self.sampling.missing().chain(self.counting.missing())
    }

    /// The view of all costs.
    pub fn view<'a>(&self, shown: CostContext<'_>, functions: impl FnOnce() -> Functions<'a>) -> CostView {
        let functions = functions();
        let view = self.costs.view(shown, self.sampling.recent());
        let most_expensive = view.probes.first().map(|probe| probe.name.as_str());
        let is_required =
            |of: &&WatchedFunction<'_>| of.need == CallNeed::Each && Some(of.name) == most_expensive;
        CostView {
            windows: self.sampling.view(&functions),
            required: functions.values().find(is_required).map(|of| of.name.to_owned()),
            ..view
        }
    }
}
