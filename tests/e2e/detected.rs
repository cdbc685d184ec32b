//! Rules on the detected loop of programs that nobody prepared: windows that are its iterations.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::crowd::paired;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::{calm, is_long, machine};
use tuneagent_e2e::repairs::large_trees;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, median, with_folder};
use crate::iterations::wait_for_report;
use crate::scaling::start_with;

/// An iteration of the program `loops` has one broadcast, and both ranks take part in it.
const EACH_ITERATION: &str = "\
rule: each-iteration
about: Iterations of all ranks, with their broadcasts.
probes:
  step: {span: loop.iteration}
  broadcast: {entry: mpi.MPI_Bcast}
windows:
  iteration: {detect: period}
tune:
  - finding: \"{count(step)} ranks, {count(broadcast)} broadcasts\"
    when: count(step) == 2 and count(broadcast) == 2 and iteration.duration > 0s
    for: 10
";

/// The finding of a rule, if it has one.
fn finding(report: &Value, rule: &str) -> Option<String> {
    let found = each(&report["findings"]).find(|finding| finding["rule"] == rule)?;
    Some(found["text"].as_str()?.to_owned())
}

#[test]
fn windows_of_a_rule_are_the_iterations_of_all_ranks_under_both_mpis() -> Outcome {
    let _machine = require!(calm: Root, OpenMpi, Mpich);
    let folder = tempfile::tempdir()?;
    let rule = folder.path().join("each-iteration.yaml");
    std::fs::write(&rule, EACH_ITERATION)?;
    for mpi in Mpi::ALL {
        let program = programs::mpi("loops", mpi)?;
        let mut job = Job::mpi(mpi, Waiting::Yielding, 2, &program, |folder| {
            with_folder(folder, ["nested", "20"].map(str::to_owned).to_vec())
        })?;
        job.events("ready", 2, SOON)?;
        let rules = ["--rules", "none", "--rules", &rule.to_string_lossy()];
        let mut agent = Agent::attach_armed(job.pid(), &rules)?;
        wait_for_report(&agent, |now| finding(now, "each-iteration").is_some())?;
        let report = agent.stop()?;
        assert_eq!(
            finding(&report, "each-iteration").as_deref(),
            Some("2 ranks, 2 broadcasts"),
            "{mpi:?}"
        );
        // Twenty pairs of calls in an inner loop, and the broadcast.
        assert_eq!(report["iteration"]["mpi_calls"], 41.0, "{}", report["iteration"]);
        job.open("stop")?;
        job.finish(SOON)?;
    }
    Ok(())
}

/// With p threads an iteration takes 5 + 80 (1 + 0.03 (p - 1)) / p ms, 2 ms of it outside of the region.
fn speedup_without_a_name(program: PathBuf) -> Outcome {
    let _machine = calm();
    let job = start_with(program, "KMP_BLOCKTIME=0", "call 2000 80000 3000 30 4 8")?;
    let rules: Vec<&str> = "--rules none --rules speedup --param worthwhile=100%"
        .split(' ')
        .collect();
    let mut agent = Agent::attach_armed(job.pid(), &rules)?;
    let of_eight = |report: &Value| {
        let text = finding(report, "speedup")?;
        let speedup = text
            .strip_prefix("8 threads have a speedup of ")?
            .split(':')
            .next()?;
        speedup.parse::<f64>().ok()
    };
    // T(4) / T(8) times Amdahl's factor of four threads.
    let expected = 26.8 / 17.1 * 3.756;
    wait_for_report(&agent, |now| {
        of_eight(now).is_some_and(|speedup| (speedup / expected - 1.0).abs() < 0.04)
    })?;
    agent.stop()?;
    Ok(())
}

#[test]
fn the_rule_speedup_needs_no_named_function() -> Outcome {
    require!(Root, Cc);
    speedup_without_a_name(programs::openmp("losses")?)
}

#[test]
fn the_rule_speedup_needs_no_named_function_on_llvm() -> Outcome {
    require!(Root, Cc, LlvmOpenMp);
    speedup_without_a_name(programs::openmp_of_llvm("losses")?)
}

/// The effects of the changes of the rule `threads`, until it has kept two or reverted one. With p threads an
/// iteration takes 2 ms, and `work_us` (1 + `inflation` (p - 1) / 1000) / p.
fn effects_of_threads(work_us: u32, inflation: u32) -> Outcome<Vec<String>> {
    let _machine = machine();
    let words = format!("library 2000 {work_us} 0 {inflation}");
    let mut job = start_with(programs::openmp("losses")?, "OMP_NUM_THREADS=4", &words)?;
    let rules = ["--rules", "none", "--rules", "threads", "--apply=threads"];
    let mut agent = Agent::attach_armed(job.pid(), &rules)?;
    let effects = |report: &Value| -> Vec<String> {
        let changes = each(&report["changes"]);
        let known = changes.filter_map(|change| change["guard"]["effect"].as_str().map(str::to_owned));
        known.collect()
    };
    wait_for_report(&agent, |now| {
        let effects = effects(now);
        effects.len() == 2 || effects.iter().any(|effect| effect != "confirmed")
    })?;
    agent.signal(Signal::INT)?;
    // 1 means that the guard has reverted a change.
    let report = agent.finish_with(SOON, &[0, 1])?;
    job.open("stop")?;
    job.end(SOON)?;
    Ok(effects(&report))
}

#[test]
fn the_rule_threads_keeps_the_fewer_threads_with_which_iterations_are_faster() -> Outcome {
    require!(Root, Cc);
    // 29.5 ms with four threads, 27 ms with two, 22 ms with one.
    assert_eq!(effects_of_threads(20_000, 1_500)?, ["confirmed", "confirmed"]);
    Ok(())
}

/// LightGBM is stripped, and nobody prepared it. It scales, so fewer threads are reverted; its models are the same.
/// Only long runs: a share of the pace takes a while.
#[test]
fn the_rule_threads_makes_lightgbm_no_slower() -> Outcome {
    require!(Root, PythonWheels);
    if !is_long() {
        return Ok(());
    }
    let _machine = machine();
    let (one, other) = (large_trees()?, large_trees()?);
    let words = ["--rules", "none", "--rules", "threads", "--apply=threads"];
    let look = |text: &str| {
        println!("{text}");
        Ok(())
    };
    let share = median(paired(&one, &other, &words, (4, 10.0), look)?);
    for crowd in [one, other] {
        let results = crowd.finish()?;
        assert!(results.values().all(|of| of.len() == 1), "{results:?}");
    }
    // A trial takes ten iterations of some hundred. What other programs do in a turn is not in the promise of 2 %.
    assert!(share >= 0.9, "{share}");
    Ok(())
}

#[test]
fn the_rule_threads_leaves_a_program_that_scales_as_it_was() -> Outcome {
    require!(Root, Cc);
    // 24 ms with four threads, 43 ms with two.
    assert_eq!(effects_of_threads(80_000, 30)?, ["worse"]);
    Ok(())
}
