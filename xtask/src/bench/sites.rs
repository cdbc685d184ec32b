//! What a hit costs a program, by what the kernel does with the instruction under the probe; beside perf and bpftrace where they are
//! here. The measuring is done by `agent/benches/hits.rs`; here its figures become a table.
//!
//! Every round goes through all functions, sites and ways, and what is told is what a probe adds to a call in the same round: the
//! median over the rounds, with the least and the greatest.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tuneagent_e2e::programs;

use super::instrument::Instrument;
use super::options::Options;
use super::summary;
use super::tools::{Program, Telling, Tool};
use crate::Result;
use crate::experiment::stats::Spread;
use crate::experiment::table::Table;

/// Rounds, and calls in each of a function at a site in a way; the quick form only says whether all works.
const LONG: (u32, u64) = (11, 50_000);
const QUICK: (u32, u64) = (3, 5_000);
/// What is asked of other tools: an entry alone, and one with a return.
const ENTRY: &str = "count";
const PAIR: &str = "count and time";
/// What is done at a call of MPI: the same, with what it carries.
const MESSAGE: &str = "message";
/// Those whose times are added up for a rule.
const ADDED_UP: &str = "time added up";
/// With nothing behind the probe.
const UNWATCHED: &str = "unwatched";
const UNWATCHED_PAIR: &str = "unwatched pair";
/// What each way is held against.
const FLOORS: [(&str, &str); 3] = [
    (ENTRY, UNWATCHED),
    (PAIR, UNWATCHED_PAIR),
    (ADDED_UP, UNWATCHED_PAIR),
];

/// A function at one of its instructions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    function: String,
    bytes: u64,
    instruction: String,
    cost: String,
}

/// What the ways of probing add to a call, in nanoseconds, a value for each round.
type Added = BTreeMap<(Place, String), Vec<f64>>;

pub(super) fn run(options: &Options) -> Result<super::Measured> {
    let (rounds, calls) = if options.quick { QUICK } else { LONG };
    let program = programs::c("sites")?;
    let mut instrument = Instrument::start(&program, calls, &[])?;
    let mut added = Added::new();
    for _ in 0..rounds {
        instrument.round(|line, ns| {
            let key = (place(line)?, summary::text(line, "way")?);
            added.entry(key).or_default().push(ns);
            Some(())
        })?;
    }
    println!("What a probe adds to a call, in ns: median of {rounds} rounds (least to greatest)\n");
    println!("{}", table(&added));
    println!("{}", ratios(&added));
    for tool in Tool::ALL {
        println!("{}", beside(tool, &program, &added, rounds, calls));
    }
    Ok(super::Measured::of(as_json(&added)))
}

fn place(line: &Value) -> Option<Place> {
    Some(Place {
        function: summary::text(line, "function")?,
        bytes: line["bytes"].as_u64()?,
        instruction: summary::text(line, "instruction")?,
        cost: summary::text(line, "cost")?,
    })
}

fn median(added: &Added, place: &Place, way: &str) -> Option<f64> {
    let values = added.get(&(place.clone(), way.to_owned()))?;
    Spread::of(values).map(|spread| spread.median)
}

fn places(added: &Added) -> Vec<Place> {
    let mut places: Vec<Place> = added.keys().map(|(place, _)| place.clone()).collect();
    places.dedup();
    places
}

fn table(added: &Added) -> Table {
    let ways = [
        (ENTRY, "entry"),
        (UNWATCHED, "of nobody's"),
        (PAIR, "entry and return"),
        (ADDED_UP, "added up"),
        (UNWATCHED_PAIR, "of nobody's"),
        (MESSAGE, MESSAGE),
    ];
    let head = ["function", "probed at", "the kernel's way"].into_iter();
    let mut table = Table::new(head.chain(ways.map(|(_, shown)| shown)));
    for place in places(added) {
        let cell = |way: &str| {
            let values = added.get(&(place.clone(), way.to_owned()));
            let spread = values.and_then(|values| Spread::of(values));
            spread.map_or_else(|| "not measured".to_owned(), |spread| spread.to_string())
        };
        let at = format!("+{} {}", place.bytes, place.instruction);
        let mut row = vec![place.function.clone(), at, place.cost.clone()];
        row.extend(ways.map(|(way, _)| cell(way)));
        table.row(row);
    }
    table
}

/// What the choice of the site gains, and what our program costs beside one that does nothing.
fn ratios(added: &Added) -> String {
    let mut lines = Vec::new();
    let places = places(added);
    for site in places.iter().filter(|place| place.bytes > 0) {
        let is_begin = |place: &&Place| place.function == site.function && place.bytes == 0;
        let Some(begin) = places.iter().find(is_begin) else {
            continue;
        };
        for way in [ENTRY, PAIR] {
            if let (Some(there), Some(here)) = (median(added, begin, way), median(added, site, way)) {
                let function = &site.function;
                lines.push(format!(
                    "{function}, {way}: the site costs 1/{:.1} of the first byte",
                    there / here
                ));
            }
        }
    }
    for (way, floor) in FLOORS {
        let ratio = |place: &Place| Some(median(added, place, way)? / median(added, place, floor)?);
        let cheap = places.iter().filter(|place| place.cost != "single-stepped");
        let ratios: Vec<f64> = cheap.filter_map(ratio).collect();
        if let Some(spread) = Spread::of(&ratios) {
            lines.push(format!(
                "{way}, where it is not single-stepped: {spread} times a probe of nobody's"
            ));
        }
    }
    lines.iter().map(|line| format!("- {line}\n")).collect()
}

/// What a tool adds to a call of each function, beside ours at the site.
fn beside(tool: Tool, program: &Path, added: &Added, rounds: u32, calls: u64) -> String {
    let name = tool.name();
    if !tool.is_here() {
        return format!("{name}: not here");
    }
    let places = places(added);
    let mut functions: Vec<&str> = places.iter().map(|place| place.function.as_str()).collect();
    functions.dedup();
    match counted(tool, program, &functions, rounds, calls) {
        Err(error) => format!("{name}: not measured: {error}"),
        Ok(theirs) => {
            let mut table = Table::new(["function", name, "ours at the site", "times"]);
            for (function, theirs) in functions.iter().zip(theirs) {
                let is_last = |place: &&Place| place.function == *function;
                let ours = places.iter().rfind(is_last);
                let ours = ours.and_then(|place| median(added, place, ENTRY));
                let times = ours.map_or(f64::NAN, |ours| theirs.median / ours);
                table.row([
                    (*function).to_owned(),
                    theirs.to_string(),
                    format!("{:.0}", ours.unwrap_or(f64::NAN)),
                    format!("{times:.1}"),
                ]);
            }
            format!("A count at the entry by {name}, in ns added to a call:\n\n{table}")
        }
    }
}

fn counted(tool: Tool, program: &Path, functions: &[&str], rounds: u32, calls: u64) -> Result<Vec<Spread>> {
    let program = Program::of(program, functions)?;
    let mut added = vec![Vec::new(); functions.len()];
    for _ in 0..rounds {
        for (function, added) in functions.iter().zip(&mut added) {
            let bare = program.bare_ns(function, calls)?;
            let under = program.ns_under((tool, Telling::Count), function, calls)?;
            added.extend(under.map(|under| under - bare));
        }
    }
    let spread = |values: &Vec<f64>| Spread::of(values).ok_or_else(|| "no rounds".to_owned());
    added.iter().map(spread).collect()
}

fn as_json(added: &Added) -> Vec<Value> {
    let figures = added.iter().map(|((place, way), values)| {
        json!({
            "function": place.function,
            "bytes": place.bytes,
            "instruction": place.instruction,
            "cost": place.cost,
            "way": way,
            "added_ns": values,
        })
    });
    figures.collect()
}

/// What was kept of a run, the medians, by place.
pub(super) fn in_short(figures: &[Value]) -> Option<Table> {
    let of_json = |figure: &Value| {
        let place = place(figure)?;
        let key = (place, summary::text(figure, "way")?);
        Some((key, summary::numbers(figure, "added_ns")?))
    };
    let added: Added = figures.iter().map(of_json).collect::<Option<_>>()?;
    let head = [
        "the kernel's way",
        "probed at",
        "entry",
        "of nobody's",
        "entry and return",
        "of nobody's",
    ];
    let mut table = Table::new(head);
    for place in places(&added) {
        let at = format!("{} +{} {}", place.function, place.bytes, place.instruction);
        let mut row = vec![place.cost.clone(), at];
        for way in FLOORS.iter().flat_map(|(way, floor)| [way, floor]) {
            let values = added.get(&(place.clone(), (*way).to_owned()));
            row.push(summary::median(values.map_or(&[][..], Vec::as_slice)));
        }
        table.row(row);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_held_against_the_first_byte_and_against_a_probe_of_nobodys() {
        let at = |bytes: u64, cost: &str, way: &str, ns: f64| {
            let place = json!({"function": "f", "bytes": bytes, "instruction": "push", "cost": cost});
            ((place_of(&place), way.to_owned()), vec![ns])
        };
        let added: Added = [
            at(0, "single-stepped", UNWATCHED, 800.0),
            at(0, "single-stepped", ENTRY, 900.0),
            at(4, "emulated", UNWATCHED, 40.0),
            at(4, "emulated", ENTRY, 45.0),
        ]
        .into();
        let said = ratios(&added);
        assert!(
            said.contains("f, count: the site costs 1/20.0 of the first byte"),
            "{said}"
        );
        assert!(said.contains("1.12 times a probe of nobody's"), "{said}");
        assert!(table(&added).to_string().contains("not measured"));
    }

    fn place_of(value: &Value) -> Place {
        place(value).unwrap()
    }
}
