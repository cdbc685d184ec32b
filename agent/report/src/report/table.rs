//! The report as one table in long format: each row has a number, and columns that identify it.
//! docs/exports.md describes it.

use std::fmt::Write;

use profile::format::csv_field;
use profile::{CallSiteView, Counters, FunctionTotals, ProcessView, RegionsView, Snapshot, TeamTotals};

use super::seconds;

const HEADER: &str = "table,host,rank,pid,function,caller,file,line,quantity,unit,value";

/// What the number of a row refers to.
#[derive(Clone, Default)]
struct RowSubject {
    table: &'static str,
    host: String,
    rank: Option<u32>,
    pid: Option<i32>,
    function: String,
    caller: String,
    file: String,
    line: Option<u64>,
}

struct Table(String);

/// All rows, with the header. A number that was not measured is an empty field.
pub fn table(snapshot: &Snapshot) -> String {
    let mut table = Table(format!("{HEADER}\n"));
    job(&mut table, snapshot);
    for process in &snapshot.processes {
        let of = RowSubject {
            table: "process",
            host: process.host.clone().unwrap_or_else(|| snapshot.job.host.clone()),
            rank: process.rank,
            // Processes of a recording have no process ids.
            pid: Some(process.pid).filter(|pid| *pid != 0),
            ..RowSubject::default()
        };
        self::process(&mut table, &of, process);
        let regions = process.regions.iter();
        regions.for_each(|regions| self::regions(&mut table, &of, regions));
        for function in &process.functions {
            let of = RowSubject {
                table: "function",
                function: function.name.clone(),
                ..of.clone()
            };
            self::function(&mut table, &of, function);
        }
    }
    for site in &snapshot.sequence.call_sites {
        call_site(&mut table, snapshot, site);
    }
    table.0
}

impl Table {
    fn row(&mut self, of: &RowSubject, quantity: &str, unit: &str, value: Option<f64>) {
        let number = |number: Option<String>| number.unwrap_or_default();
        let fields = [
            of.table.to_owned(),
            csv_field(&of.host),
            number(of.rank.map(|rank| rank.to_string())),
            number(of.pid.map(|pid| pid.to_string())),
            csv_field(&of.function),
            csv_field(&of.caller),
            csv_field(&of.file),
            number(of.line.map(|line| line.to_string())),
            quantity.to_owned(),
            unit.to_owned(),
            // The shortest representation that parses to the same number.
            number(value.map(|value| value.to_string())),
        ];
        // Writing into memory does not fail.
        let _ = writeln!(self.0, "{}", fields.join(","));
    }

    fn count(&mut self, of: &RowSubject, quantity: &str, count: Option<u64>) {
        self.row(of, quantity, "1", count.map(|count| count as f64));
    }

    fn bytes(&mut self, of: &RowSubject, quantity: &str, bytes: Option<u64>) {
        self.row(of, quantity, "B", bytes.map(|bytes| bytes as f64));
    }

    fn time(&mut self, of: &RowSubject, quantity: &str, ns: Option<u64>) {
        self.row(of, quantity, "s", ns.map(seconds));
    }
}

fn job(table: &mut Table, snapshot: &Snapshot) {
    let of = RowSubject {
        table: "job",
        host: snapshot.job.host.clone(),
        ..RowSubject::default()
    };
    table.row(&of, "elapsed", "s", Some(snapshot.elapsed.as_secs_f64()));
    table.count(&of, "size", snapshot.job.size.map(|size| size as u64));
    let iteration = snapshot.sequence.iteration.as_ref();
    table.count(&of, "iterations", iteration.map(|iteration| iteration.count));
    let mean = iteration.map(|iteration| iteration.mean_ns / 1e9);
    table.row(&of, "iteration_mean", "s", mean);
    let all = snapshot.sequence.efficiencies.as_ref();
    let split = all.and_then(|all| all.split);
    for (name, value) in [
        ("parallel_efficiency", all.map(|all| all.of.parallel)),
        ("load_balance", all.map(|all| all.of.load_balance)),
        ("load_balance_within_nodes", all.map(|all| all.of.within_nodes)),
        (
            "load_balance_between_nodes",
            all.and_then(|all| all.between_nodes),
        ),
        ("communication_efficiency", all.map(|all| all.of.communication)),
        ("serialisation_efficiency", split.map(|of| of.serialisation)),
        ("transfer_efficiency", split.map(|of| of.transfer)),
    ] {
        table.row(&of, name, "1", value);
    }
    for (kind, lost) in &snapshot.lost {
        table.count(&of, &format!("lost_{kind}"), Some(*lost));
    }
    table.count(&of, "calls_under_way_when_armed", snapshot.under_way);
    table.count(&of, "events_received", Some(snapshot.events.received));
    table.count(&of, "hits_added_up", Some(snapshot.events.added_up));
    table.count(&of, "hits_not_added_up", Some(snapshot.events.sent_alone));
    let has_mpi = snapshot.job.mpi.is_some();
    table.count(&of, "unseen_calls", has_mpi.then_some(snapshot.sequence.unseen));
}

fn process(table: &mut Table, of: &RowSubject, view: &ProcessView) {
    let counters = view.counters.as_ref();
    let counted = |number: fn(&Counters) -> u64| counters.map(number);
    table.time(of, "watched", Some(view.watched_ns));
    table.time(of, "mpi_time", view.mpi_ns);
    table.time(of, "mpi_runqueue_time", view.mpi_waited_ns);
    table.row(of, "useful_share", "1", view.useful);
    table.time(of, "cpu_time", counted(|all| all.cpu_ns));
    table.time(of, "runqueue_time", counted(|all| all.runqueue_ns));
    table.count(
        of,
        "switches_involuntary",
        counted(|all| all.switches_involuntary),
    );
    table.count(of, "switches_voluntary", counted(|all| all.switches_voluntary));
    table.count(of, "faults_minor", counted(|all| all.faults_minor));
    table.count(of, "faults_major", counted(|all| all.faults_major));
    table.bytes(of, "memory_resident", counted(|all| all.resident_bytes));
    let peak = counters.and_then(|all| all.resident_peak_bytes);
    table.bytes(of, "memory_resident_peak", peak);
}

/// Rows that exist only for programs with parallel regions.
fn regions(table: &mut Table, of: &RowSubject, view: &RegionsView) {
    table.count(of, "regions", Some(view.regions));
    table.time(of, "region_time", view.inside_ns);
    table.time(of, "regions_probed", Some(view.watched_ns));
    let teams = view.teams.as_ref().map(|teams| teams.of);
    let of_teams = |number: fn(&TeamTotals) -> u64| teams.as_ref().map(number);
    table.count(of, "team_regions", of_teams(|teams| teams.regions));
    table.count(of, "team_threads_least", of_teams(|teams| teams.threads_least));
    table.count(of, "team_threads_most", of_teams(|teams| teams.threads_most));
    table.time(of, "team_working_time", of_teams(|teams| teams.working_ns));
    table.time(of, "team_starting_time", of_teams(|teams| teams.starting_ns));
    table.time(of, "team_waiting_time", of_teams(|teams| teams.waiting_ns));
    table.time(of, "team_ending_time", of_teams(|teams| teams.ending_ns));
}

fn function(table: &mut Table, of: &RowSubject, view: &FunctionTotals) {
    table.count(of, "calls", Some(view.calls));
    table.count(of, "nested_calls", Some(view.nested));
    table.count(of, "untimed_calls", Some(view.untimed));
    table.count(of, "unreturned_calls", Some(view.unreturned));
    table.time(of, "time", view.time_ns);
    let bytes = match view.bytes_kind {
        Some(kind) => format!("bytes_{kind}"),
        None => "bytes".to_owned(),
    };
    table.bytes(of, &bytes, view.bytes);
    table.count(of, "bytes_unknown_calls", Some(view.bytes_unknown));
    let sizes = view.sizes.iter().enumerate();
    for (size, messages) in sizes.filter(|(_, messages)| **messages > 0) {
        let quantity = match abi::Sizes::greatest(size) {
            Some(most) => format!("messages_up_to_{most}B"),
            None => "messages_greater".to_owned(),
        };
        table.count(of, &quantity, Some(*messages));
    }
    for (from_ns, calls) in view.durations.iter().flat_map(|durations| durations.buckets()) {
        table.count(of, &format!("calls_from_{from_ns}ns"), Some(calls));
    }
}

/// Rows of a call site, over all ranks.
fn call_site(table: &mut Table, snapshot: &Snapshot, site: &CallSiteView) {
    let place = &site.place;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let of = RowSubject {
        table: "call_site",
        host: snapshot.job.host.clone(),
        function: site.function.clone(),
        caller: text(&place.function.clone().or_else(|| place.module.clone())),
        file: text(&place.file),
        line: place.line,
        ..RowSubject::default()
    };
    table.count(&of, "ranks", Some(site.ranks));
    table.count(&of, "calls", Some(site.calls));
    table.time(&of, "time", Some(site.time_ns));
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Histogram, JobView, SourcePlace};

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
}
