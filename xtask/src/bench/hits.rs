//! `cargo xtask bench hits`: what is done at a hit and what each costs the program, beside bpftrace and perf where they are here, and beside
//! a probe with an empty program behind it.
//!
//! The measuring of ours is done by `agent/benches/hits.rs` ([`mod@super::instrument`]). A round goes through all ways of ours and then through all of the other tools';
//! what is told is what a way adds to a call in the same round: the median over the rounds, with the least and the greatest. Ours is at
//! the function's site ([`super::sites`]), theirs at its first byte, as people use them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tuneagent_e2e::programs;

use super::instrument::Instrument;
use super::options::Options;
use super::summary;
use super::tools::{Program, Telling, Tool};
use super::verdict::Verdict;
use crate::Result;
use crate::experiment::stats::{Spread, figure};
use crate::experiment::table::Table;

/// Rounds, and calls in each of a function in a way. All hits of one way find room in the ring.
const LONG: (u32, u64) = (11, 50_000);
const QUICK: (u32, u64) = (3, 5_000);

/// As most functions begin: on this the kernel need not step. And as those of libraries begin that were built for Intel's CET: our site is
/// the push behind it.
const PUSH: &str = "begins_with_push";
const ENDBR64: &str = "begins_with_endbr64";
const FUNCTIONS: [&str; 2] = [PUSH, ENDBR64];

/// What other tools tell, and which way of ours tells the same.
const SAME: [(Telling, &str, &str); 7] = [
    (Telling::Count, "calls counted", "count"),
    (Telling::Arguments, "six arguments read", "count, 6 arguments"),
    (Telling::Event, "each call sent", "event"),
    (Telling::BothEnds, "entries and returns counted", "count and time"),
    (Telling::Time, "times added up", "count and time"),
    (Telling::Time, "times added up for a rule", ADDED_UP),
    (Telling::Histogram, "times in a histogram", IN_HISTOGRAM),
];

/// What an empty program behind the probe costs, entry alone and with the return: no way of ours can cost less.
const EMPTY: &str = "empty entry";
const EMPTY_PAIR: &str = "empty pair";
/// What is done at a call whose times are added up for a rule.
const ADDED_UP: &str = "time added up";
/// At a call of a function that is named with `--probe`.
const IN_HISTOGRAM: &str = "time in a histogram";
/// Ways that are held against the pair.
const WITH_RETURN: [&str; 9] = [
    "empty pair again",
    "unwatched pair",
    "message",
    "count and time",
    "count and time, 6 arguments",
    "count, time and order",
    IN_HISTOGRAM,
    ADDED_UP,
    "event with time",
];

/// What ways add to a call, in nanoseconds, a value for each round: by function, and by name.
type Added = BTreeMap<(String, String), Vec<f64>>;

pub(super) fn run(options: &Options) -> Result<super::Measured> {
    let (rounds, calls) = if options.quick { QUICK } else { LONG };
    let (names, added) = measured(&programs::c("sites")?, rounds, calls)?;
    println!(
        "What a probe adds to a call, in ns: median of {rounds} rounds (least to greatest), and how many times the empty one's\n"
    );
    println!("{}", ours(&names, &added));
    for tool in Tool::ALL {
        match tool.is_here() {
            true => println!("{}", beside(tool, &added)),
            false => println!(
                "{}: not here (cargo xtask setup --only bench brings it)\n",
                tool.name()
            ),
        }
    }
    let figure = |((function, way), ns): (&(String, String), &Vec<f64>)| json!({"function": function, "way": way, "added_ns": ns});
    Ok(super::Measured {
        figures: added.iter().map(figure).collect(),
        verdicts: verdicts(&added),
    })
}

/// All rounds; the names of our ways in their order.
fn measured(program: &Path, rounds: u32, calls: u64) -> Result<(Vec<String>, Added)> {
    let mut instrument = Instrument::start(program, calls, &FUNCTIONS)?;
    let others = Program::of(program, &FUNCTIONS)?;
    let (mut names, mut added) = (Vec::new(), Added::new());
    for _ in 0..rounds {
        instrument.round(|line, ns| {
            let key = (summary::text(line, "function")?, summary::text(line, "way")?);
            if !names.contains(&key.1) {
                names.push(key.1.clone());
            }
            added.entry(key).or_default().push(ns);
            Some(())
        })?;
        for function in FUNCTIONS {
            let bare = others.bare_ns(function, calls)?;
            for tool in Tool::ALL.into_iter().filter(|tool| tool.is_here()) {
                for telling in Telling::ALL {
                    if let Some(ns) = others.ns_under((tool, telling), function, calls)? {
                        let key = (function.to_owned(), theirs(tool, telling));
                        added.entry(key).or_default().push(ns - bare);
                    }
                }
            }
        }
    }
    Ok((names, added))
}

fn theirs(tool: Tool, telling: Telling) -> String {
    format!("{}: {telling:?}", tool.name())
}

fn of<'a>(added: &'a Added, function: &str, way: &str) -> &'a [f64] {
    let values = added.get(&(function.to_owned(), way.to_owned()));
    values.map_or(&[], Vec::as_slice)
}

/// How many times that of another way, in each round.
fn ratio(added: &Added, function: &str, (way, other): (&str, &str)) -> Option<Spread> {
    let pairs = of(added, function, way).iter().zip(of(added, function, other));
    let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
    Spread::of(&ratios)
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "not measured".to_owned(), |spread| spread.to_string())
}

/// The empty way that one is held against.
fn floor(way: &str) -> &'static str {
    match WITH_RETURN.contains(&way) {
        true => EMPTY_PAIR,
        false => EMPTY,
    }
}

fn ours(names: &[String], added: &Added) -> Table {
    let head = FUNCTIONS
        .into_iter()
        .flat_map(|function| [function, "times empty"]);
    let mut table = Table::new(std::iter::once("at a hit").chain(head));
    for way in names {
        let floor = floor(way);
        let cells = FUNCTIONS.into_iter().flat_map(|function| {
            let times = ratio(added, function, (way, floor));
            [
                cell(Spread::of(of(added, function, way))),
                times.map_or_else(String::new, |times| format!("{:.2}", times.median)),
            ]
        });
        table.row(std::iter::once(way.clone()).chain(cells));
    }
    table
}

fn beside(tool: Tool, added: &Added) -> Table {
    let name = tool.name();
    let mut table = Table::new(["function", "told", "ours", name, "times ours"]);
    for function in FUNCTIONS {
        for (telling, told, way) in SAME {
            let theirs = theirs(tool, telling);
            let values = of(added, function, &theirs);
            if values.is_empty() {
                continue;
            }
            let times = ratio(added, function, (&theirs, way));
            table.row([
                function.to_owned(),
                told.to_owned(),
                cell(Spread::of(of(added, function, way))),
                cell(Spread::of(values)),
                times.map_or_else(String::new, |times| figure(times.median)),
            ]);
        }
    }
    table
}

/// What was kept of a run, the medians: an empty probe, ours, and what other tools take for the same.
pub(super) fn in_short(figures: &[Value]) -> Option<Table> {
    let of_json = |figure: &Value| {
        let key = (summary::text(figure, "function")?, summary::text(figure, "way")?);
        Some((key, summary::numbers(figure, "added_ns")?))
    };
    let added: Added = figures.iter().map(of_json).collect::<Option<_>>()?;
    let tools = Tool::ALL.map(Tool::name);
    let mut table = Table::new(
        ["function", "at a hit", "empty probe", "ours"]
            .into_iter()
            .chain(tools),
    );
    for function in FUNCTIONS {
        for (telling, told, way) in SAME {
            let ways = [floor(way).to_owned(), way.to_owned()].into_iter();
            let ways = ways.chain(Tool::ALL.map(|tool| theirs(tool, telling)));
            let cells = ways.map(|way| summary::median(of(&added, function, &way)));
            table.row([function.to_owned(), told.to_owned()].into_iter().chain(cells));
        }
    }
    Some(table)
}

/// P1 and P2 of the targets; of a tool that is not here nothing is said.
fn verdicts(added: &Added) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut times = |what: String, function: &str, ways: (&str, &str), target: f64, bound: f64| {
        if let Some(spread) = ratio(added, function, ways) {
            verdicts.push(Verdict::at_most(what, spread.median, target, bound));
        }
    };
    for function in FUNCTIONS {
        let what = |what: &str| format!("{function}: {what}");
        times(
            what("P1, counted / empty entry"),
            function,
            ("count", EMPTY),
            1.0,
            1.6,
        );
        times(
            what("P2, counted and timed / empty pair"),
            function,
            ("count and time", EMPTY_PAIR),
            1.25,
            2.0,
        );
        times(
            what("P2, its time in a histogram / empty pair"),
            function,
            (IN_HISTOGRAM, EMPTY_PAIR),
            1.25,
            2.0,
        );
        times(
            what("P2, its time added up / empty pair"),
            function,
            (ADDED_UP, EMPTY_PAIR),
            1.25,
            2.0,
        );
        times(
            what("P6, a call of MPI / empty pair"),
            function,
            ("count, time and order", EMPTY_PAIR),
            1.25,
            2.0,
        );
    }
    let bpftrace = theirs(Tool::Bpftrace, Telling::Count);
    if let Some(spread) = ratio(added, ENDBR64, (&bpftrace, "count")) {
        let what = format!("{ENDBR64}: P1, bpftrace / ours");
        verdicts.push(Verdict::at_least(what, spread.median, 5.0, 2.0));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_one_round_and_what_is_not_here_is_not_judged() {
        let mut added = Added::new();
        let mut add = |way: &str, values: &[f64]| {
            added.insert((ENDBR64.to_owned(), way.to_owned()), values.to_vec());
        };
        add(EMPTY, &[100.0, 200.0, 100.0]);
        add("count", &[120.0, 240.0, 150.0]);
        assert_eq!(ratio(&added, ENDBR64, ("count", EMPTY)).unwrap().median, 1.2);
        assert!(ratio(&added, PUSH, ("count", EMPTY)).is_none());
        assert_eq!(verdicts(&added).len(), 1);
        added.insert(
            (ENDBR64.to_owned(), theirs(Tool::Bpftrace, Telling::Count)),
            vec![1200.0, 1200.0, 1500.0],
        );
        assert_eq!(verdicts(&added).len(), 2);
        let table = beside(Tool::Bpftrace, &added).to_string();
        assert!(
            table.contains("calls counted") && table.contains("| 10.0 "),
            "{table}"
        );
        assert!(!table.contains("histogram"));
    }
}
