//! The report as one table in long format: each row has a number, and columns that identify it. Numbers are
//! those of the JSON report; the tables below say which. docs/exports.md describes the result.

use std::fmt::Write;

use profile::Snapshot;
use profile::format::csv_field;
use serde_json::Value;

const HEADER: &str = "table,host,rank,pid,function,caller,file,line,quantity,unit,value";

/// A number of the table: its name, and its place in the part of the report (RFC 6901). Only the place if it ends
/// with the name.
type Quantity = &'static str;

const OF_JOB: [Quantity; 16] = [
    "elapsed = /elapsed_s",
    "/job/size",
    "iterations = /iteration/count",
    "iteration_mean = /iteration/mean_s",
    "/efficiencies/parallel_efficiency",
    "/efficiencies/load_balance",
    "/efficiencies/load_balance_within_nodes",
    "/efficiencies/load_balance_between_nodes",
    "/efficiencies/communication_efficiency",
    "/efficiencies/serialisation_efficiency",
    "/efficiencies/transfer_efficiency",
    "/completeness/calls_under_way_when_armed",
    "/completeness/events_received",
    "/completeness/hits_aggregated",
    "/completeness/hits_not_aggregated",
    "/call_sites/unseen_calls",
];

const OF_PROCESS: [Quantity; 12] = [
    "watched = /watched_s",
    "mpi_time = /mpi_time_s",
    "mpi_runqueue_time = /mpi_runqueue_time_s",
    "/useful_share",
    "cpu_time = /cpu_time_s",
    "runqueue_time = /runqueue_time_s",
    "/switches_involuntary",
    "/switches_voluntary",
    "faults_minor = /page_faults_minor",
    "faults_major = /page_faults_major",
    "memory_resident = /resident_bytes",
    "memory_resident_peak = /resident_bytes_peak",
];

/// Of processes with parallel regions only.
const OF_REGIONS: [Quantity; 10] = [
    "/regions",
    "region_time = /time_inside_s",
    "regions_probed = /probed_s",
    "team_regions = /teams/regions",
    "team_threads_least = /teams/threads_least",
    "team_threads_most = /teams/threads_most",
    "team_working_time = /teams/working_time_s",
    "team_starting_time = /teams/starting_time_s",
    "team_waiting_time = /teams/waiting_time_s",
    "team_ending_time = /teams/ending_time_s",
];

/// Without the bytes, whose name depends on what they are.
const OF_FUNCTION: [Quantity; 6] = [
    "/calls",
    "/nested_calls",
    "/untimed_calls",
    "/unreturned_calls",
    "time = /time_s",
    "/bytes_unknown_calls",
];

const OF_CALL_SITE: [Quantity; 3] = ["/ranks", "/calls", "time = /time_s"];

/// The name of a number, its unit, which follows from its field in the report, and its place there.
fn parts(quantity: Quantity) -> (&'static str, &'static str, &'static str) {
    let field = |place: Quantity| place.rsplit('/').next().unwrap_or(place);
    let (name, place) = (quantity.split_once(" = ")).unwrap_or_else(|| (field(quantity), quantity));
    let unit = match field(place) {
        of if of.ends_with("_s") => "s",
        of if of.starts_with("resident_bytes") => "B",
        _ => "1",
    };
    (name, unit, place)
}

/// Rows of one part of the report.
struct ReportPart<'a> {
    table: &'static str,
    /// The columns that identify the part, from `host` to `line`.
    subject: [String; 7],
    values: &'a Value,
}

struct Table(String);

/// All rows, with the header. A number that was not measured is an empty field.
pub fn table(snapshot: &Snapshot) -> String {
    let report = super::report(snapshot);
    let mut table = Table(format!("{HEADER}\n"));
    job(&mut table, &report);
    for process in array(&report["processes"]) {
        let of = |table: &'static str, values, function: &Value| ReportPart {
            table,
            subject: [
                text(&process["host"]),
                text(&process["rank"]),
                text(&process["pid"]),
                text(function),
                String::new(),
                String::new(),
                String::new(),
            ],
            values,
        };
        table.rows(&of("process", process, &Value::Null), &OF_PROCESS);
        if process["openmp"].is_object() {
            table.rows(&of("process", &process["openmp"], &Value::Null), &OF_REGIONS);
        }
        for function in array(&process["functions"]) {
            self::function(&mut table, &of("function", function, &function["name"]));
        }
    }
    for site in array(&report["call_sites"]["sites"]) {
        let caller = Some(&site["caller"]).filter(|caller| !caller.is_null());
        let subject = [
            &report["host"],
            &Value::Null,
            &Value::Null,
            &site["function"],
            caller.unwrap_or(&site["module"]),
            &site["file"],
            &site["line"],
        ];
        let part = ReportPart {
            table: "call_site",
            subject: subject.map(text),
            values: site,
        };
        table.rows(&part, &OF_CALL_SITE);
    }
    table.0
}

/// The text of a cell; empty for what is not known.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Table {
    fn row(&mut self, of: &ReportPart<'_>, quantity: &str, unit: &str, value: Option<f64>) {
        let subject: Vec<String> = of.subject.iter().map(|field| csv_field(field)).collect();
        // The shortest representation that parses to the same number.
        let value = value.map(|value| value.to_string()).unwrap_or_default();
        // Writing into memory does not fail.
        let _ = writeln!(
            self.0,
            "{},{},{quantity},{unit},{value}",
            of.table,
            subject.join(",")
        );
    }

    fn rows(&mut self, of: &ReportPart<'_>, quantities: &[Quantity]) {
        for (name, unit, place) in quantities.iter().copied().map(parts) {
            let value = of.values.pointer(place).and_then(Value::as_f64);
            self.row(of, name, unit, value);
        }
    }
}

fn job(table: &mut Table, report: &Value) {
    let mut subject = [const { String::new() }; 7];
    subject[0] = text(&report["host"]);
    let of = ReportPart {
        table: "job",
        subject,
        values: report,
    };
    table.rows(&of, &OF_JOB);
    for (kind, lost) in report["completeness"]["lost"].as_object().into_iter().flatten() {
        table.row(&of, &format!("lost_{kind}"), "1", lost.as_f64());
    }
}

fn function(table: &mut Table, of: &ReportPart<'_>) {
    table.rows(of, &OF_FUNCTION);
    let bytes = match of.values["bytes_kind"].as_str() {
        Some(kind) => format!("bytes_{kind}"),
        None => "bytes".to_owned(),
    };
    table.row(of, &bytes, "B", of.values["bytes"].as_f64());
    for size in array(&of.values["sizes"]) {
        let quantity = match size["up_to_bytes"].as_u64() {
            Some(most) => format!("messages_up_to_{most}B"),
            None => "messages_greater".to_owned(),
        };
        table.row(of, &quantity, "1", size["messages"].as_f64());
    }
    let durations = &of.values["durations"];
    for (from_ns, calls) in array(&durations["from_ns"]).zip(array(&durations["count"])) {
        table.row(of, &format!("calls_from_{from_ns}ns"), "1", calls.as_f64());
    }
}

#[cfg(test)]
mod tests {
    use profile::{CallSiteView, FunctionTotals, Histogram, JobView, ProcessView, RegionsView, SourcePlace};

    use super::*;

    #[test]
    fn each_number_has_a_row_and_what_was_not_measured_an_empty_field() {
        let mut calls = vec![0; abi::Durations::bucket(1_000)];
        calls.push(1);
        let mut snapshot = Snapshot {
            job: JobView {
                host: "node1".into(),
                size: Some(2),
                mpi: Some(("MPICH".into(), None)),
                ..JobView::default()
            },
            elapsed: std::time::Duration::from_millis(1_500),
            processes: vec![ProcessView {
                pid: 77,
                rank: Some(1),
                mpi_ns: Some(250_000_000),
                functions: vec![FunctionTotals {
                    name: "f<A, B>(\"x\")".into(),
                    calls: 3,
                    time_ns: Some(1_000),
                    durations: Some(Histogram::of(calls)),
                    sizes: vec![4, 0, 0, 0, 5],
                    ..FunctionTotals::default()
                }],
                regions: Some(RegionsView {
                    regions: 40,
                    watched_ns: 1_000_000_000,
                    until_ns: None,
                    ..RegionsView::default()
                }),
                ..ProcessView::default()
            }],
            ..Snapshot::default()
        };
        snapshot.sequence.call_sites.push(CallSiteView {
            function: "MPI_Send".into(),
            place: SourcePlace {
                function: Some("exchange".into()),
                file: Some("halo.c".into()),
                line: Some(12),
                ..SourcePlace::default()
            },
            calls: 9,
            time_ns: 5,
            ranks: 2,
        });
        insta::assert_snapshot!(table(&snapshot));
    }

    /// Quantities with the part of a report in which they are.
    fn all() -> impl Iterator<Item = (&'static str, Quantity)> {
        let of = |part, quantities: &'static [Quantity]| quantities.iter().map(move |one| (part, *one));
        of("", &OF_JOB)
            .chain(of("/processes/0", &OF_PROCESS))
            .chain(of("/processes/0/openmp", &OF_REGIONS))
            .chain(of("/processes/0/functions/0", &OF_FUNCTION))
            .chain(of("/call_sites/sites/0", &OF_CALL_SITE))
    }

    #[test]
    fn each_quantity_is_a_number_of_the_report() {
        let report = super::super::report(&super::super::tests::everything());
        for (part, quantity) in all() {
            let value = report.pointer(&format!("{part}{}", parts(quantity).2));
            assert!(
                value.is_some_and(Value::is_number),
                "{part} {quantity}: {value:?}"
            );
        }
    }

    #[test]
    fn each_quantity_is_on_the_page() {
        let page = include_str!("../../../../docs/exports.md");
        let unstated: Vec<&str> = all()
            .map(|(_, quantity)| parts(quantity).0)
            .filter(|quantity| !page.contains(&format!("`{quantity}`")))
            .collect();
        assert!(
            unstated.is_empty(),
            "docs/exports.md says nothing of {unstated:?}"
        );
    }
}
