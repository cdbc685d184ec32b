//! The parts of the report that tell of the sequence of MPI calls: iterations, efficiencies, call sites.

use profile::snapshot::{CallSiteView, SequenceView, Steps};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Iteration {
    rank: Option<u32>,
    mpi_calls: Option<f64>,
    parallel_regions: Option<f64>,
    count: u64,
    mean_s: f64,
    last_quarter_to_first: Option<f64>,
    left: bool,
    pace: Vec<Pace>,
}

#[derive(Serialize)]
struct Pace {
    until_s: f64,
    count: u64,
    mean_s: f64,
}

#[derive(Serialize)]
pub(super) struct Efficiencies<'a> {
    ranks: usize,
    nodes: usize,
    over_whole_iterations: bool,
    parallel_efficiency: f64,
    load_balance: f64,
    load_balance_within_nodes: f64,
    load_balance_between_nodes: Option<f64>,
    communication_efficiency: f64,
    serialisation_efficiency: Option<f64>,
    transfer_efficiency: Option<f64>,
    collectives: Option<u64>,
    collectives_waiting_share: Option<f64>,
    collectives_transfer_share: Option<f64>,
    without_serialisation: Option<&'a str>,
    useful_time_per_iteration_s: Option<f64>,
    computation_scalability: Option<Scalability>,
    without_scalability: Option<&'static str>,
}

#[derive(Serialize)]
struct Scalability {
    strong: f64,
    weak: f64,
    global_efficiency_strong: f64,
    global_efficiency_weak: f64,
    ranks_of_reference: usize,
}

#[derive(Serialize)]
pub(super) struct CallSiteTable<'a> {
    sites: Vec<CallSiteRow<'a>>,
    other_calls: u64,
    other_time_s: f64,
    unseen_calls: u64,
}

#[derive(Serialize)]
struct CallSiteRow<'a> {
    function: &'a str,
    module: Option<&'a str>,
    caller: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u64>,
    ranks: u64,
    calls: u64,
    time_s: f64,
}

pub(super) fn iteration(sequence: &SequenceView) -> Option<Iteration> {
    let view = sequence.iteration.as_ref()?;
    let is_of_mpi = sequence.steps == Steps::MpiCalls;
    Some(Iteration {
        rank: view.rank,
        mpi_calls: is_of_mpi.then_some(view.calls),
        parallel_regions: (!is_of_mpi).then_some(view.calls),
        count: view.count,
        mean_s: view.mean_ns / 1e9,
        last_quarter_to_first: view.change,
        left: view.is_over,
        pace: view
            .parts
            .iter()
            .map(|part| Pace {
                until_s: part.until.as_secs_f64(),
                count: part.count,
                mean_s: part.mean_ns / 1e9,
            })
            .collect(),
    })
}

pub(super) fn efficiencies(sequence: &SequenceView) -> Option<Efficiencies<'_>> {
    let view = sequence.efficiencies.as_ref()?;
    let split = view.split.as_ref();
    Some(Efficiencies {
        ranks: view.ranks,
        nodes: view.nodes,
        over_whole_iterations: view.over_iterations,
        parallel_efficiency: view.of.parallel,
        load_balance: view.of.load_balance,
        load_balance_within_nodes: view.of.within_nodes,
        load_balance_between_nodes: view.between_nodes,
        communication_efficiency: view.of.communication,
        serialisation_efficiency: split.map(|split| split.serialisation),
        transfer_efficiency: split.map(|split| split.transfer),
        collectives: split.map(|split| split.collectives),
        collectives_waiting_share: split.map(|split| split.waiting),
        collectives_transfer_share: split.map(|split| split.transferring),
        without_serialisation: sequence.without_split.as_deref(),
        useful_time_per_iteration_s: view.useful_ns.map(|ns| ns / 1e9),
        computation_scalability: view.scalability.map(|found| Scalability {
            strong: found.strong,
            weak: found.weak,
            global_efficiency_strong: view.of.parallel * found.strong,
            global_efficiency_weak: view.of.parallel * found.weak,
            ranks_of_reference: found.ranks_before,
        }),
        without_scalability: sequence.without_scalability,
    })
}

pub(super) fn call_sites(view: &SequenceView) -> Option<CallSiteTable<'_>> {
    (!view.call_sites.is_empty()).then(|| CallSiteTable {
        sites: view.call_sites.iter().map(call_site).collect(),
        other_calls: view.other_call_sites.calls,
        other_time_s: super::seconds(view.other_call_sites.time_ns),
        unseen_calls: view.unseen,
    })
}

fn call_site(view: &CallSiteView) -> CallSiteRow<'_> {
    CallSiteRow {
        function: &view.function,
        module: view.place.module.as_deref(),
        caller: view.place.function.as_deref(),
        file: view.place.file.as_deref(),
        line: view.place.line,
        ranks: view.ranks,
        calls: view.calls,
        time_s: super::seconds(view.time_ns),
    }
}
