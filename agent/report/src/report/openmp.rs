//! The part of the report about the parallel regions of a process.

use profile::{
    Inflation, Losses, PredictedSize, Ratio, RegionsView, ScalingPrediction, ScalingView, SizeView,
    TeamsView, UnusedIteration,
};
use serde_json::{Value, json};

pub(super) fn openmp(view: &RegionsView) -> Value {
    json!({
        "regions": view.regions,
        "time_inside_s": view.inside_ns.map(super::seconds),
        "probed_s": super::seconds(view.watched_ns),
        "inside_share": view.inside(),
        "inside_share_to": view.inside_to(),
        "teams": view.teams.as_ref().map(teams),
        "without_teams": view.without_teams,
        "scaling": view.scaling.as_ref().map(scaling),
    })
}

fn teams(view: &TeamsView) -> Value {
    json!({
        "regions": view.of.regions,
        "threads_least": view.of.threads_least,
        "threads_most": view.of.threads_most,
        "working_share": view.working,
        "starting_share": view.starting,
        "waiting_share": view.waiting,
        "ending_share": view.ending,
        "working_time_s": super::seconds(view.of.working_ns),
        "starting_time_s": super::seconds(view.of.starting_ns),
        "waiting_time_s": super::seconds(view.of.waiting_ns),
        "ending_time_s": super::seconds(view.of.ending_ns),
        "load_balance": view.load_balance,
    })
}

fn scaling(view: &ScalingView) -> Value {
    let left_out =
        |(reason, count): &(UnusedIteration, u64)| json!({"reason": reason.reason(), "iterations": count});
    json!({
        "threads": (view.threads > 0).then_some(view.threads),
        "sizes": view.sizes.iter().map(size).collect::<Vec<_>>(),
        "reference_after": view.reference_after,
        "predicted": view.prediction.as_ref().map(predicted),
        "left_out": view.left_out.iter().map(left_out).collect::<Vec<_>>(),
    })
}

fn size(view: &SizeView) -> Value {
    json!({
        "threads": view.threads,
        "iterations": view.iterations,
        "age_s": view.age.as_secs_f64(),
        "iteration_s": view.time_ns / 1e9,
        "iteration_within_s": view.within_ns.map(|ns| ns / 1e9),
        "speedup": view.losses.speedup,
        "efficiency": view.losses.efficiency(),
        "lost": lost(&view.losses),
        "ratio": view.ratio.as_ref().map(ratio),
    })
}

fn predicted(prediction: &ScalingPrediction) -> Value {
    let size = |size: &PredictedSize| {
        json!({
            "threads": size.threads,
            "iteration_s": size.time_ns / 1e9,
            "iteration_within_s": size.within_ns / 1e9,
            "speedup": size.speedup,
        })
    };
    json!({
        "law": prediction.law.name(),
        "sizes": prediction.sizes.iter().map(size).collect::<Vec<_>>(),
        "fastest": prediction.fastest,
    })
}

fn lost(losses: &Losses) -> Value {
    let work = match losses.inflation {
        Inflation::Measured(_) => "measured",
        Inflation::Extrapolated(_) => "extrapolated",
        Inflation::Unknown => "unknown",
    };
    let by_cause = losses.by_cause().map(|(cause, threads)| (cause, json!(threads)));
    by_cause
        .into_iter()
        .chain([("work_of_one_thread", json!(work))])
        .collect()
}

fn ratio(ratio: &Ratio) -> Value {
    json!({
        "baseline": ratio.baseline,
        "sequential_share": ratio.sequential,
        "sequential_share_of_source": ratio.sequential_of_source,
        "amdahl": ratio.amdahl,
        "speedup": ratio.speedup,
        "relative": ratio.relative,
        "superlinear": ratio.is_superlinear,
    })
}
