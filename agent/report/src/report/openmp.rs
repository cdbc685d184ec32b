//! The part of the report about the parallel regions of a process.

use profile::{RegionsView, TeamsView};
use serde_json::{Value, json};

pub(super) fn openmp(view: &RegionsView) -> Value {
    json!({
        "regions": view.regions,
        "time_inside_s": view.inside_ns.map(super::seconds),
        "probed_s": super::seconds(view.watched_ns),
        "inside_share": view.inside(),
        "teams": view.teams.as_ref().map(teams),
        "without_teams": view.without_teams,
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
        "load_balance": view.load_balance,
    })
}
