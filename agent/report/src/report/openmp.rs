//! The part of the report that tells of the parallel regions of a process.

use profile::snapshot::{RegionsView, TeamsView};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Openmp {
    regions: u64,
    time_inside_s: Option<f64>,
    probed_s: f64,
    inside_share: Option<f64>,
    teams: Option<Teams>,
    without_teams: Option<&'static str>,
}

#[derive(Serialize)]
struct Teams {
    regions: u64,
    threads_least: u64,
    threads_most: u64,
    working_share: f64,
    starting_share: f64,
    waiting_share: f64,
    ending_share: f64,
    load_balance: Option<f64>,
}

pub(super) fn openmp(view: &RegionsView) -> Openmp {
    Openmp {
        regions: view.regions,
        time_inside_s: view.inside_ns.map(super::seconds),
        probed_s: super::seconds(view.watched_ns),
        inside_share: view.inside(),
        teams: view.teams.as_ref().map(teams),
        without_teams: view.without_teams,
    }
}

fn teams(view: &TeamsView) -> Teams {
    Teams {
        regions: view.of.regions,
        threads_least: view.of.threads_least,
        threads_most: view.of.threads_most,
        working_share: view.working,
        starting_share: view.starting,
        waiting_share: view.waiting,
        ending_share: view.ending,
        load_balance: view.load_balance,
    }
}
