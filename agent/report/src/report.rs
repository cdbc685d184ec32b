//! The JSON report: the last snapshot of a session, in a documented and versioned form (docs/report.md).

use std::collections::BTreeMap;

use profile::snapshot::{
    ChangeView, FindingView, FunctionTotals, Histogram, LoadView, ProcessView, Snapshot, TraceView,
};
use serde::Serialize;

mod cost;
mod matrix;
mod openmp;
pub mod reference;
mod sequence;
mod table;
mod talp;

pub use table::table;

/// Name and version of the form.
pub const SCHEMA: &str = "tuneagent.report/1";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    tuneagent: &'static str,
    host: &'a str,
    taken_at: &'a str,
    elapsed_s: f64,
    job: Job<'a>,
    cpu_frequency: Option<CpuFrequency>,
    completeness: Completeness<'a>,
    processes: Vec<Process<'a>>,
    iteration: Option<sequence::Iteration>,
    without_iteration: Option<&'a str>,
    efficiencies: Option<sequence::Efficiencies<'a>>,
    call_sites: Option<sequence::CallSiteTable<'a>>,
    matrix: Option<matrix::Matrix>,
    rules: Vec<Rule<'a>>,
    findings: Vec<Finding<'a>>,
    changes: Vec<Change<'a>>,
    cost: Option<cost::Cost<'a>>,
    trace: Option<Trace<'a>>,
    talp: Option<talp::Talp>,
}

#[derive(Serialize)]
struct Trace<'a> {
    file: &'a str,
    bytes: u64,
    calls: u64,
    dropped_calls: u64,
    calls_not_seen: u64,
    polling_calls_not_traced: u64,
    iterations: u64,
    dropped_iterations: u64,
    marks: u64,
    dropped_marks: u64,
}

#[derive(Serialize)]
struct Job<'a> {
    program: &'a str,
    user: &'a str,
    launcher_pid: Option<i32>,
    size: Option<usize>,
    mpi: Option<Mpi<'a>>,
}

#[derive(Serialize)]
struct CpuFrequency {
    least_hz: f64,
    mean_hz: f64,
    most_hz: f64,
}

#[derive(Serialize)]
struct Mpi<'a> {
    implementation: &'a str,
    version: Option<&'a str>,
    library: Option<&'a str>,
    functions_watched: usize,
}

#[derive(Serialize)]
struct Completeness<'a> {
    status: &'static str,
    missing: &'a [String],
    lost: std::collections::BTreeMap<&'a str, u64>,
    calls_under_way_when_armed: u64,
    events_received: u64,
    hits_added_up: u64,
    hits_not_added_up: u64,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: Option<i32>,
    rank: Option<u32>,
    host: &'a str,
    ended: bool,
    watched_s: f64,
    mpi_time_s: Option<f64>,
    mpi_runqueue_time_s: Option<f64>,
    useful_share: Option<f64>,
    cpu_time_s: Option<f64>,
    runqueue_time_s: Option<f64>,
    switches_involuntary: Option<u64>,
    switches_voluntary: Option<u64>,
    page_faults_minor: Option<u64>,
    page_faults_major: Option<u64>,
    resident_bytes: Option<u64>,
    resident_bytes_peak: Option<u64>,
    threads: Option<u64>,
    openmp: Option<openmp::Openmp>,
    load: Option<Vec<Load>>,
    functions: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Load {
    until_s: f64,
    mpi_share: Option<f64>,
    cpu_share: Option<f64>,
    runqueue_share: Option<f64>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    calls: u64,
    estimated: bool,
    counted: Option<Counted>,
    nested_calls: u64,
    untimed_calls: u64,
    unreturned_calls: u64,
    time_s: Option<f64>,
    bytes: Option<u64>,
    bytes_kind: Option<&'static str>,
    bytes_unknown_calls: u64,
    durations: Option<Durations>,
    sizes: Option<Vec<matrix::Size>>,
}

#[derive(Serialize)]
struct Counted {
    calls: u64,
    watched_share: f64,
    calls_from: u64,
    calls_to: Option<u64>,
}

#[derive(Serialize)]
struct Durations {
    calls: u64,
    from_ns: Vec<u64>,
    count: Vec<u64>,
}

#[derive(Serialize)]
struct Rule<'a> {
    name: &'a str,
    mode: &'a str,
    standing: &'static str,
    state: &'a str,
    windows: u64,
    windows_left_out: BTreeMap<&'static str, u64>,
    hits_left_out: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Finding<'a> {
    rule: &'a str,
    found_at_s: f64,
    text: &'a str,
    now: Option<&'a str>,
    next_start: Option<&'a str>,
    repaired: bool,
}

#[derive(Serialize)]
struct Change<'a> {
    change: u64,
    rule: &'a str,
    pid: i32,
    rank: Option<u32>,
    action: &'static str,
    decision: u64,
    at_s: f64,
    expect: Option<&'a str>,
    because: &'a [String],
    variable: &'a str,
    old: Option<&'a str>,
    new: Option<&'a str>,
    mechanism: &'a str,
    hold_ns: u64,
    outcome: &'a str,
    guard: Option<Guard<'a>>,
    reaction: Option<Reaction>,
}

#[derive(Serialize)]
struct Reaction {
    window_ns: u64,
    update_ns: u64,
    evaluate_ns: u64,
    order_ns: u64,
    write_ns: u64,
    lag_ns: u64,
}

#[derive(Serialize)]
struct Guard<'a> {
    before: Option<f64>,
    after: Option<f64>,
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    effect: Option<plan::GuardEffect>,
    verdict: &'a str,
    reason: Option<&'a str>,
    text: &'a str,
}

/// The report of a snapshot.
pub fn render(snapshot: &Snapshot) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&report(snapshot))? + "\n")
}

/// The same on one line.
pub fn line(snapshot: &Snapshot) -> serde_json::Result<String> {
    Ok(serde_json::to_string(&report(snapshot))? + "\n")
}

fn by_reason(left_out: Vec<rules::LeftOut>) -> BTreeMap<&'static str, u64> {
    left_out.into_iter().map(|one| (one.reason, one.count)).collect()
}

fn report(snapshot: &Snapshot) -> Report<'_> {
    let job = &snapshot.job;
    let lost: std::collections::BTreeMap<_, _> = snapshot.lost.iter().copied().collect();
    let complete = snapshot.missing.is_empty() && lost.values().all(|count| *count == 0);
    Report {
        schema: SCHEMA,
        tuneagent: env!("CARGO_PKG_VERSION"),
        host: &job.host,
        taken_at: &snapshot.taken_at,
        elapsed_s: snapshot.elapsed.as_secs_f64(),
        job: Job {
            program: &job.program,
            user: &job.user,
            launcher_pid: job.launcher,
            size: job.size,
            mpi: job.mpi.as_ref().map(|(implementation, version)| Mpi {
                implementation,
                version: version.as_deref(),
                library: job.library.as_deref(),
                functions_watched: job.watched,
            }),
        },
        cpu_frequency: snapshot.frequency.map(|frequency| CpuFrequency {
            least_hz: frequency.least_hz,
            mean_hz: frequency.mean_hz,
            most_hz: frequency.most_hz,
        }),
        completeness: Completeness {
            status: if complete { "complete" } else { "partial" },
            missing: &snapshot.missing,
            lost,
            calls_under_way_when_armed: snapshot.under_way,
            events_received: snapshot.events.received,
            hits_added_up: snapshot.events.added_up,
            hits_not_added_up: snapshot.events.sent_alone,
        },
        processes: snapshot
            .processes
            .iter()
            .map(|view| process(view, &job.host))
            .collect(),
        iteration: sequence::iteration(&snapshot.sequence),
        without_iteration: snapshot.sequence.without.as_deref(),
        efficiencies: sequence::efficiencies(&snapshot.sequence),
        call_sites: sequence::call_sites(&snapshot.sequence),
        matrix: snapshot.matrix.as_ref().map(matrix::matrix),
        rules: snapshot
            .rules
            .iter()
            .map(|rule| Rule {
                name: &rule.name,
                mode: rule.mode,
                standing: rule.standing.name(),
                state: &rule.state,
                windows: rule.windows,
                windows_left_out: by_reason(rule.dropped.windows()),
                hits_left_out: by_reason(rule.dropped.hits()),
            })
            .collect(),
        findings: snapshot.findings.iter().map(finding).collect(),
        changes: snapshot.changes.iter().map(change).collect(),
        cost: snapshot.cost.as_ref().map(cost::cost),
        trace: snapshot.trace.as_ref().map(trace),
        talp: talp::talp(snapshot),
    }
}

fn trace(view: &TraceView) -> Trace<'_> {
    Trace {
        file: &view.file,
        bytes: view.bytes,
        calls: view.calls,
        dropped_calls: view.dropped,
        calls_not_seen: view.not_seen,
        polling_calls_not_traced: view.polling,
        iterations: view.iterations,
        dropped_iterations: view.iterations_dropped,
        marks: view.marks,
        dropped_marks: view.marks_dropped,
    }
}

fn process<'a>(view: &'a ProcessView, host: &'a str) -> Process<'a> {
    let counters = view.counters.as_ref();
    Process {
        // A recording has no numbers of processes.
        pid: Some(view.pid).filter(|pid| *pid != 0),
        rank: view.rank,
        host: view.host.as_deref().unwrap_or(host),
        ended: view.ended,
        watched_s: seconds(view.watched_ns),
        mpi_time_s: view.mpi_ns.map(seconds),
        mpi_runqueue_time_s: view.mpi_waited_ns.map(seconds),
        useful_share: view.useful,
        cpu_time_s: counters.map(|counters| seconds(counters.cpu_ns)),
        runqueue_time_s: counters.map(|counters| seconds(counters.runqueue_ns)),
        switches_involuntary: counters.map(|counters| counters.switches_involuntary),
        switches_voluntary: counters.map(|counters| counters.switches_voluntary),
        page_faults_minor: counters.map(|counters| counters.faults_minor),
        page_faults_major: counters.map(|counters| counters.faults_major),
        resident_bytes: counters.map(|counters| counters.resident_bytes),
        resident_bytes_peak: counters.and_then(|counters| counters.resident_peak_bytes),
        threads: counters.map(|counters| counters.threads),
        openmp: view.regions.as_ref().map(openmp::openmp),
        load: (!view.load.is_empty()).then(|| view.load.iter().map(load).collect()),
        functions: view.functions.iter().map(function).collect(),
    }
}

fn load(part: &LoadView) -> Load {
    Load {
        until_s: part.until.as_secs_f64(),
        mpi_share: part.mpi,
        cpu_share: part.cpu,
        runqueue_share: part.runqueue,
    }
}

fn function(view: &FunctionTotals) -> Function<'_> {
    Function {
        name: &view.name,
        calls: view.calls,
        estimated: view.estimate.is_some(),
        counted: view.estimate.map(|estimate| Counted {
            calls: estimate.counted,
            watched_share: estimate.watched,
            calls_from: estimate.from,
            calls_to: estimate.to,
        }),
        nested_calls: view.nested,
        untimed_calls: view.untimed,
        unreturned_calls: view.unreturned,
        time_s: view.time_ns.map(seconds),
        bytes: view.bytes,
        bytes_kind: view.bytes_kind,
        bytes_unknown_calls: view.bytes_unknown,
        durations: view.durations.as_ref().map(durations),
        sizes: matrix::sizes(&view.sizes),
    }
}

fn durations(histogram: &Histogram) -> Durations {
    let (from_ns, count) = histogram.buckets().unzip();
    Durations {
        calls: histogram.calls(),
        from_ns,
        count,
    }
}

fn finding(view: &FindingView) -> Finding<'_> {
    Finding {
        rule: &view.rule,
        found_at_s: view.at.as_secs_f64(),
        text: &view.text,
        now: view.now.as_deref(),
        next_start: view.next_start.as_deref(),
        repaired: view.repaired,
    }
}

fn change(view: &ChangeView) -> Change<'_> {
    Change {
        change: view.number,
        rule: &view.rule,
        pid: view.pid,
        rank: view.rank,
        action: view.action,
        decision: view.decision,
        at_s: view.at.as_secs_f64(),
        expect: view.expect.as_deref(),
        because: &view.because,
        variable: &view.variable,
        old: known(&view.old),
        new: known(&view.new),
        mechanism: &view.mechanism,
        hold_ns: view.hold_ns,
        outcome: &view.outcome,
        guard: view.guard.as_ref().map(|guard| Guard {
            before: guard.before,
            after: guard.after,
            ratio: guard.ratio,
            interval: guard.interval,
            effect: guard.effect,
            verdict: guard.verdict,
            reason: guard.reason.as_deref(),
            text: &guard.text,
        }),
        reaction: view.reaction.map(|reaction| Reaction {
            window_ns: reaction.window_ns,
            update_ns: reaction.update_ns,
            evaluate_ns: reaction.evaluate_ns,
            order_ns: reaction.order_ns,
            write_ns: reaction.write_ns,
            lag_ns: reaction.lag_ns(),
        }),
    }
}

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;
