//! Expected output of the test programs, computed independently, and parsers for their output.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::programs;
pub(crate) use tuneagent_e2e::wait::SOON;
use tuneagent_e2e::{Outcome, mmix};

/// The median; the upper one of two middle values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Calls and bytes of one function; `None` if the program does not count bytes.
pub(crate) type Count = (u64, Option<u64>);

/// Calls and bytes by function, from a "functions" list; the program's output and the report have the same
/// format.
pub(crate) fn counts(functions: &Value) -> Outcome<BTreeMap<String, Count>> {
    let list = functions.as_array().ok_or("no list of functions")?;
    let mut counts = BTreeMap::new();
    for function in list {
        let name = function["name"].as_str().ok_or("a function without a name")?;
        let calls = function["calls"].as_u64().ok_or("a function without calls")?;
        counts.insert(name.to_owned(), (calls, function["bytes"].as_u64()));
    }
    Ok(counts)
}

/// Starts `count`, which waits at its first gate.
pub(crate) fn start_count(mpi: Mpi, ranks: usize, flags: &[&str]) -> Outcome<Job> {
    let program = programs::mpi("count", mpi)?;
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let job = Job::mpi(mpi, Waiting::Yielding, ranks, &program, |folder| {
        with_folder(folder, flags)
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Starts `busywork`, which makes this number of rounds after its gate.
pub(crate) fn start_busywork(rounds: &str) -> Outcome<Job> {
    let program = programs::c("busywork")?;
    let job = Job::alone(&program, |folder| with_folder(folder, vec![rounds.to_owned()]))?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// Lets watched programs run from their first gate to their last one, ends the session, then the programs.
/// Returns the programs' own counts in rank order, and the report.
pub(crate) fn summed(job: &mut Job, agent: &mut Agent, processes: usize) -> Outcome<(Vec<Value>, Value)> {
    agent.armed()?;
    job.open("go")?;
    let own_counts = job.events("tally", processes, SOON)?;
    let report = agent.stop()?;
    job.end(SOON)?;
    Ok((own_counts, report))
}

/// Starts `pingpong`, which waits at its gate. 0 iterations: until the gate "stop".
pub(crate) fn start_pingpong(mpi: Mpi, waiting: Waiting, ranks: usize, iterations: u64) -> Outcome<Job> {
    let program = programs::mpi("pingpong", mpi)?;
    let job = Job::mpi(mpi, waiting, ranks, &program, |folder| {
        with_folder(folder, vec![iterations.to_string()])
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Starts `workers` under MPICH and opens its gate. Settings: work and latency in microseconds, initial
/// number of workers.
pub(crate) fn start_workers(ranks: usize, settings: [&str; 3]) -> Outcome<Job> {
    let program = programs::mpi("workers", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, &program, |folder| {
        with_folder(folder, settings.map(String::from).to_vec())
    })?;
    job.events("ready", ranks, SOON)?;
    job.open("go")?;
    Ok(job)
}

pub(crate) fn with_folder(folder: &Path, more: Vec<String>) -> Vec<String> {
    std::iter::once(folder.to_string_lossy().into_owned())
        .chain(more)
        .collect()
}

/// Waits for the end of `pingpong` and compares its result with the model.
pub(crate) fn finish_pingpong(mut job: Job, ranks: u64) -> Outcome<u64> {
    let result = job.events("result", 1, SOON)?.remove(0);
    job.finish(SOON)?;
    let iterations = result["iterations"]
        .as_u64()
        .ok_or("no iterations in the result")?;
    assert_eq!(
        result["checksum"],
        pingpong_checksum(ranks, iterations),
        "after {iterations} iterations"
    );
    Ok(iterations)
}

/// Expected checksum of `pingpong.c`: the value of each pair is mixed once per iteration, and so is the sum
/// over all ranks.
pub(crate) fn pingpong_checksum(ranks: u64, iterations: u64) -> String {
    let mut values: Vec<u64> = (1..=ranks / 2).collect();
    let mut sum = 0u64;
    for _ in 0..iterations {
        values.iter_mut().for_each(|value| *value = mmix(*value));
        // The odd rank of a pair returns the mixed value, so both have it. The last bit is not part of the
        // sum.
        let total = values.iter().fold(0u64, |total, value| {
            total.wrapping_add((value & !1).wrapping_mul(2))
        });
        sum = mmix(sum ^ total);
    }
    format!("{sum:016x}")
}

/// Writes a file with this name into a new folder. Returns the folder and the path.
pub(crate) fn text_file(name: &str, text: &str) -> Outcome<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let file = written(folder.path(), name, text)?;
    Ok((folder, file))
}

/// Writes a file with this name into a folder. Returns its path.
pub(crate) fn written(folder: &Path, name: &str, text: &str) -> Outcome<String> {
    let file = folder.join(name);
    std::fs::write(&file, text)?;
    Ok(self::text(&file))
}

/// A path as an argument of a command.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
