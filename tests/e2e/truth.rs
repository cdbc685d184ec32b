//! Sizes and partners of MPI messages, compared with an independent count by a library on MPI's profiling
//! interface, preloaded into the same run (`programs/pmpi_truth.c` and its wrappers).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, each, gromacs, lammps, programs, require};

use crate::expected::SOON;

/// Numbers for a function of a rank: calls, bytes, and messages by size.
#[derive(Clone, Debug, Default, PartialEq)]
struct Function {
    calls: u64,
    bytes: Option<u64>,
    sizes: BTreeMap<u64, u64>,
}

/// Seconds inside each function, by rank and function.
type Times = BTreeMap<(u64, String), f64>;

/// Messages and bytes by sender and receiver.
type Pairs = BTreeMap<(u64, u64), (u64, u64)>;

/// Numbers of one run, from the library or from the agent.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    functions: BTreeMap<(u64, String), Function>,
    times: Times,
    sent: Pairs,
    received: Pairs,
    /// Messages and bytes without a known partner: sent, received.
    unresolved: [(u64, u64); 2],
}

/// Upper bound of the last size bucket.
const ENDLESS: u64 = u64::MAX;

/// The library stops counting in this function; the agent counts it.
const AFTER_THE_TRUTH: &str = "MPI_Finalize";

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    each(value)
}

fn number(value: &Value, what: &str) -> Outcome<u64> {
    Ok(value[what]
        .as_u64()
        .ok_or_else(|| format!("no {what} in {value}"))?)
}

/// Reads the files that the library wrote for each rank.
fn truth(folder: &Path, ranks: usize) -> Outcome<Summary> {
    let mut reported = Summary::default();
    for rank in 0..ranks as u64 {
        let file = folder.join(format!("truth.{rank}.json"));
        let text = fs::read_to_string(&file).context(file.display())?;
        let said: Value = serde_json::from_str(&text).context(file.display())?;
        for function in list(&said["functions"]) {
            let counts = list(&function["sizes"]).zip(0u32..);
            let sizes = counts.filter_map(|(count, bucket)| {
                let up_to = match bucket {
                    0 => 0,
                    31 => ENDLESS,
                    bucket => 1 << (bucket - 1),
                };
                count
                    .as_u64()
                    .filter(|count| *count > 0)
                    .map(|count| (up_to, count))
            });
            let sizes: BTreeMap<u64, u64> = sizes.collect();
            let name = function["name"].as_str().ok_or("a function without a name")?;
            // The Fortran bindings have separate wrappers with the same name.
            let known = reported.functions.entry((rank, name.to_owned())).or_default();
            known.calls += number(function, "calls")?;
            known.bytes = function["bytes"]
                .as_u64()
                .map(|bytes| bytes + known.bytes.unwrap_or_default());
            for (up_to, count) in sizes {
                *known.sizes.entry(up_to).or_default() += count;
            }
            *reported.times.entry((rank, name.to_owned())).or_default() +=
                number(function, "ns")? as f64 / 1e9;
        }
        for (way, name) in ["sent", "received"].into_iter().enumerate() {
            for pair in list(&said[name]) {
                let of = (number(pair, "messages")?, number(pair, "bytes")?);
                let pairs = if way == 0 {
                    &mut reported.sent
                } else {
                    &mut reported.received
                };
                match pair["rank"].as_u64() {
                    Some(other) if way == 0 => pairs.insert((rank, other), of),
                    Some(other) => pairs.insert((other, rank), of),
                    None => {
                        reported.unresolved[way].0 += of.0;
                        reported.unresolved[way].1 += of.1;
                        None
                    }
                };
            }
        }
    }
    Ok(reported)
}

/// The same numbers from the agent's report.
fn reported(report: &Value) -> Outcome<Summary> {
    let completeness = &report["completeness"];
    assert_eq!(completeness["status"], "complete", "{completeness}");
    let mut reported = Summary::default();
    for process in list(&report["processes"]) {
        let rank = number(process, "rank")?;
        for function in list(&process["functions"]) {
            let name = function["name"].as_str().ok_or("a function without a name")?;
            // The report also has parallel regions.
            if number(function, "calls")? == 0 || name == AFTER_THE_TRUTH || !name.starts_with("MPI_") {
                continue;
            }
            assert_eq!(function["bytes_unknown_calls"], 0, "{name} of rank {rank}");
            let sizes = list(&function["sizes"]).map(|size| {
                let up_to = size["up_to_bytes"].as_u64().unwrap_or(ENDLESS);
                Ok((up_to, number(size, "messages")?))
            });
            let of = Function {
                calls: number(function, "calls")?,
                bytes: function["bytes"].as_u64(),
                sizes: sizes.collect::<Outcome<_>>()?,
            };
            assert_eq!(function["untimed_calls"], 0, "{name} of rank {rank}");
            if let Some(time) = function["time_s"].as_f64() {
                reported.times.insert((rank, name.to_owned()), time);
            }
            reported.functions.insert((rank, name.to_owned()), of);
        }
    }
    let matrix = &report["matrix"];
    assert_eq!(matrix["pairs_cut"], 0);
    for (way, pairs) in [("sent", &mut reported.sent), ("received", &mut reported.received)] {
        for pair in list(&matrix[way]) {
            let ends = (number(pair, "from")?, number(pair, "to")?);
            pairs.insert(ends, (number(pair, "messages")?, number(pair, "bytes")?));
        }
    }
    for (way, name) in ["unresolved_sent", "unresolved_received"].into_iter().enumerate() {
        reported.unresolved[way] = (
            number(&matrix[name], "messages")?,
            number(&matrix[name], "bytes")?,
        );
    }
    Ok(reported)
}

/// Starts a program with the library preloaded, which waits at the end of MPI_Init.
fn start(
    mpi: Mpi,
    ranks: usize,
    program: PathBuf,
    arguments: impl FnOnce(&Path) -> Vec<String>,
) -> Outcome<Job> {
    start_behind(&[], mpi, ranks, program, arguments)
}

/// As `start`, with a command before the program.
fn start_behind(
    before: &[&str],
    mpi: Mpi,
    ranks: usize,
    program: PathBuf,
    arguments: impl FnOnce(&Path) -> Vec<String>,
) -> Outcome<Job> {
    let library = programs::pmpi_truth(mpi)?;
    let all = before.iter().copied().chain(["env"]).map(str::to_owned);
    let mut all: Vec<String> = all.collect();
    let first = PathBuf::from(all.remove(0));
    let job = Job::mpi(mpi, Waiting::Yielding, ranks, &first, |folder| {
        all.extend([
            format!("PMPI_TRUTH={}", folder.display()),
            format!("LD_PRELOAD={}", library.display()),
            program.to_string_lossy().into_owned(),
        ]);
        all.extend(arguments(folder));
        all
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Attaches and lets the program run to its end. Returns the numbers of the library and of the agent.
fn watch(job: &mut Job, ranks: usize) -> Outcome<(Summary, Summary)> {
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    job.open("go")?;
    job.finish(5 * SOON)?;
    let report = agent.finish(SOON)?;
    Ok((truth(&job.file(""), ranks)?, reported(&report)?))
}

/// Fails unless library and agent have the same numbers.
fn compare(mut job: Job, ranks: usize) -> Outcome<Summary> {
    let (truth, seen) = watch(&mut job, ranks)?;
    for (of, expected) in &truth.functions {
        let function = seen.functions.get(of).cloned().unwrap_or_default();
        assert_eq!(function, *expected, "{of:?} of {}", job.command());
    }
    // The report also has parallel regions.
    let of_mpi = seen
        .functions
        .iter()
        .filter(|((_, name), _)| name.starts_with("MPI_"));
    for (of, function) in of_mpi {
        assert!(
            truth.functions.contains_key(of),
            "{of:?}: {function:?} that the truth does not know"
        );
    }
    assert_eq!(seen.sent, truth.sent, "who sent to whom in {}", job.command());
    assert_eq!(
        seen.received,
        truth.received,
        "who received from whom in {}",
        job.command()
    );
    assert_eq!(
        seen.unresolved,
        truth.unresolved,
        "who could not be told in {}",
        job.command()
    );
    Ok(seen)
}

#[test]
fn every_kind_of_call_carries_what_mpi_says_it_does_to_the_rank_that_mpi_says() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let job = start(mpi, 4, programs::mpi("messages", mpi)?, |folder| {
            vec![folder.to_string_lossy().into_owned(), "all".to_owned()]
        })?;
        let seen = compare(job, 4)?;
        assert!(
            seen.functions.len() > 4 * 30,
            "{} functions",
            seen.functions.len()
        );
        assert!(seen.sent.len() >= 8, "{:?}", seen.sent);
        assert_eq!(seen.unresolved[0], (0, 0));
    }
    Ok(())
}

#[test]
fn fortran_programs_are_seen_as_c_programs_are() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich, Fortran);
    for (mpi, f08) in crate::iterations::fortran_bindings() {
        let program = programs::mpi_fortran("exchange", mpi, f08)?;
        let seen = compare(start(mpi, 3, program, |_| Vec::new())?, 3)?;
        assert_eq!(seen.functions[&(0, "MPI_Isend".to_owned())].calls, 20);
        assert_eq!(seen.sent.len(), 6);
    }
    Ok(())
}

#[test]
fn programs_of_mpi4py_are_seen_as_c_programs_are_with_their_arrays_and_objects() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpi4py);
    let script = programs::source("exchange.py");
    let job = start(Mpi::OpenMpi, 3, PathBuf::from("/usr/bin/python3"), |_| {
        vec![script.to_string_lossy().into_owned(), "10".to_owned()]
    })?;
    let seen = compare(job, 3)?;
    // An array, an object, and the object of a communicator with reversed ranks.
    assert_eq!(seen.functions[&(1, "MPI_Mrecv".to_owned())].calls, 20);
    assert_eq!(seen.sent.len(), 6);
    assert_eq!(seen.unresolved, [(0, 0); 2]);
    Ok(())
}

#[test]
fn lammps_and_gromacs_send_as_mpi_reports_and_to_the_same_ranks() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Lammps, Gromacs);
    let of_lammps = compare(start_lammps(4, 200)?, 4)?;
    let of_gromacs = compare(start_gromacs(4, 50)?, 4)?;
    for seen in [of_lammps, of_gromacs] {
        assert!(seen.sent.len() >= 8, "{:?}", seen.sent);
    }
    Ok(())
}

/// Starts LAMMPS with this number of steps.
fn start_lammps(ranks: usize, steps: u64) -> Outcome<Job> {
    let input = lammps::input(steps, 50, lammps::CELLS)?;
    let mut written = Ok(());
    let job = start(Mpi::OpenMpi, ranks, PathBuf::from("lmp"), |folder| {
        written = fs::write(folder.join("in.melt"), input).context("in.melt");
        ["-in", "in.melt", "-log", "none"].map(str::to_owned).to_vec()
    })?;
    written?;
    Ok(job)
}

/// Starts GROMACS with this number of steps.
fn start_gromacs(ranks: usize, steps: u64) -> Outcome<Job> {
    let mut made = Ok(());
    let job = start(Mpi::OpenMpi, ranks, PathBuf::from("gmx_mpi"), |folder| {
        made = gromacs::prepare(folder);
        gromacs::arguments(&["-nsteps", &steps.to_string()])
    })?;
    made?;
    Ok(job)
}

/// High priority: a rank that is preempted between the clock readings of library and agent would be inside
/// MPI for only one of them.
const FIRST: [&str; 3] = ["nice", "-n", "-15"];

/// Minimum mean duration, in seconds, of calls whose times are compared.
const LONG: f64 = 20e-6;

/// Minimum total time of a function in seconds; with less the symbol lookup of the first call matters.
const IN_ALL: f64 = 5e-3;

/// Maximum relative difference of the times.
const APART: f64 = 0.05;

/// A call that the library makes to MPI_PROC_NULL; it does no communication.
const NOTHING: &str = "MPI_Bsend";

/// Compares the times of calls and returns the number of compared functions. The library reads its clock
/// outside our probes, so its times include their cost. Calls without communication give this cost, which can
/// double after a CPU did other work.
fn compare_times(mut job: Job, ranks: usize) -> Outcome<usize> {
    let (truth, seen) = watch(&mut job, ranks)?;
    let mut compared = 0;
    for (of, time) in &truth.times {
        let calls = truth.functions[of].calls as f64;
        let nothing = (of.0, NOTHING.to_owned());
        let probes = (truth.times[&nothing] - seen.times[&nothing]) / truth.functions[&nothing].calls as f64;
        if !(0.0..LONG).contains(&probes) {
            return Err(format!("the probes of a call cost {probes} s").into());
        }
        if time / calls - probes < LONG || *time < IN_ALL {
            continue;
        }
        assert_eq!(seen.functions[of].calls, truth.functions[of].calls, "{of:?}");
        let missing = time - seen.times[of];
        if missing < 0.0 || missing - 2.0 * probes * calls > APART * time {
            let seen = seen.times[of];
            return Err(format!(
                "{of:?} took {time} s by the truth, {seen} s by the agent, in {calls} calls the probes of which cost {probes} s, in {}",
                job.command()
            )
            .into());
        }
        compared += 1;
    }
    Ok(compared)
}

/// Requires one of up to three runs in which the times of at least `least` functions agree. The times of a
/// run differ if the machine was stopped between two clock readings.
fn times_agree(start: impl Fn() -> Outcome<Job>, ranks: usize, least: usize) -> Outcome {
    let mut why = Vec::new();
    for _ in 0..3 {
        match compare_times(start()?, ranks) {
            Ok(compared) if compared >= least => return Ok(()),
            Ok(compared) => why.push(format!("{compared} compared")),
            Err(error) => why.push(error.to_string()),
        }
    }
    Err(why.join("\n").into())
}

#[test]
fn calls_of_known_length_last_as_long_as_mpi_says_they_do_under_both_mpis() -> Outcome {
    // Long runs only, on an idle machine: times of microseconds are compared. `iterations` compares times
    // with a closed form in every run.
    if !is_long() {
        return Ok(());
    }
    let _machine = require!(machine: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let program = programs::mpi("lengths", mpi)?;
        let start = || start_behind(&FIRST, mpi, 2, program.clone(), |_| vec!["300".to_owned()]);
        // The functions in which rank 1 waits: MPI_Recv, MPI_Wait, MPI_Allreduce, MPI_Bcast.
        times_agree(start, 2, 4)?;
    }
    Ok(())
}
