//! The JSON report: the last snapshot of a session, in a documented and versioned format (docs/report.md).

use std::collections::BTreeMap;

use profile::progress::ProgressView;
use profile::streams::ContractView;
use profile::{
    ChangeView, FindingView, FunctionTotals, Histogram, LoadView, MemoryGroup, NodeView, ProcessView,
    RuleView, Snapshot, SpeedupHint, TimeByMpi, TimeParts, TraceView,
};
use serde_json::{Value, json};

use crate::trace;

mod cost;
mod matrix;
mod openmp;
pub(crate) mod reference;
mod sequence;
mod table;
mod talp;

pub use table::table;

/// Name and version of the format.
pub(crate) const SCHEMA: &str = "tuneagent.report/1";

pub fn render(snapshot: &Snapshot) -> String {
    format!("{:#}\n", report(snapshot))
}

/// The report on one line.
pub fn line(snapshot: &Snapshot) -> String {
    format!("{}\n", report(snapshot))
}

fn by_reason(left_out: Vec<rules::LeftOut>) -> BTreeMap<&'static str, u64> {
    left_out.into_iter().map(|one| (one.reason, one.count)).collect()
}

pub fn report(snapshot: &Snapshot) -> Value {
    let job = &snapshot.job;
    let lost: BTreeMap<_, _> = snapshot.lost.iter().copied().collect();
    let complete = snapshot.missing.is_empty() && lost.values().all(|count| *count == 0);
    json!({
        "schema": SCHEMA,
        "tuneagent": env!("CARGO_PKG_VERSION"),
        "host": job.host,
        "taken_at": snapshot.taken_at,
        "elapsed_s": snapshot.elapsed.as_secs_f64(),
        "job": {
            "program": job.program,
            "user": job.user,
            "launcher_pid": job.launcher,
            "size": job.size,
            "mpi": job.mpi.as_ref().map(|(implementation, version)| json!({
                "implementation": implementation,
                "version": version,
                "library": job.library,
                "functions_watched": job.watched,
            })),
        },
        "cpu_frequency": snapshot.frequency.map(|frequency| json!({
            "least_hz": frequency.least_hz,
            "mean_hz": frequency.mean_hz,
            "most_hz": frequency.most_hz,
        })),
        "memory_limits": snapshot.memory_groups.iter().map(memory_limit).collect::<Value>(),
        "completeness": {
            "status": if complete { "complete" } else { "partial" },
            "missing": snapshot.missing,
            "lost": lost,
            "never_called": snapshot.never_called,
            "calls_under_way_when_armed": snapshot.under_way,
            "events_received": snapshot.events.received,
            "hits_aggregated": snapshot.events.aggregated,
            "hits_not_aggregated": snapshot.events.sent_alone,
        },
        "processes": snapshot.processes.iter().map(|view| process(view, &job.host)).collect::<Value>(),
        "time": (snapshot.time.total.all_ns() > 0).then(|| time(&snapshot.time.total)),
        "progress": snapshot.progress.as_ref().map(progress),
        "speedup_hints": snapshot.speedup_hints.iter().map(speedup_hint).collect::<Value>(),
        "iteration": sequence::iteration(&snapshot.sequence),
        "without_iteration": snapshot.sequence.without,
        "efficiencies": sequence::efficiencies(&snapshot.sequence),
        "call_sites": sequence::call_sites(&snapshot.sequence),
        "matrix": snapshot.matrix.as_ref().map(matrix::matrix),
        "contract": snapshot.contract.as_ref().map(contract),
        "rules": snapshot.rules.iter().map(rule).collect::<Value>(),
        "findings": findings(snapshot, &snapshot.findings),
        "past_findings": findings(snapshot, &snapshot.past_findings),
        "changes": snapshot.changes.iter().map(change).collect::<Value>(),
        "cost": snapshot.cost.as_ref().map(cost::cost),
        "trace": snapshot.trace.as_ref().map(trace),
        "talp": talp::talp(snapshot),
        "nodes": snapshot.nodes.iter().map(node).collect::<Value>(),
    })
}

fn time(parts: &TimeParts) -> Value {
    let share = |ns: u64| ns as f64 / parts.all_ns() as f64;
    let state = |of: TimeByMpi| {
        json!({
            "outside_mpi_share": share(of.outside_ns),
            "inside_mpi_share": share(of.inside_ns),
            "unknown_share": share(of.unknown_ns),
        })
    };
    json!({"on_cpu": state(parts.on_cpu), "ready": state(parts.ready), "asleep": state(parts.asleep)})
}

fn node(view: &NodeView) -> Value {
    json!({
        "host": view.host,
        "state": view.state.name(),
        "processes": view.processes,
        "lag_s": view.lag.map(|lag| lag.as_secs_f64()),
        "clock_bound_s": view.clock_bound_ns.map(seconds),
        "losses": view.losses,
        "messages_refused": view.refused,
    })
}

fn memory_limit(group: &MemoryGroup) -> Value {
    let events = &group.events;
    json!({
        "cgroup": group.cgroup,
        "limit_bytes": group.limit_bytes,
        "high_bytes": group.high_bytes,
        "high": events.high,
        "max": events.max,
        "oom": events.oom,
        "oom_kill": events.oom_kill,
    })
}

fn contract(view: &ContractView) -> Value {
    // A number that is not finite has no form in JSON; rates are finite.
    let mut value = serde_json::to_value(&view.summary).unwrap_or_default();
    value["not_judged"] = json!(view.not_judged);
    value
}

fn trace(view: &TraceView) -> Value {
    let mut value = trace::counts(view);
    value["file"] = json!(view.file);
    value["bytes"] = json!(view.bytes);
    value
}

fn speedup_hint(hint: &SpeedupHint) -> Value {
    json!({"threads": hint.threads, "speedup": hint.speedup})
}

fn progress(view: &ProgressView) -> Value {
    let eta = view.eta.as_ref();
    json!({
        "step": view.done,
        "steps": view.total,
        "steps_per_s": view.steps_per_s,
        "remaining_s": eta.ok().map(|eta| eta.remaining.as_secs_f64()),
        "remaining_least_s": eta.ok().map(|eta| eta.least.as_secs_f64()),
        "remaining_most_s": eta.ok().and_then(|eta| eta.most).map(|most| most.as_secs_f64()),
        "without_remaining": eta.err().map(|without| without.reason()),
        "limit_s": view.limit.map(|limit| limit.as_secs_f64()),
        "step_at_limit": view.step_at_limit(),
    })
}

fn process(view: &ProcessView, host: &str) -> Value {
    let counters = view.program_counters();
    json!({
        // Processes of a recording have no process ids.
        "pid": Some(view.pid).filter(|pid| *pid != 0),
        "rank": view.rank,
        "program": view.program,
        "host": view.host.as_deref().unwrap_or(host),
        "ended": view.ended,
        "watched_s": seconds(view.watched_ns),
        "mpi_time_s": view.mpi_ns.map(seconds),
        "mpi_unknown_time_s": view.mpi_ns.map(|_| seconds(view.mpi_unknown_ns)),
        "mpi_runqueue_time_s": view.mpi_waited_ns.map(seconds),
        "useful_share": view.useful,
        "cpu_time_s": counters.map(|counters| seconds(counters.cpu_ns)),
        "runqueue_time_s": counters.map(|counters| seconds(counters.runqueue_ns)),
        "switches_involuntary": counters.map(|counters| counters.switches_involuntary),
        "switches_voluntary": counters.map(|counters| counters.switches_voluntary),
        "page_faults_minor": counters.map(|counters| counters.faults_minor),
        "page_faults_major": counters.map(|counters| counters.faults_major),
        "resident_bytes": counters.map(|counters| counters.resident_bytes),
        "resident_bytes_peak": counters.and_then(|counters| counters.resident_peak_bytes),
        "threads": counters.map(|counters| counters.threads),
        "openmp": view.regions.as_ref().map(openmp::openmp),
        "load": (!view.load.is_empty()).then(|| view.load.iter().map(load).collect::<Value>()),
        "functions": view.functions.iter().map(function).collect::<Value>(),
    })
}

fn load(part: &LoadView) -> Value {
    json!({
        "until_s": part.until.as_secs_f64(),
        "mpi_share": part.mpi,
        "cpu_share": part.cpu,
        "runqueue_share": part.runqueue,
    })
}

fn function(view: &FunctionTotals) -> Value {
    json!({
        "name": view.name,
        "calls": view.calls,
        "estimated": view.estimate.is_some(),
        "counted": view.estimate.map(|estimate| json!({
            "calls": estimate.counted,
            "watched_share": estimate.watched,
            "calls_from": estimate.from,
            "calls_to": estimate.to,
        })),
        "counted_share_of_time": view.counted,
        "nested_calls": view.nested,
        "untimed_calls": view.untimed,
        "unreturned_calls": view.unreturned,
        "calls_under_way": view.time_ns.map(|_| view.under_way),
        "time_under_way_s": view.time_ns.map(|_| seconds(view.under_way_ns)),
        "time_s": view.time_ns.map(seconds),
        "bytes": view.bytes,
        "bytes_kind": view.bytes_kind,
        "bytes_unknown_calls": view.bytes_unknown,
        "durations": view.durations.as_ref().map(durations),
        "sizes": matrix::sizes(&view.sizes),
    })
}

fn durations(histogram: &Histogram) -> Value {
    let (from_ns, count): (Vec<u64>, Vec<u64>) = histogram.buckets().unzip();
    json!({"calls": histogram.calls(), "from_ns": from_ns, "count": count})
}

fn rule(view: &RuleView) -> Value {
    json!({
        "name": view.name,
        "tune": view.tune,
        "mode": view.mode.name(),
        "standing": view.standing.name(),
        "state": view.state,
        "windows": view.windows,
        "windows_left_out": by_reason(view.dropped.windows()),
        "hits_left_out": by_reason(view.dropped.hits()),
    })
}

fn findings(snapshot: &Snapshot, views: &[FindingView]) -> Value {
    let findings = views.iter();
    findings
        .map(|view| finding(view, snapshot.advice(view)))
        .collect()
}

fn finding(view: &FindingView, advice: Option<&str>) -> Value {
    json!({
        "rule": view.rule,
        "found_at_s": view.at.as_secs_f64(),
        "gone_at_s": view.gone_at.map(|at| at.as_secs_f64()),
        "text": view.text,
        "numbers_at_s": view.numbers_at.as_secs_f64(),
        "now": advice,
        "next_start": view.next_start,
        "repaired": view.repaired,
    })
}

fn change(view: &ChangeView) -> Value {
    json!({
        "change": view.number,
        "rule": view.rule,
        "pid": view.pid,
        "rank": view.rank,
        "action": view.action,
        "decision": view.decision,
        "at_s": view.at.as_secs_f64(),
        "first_at_s": view.first_at.map(|at| at.as_secs_f64()),
        "expect": view.expect,
        "because": view.because,
        "variable": view.variable,
        "old": known(&view.old),
        "new": known(&view.new),
        "remains": view.remains,
        "mechanism": view.mechanism,
        "hold_ns": view.hold_ns,
        "outcome": view.outcome.to_string(),
        "guard": view.guard.as_ref().map(|guard| json!({
            "before": guard.before,
            "after": guard.after,
            "ratio": guard.ratio,
            "interval": guard.interval,
            "effect": guard.effect,
            "verdict": guard.verdict,
            "reason": guard.reason,
            "text": guard.sentence_after(&view.outcome),
        })),
        "reaction": view.reaction.map(|reaction| json!({
            "window_ns": reaction.window_ns,
            "update_ns": reaction.update_ns,
            "evaluate_ns": reaction.evaluate_ns,
            "order_ns": reaction.order_ns,
            "write_ns": reaction.write_ns,
            "lag_ns": reaction.lag_ns(),
        })),
    })
}

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;
