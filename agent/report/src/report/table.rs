//! The report as one table in long format: each row has a number, and columns that identify it. Numbers are
//! those of the JSON report; the tables below say which. docs/exports.md describes the result.

use std::fmt::Write;

use profile::Snapshot;
use profile::format::csv_field;
use serde_json::Value;

const HEADER: &str = "table,host,rank,pid,function,caller,file,line,quantity,unit,value";

/// The name of a number in the table, its unit, and its place in the part of the report (RFC 6901).
type Quantity = (&'static str, &'static str, &'static str);

const OF_JOB: [Quantity; 16] = [
    ("elapsed", "s", "/elapsed_s"),
    ("size", "1", "/job/size"),
    ("iterations", "1", "/iteration/count"),
    ("iteration_mean", "s", "/iteration/mean_s"),
    ("parallel_efficiency", "1", "/efficiencies/parallel_efficiency"),
    ("load_balance", "1", "/efficiencies/load_balance"),
    (
        "load_balance_within_nodes",
        "1",
        "/efficiencies/load_balance_within_nodes",
    ),
    (
        "load_balance_between_nodes",
        "1",
        "/efficiencies/load_balance_between_nodes",
    ),
    (
        "communication_efficiency",
        "1",
        "/efficiencies/communication_efficiency",
    ),
    (
        "serialisation_efficiency",
        "1",
        "/efficiencies/serialisation_efficiency",
    ),
    ("transfer_efficiency", "1", "/efficiencies/transfer_efficiency"),
    (
        "calls_under_way_when_armed",
        "1",
        "/completeness/calls_under_way_when_armed",
    ),
    ("events_received", "1", "/completeness/events_received"),
    ("hits_added_up", "1", "/completeness/hits_added_up"),
    ("hits_not_added_up", "1", "/completeness/hits_not_added_up"),
    ("unseen_calls", "1", "/call_sites/unseen_calls"),
];

const OF_PROCESS: [Quantity; 12] = [
    ("watched", "s", "/watched_s"),
    ("mpi_time", "s", "/mpi_time_s"),
    ("mpi_runqueue_time", "s", "/mpi_runqueue_time_s"),
    ("useful_share", "1", "/useful_share"),
    ("cpu_time", "s", "/cpu_time_s"),
    ("runqueue_time", "s", "/runqueue_time_s"),
    ("switches_involuntary", "1", "/switches_involuntary"),
    ("switches_voluntary", "1", "/switches_voluntary"),
    ("faults_minor", "1", "/page_faults_minor"),
    ("faults_major", "1", "/page_faults_major"),
    ("memory_resident", "B", "/resident_bytes"),
    ("memory_resident_peak", "B", "/resident_bytes_peak"),
];

/// Of processes with parallel regions only.
const OF_REGIONS: [Quantity; 10] = [
    ("regions", "1", "/regions"),
    ("region_time", "s", "/time_inside_s"),
    ("regions_probed", "s", "/probed_s"),
    ("team_regions", "1", "/teams/regions"),
    ("team_threads_least", "1", "/teams/threads_least"),
    ("team_threads_most", "1", "/teams/threads_most"),
    ("team_working_time", "s", "/teams/working_time_s"),
    ("team_starting_time", "s", "/teams/starting_time_s"),
    ("team_waiting_time", "s", "/teams/waiting_time_s"),
    ("team_ending_time", "s", "/teams/ending_time_s"),
];

/// Without the bytes, whose name depends on what they are.
const OF_FUNCTION: [Quantity; 6] = [
    ("calls", "1", "/calls"),
    ("nested_calls", "1", "/nested_calls"),
    ("untimed_calls", "1", "/untimed_calls"),
    ("unreturned_calls", "1", "/unreturned_calls"),
    ("time", "s", "/time_s"),
    ("bytes_unknown_calls", "1", "/bytes_unknown_calls"),
];

const OF_CALL_SITE: [Quantity; 3] = [
    ("ranks", "1", "/ranks"),
    ("calls", "1", "/calls"),
    ("time", "s", "/time_s"),
];

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
    fn row(&mut self, of: &ReportPart<'_>, (quantity, unit): (&str, &str), value: Option<f64>) {
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
        for (quantity, unit, place) in quantities {
            let value = of.values.pointer(place).and_then(Value::as_f64);
            self.row(of, (quantity, unit), value);
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
        table.row(&of, (&format!("lost_{kind}"), "1"), lost.as_f64());
    }
}

fn function(table: &mut Table, of: &ReportPart<'_>) {
    table.rows(of, &OF_FUNCTION);
    let bytes = match of.values["bytes_kind"].as_str() {
        Some(kind) => format!("bytes_{kind}"),
        None => "bytes".to_owned(),
    };
    table.row(of, (&bytes, "B"), of.values["bytes"].as_f64());
    for size in array(&of.values["sizes"]) {
        let quantity = match size["up_to_bytes"].as_u64() {
            Some(most) => format!("messages_up_to_{most}B"),
            None => "messages_greater".to_owned(),
        };
        table.row(of, (&quantity, "1"), size["messages"].as_f64());
    }
    let durations = &of.values["durations"];
    for (from_ns, calls) in array(&durations["from_ns"]).zip(array(&durations["count"])) {
        table.row(of, (&format!("calls_from_{from_ns}ns"), "1"), calls.as_f64());
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
    fn all() -> impl Iterator<Item = (&'static str, &'static Quantity)> {
        let of = |part, quantities: &'static [Quantity]| quantities.iter().map(move |one| (part, one));
        of("", &OF_JOB)
            .chain(of("/processes/0", &OF_PROCESS))
            .chain(of("/processes/0/openmp", &OF_REGIONS))
            .chain(of("/processes/0/functions/0", &OF_FUNCTION))
            .chain(of("/call_sites/sites/0", &OF_CALL_SITE))
    }

    #[test]
    fn each_quantity_is_a_number_of_the_report_with_the_same_unit() {
        let report = super::super::report(&super::super::tests::everything());
        for (part, (quantity, unit, place)) in all() {
            let place = format!("{part}{place}");
            let value = report.pointer(&place);
            assert!(
                value.is_some_and(Value::is_number),
                "{quantity}: {place} is {value:?}"
            );
            let field = place.rsplit('/').next().unwrap_or_default();
            let of_field = match field {
                _ if field.ends_with("_s") => "s",
                _ if field.starts_with("resident_bytes") => "B",
                _ => "1",
            };
            assert_eq!(*unit, of_field, "{quantity}: {place}");
        }
    }

    #[test]
    fn each_quantity_is_on_the_page() {
        let page = include_str!("../../../../docs/exports.md");
        let unstated: Vec<&str> = all()
            .map(|(_, (quantity, _, _))| *quantity)
            .filter(|quantity| !page.contains(&format!("`{quantity}`")))
            .collect();
        assert!(
            unstated.is_empty(),
            "docs/exports.md says nothing of {unstated:?}"
        );
    }
}
