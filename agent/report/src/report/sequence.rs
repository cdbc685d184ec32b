//! The parts of the report about the sequence of MPI calls: iterations, efficiencies, call sites.

use profile::{CallSiteView, LoopBegin, PaceView, SequenceView, Steps};
use serde_json::{Value, json};

pub(super) fn iteration(sequence: &SequenceView) -> Option<Value> {
    let view = sequence.iteration.as_ref()?;
    let is_of_mpi = sequence.steps == Steps::MpiCalls;
    Some(json!({
        "rank": view.rank,
        "mpi_calls": is_of_mpi.then_some(view.calls),
        "parallel_regions": (!is_of_mpi).then_some(view.calls),
        "count": view.count,
        "mean_s": view.mean_ns / 1e9,
        "last_quarter_to_first": view.change,
        "left": view.is_over,
        "begins_at": view.begins_at.as_ref().map(begin),
        "pace": view.parts.iter().map(pace).collect::<Value>(),
    }))
}

fn begin(begin: &LoopBegin) -> Value {
    json!({
        "function": begin.function,
        "module": begin.place.module,
        "caller": begin.place.function,
        "file": begin.place.file,
        "line": begin.place.line,
        "build_id": begin.build_id,
        "address": format!("{:#x}", begin.address),
    })
}

fn pace(part: &PaceView) -> Value {
    json!({
        "until_s": part.until.as_secs_f64(),
        "count": part.count,
        "mean_s": part.mean_ns / 1e9,
        "least_s": part.least_ns / 1e9,
        "most_s": part.most_ns / 1e9,
    })
}

pub(super) fn efficiencies(sequence: &SequenceView) -> Option<Value> {
    let view = sequence.efficiencies.as_ref()?;
    let split = view.split.as_ref();
    Some(json!({
        "ranks": view.ranks,
        "nodes": view.nodes,
        "over_whole_iterations": view.over_iterations,
        "parallel_efficiency": view.of.parallel,
        "load_balance": view.of.load_balance,
        "load_balance_within_nodes": view.of.within_nodes,
        "load_balance_between_nodes": view.between_nodes,
        "communication_efficiency": view.of.communication,
        "serialisation_efficiency": split.map(|split| split.serialisation),
        "transfer_efficiency": split.map(|split| split.transfer),
        "collectives": split.map(|split| split.collectives),
        "collectives_waiting_share": split.map(|split| split.waiting),
        "collectives_transfer_share": split.map(|split| split.transferring),
        "without_serialisation": sequence.without_split,
        "useful_time_per_iteration_s": view.useful_ns.map(|ns| ns / 1e9),
        "computation_scalability": view.scalability.map(|found| json!({
            "strong": found.strong,
            "weak": found.weak,
            "global_efficiency_strong": view.of.parallel * found.strong,
            "global_efficiency_weak": view.of.parallel * found.weak,
            "ranks_of_reference": found.ranks_before,
        })),
        "without_scalability": sequence.without_scalability,
    }))
}

pub(super) fn call_sites(view: &SequenceView) -> Option<Value> {
    (!view.call_sites.is_empty()).then(|| {
        json!({
            "sites": view.call_sites.iter().map(call_site).collect::<Value>(),
            "other_calls": view.other_call_sites.calls,
            "other_time_s": super::seconds(view.other_call_sites.time_ns),
            "unseen_calls": view.unseen,
        })
    })
}

fn call_site(view: &CallSiteView) -> Value {
    json!({
        "function": view.function,
        "module": view.place.module,
        "caller": view.place.function,
        "file": view.place.file,
        "line": view.place.line,
        "ranks": view.ranks,
        "calls": view.calls,
        "time_s": super::seconds(view.time_ns),
    })
}
