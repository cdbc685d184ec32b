//! `cargo xtask bench hits`: measures what each action at a hit costs the program, compared with bpftrace and
//! perf if installed, and with a probe that runs an empty BPF program. Our probes are at the function's site
//! ([`super::sites`]).

use super::added::{Added, theirs};
use super::tools::{Telling, Tool};
use crate::Result;
use crate::measure::stats::Spread;
use crate::measure::table::{Cell, Table};
use crate::measure::{Claim, Outcome, Section, Settings};

/// `PUSH` begins as most functions do; the kernel emulates this instruction and need not single-step.
/// `ENDBR64` begins as functions of libraries built for Intel CET do; our site is the push after it.
const PUSH: &str = "begins_with_push";
const ENDBR64: &str = "begins_with_endbr64";
const FUNCTIONS: [&str; 2] = [PUSH, ENDBR64];

/// Equivalent actions: of another tool, name in the table, our way.
const SAME: [(Telling, &str, &str); 7] = [
    (Telling::Count, "calls counted", "count"),
    (Telling::Arguments, "six arguments read", "count, 6 arguments"),
    (Telling::Event, "each call sent", "event"),
    (Telling::BothEnds, "entries and returns counted", "count and time"),
    (Telling::Time, "times aggregated", "count and time"),
    (Telling::Time, "times aggregated for a rule", AGGREGATED),
    (Telling::Histogram, "times in a histogram", IN_HISTOGRAM),
];

/// Ways with an empty BPF program, for the entry alone and with the return. They are the lower bound for our
/// ways.
const EMPTY: &str = "empty entry";
const EMPTY_PAIR: &str = "empty pair";
/// Way of a rule that sums the times of calls.
const AGGREGATED: &str = "time aggregated";
/// Way of a function that is named with `--probe`.
const IN_HISTOGRAM: &str = "time in a histogram";
/// Ways that are compared with `EMPTY_PAIR`.
const WITH_RETURN: [&str; 9] = [
    "empty pair again",
    "unwatched pair",
    "message",
    "count and time",
    "count and time, 6 arguments",
    "count, time and order",
    IN_HISTOGRAM,
    AGGREGATED,
    "event with time",
];

/// Ratios of two ways at the same function: text of the claim, way, reference way, target, bound for failure.
const TARGETS: [(&str, &str, &str, f64, f64); 5] = [
    ("P1, counted / empty entry", "count", EMPTY, 1.0, 1.6),
    (
        "P2, counted and timed / empty pair",
        "count and time",
        EMPTY_PAIR,
        1.25,
        2.0,
    ),
    (
        "P2, its time in a histogram / empty pair",
        IN_HISTOGRAM,
        EMPTY_PAIR,
        1.25,
        2.0,
    ),
    (
        "P2, its time aggregated / empty pair",
        AGGREGATED,
        EMPTY_PAIR,
        1.25,
        2.0,
    ),
    (
        "P6, a call of MPI / empty pair",
        "count, time and order",
        EMPTY_PAIR,
        1.25,
        2.0,
    ),
];

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let added = Added::measure(settings, &FUNCTIONS, &Telling::ALL)?;
    if let Some((tool, problem)) = added.problems.first_key_value() {
        return Err(format!("{}: {problem}", tool.name()));
    }
    let notes = Tool::ALL.into_iter().filter_map(|tool| added.note(tool));
    let mut sections = vec![Section::new(
        "What a probe adds to a call, in ns, and how many times an empty one's",
        ours(&added),
        notes,
    )];
    for tool in Tool::ALL.into_iter().filter(|tool| tool.is_here()) {
        sections.push(Section::of(
            &format!("Beside {}", tool.name()),
            added.beside(tool, &SAME),
        ));
    }
    Ok(Outcome {
        sections,
        claims: claims(&added),
        figures: Some(added.figures()),
    })
}

/// Ratio of the added time to that of another way, within each round.
fn ratio(added: &Added, function: &str, way: &str, floor: &str) -> Option<Spread> {
    let site = added.site(function)?;
    added.ratio((&site, way), (&site, floor))
}

fn ours(added: &Added) -> Table {
    let head = FUNCTIONS
        .into_iter()
        .flat_map(|function| [function, "times empty"]);
    let mut table = Table::new(std::iter::once("at a hit").chain(head));
    for way in &added.ways {
        let floor = match WITH_RETURN.contains(&way.as_str()) {
            true => EMPTY_PAIR,
            false => EMPTY,
        };
        let mut row = vec![Cell::from(way.as_str())];
        for function in FUNCTIONS {
            row.push(added.site(function).map(|site| added.cell(&site, way)).into());
            row.push(
                ratio(added, function, way, floor)
                    .map(|times| times.median)
                    .into(),
            );
        }
        table.row(row);
    }
    table
}

/// Claims of targets P1, P2 and P6. Tools that are not installed have no claim.
fn claims(added: &Added) -> Vec<Claim> {
    let mut claims = Vec::new();
    for function in FUNCTIONS {
        for (what, way, floor, target, bound) in TARGETS {
            let times = ratio(added, function, way, floor);
            let claim =
                |times: Spread| Claim::at_most(&format!("{function}: {what}"), times.median, target, bound);
            claims.extend(times.map(claim));
        }
    }
    let bpftrace = theirs(Tool::Bpftrace, Telling::Count);
    let times = ratio(added, ENDBR64, &bpftrace, "count");
    let claim = |times: Spread| {
        let what = format!("{ENDBR64}: P1, bpftrace / ours");
        Claim::at_least(&what, times.median, 5.0, 2.0)
    };
    claims.extend(times.map(claim));
    claims
}

#[cfg(test)]
mod tests {
    use super::super::added::tests::place;
    use super::*;

    #[test]
    fn missing_measurements_are_not_judged() {
        let site = place(ENDBR64, 4, "emulated");
        let mut added = Added::default();
        added.add(site.clone(), EMPTY, 100.0).unwrap();
        added.add(site.clone(), "count", 120.0).unwrap();
        assert_eq!(ratio(&added, ENDBR64, "count", EMPTY).unwrap().median, 1.2);
        assert!(ratio(&added, PUSH, "count", EMPTY).is_none());
        assert_eq!(claims(&added).len(), 1);
        added
            .add(site, &theirs(Tool::Bpftrace, Telling::Count), 1200.0)
            .unwrap();
        assert_eq!(claims(&added).len(), 2);
    }
}
