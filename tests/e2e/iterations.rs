//! Detected iterations, efficiencies over them, and call sites, compared with what the programs report
//! themselves.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::wait;
use tuneagent_e2e::{Outcome, each, gromacs, lammps, programs, require};

use crate::expected::{SOON, finish_pingpong, start_pingpong, with_folder};

/// Starts `loops` and waits until all ranks are ready.
fn start(mpi: Mpi, ranks: usize, words: &str) -> Outcome<Job> {
    let program = programs::mpi("loops", mpi)?;
    let words = words.split(' ').map(str::to_owned).collect();
    let job = Job::mpi(mpi, Waiting::Yielding, ranks, &program, |folder| {
        with_folder(folder, words)
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Watches until `is_seen` accepts the report, then ends session and program. Returns the report and the
/// ranks' last lines.
fn watch(mut job: Job, ranks: usize, is_seen: impl Fn(&Value) -> bool) -> Outcome<(Value, Vec<Value>)> {
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "load-imbalance"])?;
    wait_for_report(&agent, is_seen)?;
    let report = agent.stop()?;
    job.open("stop")?;
    let ends = job.events("end", ranks, SOON)?;
    job.finish(SOON)?;
    Ok((report, ends))
}

/// Watches a program until 2 000 steps were seen and few were missed before the loop was detected. `steps`
/// returns the number of seen steps and of all steps from a report.
fn watch_two_thousand(job: &Job, steps: impl Fn(&Value) -> (f64, f64)) -> Outcome<Value> {
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for_report(&agent, |now| {
        let (seen, all) = steps(now);
        seen > 2_000.0 && (seen >= 0.75 * all || has_unseen(now))
    })?;
    agent.stop()
}

/// Whether some calls were overwritten before they were read, so that iterations are missing.
fn has_unseen(report: &Value) -> bool {
    report["call_sites"]["unseen_calls"].as_u64() > Some(0)
}

/// Requests the report repeatedly until `fits` accepts it, and returns it.
pub(crate) fn wait_for_report(agent: &Agent, fits: impl Fn(&Value) -> bool) -> Outcome<Value> {
    let report = || Ok(Some(agent.snapshot()?).filter(|now| fits(now)));
    wait::wait_for("such a report", 2 * SOON, report)
        .or_else(|problem| Err(format!("{problem}: {:#}\n{}", agent.snapshot()?, agent.lines.text()).into()))
}

/// Calls of a function by all processes.
pub(crate) fn calls_of(report: &Value, function: &str) -> u64 {
    let processes = each(&report["processes"]);
    let functions = processes.flat_map(|process| each(&process["functions"]));
    let of = functions.filter(|entry| entry["name"] == function);
    of.filter_map(|entry| entry["calls"].as_u64()).sum()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn a_program_without_a_loop_has_none_and_the_report_says_so() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let job = start(Mpi::OpenMpi, 2, "none")?;
    let calls = |now: &Value| now["processes"][0]["functions"][0]["calls"].as_u64() > Some(1500);
    let (report, _) = watch(job, 2, calls)?;
    assert_eq!(report["iteration"], Value::Null);
    let why = report["without_iteration"].as_str().ok_or("no reason")?;
    assert!(why.ends_with("MPI calls of a rank have none"), "{why}");
    Ok(())
}

#[test]
fn efficiencies_of_a_known_imbalance_are_those_of_the_closed_form() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let job = start(Mpi::OpenMpi, 3, "balance 300 120 60")?;
    let is_seen = |now: &Value| {
        now["iteration"]["count"].as_u64() > Some(6)
            && now["findings"].as_array().is_some_and(|all| !all.is_empty())
    };
    let (report, _) = watch(job, 3, is_seen)?;
    let found = &report["efficiencies"];
    assert_eq!(found["over_whole_iterations"], true);
    // The useful time of a rank is its sleep; an iteration is as long as the longest sleep.
    let (balance, communication) = ((300.0 + 120.0 + 60.0) / (3.0 * 300.0), 1.0);
    let expected = [
        ("load_balance", balance),
        ("load_balance_within_nodes", balance),
        ("load_balance_between_nodes", 1.0),
        ("communication_efficiency", communication),
        ("serialisation_efficiency", 1.0),
        ("transfer_efficiency", 1.0),
        ("parallel_efficiency", balance * communication),
    ];
    for (name, value) in expected {
        let ratio = number(&found[name]) / value;
        assert!(
            (0.98..=1.02).contains(&ratio),
            "{name} should be {value}: {found}"
        );
    }
    let pace = number(&report["iteration"]["mean_s"]) / 0.3;
    assert!((0.98..=1.02).contains(&pace), "{}", report["iteration"]);
    let text = report["findings"][0]["text"].as_str().ok_or("no finding")?;
    assert!(text.starts_with("rank 0 spends 1.8"), "{text}");
    loads_add_up(&report)
}

/// The parts of each process's load over time must add up to its watched time and its time inside MPI.
fn loads_add_up(report: &Value) -> Outcome {
    for process in report["processes"].as_array().ok_or("no processes")? {
        let parts = process["load"].as_array().ok_or("no load over time")?;
        let watched = number(&process["watched_s"]);
        let end = number(&parts.last().ok_or("no parts")?["until_s"]);
        let (mut from, mut inside) = (end - watched, 0.0);
        for part in parts {
            let until = number(&part["until_s"]);
            assert!(until > from, "{parts:?}");
            inside += (until - from) * number(&part["mpi_share"]);
            from = until;
        }
        let apart = inside - number(&process["mpi_time_s"]);
        assert!(apart.abs() < 0.02 * watched, "{inside} s inside MPI: {process}");
        assert!(
            parts.len() > 2 && end <= number(&report["elapsed_s"]),
            "{process}"
        );
    }
    Ok(())
}

#[test]
fn serialisation_and_transfer_of_ranks_that_take_turns_are_those_of_the_closed_form() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let job = start(Mpi::OpenMpi, 2, "turns 120 40 40")?;
    let is_seen = |now: &Value| now["efficiencies"]["collectives"].as_u64() > Some(15);
    let (report, _) = watch(job, 2, is_seen)?;
    let found = &report["efficiencies"];
    // In two iterations each rank computes both times. With an ideal network they would take twice the longer
    // time.
    let expected = [
        ("serialisation_efficiency", (120.0 + 40.0) / (2.0 * 120.0)),
        ("transfer_efficiency", 120.0 / (120.0 + 40.0)),
        (
            "communication_efficiency",
            (120.0 + 40.0) / (2.0 * (120.0 + 40.0)),
        ),
        ("collectives_waiting_share", 80.0 / (2.0 * 160.0)),
        ("collectives_transfer_share", 40.0 / 160.0),
    ];
    for (name, value) in expected {
        let ratio = number(&found[name]) / value;
        // After an odd number of iterations one rank has computed the longer time once more.
        assert!(
            (0.95..=1.05).contains(&ratio),
            "{name} should be {value}: {found}"
        );
    }
    Ok(())
}

#[test]
fn computation_scalability_is_shown_against_the_report_of_another_run() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let job = start(Mpi::OpenMpi, 3, "balance 120 60 60")?;
    let (reference, _) = watch(job, 3, |now| now["iteration"]["count"].as_u64() > Some(6))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("reference.json");
    std::fs::write(&file, reference.to_string())?;
    let mut job = start(Mpi::OpenMpi, 2, "balance 100 60")?;
    let mut agent = Agent::attach_armed(
        job.pid(),
        &["--rules", "none", "--reference", &file.to_string_lossy()],
    )?;
    wait_for_report(&agent, |now| now["iteration"]["count"].as_u64() > Some(6))?;
    let report = agent.stop()?;
    job.open("stop")?;
    job.finish(SOON)?;
    let found = &report["efficiencies"]["computation_scalability"];
    let strong = (120.0 + 60.0 + 60.0) / (100.0 + 60.0);
    for (name, value) in [
        ("strong", strong),
        ("weak", strong * 2.0 / 3.0),
        ("ranks_of_reference", 3.0),
    ] {
        let ratio = number(&found[name]) / value;
        assert!(
            (0.97..=1.03).contains(&ratio),
            "{name} should be {value}: {}",
            report["efficiencies"]
        );
    }
    let text = agent.lines.text();
    assert!(text.contains("computation scalability 1."), "{text}");
    let (code, text) = Agent::run(&[
        "attach",
        "1",
        "--reference",
        &folder.path().join("none").to_string_lossy(),
    ])?;
    assert!(code == 2 && text.contains("cannot be read"), "{code}: {text}");
    Ok(())
}

#[test]
fn call_sites_are_named_by_function_and_line() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let job = start(Mpi::Mpich, 2, "nested 5")?;
    let (report, _) = watch(job, 2, |now| now["iteration"]["count"].as_u64() > Some(10))?;
    let sites = report["call_sites"]["sites"].as_array().ok_or("no call sites")?;
    let source = include_str!("../programs/loops.c");
    let nested = source.find("FUNCTION int nested").ok_or("no nested")?;
    for call in ["MPI_Allreduce", "MPI_Barrier", "MPI_Bcast"] {
        let at = nested + source[nested..].find(call).ok_or("no call")?;
        let line = source[..at].lines().count() as u64;
        let site = sites.iter().find(|site| site["function"] == call);
        let site = site.ok_or_else(|| format!("no {call} in {sites:?}"))?;
        assert_eq!(site["caller"], "nested");
        assert_eq!((&site["file"], &site["line"]), (&"loops.c".into(), &line.into()));
        assert_eq!(site["ranks"], 2);
    }
    Ok(())
}

/// Each MPI with one of the two Fortran bindings; in long runs with both.
pub(crate) fn fortran_bindings() -> Vec<(Mpi, bool)> {
    let mut all = vec![(Mpi::OpenMpi, true), (Mpi::Mpich, false)];
    if is_long() {
        all.extend([(Mpi::OpenMpi, false), (Mpi::Mpich, true)]);
    }
    all
}

/// Call sites skip the frames of MPI's Fortran library. The first calls may be made by the libraries
/// themselves.
#[test]
fn call_sites_of_fortran_programs_are_lines_of_the_program() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich, Fortran);
    let source = include_str!("../programs/relax.F90");
    let call = source.find("call MPI_Allreduce").ok_or("no call")?;
    let line = source[..call].lines().count() as u64;
    for (mpi, f08) in fortran_bindings() {
        let program = programs::mpi_fortran("relax", mpi, f08)?;
        let job = Job::mpi(mpi, Waiting::Yielding, 2, &program, |_| vec!["100000".to_owned()])?;
        let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
        let is_seen = |site: &Value| {
            let at = (&site["function"], &site["file"], &site["line"]);
            at == (&"MPI_Allreduce".into(), &"relax.F90".into(), &line.into())
                && site["calls"].as_u64() > Some(100)
        };
        wait_for_report(&agent, |now| now["iteration"]["count"].as_u64() > Some(200))?;
        let report = agent.stop()?;
        let sites = report["call_sites"]["sites"].as_array().ok_or("no call sites")?;
        assert!(sites.iter().any(is_seen), "{mpi:?} {f08}: {sites:?}");
    }
    Ok(())
}

/// LAMMPS's steps differ: every 20th rebuilds neighbour lists, and every 10th prints.
#[test]
fn the_loop_of_lammps_is_its_time_step() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Lammps);
    let job = lammps::start(Waiting::Yielding, 2, 10_000_000)?;
    job.lines.wait_for("LAMMPS's first steps", 2 * SOON, |lines| {
        (lammps::thermo(lines).len() >= 2).then_some(())
    })?;
    // Neighbour lists are rebuilt every 20 steps. If this loop around the steps is detected, it is the
    // outermost one.
    let steps_of = |found: &Value| match number(&found["mpi_calls"]) > 100.0 {
        true => 20.0,
        false => 1.0,
    };
    // A step sends at least four messages.
    let steps = |now: &Value| {
        let found = &now["iteration"];
        let sends = calls_of(now, "MPI_Send") as f64 / 2.0;
        (steps_of(found) * number(&found["count"]), sends / 4.0)
    };
    let report = watch_two_thousand(&job, steps)?;
    // Steps without a rebuild send positions and forces to one neighbour on either side, each with a receive,
    // a send and a wait. Steps with a rebuild send more, and printed steps add reductions.
    let found = &report["iteration"];
    let calls = number(&found["mpi_calls"]) / steps_of(found);
    assert!((12.0..15.0).contains(&calls), "{found}");
    let (seen, most) = steps(&report);
    assert!(
        has_unseen(&report) || (seen <= most && seen >= 0.7 * most),
        "{seen} of {most} steps"
    );
    Ok(())
}

/// In GROMACS every step makes two all-to-alls for the long-range forces.
#[test]
fn the_loop_of_gromacs_is_its_time_step() -> Outcome {
    // Long runs only; the test of GROMACS in `screens` checks the loop in every run.
    if !is_long() {
        return Ok(());
    }
    let _machine = require!(machine: Root, OpenMpi, Gromacs);
    let job = gromacs::start(Waiting::Yielding, 2)?;
    job.lines.wait_for("GROMACS's first steps", 4 * SOON, |lines| {
        (gromacs::steps(lines).len() >= 2).then_some(())
    })?;
    let steps = |now: &Value| {
        let all = calls_of(now, "MPI_Alltoall") as f64 / 4.0;
        (number(&now["iteration"]["count"]), all)
    };
    let report = watch_two_thousand(&job, steps)?;
    let (seen, all) = steps(&report);
    assert!(
        has_unseen(&report) || (seen <= all && seen >= 0.7 * all),
        "{seen} iterations in {all} steps: {}",
        report["iteration"]
    );
    Ok(())
}

/// Ranks that spin on too few CPUs are preempted inside MPI. A profiler within the program counts this time
/// as communication.
#[test]
fn time_inside_mpi_is_distinguished_from_waiting_for_a_cpu_there() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let ranks = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let job = start_pingpong(Mpi::OpenMpi, Waiting::Yielding, ranks, 0)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    job.open("go")?;
    let waited = |report: &Value, name: &str| -> f64 {
        let processes = each(&report["processes"]);
        processes.map(|process| number(&process[name])).sum()
    };
    wait_for_report(&agent, |now| waited(now, "mpi_runqueue_time_s") > 1.0)?;
    let report = agent.stop()?;
    let (within, inside) = (
        waited(&report, "mpi_runqueue_time_s"),
        waited(&report, "mpi_time_s"),
    );
    // The ranks only call MPI, and there are twice as many ranks as CPUs, so about half of the time is a wait
    // for a CPU.
    assert!(within < inside && within > 0.2 * inside, "{within} of {inside}");
    assert!(within <= waited(&report, "runqueue_time_s"), "{within}");
    job.open("stop")?;
    finish_pingpong(job, ranks as u64).map(|_| ())
}

#[test]
fn ranks_that_yield_are_not_said_to_spin_and_the_imbalance_beside_it_is_found() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let job = start(Mpi::OpenMpi, 8, "uneven 300 120 120 120 120 120 120 120")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--apply"])?;
    let rules = |report: &Value| {
        let of = |found: &Value| found["rule"].as_str().unwrap_or_default().to_owned();
        let findings = each(&report["findings"]);
        findings.map(of).collect::<Vec<_>>()
    };
    wait_for_report(&agent, |now| rules(now).contains(&"load-imbalance".to_owned()))?;
    let report = agent.stop()?;
    assert!(
        !rules(&report).contains(&"openmpi-busy-wait".to_owned()),
        "{report}"
    );
    assert_eq!(
        report["changes"],
        Value::Array(Vec::new()),
        "{}",
        agent.lines.text()
    );
    Ok(())
}
