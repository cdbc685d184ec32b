//! The tables of the page. They contain all rows of the tables of which the terminal shows the first ones.

use profile::format::{bytes, count, duration};
use profile::{
    CallSiteView, ChangeView, FunctionTotals, Inflation, PredictedSize, ProcessView, RegionsView, RuleView,
    ScalingLaw, ScalingPrediction, SizeView, Snapshot,
};
use report::view;

use crate::cells::{number, share, table, text};
use crate::model::Table;
use crate::{messages, series};

pub(crate) fn all(snapshot: &Snapshot) -> Vec<Table> {
    let mark = view::mpi_mark(snapshot);
    vec![
        functions(snapshot),
        call_sites(snapshot, mark),
        processes(snapshot, mark),
        messages::pairs(snapshot),
        messages::sizes(snapshot),
        regions(snapshot),
        scaling(snapshot),
        predicted(snapshot),
        rules(snapshot),
        changes(snapshot),
    ]
}

fn functions(snapshot: &Snapshot) -> Table {
    let mut all = snapshot.functions();
    all.sort_by_key(|function| std::cmp::Reverse((function.time_ns, function.calls)));
    let row = |function: &FunctionTotals| {
        let accuracy = view::Accuracy::of(function.estimate, function.calls);
        let mark = function.estimate.map_or("", |_| "~");
        vec![
            text(&function.name),
            number(Some(function.calls as f64), |calls| accuracy.cell(calls)),
            number(function.mean_of_returned_ns(), duration).marked(mark),
            number(function.time_ns.map(|ns| ns as f64), duration).marked(mark),
            share(
                function
                    .time_ns
                    .map(|ns| ns as f64 / snapshot.watched_ns(function.is_of_mpi())),
            )
            .marked(mark),
            number(function.bytes.map(|amount| amount as f64), |amount| {
                accuracy.bytes(amount)
            }),
        ]
    };
    table(
        "functions",
        "Functions",
        "function | #calls | #mean | #time | #share of the time | #bytes",
        all.iter().map(row),
    )
}

fn call_sites(snapshot: &Snapshot, mark: &str) -> Table {
    let row = |site: &CallSiteView| {
        let place = &site.place;
        let line = match (&place.file, place.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            _ => place.module.clone().unwrap_or_default(),
        };
        vec![
            text(&site.function),
            text(place.function.clone().unwrap_or_default()),
            text(line),
            number(Some(site.ranks as f64), count),
            number(Some(site.calls as f64), count),
            number(Some(site.time_ns as f64), duration),
        ]
    };
    let columns = match mark {
        "" => "function | called in | at | #ranks | #calls | #time",
        _ => "function | called in | at | #ranks | #calls while sampled | #time while sampled",
    };
    let rows = snapshot.sequence.call_sites.iter().map(row);
    table("call-sites", "Call sites", columns, rows)
}

/// With a mark before shares of the time inside MPI.
fn processes(snapshot: &Snapshot, mark: &str) -> Table {
    let row = |process: &ProcessView| {
        let rates = process.overall;
        let counters = process.counters.as_ref();
        vec![
            text(process.name("process")),
            // A recording contains no pids.
            number(Some(f64::from(process.pid)).filter(|pid| *pid != 0.0), |pid| {
                pid.to_string()
            }),
            text(process.host.as_deref().unwrap_or(&snapshot.job.host)),
            share(rates.and_then(|rates| rates.mpi)).marked(mark),
            share(rates.map(|rates| rates.cpu)),
            share(rates.map(|rates| rates.runqueue)),
            number(
                counters.and_then(|of| Some(of.resident_peak_bytes? as f64)),
                bytes,
            ),
        ]
    };
    table(
        "processes",
        "Processes",
        "process | #pid | machine | #inside MPI | #on a CPU | #waiting for a CPU | #memory, at its most",
        snapshot.processes.iter().map(row),
    )
}

/// Parallel regions, with the shares of time that the threads of their teams work, start, wait and end.
fn regions(snapshot: &Snapshot) -> Table {
    let probed = snapshot
        .processes
        .iter()
        .filter_map(|process| Some((process, process.regions.as_ref()?)));
    let row = |(process, regions): &(&ProcessView, &RegionsView)| {
        let teams = regions.teams.as_ref();
        let mean = teams.map(|teams| teams.of.threads as f64 / teams.of.regions.max(1) as f64);
        vec![
            text(process.name("process")),
            number(Some(regions.regions as f64), count),
            share(regions.inside()),
            number(mean, |threads| format!("{threads:.1}")),
            share(teams.map(|teams| teams.working)),
            share(teams.map(|teams| teams.starting)),
            share(teams.map(|teams| teams.waiting)),
            share(teams.map(|teams| teams.ending)),
            number(teams.and_then(|teams| teams.load_balance), view::efficiency),
        ]
    };
    let probed: Vec<_> = probed.collect();
    table(
        "regions",
        "Parallel regions (while they were probed)",
        "process | #regions | #time inside | #threads | #working | #starting | #waiting | #ending | \
         #load balance",
        probed.iter().map(row),
    )
}

/// Predicted steps with team sizes that did not occur.
fn predicted(snapshot: &Snapshot) -> Table {
    let of = |process| -> Option<(&ProcessView, &ScalingPrediction)> {
        let process: &ProcessView = process;
        Some((
            process,
            process.regions.as_ref()?.scaling.as_ref()?.prediction.as_ref()?,
        ))
    };
    let row = |process: &ProcessView, law: ScalingLaw, size: &PredictedSize| {
        let (least, most) = size.interval_ns();
        vec![
            text(process.name("process")),
            number(Some(f64::from(size.threads)), count),
            number(Some(size.time_ns), duration),
            number(Some(least), duration),
            number(Some(most), duration),
            number(Some(size.speedup), |speedup| format!("{speedup:.2}")),
            text(law.name()),
        ]
    };
    let predictions = snapshot.processes.iter().filter_map(of);
    let rows: Vec<_> = predictions
        .flat_map(|(process, of)| of.sizes.iter().map(move |size| row(process, of.law, size)))
        .collect();
    table(
        "predicted",
        "Predicted steps with team sizes that did not occur, with enough CPUs",
        "process | #threads | #time of a step | #least (90 %) | #most (90 %) | #speedup to one thread | law",
        rows.into_iter(),
    )
}

/// Speedup and lost threads for each process and team size.
fn scaling(snapshot: &Snapshot) -> Table {
    let of = |process| -> Option<(&ProcessView, &[SizeView])> {
        let process: &ProcessView = process;
        Some((process, &process.regions.as_ref()?.scaling.as_ref()?.sizes))
    };
    let sizes = snapshot.processes.iter().filter_map(of);
    let sizes: Vec<_> = sizes
        .flat_map(|(process, sizes)| sizes.iter().map(move |size| (process, size)))
        .collect();
    let threads = |threads: Option<f64>| number(threads, |threads| format!("{threads:.2}"));
    let row = |(process, size): (&ProcessView, &SizeView)| {
        let losses = &size.losses;
        let mut cells = vec![
            text(process.name("process")),
            number(Some(f64::from(size.threads)), count),
            number(Some(size.iterations as f64), count),
            number(Some(size.time_ns), duration),
            threads(Some(losses.speedup)),
            threads(Some(losses.sequential)),
            threads(Some(losses.imbalance)),
            threads(Some(losses.starting_and_ending)),
            threads(Some(losses.small_teams)),
            threads(losses.inflation.threads()),
        ];
        match losses.inflation {
            Inflation::Measured(_) => {}
            Inflation::Extrapolated(_) => cells[4].text.insert(0, '~'),
            Inflation::Unknown => cells[4].text.insert_str(0, "at most "),
        }
        cells
    };
    table(
        "scaling",
        "Steps by team size: the speedup, and the threads lost to",
        "process | #threads | #steps | #time of a step | #speedup | #sequential code | #imbalance | \
         #start and end | #small teams | #work inflation",
        sizes.into_iter().map(row),
    )
}

fn rules(snapshot: &Snapshot) -> Table {
    let fitting = || snapshot.rules.iter().filter(|rule| rule.had_processes);
    let rules: Vec<&RuleView> = fitting().collect();
    let row = |rule: &&RuleView| {
        vec![
            text(&rule.name),
            text(&rule.tune),
            text(rule.mode.name()),
            text(&rule.state),
            number(Some(rule.windows as f64), count),
        ]
    };
    table(
        "rules",
        "Rules that fit this program",
        "rule | tune | mode | state | #windows",
        rules.iter().map(row),
    )
}

fn changes(snapshot: &Snapshot) -> Table {
    let row = |change: &ChangeView| {
        let guard = change.guard.as_ref();
        vec![
            number(Some(change.at.as_secs_f64()), |at_s| duration(at_s * 1e9)),
            text(&change.rule),
            text(series::name(change.rank, change.pid)),
            text(&change.variable),
            text(&change.old),
            text(&change.new),
            text(change.outcome.to_string()),
            text(guard.map_or_else(String::new, |guard| guard.sentence_after(&change.outcome))),
            number(Some(change.hold_ns as f64).filter(|ns| *ns > 0.0), duration),
        ]
    };
    table(
        "changes",
        "Changes",
        "#after | rule | process | what | before | since | outcome | guard | #held for",
        snapshot.changes.iter().map(row),
    )
}
