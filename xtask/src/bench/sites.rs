//! What a hit costs a program, by what the kernel does with the instruction under the probe; beside perf and bpftrace where they are
//! here. The measuring is done by `agent/benches/sites.rs`; here its figures become a table.
//!
//! Every round goes through all functions, sites and ways, and what is told is what a probe adds to a call in the same round: the
//! median over the rounds, with the least and the greatest.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tuneagent_e2e::programs;

use super::options::Options;
use super::summary;
use super::tools::{Program, Telling, Tool};
use crate::Result;
use crate::experiment::stats::Spread;
use crate::experiment::table::Table;
use crate::process::capture;

/// Rounds, and calls in each of a function at a site in a way; the quick form only says whether all works.
const LONG: (u32, u64) = (11, 50_000);
const QUICK: (u32, u64) = (3, 5_000);
/// What is asked of other tools: an entry alone, and one with a return.
const ENTRY: &str = "entry";
const PAIR: &str = "entry and return";
/// What is done at a call of MPI: the same, with what it carries.
const MESSAGE: &str = "message";
/// Those whose times are added up for a rule.
const ADDED_UP: &str = "added up";
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
    let added = added(&lines(&program, rounds, calls)?)?;
    println!("What a probe adds to a call, in ns: median of {rounds} rounds (least to greatest)\n");
    println!("{}", table(&added));
    println!("{}", ratios(&added));
    for tool in Tool::ALL {
        println!("{}", beside(tool, &program, &added, rounds, calls));
    }
    Ok(super::Measured::of(as_json(&added)))
}

/// What the instrument printed.
fn lines(program: &Path, rounds: u32, calls: u64) -> Result<Vec<Value>> {
    let mut instrument = super::instrument("sites");
    instrument.arg(program);
    let text = capture(instrument.args([rounds.to_string(), calls.to_string()]))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")))
        .collect()
}

fn place(line: &Value) -> Option<Place> {
    Some(Place {
        function: summary::text(line, "function")?,
        bytes: line["bytes"].as_u64()?,
        instruction: summary::text(line, "instruction")?,
        cost: summary::text(line, "cost")?,
    })
}

fn added(lines: &[Value]) -> Result<Added> {
    let mut added = Added::new();
    let mut bare = None;
    for line in lines {
        let (place, way, ns) = (place(line), line["way"].as_str(), line["ns"].as_f64());
        let (Some(place), Some(way), Some(ns)) = (place, way, ns) else {
            return Err(format!("not understood: {line}"));
        };
        // Each place begins with a call that is not probed.
        if way == "bare" {
            bare = Some(ns);
        } else if let Some(bare) = bare {
            added.entry((place, way.to_owned())).or_default().push(ns - bare);
        }
    }
    Ok(added)
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
        (ENTRY, ENTRY),
        (UNWATCHED, "of nobody's"),
        (PAIR, PAIR),
        (ADDED_UP, ADDED_UP),
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
        ENTRY,
        "of nobody's",
        PAIR,
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

    fn line(bytes: u64, way: &str, ns: f64) -> Value {
        let cost = if bytes == 0 { "single-stepped" } else { "emulated" };
        json!({"round": 0, "function": "f", "bytes": bytes, "instruction": "push", "cost": cost, "way": way, "ns": ns})
    }

    #[test]
    fn what_a_probe_adds_is_counted_from_the_bare_call_of_its_round() {
        let lines = [
            line(0, "bare", 2.0),
            line(0, "unwatched", 802.0),
            line(0, "entry", 902.0),
            line(4, "bare", 3.0),
            line(4, "unwatched", 43.0),
            line(4, "entry", 48.0),
        ];
        let added = added(&lines).unwrap();
        let places = places(&added);
        let entries: Vec<Option<f64>> = places.iter().map(|place| median(&added, place, ENTRY)).collect();
        assert_eq!(entries, [Some(900.0), Some(45.0)]);
        let said = ratios(&added);
        assert!(
            said.contains("f, entry: the site costs 1/20.0 of the first byte"),
            "{said}"
        );
        assert!(said.contains("1.12 times a probe of nobody's"), "{said}");
        assert!(table(&added).to_string().contains("not measured"));
        assert!(super::added(&[json!({"way": "entry"})]).is_err());
    }
}
