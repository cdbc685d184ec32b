//! The part of the report that tells what the session cost.

use std::collections::BTreeMap;

use profile::cost::{CostView, HoldTotals, PriceSource, Prices, ProbeCost, Slowdown, WindowsView};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Cost<'a> {
    prices_ns: PricesNs<'a>,
    arming_s: f64,
    job_cpu_time_s: f64,
    probes_s: f64,
    probes_share: Option<f64>,
    functions: Vec<Function<'a>>,
    tuning: BTreeMap<&'a str, Tuning>,
    agent_cpu_time_s: f64,
    agent_start_cpu_time_s: f64,
    agent_resident_bytes: Option<u64>,
    share: Option<f64>,
    slowdown: f64,
    event_unread_s_most: Option<f64>,
    event_reads: Option<u64>,
    event_reads_late: Option<u64>,
    of_late: OfLate,
    windows: Option<Windows<'a>>,
}

#[derive(Serialize)]
struct Windows<'a> {
    functions: &'a [String],
    share_of_time: f64,
    budget_share: Option<f64>,
}

#[derive(Serialize)]
struct PricesNs<'a> {
    measured: bool,
    not_measured_because: Option<&'a str>,
    entry_optimised: f64,
    entry_emulated: f64,
    entry_stepped: f64,
    #[serde(rename = "return")]
    returns: f64,
    return_instruction: f64,
    sequence: f64,
    value: f64,
    event: f64,
    added_up: f64,
    link: f64,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    site: &'a str,
    calls: u64,
    call_ns: f64,
    time_s: f64,
}

#[derive(Serialize)]
struct Tuning {
    changes: u64,
    held_s: f64,
}

#[derive(Serialize)]
struct OfLate {
    probes_share: Option<f64>,
    agent_cpus: Option<f64>,
    share: Option<f64>,
    slowdown: Option<f64>,
    event_unread_s: Option<f64>,
}

pub(super) fn cost(view: &CostView) -> Cost<'_> {
    Cost {
        prices_ns: prices(&view.prices),
        arming_s: super::seconds(view.arming_ns),
        job_cpu_time_s: super::seconds(view.job_ns),
        probes_s: view.probes_ns() / 1e9,
        probes_share: view.probes_share(),
        functions: view.probes.iter().map(function).collect(),
        tuning: view.held.iter().map(tuning).collect(),
        agent_cpu_time_s: super::seconds(view.agent.cpu_ns),
        agent_start_cpu_time_s: super::seconds(view.agent.starting_ns),
        agent_resident_bytes: view.agent.resident_bytes,
        share: view.together(),
        slowdown: view.slowdown.all(),
        event_unread_s_most: view.unread.map(|unread| super::seconds(unread.most_ns)),
        event_reads: view.unread.map(|unread| unread.reads),
        event_reads_late: view.unread.map(|unread| unread.late),
        of_late: OfLate {
            probes_share: view.of_late.probes,
            agent_cpus: view.of_late.agent,
            share: view.of_late.together,
            slowdown: view.of_late.slowdown.map(Slowdown::all),
            event_unread_s: view.unread.map(|unread| super::seconds(unread.of_late_ns)),
        },
        windows: view.windows.as_ref().map(windows),
    }
}

fn windows(view: &WindowsView) -> Windows<'_> {
    Windows {
        functions: &view.functions,
        share_of_time: view.part,
        budget_share: view.budget.0,
    }
}

fn prices(prices: &Prices) -> PricesNs<'_> {
    PricesNs {
        measured: prices.source == PriceSource::Measured,
        not_measured_because: match &prices.source {
            PriceSource::Measured => None,
            PriceSource::Table(why) => Some(why),
        },
        entry_optimised: prices.optimised_ns,
        entry_emulated: prices.emulated_ns,
        entry_stepped: prices.stepped_ns,
        returns: prices.return_ns,
        return_instruction: prices.leave_ns,
        sequence: prices.sequence_ns,
        value: prices.value_ns,
        event: prices.event_ns,
        added_up: prices.added_ns,
        link: prices.link_ns,
    }
}

fn function(cost: &ProbeCost) -> Function<'_> {
    Function {
        name: &cost.name,
        site: cost.site,
        calls: cost.calls,
        call_ns: cost.call_ns,
        time_s: cost.ns / 1e9,
    }
}

fn tuning<'a>((action, held): (&&'a str, &HoldTotals)) -> (&'a str, Tuning) {
    let tuning = Tuning {
        changes: held.changes,
        held_s: super::seconds(held.ns),
    };
    (action, tuning)
}
