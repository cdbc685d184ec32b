//! The part of the report about the cost of the session.

use profile::cost::{CostView, HoldTotals, PriceSource, Prices, ProbeCost, Slowdown, WindowsView};
use serde_json::{Value, json};

pub(super) fn cost(view: &CostView) -> Value {
    json!({
        "prices_ns": prices(&view.prices),
        "arming_s": super::seconds(view.arming_ns),
        "job_cpu_time_s": super::seconds(view.job_ns),
        "probes_s": view.probes_ns() / 1e9,
        "probes_share": view.probes_share(),
        "functions": view.probes.iter().map(function).collect::<Value>(),
        "tuning": view.held.iter().map(tuning).collect::<Value>(),
        "agent_cpu_time_s": super::seconds(view.agent.cpu_ns),
        "agent_start_cpu_time_s": super::seconds(view.agent.starting_ns),
        "agent_resident_bytes": view.agent.resident_bytes,
        "share": view.together(),
        "slowdown": view.slowdown.all(),
        "event_unread_s_most": view.unread.map(|unread| super::seconds(unread.most_ns)),
        "event_reads": view.unread.map(|unread| unread.reads),
        "event_reads_late": view.unread.map(|unread| unread.late),
        "recent": {
            "probes_share": view.recent.probes,
            "agent_cpus": view.recent.agent,
            "share": view.recent.together,
            "slowdown": view.recent.slowdown.map(Slowdown::all),
            "event_unread_s": view.unread.map(|unread| super::seconds(unread.recent_ns)),
        },
        "windows": view.windows.as_ref().map(windows),
    })
}

fn windows(view: &WindowsView) -> Value {
    json!({
        "functions": view.functions,
        "share_of_time": view.part,
        "budget_share": view.budget.0,
    })
}

fn prices(prices: &Prices) -> Value {
    json!({
        "measured": prices.source == PriceSource::Measured,
        "not_measured_because": match &prices.source {
            PriceSource::Measured => None,
            PriceSource::Table(why) => Some(why),
        },
        "entry_optimised": prices.optimised_ns,
        "entry_emulated": prices.emulated_ns,
        "entry_stepped": prices.stepped_ns,
        "return": prices.return_ns,
        "return_instruction": prices.leave_ns,
        "sequence": prices.sequence_ns,
        "value": prices.value_ns,
        "event": prices.event_ns,
        "aggregated": prices.aggregated_ns,
        "link": prices.link_ns,
    })
}

fn function(cost: &ProbeCost) -> Value {
    json!({
        "name": cost.name,
        "site": cost.site,
        "calls": cost.calls,
        "call_ns": cost.call_ns,
        "time_s": cost.ns / 1e9,
    })
}

fn tuning<'a>((action, held): (&&'a str, &HoldTotals)) -> (&'a str, Value) {
    (
        action,
        json!({"changes": held.changes, "held_s": super::seconds(held.ns)}),
    )
}
