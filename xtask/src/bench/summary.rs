//! `cargo xtask bench table`: the figures that were kept of the last runs of `hits`, `sites` and `overhead`, in short, as README.md has them.
//! Measures nothing; a benchmark that was not run has no table.

use std::path::Path;

use serde_json::Value;

use super::{hits, overhead, sites};
use crate::Result;
use crate::experiment::stats::{Spread, figure};
use crate::experiment::table::Table;

/// What a benchmark is called, what its table tells, and how it is made of the figures that were kept.
type Told = (&'static str, &'static str, fn(&[Value]) -> Option<Table>);

const TOLD: [Told; 3] = [
    (
        "sites",
        "What a probe adds to a call, by its site, in ns",
        sites::in_short,
    ),
    (
        "hits",
        "What a probe adds to a call, by what is done there, in ns",
        hits::in_short,
    ),
    (
        "overhead",
        "The time of a step, beside its time alone",
        overhead::in_short,
    ),
];

pub(super) fn main(words: &[&str]) -> Result<()> {
    crate::only_flags("bench table", words, &[])?;
    let folder = super::folder();
    let mut is_any = false;
    for (name, about, table) in TOLD {
        match kept(&folder, name)? {
            None => println!("{name}: no figures; `cargo xtask bench {name}` measures them\n"),
            Some(figures) => {
                let table = table(&figures)
                    .ok_or_else(|| format!("{name}.json was written by another version: measure again"))?;
                println!("{about} (median)\n\n{table}");
                is_any = true;
            }
        }
    }
    match is_any {
        true => Ok(()),
        false => Err(format!(
            "nothing was measured yet: {} has no figures",
            folder.display()
        )),
    }
}

/// The figures of a benchmark's last run; none where it was not run.
fn kept(folder: &Path, name: &str) -> Result<Option<Vec<Value>>> {
    let file = folder.join(format!("{name}.json"));
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let figures = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Some(figures))
}

/// Numbers that were kept under a name.
pub(super) fn numbers(figure: &Value, name: &str) -> Option<Vec<f64>> {
    serde_json::from_value(figure[name].clone()).ok()
}

/// A text that was kept.
pub(super) fn text(figure: &Value, name: &str) -> Option<String> {
    figure[name].as_str().map(str::to_owned)
}

/// The median of what was measured, as it is told.
pub(super) fn median(values: &[f64]) -> String {
    Spread::of(values).map_or_else(|| "not measured".to_owned(), |spread| figure(spread.median))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_kept_is_told_and_what_was_not_measured_is_said() {
        let of =
            |function: &str, way: &str, ns: &[f64]| json!({"function": function, "way": way, "added_ns": ns});
        let push = "begins_with_push";
        let figures = [
            of(push, "empty entry", &[400.0, 420.0, 410.0]),
            of(push, "count", &[500.0, 520.0, 510.0]),
            of(push, "bpftrace: Count", &[2040.0]),
        ];
        let table = hits::in_short(&figures).unwrap().to_string();
        let row = table.lines().find(|line| line.contains("calls counted")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(
            cells[2..7],
            ["calls counted", "410", "510", "2040", "not measured"]
        );
        assert!(hits::in_short(&[json!({"way": "count"})]).is_none());
    }

    #[test]
    fn sites_are_told_by_what_the_kernel_does_there() {
        let of = |way: &str, ns: f64| json!({"function": "f", "bytes": 4, "instruction": "push", "cost": "emulated", "way": way, "added_ns": [ns]});
        let figures = [
            of("count", 600.0),
            of("count and time", 966.0),
            of("unwatched pair", 809.0),
        ];
        let table = sites::in_short(&figures).unwrap().to_string();
        let row = table.lines().last().unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(
            cells[1..7],
            ["emulated", "f +4 push", "600", "not measured", "966", "809"]
        );
    }

    #[test]
    fn slowdowns_are_told_beside_those_of_a_preloaded_profiler() {
        let figures = [json!({
            "program": "p",
            "time_attached_over_alone": [1.01, 1.02, 1.03],
            "time_preloaded_over_alone": [1.001],
            "told_cost_share": 0.015,
        })];
        let table = overhead::in_short(&figures).unwrap().to_string();
        let row = table.lines().last().unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..5], ["p", "1.0200", "1.0010", "1.50 %"]);
    }

    #[test]
    fn a_benchmark_that_was_not_run_has_no_figures() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept(folder.path(), "hits"), Ok(None));
        std::fs::write(folder.path().join("hits.json"), "[{}]").unwrap();
        assert_eq!(kept(folder.path(), "hits"), Ok(Some(vec![json!({})])));
        std::fs::write(folder.path().join("hits.json"), "half").unwrap();
        assert!(kept(folder.path(), "hits").is_err());
    }
}
