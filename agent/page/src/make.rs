//! Makes the page's data from a snapshot. Numbers are formatted here only, so that the HTML and `/api/page`
//! agree.

use std::time::Duration;

use profile::format::{count, duration, percent, time, times};
use profile::outcome::{ChangeOutcome, GuardVerdict, KEPT_UNTIL_THE_END};
use profile::{ChangeView, EfficienciesView, FindingView, Snapshot};
use report::view;

use crate::model::{Efficiency, FindingBlock, PageModel, SCHEMA, Tile, TimelineMark};
use crate::{messages, series, tables};

/// Makes the page of a session in the state of `snapshot`.
pub fn page(snapshot: &Snapshot) -> PageModel {
    let marks = marks(snapshot);
    PageModel {
        schema: SCHEMA,
        tuneagent: env!("CARGO_PKG_VERSION"),
        title: view::header(snapshot),
        program: snapshot.job.program.clone(),
        taken_at: (snapshot.armed_unix_s > 0.0).then(|| snapshot.taken_at.clone()),
        elapsed: time(snapshot.elapsed),
        access: access(snapshot),
        summary: trimmed(view::overview(snapshot)),
        tiles: tiles(snapshot),
        findings: findings(snapshot),
        without_findings: match snapshot.findings.is_empty() && snapshot.past_findings.is_empty() {
            true => trimmed(view::without_findings(snapshot)),
            false => Vec::new(),
        },
        timeline: series::timeline(snapshot, marks),
        efficiencies: view::efficiencies(snapshot).map(efficiencies).unwrap_or_default(),
        matrix: messages::matrix(snapshot),
        tables: tables::all(snapshot),
        incomplete: trimmed(view::losses(snapshot)),
    }
}

fn access(snapshot: &Snapshot) -> &'static str {
    match (snapshot.changes.is_empty(), snapshot.may_write()) {
        (false, _) => "changed the program",
        (true, true) => "may change the program",
        (true, false) => "read-only",
    }
}

fn trimmed(lines: Vec<String>) -> Vec<String> {
    let lines = lines.iter().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

fn findings(snapshot: &Snapshot) -> Vec<FindingBlock> {
    let all: Vec<_> = snapshot.findings.iter().chain(&snapshot.past_findings).collect();
    let of = |(index, view): (usize, &&FindingView)| finding(view, &all[..index], snapshot.advice(view));
    all.iter().enumerate().map(of).collect()
}

fn finding(view: &FindingView, above: &[&FindingView], advice: Option<&str>) -> FindingBlock {
    let numbers = time(view.numbers_at);
    let state = match (view.repaired, &view.now, view.gone_at) {
        (true, None, _) => format!("repaired; numbers at {numbers}"),
        (true, Some(_), _) => format!("repaired; reverted at the end; numbers at {numbers}"),
        (false, _, Some(gone)) => format!("held from {} to {}", time(view.at), time(gone)),
        (false, _, None) => format!("holds since {}; numbers at {numbers}", time(view.at)),
    };
    FindingBlock {
        rule: view.rule.clone(),
        state,
        text: view::finding_text(view, above),
        now: advice.map(str::to_owned),
        next_start: view.next_start.clone(),
        is_repaired: view.repaired,
    }
}

/// Findings and changes, sorted by time. A decision for many processes has one mark.
fn marks(snapshot: &Snapshot) -> Vec<TimelineMark> {
    let mut all: Vec<(Duration, String)> = Vec::new();
    for finding in snapshot.findings.iter().chain(&snapshot.past_findings) {
        all.push((finding.at, format!("found: {}", finding.rule)));
    }
    let mut last = None;
    for change in &snapshot.changes {
        if last.replace(change.decision) != Some(change.decision) {
            all.push((change.at, changed(change)));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    let numbered = (1..).zip(all);
    numbered
        .map(|(number, (at, text))| TimelineMark {
            number,
            at_s: at.as_secs_f64(),
            text,
        })
        .collect()
}

fn changed(change: &ChangeView) -> String {
    let values = match (change.old.as_str(), change.new.as_str()) {
        ("", new) => new.to_owned(),
        (old, new) => format!("{old} -> {new}"),
    };
    let outcome = change.outcome.to_string();
    let verdict = match change.guard.as_ref().map(|guard| guard.verdict) {
        Some(GuardVerdict::Kept) if change.outcome == ChangeOutcome::Reverted => KEPT_UNTIL_THE_END,
        Some(verdict) => verdict.name(),
        None => &outcome,
    };
    format!("{}: {} {values}: {verdict}", change.rule, change.variable)
}

fn tiles(snapshot: &Snapshot) -> Vec<Tile> {
    let overall = snapshot.overall();
    let mean = |of: &dyn Fn(&profile::Rates) -> Option<f64>| -> Option<f64> {
        let sum: Option<f64> = overall.iter().map(of).sum();
        sum.filter(|_| !overall.is_empty())
            .map(|sum| sum / overall.len() as f64)
    };
    let share = |name, value: Option<f64>, note: &str| {
        value.map(|value| Tile {
            name,
            value: percent(value),
            before: None,
            note: note.to_owned(),
        })
    };
    let has_mpi = snapshot.job.mpi.is_some();
    let of_time = "of the time, the mean over the processes";
    // Several threads of a process can be on CPUs at the same time: such a mean exceeds 1 and is no share.
    let cpus = |name, of: &dyn Fn(&profile::Rates) -> Option<f64>| match mean(of) {
        Some(mean) if has_mpi && mean <= 1.0 => share(name, Some(mean), of_time),
        _ => overall.iter().map(of).sum::<Option<f64>>().map(|sum| Tile {
            name,
            value: format!("{sum:.1}"),
            before: None,
            note: "threads on average".to_owned(),
        }),
    };
    let efficiency = view::efficiencies(snapshot).map(|found| Tile {
        name: "parallel efficiency",
        value: view::efficiency(found.of.parallel),
        before: None,
        note: format!("of {} ranks; 1 is best", found.ranks),
    });
    let cost = snapshot.cost.as_ref().map(|cost| Tile {
        name: "cost of watching",
        value: format!("+{}", percent(cost.slowdown.all())),
        before: None,
        note: "that the program takes longer".to_owned(),
    });
    let gain = gain(snapshot);
    let all = [
        iteration(snapshot),
        gain.clone(),
        share("inside MPI", mean(&|rates| rates.mpi), of_time).map(|tile| Tile {
            value: format!("{}{}", view::mpi_mark(snapshot), tile.value),
            ..tile
        }),
        // Keeps the number of tiles at six at most.
        cpus("on a CPU", &|rates| Some(rates.cpu)).filter(|_| gain.is_none()),
        cpus("waiting for a CPU", &|rates| Some(rates.runqueue)),
        efficiency,
        cost,
    ];
    all.into_iter().flatten().collect()
}

/// The gain that the guard measured for the newest kept change.
fn gain(snapshot: &Snapshot) -> Option<Tile> {
    let guard = snapshot.kept_change()?.guard.as_ref()?;
    let note = match guard.interval {
        Some((least, most)) => format!("{} to {} times with 98 % confidence", times(least), times(most)),
        // The guard compared differences, as a window in which the objective is 0 has no ratio.
        None => "of the means; in some windows the objective was 0, so the gain has no interval".to_owned(),
    };
    Some(Tile {
        name: "gain of the change",
        value: format!("{} times", times(guard.ratio?)),
        before: None,
        note,
    })
}

/// The time of one iteration: before and after the newest change that the guard kept, or else the mean of the
/// run.
fn iteration(snapshot: &Snapshot) -> Option<Tile> {
    let view = snapshot.sequence.iteration.as_ref()?;
    let calls = view::calls_each(view.calls, snapshot);
    Some(match snapshot.iteration_around_change() {
        Some((before, after)) => Tile {
            name: "one iteration",
            value: duration(after),
            before: Some(duration(before)),
            note: format!(
                "{} times as long before the change; {calls}",
                times(before / after)
            ),
        },
        None => Tile {
            name: "one iteration",
            value: duration(view.mean_ns),
            before: None,
            note: format!("the mean of {}; {calls}", count(view.count as f64)),
        },
    })
}

fn efficiencies(view: &EfficienciesView) -> Vec<Efficiency> {
    let mut all = Vec::new();
    let of_balance = |value: f64| view.is_balance_known().then_some(value);
    let mut add = |depth, name, value: Option<f64>, definition| {
        all.extend(value.map(|value| Efficiency {
            name,
            depth,
            value,
            definition,
        }));
    };
    add(
        0,
        "parallel efficiency",
        Some(view.of.parallel),
        "useful time / time of all ranks",
    );
    add(
        1,
        "load balance",
        of_balance(view.of.load_balance),
        "mean useful time / greatest useful time",
    );
    add(
        2,
        "within nodes",
        of_balance(view.of.within_nodes),
        "the same within the node whose ranks compute longest",
    );
    add(
        2,
        "between nodes",
        view.between_nodes.and_then(of_balance),
        "mean over the nodes / node that computes longest",
    );
    add(
        1,
        "communication efficiency",
        Some(view.of.communication),
        "greatest useful time / elapsed time",
    );
    let split = view.split.as_ref();
    add(
        2,
        "serialisation",
        split.map(|split| split.serialisation),
        "what waiting for other ranks leaves of it",
    );
    add(
        2,
        "transfer",
        split.map(|split| split.transfer),
        "what the transfer of data leaves of it",
    );
    all
}
