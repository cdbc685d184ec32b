//! Files that a session writes for other programs: tables, periodic reports, recordings of several nodes.
//! `traces` tests the traces of calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, start_count, start_pingpong, summed, text, with_folder};
use crate::iterations::wait_for_report;

pub(crate) fn read(file: &Path) -> Outcome<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}

/// All calls of a report, by process and function.
pub(crate) fn calls(report: &Value) -> BTreeMap<(u64, String), u64> {
    let mut calls = BTreeMap::new();
    for process in each(&report["processes"]) {
        for function in each(&process["functions"]) {
            let whose = process["pid"].as_u64().zip(function["name"].as_str());
            if let (Some((pid, name)), Some(count)) = (whose, function["calls"].as_u64()) {
                calls.insert((pid, name.to_owned()), count);
            }
        }
    }
    calls
}

/// Rows of a table without quoted fields, as maps by column name.
fn rows(table: &str) -> Outcome<Vec<BTreeMap<String, String>>> {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().ok_or("an empty table")?.split(',').collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), names.len(), "{line}");
        names
            .iter()
            .zip(fields)
            .map(|(name, field)| ((*name).to_owned(), field.to_owned()))
            .collect()
    };
    Ok(lines.map(row).collect())
}

/// Data of an HTML page, extracted as docs/exports.md describes.
fn data_of_page(file: &Path) -> Outcome<Value> {
    let text = fs::read_to_string(file)?;
    let data = text.split_once("id=\"data\">").ok_or("no data")?.1;
    Ok(serde_json::from_str(
        data.split_once("</script>").ok_or("no end")?.0,
    )?)
}

/// Functions and ranks of the page have the numbers of the report.
fn assert_page(page: &Value, report: &Value) -> Outcome {
    let column = |id: &str, column: usize| -> Vec<(String, Option<f64>)> {
        let tables = each(&page["tables"]);
        let rows = tables
            .filter(|table| table["id"] == id)
            .flat_map(|table| each(&table["rows"]));
        rows.map(|row| {
            (
                row[0]["text"].as_str().unwrap_or_default().to_owned(),
                row[column]["number"].as_f64(),
            )
        })
        .collect()
    };
    let mut calls: BTreeMap<String, f64> = BTreeMap::new();
    for process in each(&report["processes"]) {
        for function in each(&process["functions"]) {
            let name = function["name"].as_str().unwrap_or_default();
            *calls.entry(name.to_owned()).or_default() += function["calls"].as_f64().ok_or("no calls")?;
        }
    }
    let shown: BTreeMap<String, f64> = column("functions", 1)
        .into_iter()
        .filter_map(|(name, calls)| Some((name, calls?)))
        .collect();
    assert_eq!(shown, calls);
    let pids = each(&report["processes"]).map(|process| process["pid"].as_f64());
    assert_eq!(
        column("processes", 1)
            .into_iter()
            .map(|(_, pid)| pid)
            .collect::<Vec<_>>(),
        pids.collect::<Vec<_>>()
    );
    assert_eq!(page["timeline"]["end_s"], report["elapsed_s"]);
    Ok(())
}

#[test]
fn table_and_page_have_the_numbers_of_the_report_and_are_there_only_when_they_are_complete() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let mut job = start_count(Mpi::Mpich, 2, &["--iterations", "5"])?;
    let file = job.file("table.csv");
    let page = job.file("run.html");
    let outputs = ["--rules", "none", "--csv", &text(&file), "--html", &text(&page)];
    let mut agent = Agent::attach_armed(job.pid(), &outputs)?;
    job.open("go")?;
    job.events("tally", 2, SOON)?;
    assert!(!file.exists() && !page.exists(), "half a table or a page");
    let report = agent.stop()?;
    job.end(SOON)?;
    let rows = rows(&fs::read_to_string(&file)?)?;
    let of = |table: &str, quantity: &str, rank: &str, function: &str| {
        let row = rows.iter().find(|row| {
            row["table"] == table
                && row["quantity"] == quantity
                && row["rank"] == rank
                && row["function"] == function
        });
        row.and_then(|row| row["value"].parse::<f64>().ok())
    };
    for process in report["processes"].as_array().ok_or("no processes")? {
        let rank = process["rank"].to_string();
        assert_eq!(
            of("process", "mpi_time", &rank, ""),
            process["mpi_time_s"].as_f64()
        );
        for function in process["functions"].as_array().ok_or("no functions")? {
            let name = function["name"].as_str().unwrap_or_default();
            assert_eq!(
                of("function", "calls", &rank, name),
                function["calls"].as_f64(),
                "{name}"
            );
            assert_eq!(
                of("function", "time", &rank, name),
                function["time_s"].as_f64(),
                "{name}"
            );
        }
    }
    let sites = report["call_sites"]["sites"].as_array().ok_or("no call sites")?;
    let found = rows
        .iter()
        .filter(|row| row["table"] == "call_site" && row["quantity"] == "calls");
    assert_eq!(found.count(), sites.len());
    assert_eq!(of("job", "elapsed", "", ""), report["elapsed_s"].as_f64());
    assert_page(&data_of_page(&page)?, &report)
}

/// Reports in the file so far; the last line may be incomplete.
fn series(file: &Path) -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(file)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[test]
fn reports_on_a_timer_and_on_request_go_on_while_the_program_hangs() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let job = start_pingpong(Mpi::OpenMpi, Waiting::Yielding, 2, 0)?;
    job.open("go")?;
    let file = job.file("reports.jsonl");
    let flags = ["--rules", "none", "--snapshots", &text(&file), "--every", "200ms"];
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    wait_for_report(&agent, |report| calls(report).values().sum::<u64>() > 100)?;
    job.pause()?;
    // The calls in progress continue, and no new call begins.
    let hangs = |before: &Value, after: &Value| calls(before) == calls(after) && !calls(after).is_empty();
    let mut last = (agent.snapshot()?, Instant::now());
    wait_until("the same calls for 300 ms", SOON, || {
        let report = agent.snapshot()?;
        if !hangs(&last.0, &report) {
            last = (report, Instant::now());
        }
        Ok(last.1.elapsed() > Duration::from_millis(300))
    })?;
    let so_far = series(&file)?.len();
    wait_until("reports while the program hangs", SOON, || {
        Ok(series(&file)?.len() >= so_far + 3)
    })?;
    let all = series(&file)?;
    let last = &all[all.len() - 2..];
    assert_eq!(calls(&last[0]), calls(&last[1]), "nothing happens");
    let elapsed: Vec<f64> = all
        .iter()
        .filter_map(|report| report["elapsed_s"].as_f64())
        .collect();
    assert!(elapsed.is_sorted() && elapsed.len() == all.len());
    job.resume()?;
    agent.stop()?;
    job.open("stop")?;
    crate::expected::finish_pingpong(job, 2)?;
    Ok(())
}

#[test]
fn a_rank_that_crashes_ends_the_session_with_a_report_that_has_its_measurements() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let job = start_pingpong(Mpi::Mpich, Waiting::Yielding, 2, 0)?;
    let ready = job.events("ready", 2, SOON)?;
    job.open("go")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    let of = |report: &Value, pid: u64| -> u64 {
        let all = calls(report);
        all.iter()
            .filter(|((of, _), _)| *of == pid)
            .map(|(_, calls)| calls)
            .sum()
    };
    let victim = ready[1]["pid"].as_u64().ok_or("no pid")?;
    let before = wait_for_report(&agent, |report| of(report, victim) > 100)?;
    let pid = i32::try_from(victim)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or("no pid")?;
    kill_process(pid, Signal::SEGV).map_err(std::io::Error::from)?;
    let report = agent.finish(SOON)?;
    assert!(of(&report, victim) >= of(&before, victim), "{report:#}");
    assert_has!(agent.lines.text(), "the program has ended");
    let all: Vec<&Value> = each(&report["processes"]).collect();
    assert!(all.iter().all(|process| process["ended"] == true), "{report}");
    let dead = all.iter().find(|process| process["pid"] == victim);
    let dead = dead.ok_or("it is not in the report")?;
    assert!(dead["mpi_time_s"].as_f64() > Some(0.0), "{dead}");
    Ok(())
}

#[test]
fn a_function_without_a_rule_has_its_number_its_mean_and_a_histogram_for_each_rank() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let program = programs::mpi("loops", Mpi::Mpich)?;
    let words = ["uneven", "20", "5"].map(str::to_owned).to_vec();
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, |folder| {
        with_folder(folder, words)
    })?;
    job.events("ready", 2, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--probe", "balance", "compute"])?;
    let function = |report: &Value, rank: usize, name: &str| -> Value {
        let functions = report["processes"][rank]["functions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        functions
            .into_iter()
            .find(|function| function["name"] == name)
            .unwrap_or_default()
    };
    wait_for_report(&agent, |report| {
        (0..2).all(|rank| function(report, rank, "compute")["calls"].as_u64() > Some(20))
    })?;
    let report = agent.stop()?;
    job.open("stop")?;
    job.finish(SOON)?;
    for (rank, least_ns) in [(0, 20_000_000), (1, 5_000_000)] {
        let compute = function(&report, rank, "compute");
        let (calls, time) = (compute["calls"].as_u64(), compute["time_s"].as_f64());
        let (calls, time) = calls.zip(time).ok_or("not timed")?;
        assert!(time / calls as f64 >= least_ns as f64 * 0.9e-9, "{compute}");
        let durations = &compute["durations"];
        let seen = durations["calls"].as_u64().ok_or("no histogram")?;
        // A call in progress has no duration yet, and calls continue between the reads of durations and of
        // calls.
        assert!(seen <= calls && seen + 5 >= calls, "{compute}");
        let from = durations["from_ns"].as_array().ok_or("no buckets")?;
        let least = from.first().and_then(Value::as_u64).ok_or("an empty histogram")?;
        assert!(2 * least > least_ns, "{rank}: {durations}");
        let counts = each(&durations["count"]).filter_map(Value::as_u64);
        assert_eq!(counts.sum::<u64>(), seen);
    }
    let reported = agent.lines.text();
    assert_has!(reported, " compute: ", "(rank 1) to ");
    Ok(())
}

/// A function with a histogram sends no hits, at any call rate.
#[test]
fn a_function_that_is_called_all_the_time_has_every_call_in_its_histogram_and_sends_none() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let mut job = start_count(Mpi::Mpich, 2, &["--iterations", "0", "--seconds", "2"])?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", "--probe", "MPI_Send", "MPI_Recv"])?;
    let (own_counts, report) = summed(&mut job, &mut agent, 2)?;
    assert_eq!(
        report["completeness"]["status"], "complete",
        "{}",
        report["completeness"]
    );
    assert_eq!(report["completeness"]["events_received"], 0);
    let seen = calls(&report);
    for process in each(&report["processes"]) {
        let functions = each(&process["functions"]);
        for function in functions {
            let is_named = function["name"] == "MPI_Send" || function["name"] == "MPI_Recv";
            let durations = &function["durations"];
            assert_eq!(durations.is_null(), !is_named, "{function}");
            assert!(!is_named || durations["calls"] == function["calls"], "{function}");
        }
    }
    for own_count in &own_counts {
        let pid = own_count["pid"].as_u64().ok_or("no pid")?;
        for (name, (count, _)) in crate::expected::counts(&own_count["functions"])? {
            assert_eq!(seen.get(&(pid, name.clone())), Some(&count), "{name}");
        }
    }
    Ok(())
}

/// A rule that shows the number of CPUs that a job may use.
const CPUS: &str = "rule: cpus\nabout: for a test\nroles: {rank: rank >= 0}\nwindows: {pulse: {every: 100ms}}\n\
    metrics: {cpus: job.cpus}\n";

/// Maximum value of this rule over recordings.
fn cpus_in(recordings: &[String], rule: &str) -> Outcome<f64> {
    let files: Vec<&str> = recordings.iter().map(String::as_str).collect();
    let words = [&["replay"], &files[..], &["--rules", "none", rule, "--csv", "-"]].concat();
    let table = Agent::succeed(&words)?;
    let values = table
        .lines()
        .filter_map(|line| line.split(',').nth(6)?.parse().ok());
    Ok(values.fold(0.0, f64::max))
}

/// A measure of a machine is summed over the machines of the job.
fn is_summed_over_machines(recordings: &[String], rule: &str) -> Outcome {
    let (here, all) = (cpus_in(&recordings[..1], rule)?, cpus_in(recordings, rule)?);
    assert!(
        here >= 1.0 && all == 2.0 * here,
        "{all} CPUs on two nodes of {here}"
    );
    Ok(())
}

/// The efficiencies of a job of two nodes with two ranks each follow from the ranks' shares of useful time.
fn assert_efficiencies(found: &Value, shares: &[f64]) {
    assert_eq!((&found["ranks"], &found["nodes"]), (&4.into(), &2.into()));
    assert_eq!(shares.len(), 4);
    // From each node's own report: the first two ranks are on one node, the others on another.
    let (sum, most) = (
        shares.iter().sum::<f64>(),
        shares.iter().copied().fold(0.0, f64::max),
    );
    let node = f64::max(shares[0] + shares[1], shares[2] + shares[3]);
    let expected = [
        ("load_balance", sum / (4.0 * most)),
        ("load_balance_within_nodes", 2.0 * node / (4.0 * most)),
        ("load_balance_between_nodes", sum / (2.0 * node)),
        ("communication_efficiency", most),
        ("parallel_efficiency", sum / 4.0),
    ];
    for (name, value) in expected {
        let ratio = found[name].as_f64().unwrap_or(f64::NAN) / value;
        assert!((ratio - 1.0).abs() < 1e-6, "{name} should be {value}: {found}");
    }
    // Half of the ranks compute half of the time, with a tolerance for a busy machine.
    let between = found["load_balance_between_nodes"].as_f64();
    assert!(between > Some(0.5) && between < Some(0.95), "{found}");
}

#[test]
fn recordings_of_two_nodes_are_joined_into_one_report_of_the_job() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let program = programs::mpi("loops", Mpi::Mpich)?;
    let words = ["uneven", "200", "200", "100", "100"].map(str::to_owned).to_vec();
    let job = Job::on_nodes(&["node1", "node2"], 2, &program, |folder| {
        with_folder(folder, words)
    })?;
    let ready = job.events("ready", 4, SOON)?;
    let pid = |rank: usize| {
        ready[rank]["pid"]
            .as_u64()
            .and_then(|pid| u32::try_from(pid).ok())
            .ok_or("no pid")
    };
    let file = text(&job.file("%h.rec"));
    let rule = text(&job.file("cpus.yaml"));
    fs::write(&rule, CPUS)?;
    let flags = ["--rules", "none", &rule, "--record", &file];
    let mut agents = Vec::new();
    for rank in [0, 2] {
        let agent = Agent::attach_on_its_node(pid(rank)?, &flags)?;
        agent.armed()?;
        agents.push(agent);
    }
    for agent in &agents {
        wait_for_report(agent, |report| report["iteration"]["count"].as_u64() > Some(12))?;
    }
    let mut shares = Vec::new();
    for (agent, node) in agents.iter_mut().zip(["node1", "node2"]) {
        let report = agent.stop()?;
        assert_eq!(report["host"], node);
        assert_eq!(
            report["processes"].as_array().map(Vec::len),
            Some(2),
            "{report:#}"
        );
        assert_eq!(report["efficiencies"]["load_balance_between_nodes"], Value::Null);
        let ranks = each(&report["processes"]);
        shares.extend(ranks.filter_map(|process| process["useful_share"].as_f64()));
    }
    job.open("stop")?;
    job.events("end", 4, SOON)?;
    let recordings = ["node1.rec", "node2.rec"].map(|name| text(&job.file(name)));
    let joined = text(&job.file("joined.json"));
    let reported = Agent::succeed(&[
        "replay",
        &recordings[1],
        &recordings[0],
        "--rules",
        "none",
        "--json",
        &joined,
    ])?;
    is_summed_over_machines(&recordings, &rule)?;
    let report = read(Path::new(&joined))?;
    assert_efficiencies(&report["efficiencies"], &shares);
    let hosts: Vec<&Value> = each(&report["processes"])
        .map(|process| &process["host"])
        .collect();
    assert_eq!(hosts, ["node1", "node1", "node2", "node2"]);
    assert!(reported.contains("4 ranks, MPICH"), "{reported}");
    assert_eq!(report["talp"]["resources"]["numNodes"], 2);
    // Two recordings of the same node are rejected.
    let copy = text(&job.file("copy.rec"));
    fs::copy(&recordings[0], &copy)?;
    let reported = Agent::succeed(&["replay", &recordings[0], &copy, "--rules", "none"])?;
    assert!(reported.contains("recordings of different jobs"), "{reported}");
    Ok(())
}

#[test]
fn with_json_to_standard_output_nothing_else_is_there_and_all_talk_is_on_standard_error() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let job = start_count(Mpi::OpenMpi, 2, &[])?;
    let pid = job.pid().to_string();
    let attached = |words: &[&str]| -> Outcome<Output> {
        let state = tempfile::tempdir()?;
        let mut command = Command::new(tuneagent_e2e::agent::binary()?);
        command.args(["attach", &pid, "--duration", "200ms"]).args(words);
        Ok(command.env("TUNEAGENT_STATE_DIR", state.path()).output()?)
    };
    let output = attached(&["--json", "-"])?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert!(report["processes"].is_array(), "{report}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_has!(said, "--duration reached", "detached");
    let output = attached(&["--csv", "-"])?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let columns = |line: &str| line.split(',').count();
    let first = table.lines().next().map(columns);
    assert!(
        first > Some(3) && table.lines().all(|line| Some(columns(line)) >= first),
        "{table}"
    );
    for flag in ["--trace", "--snapshots", "--record"] {
        let output = attached(&[flag, "-"])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_has!(
            said,
            &format!("{flag} - : this is not written to standard output")
        );
        assert!(!Path::new("-").exists());
    }
    Ok(())
}
