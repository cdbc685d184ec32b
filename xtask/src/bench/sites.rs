//! `cargo xtask bench sites`: measures the cost of a hit by how the kernel executes the probed instruction,
//! compared with perf and bpftrace if installed.

use super::added::Added;
use super::tools::{Telling, Tool};
use crate::Result;
use crate::measure::stats::Spread;
use crate::measure::table::{Cell, Table};
use crate::measure::{Outcome, Section, Settings};

const ENTRY: &str = "count";
const PAIR: &str = "count and time";
const AGGREGATED: &str = "time aggregated";
/// A probe whose BPF program does nothing because the process is not watched.
const UNWATCHED: &str = "unwatched";
const UNWATCHED_PAIR: &str = "unwatched pair";

/// Columns of the table. `message` is the work at an MPI call: counted and timed, with bytes, partner and
/// order.
const WAYS: [&str; 6] = [ENTRY, UNWATCHED, PAIR, AGGREGATED, UNWATCHED_PAIR, "message"];
/// The reference way of each way.
const FLOORS: [(&str, &str); 3] = [
    (ENTRY, UNWATCHED),
    (PAIR, UNWATCHED_PAIR),
    (AGGREGATED, UNWATCHED_PAIR),
];

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let added = Added::measure(settings, &[], &[Telling::Count])?;
    let mut sections = vec![Section::new(
        "What a probe adds to a call, in ns",
        table(&added),
        ratios(&added),
    )];
    for tool in Tool::ALL {
        let beside = added.beside(tool, &[(Telling::Count, "calls counted", ENTRY)]);
        sections.push(Section::new(
            &format!("Beside {}", tool.name()),
            beside,
            added.note(tool),
        ));
    }
    Ok(Outcome {
        sections,
        figures: Some(added.figures()),
        ..Outcome::default()
    })
}

fn table(added: &Added) -> Table {
    let head = ["function", "probed at", "the kernel's way"].into_iter();
    let mut table = Table::new(head.chain(WAYS));
    for place in added.places() {
        let at = format!("+{} {}", place.bytes, place.instruction);
        let mut row = vec![Cell::from(&*place.function), at.into(), Cell::from(&*place.cost)];
        row.extend(WAYS.map(|way| added.cell(&place, way)));
        table.row(row);
    }
    table
}

/// Ratios that show the gain from choosing the site, and the cost of our BPF program over one that does
/// nothing.
fn ratios(added: &Added) -> Vec<String> {
    let mut lines = Vec::new();
    let places = added.places();
    for site in places.iter().filter(|place| place.bytes > 0) {
        let is_begin = |place: &&super::added::Place| place.function == site.function && place.bytes == 0;
        for way in [ENTRY, PAIR] {
            let begin = places.iter().find(is_begin);
            let times = begin.and_then(|begin| added.ratio((begin, way), (site, way)));
            let function = &site.function;
            let line = |times| format!("- {function}, {way}: the first byte costs {times} times the site");
            lines.extend(times.map(line));
        }
    }
    for (way, floor) in FLOORS {
        let ratio = |place| Some(added.ratio((place, way), (place, floor))?.median);
        let cheap = places.iter().filter(|place| place.cost != "single-stepped");
        let ratios: Vec<f64> = cheap.filter_map(ratio).collect();
        let line = |times| format!("- {way}, where it is not single-stepped: {times} times {floor}");
        lines.extend(Spread::of(&ratios).map(line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::added::tests::place;
    use super::*;

    #[test]
    fn a_site_is_held_against_the_first_byte_and_against_an_unwatched_probe() {
        let (first, site) = (place("f", 0, "single-stepped"), place("f", 4, "emulated"));
        let mut added = Added::default();
        for (place, way, ns) in [
            (&first, UNWATCHED, 800.0),
            (&first, ENTRY, 900.0),
            (&site, UNWATCHED, 40.0),
            (&site, ENTRY, 45.0),
        ] {
            added.add(place.clone(), way, ns).unwrap();
        }
        assert_eq!(
            ratios(&added),
            [
                "- f, count: the first byte costs 20.0 times the site",
                "- count, where it is not single-stepped: 1.12 times unwatched",
            ]
        );
        assert!(table(&added).to_string().contains("not measured"));
    }
}
