//! The run-time rules on unprepared programs: each becomes faster by its own clock, compared with a program
//! that was started with the right settings, and has the same results. The required factors are far below
//! those of an idle machine, which the experiment `runtime` measures. The tests of LAMMPS are in `lammps`.

use std::collections::BTreeMap;
use std::fs;

use tuneagent_e2e::crowd::{Crowd, leave};
use tuneagent_e2e::group::Group;
use tuneagent_e2e::needs::{is_long, lacks, machine};
use tuneagent_e2e::repairs::{self, HEALTHY, Healthy, Start};
use tuneagent_e2e::resized::{CPUS, RESIZED};
use tuneagent_e2e::{Outcome, programs, require, wheels};

use crate::expected::SOON;

/// Seconds over which a pace is measured.
const OVER: f64 = 1.0;

/// Duration of a session: twice the time in which a rule acts, which is four windows of 0.5 s.
const JUDGED: &str = "4s";

fn becomes_faster(name: &str) -> Outcome {
    let case = repairs::case(name)?;
    let _machine = machine();
    if lacks(name, case.needs)? {
        return Ok(());
    }
    // Two attempts: on a busy machine the guard may find too little gain, and code in use cannot be changed.
    let tried = case.tried(OVER).or_else(|error| {
        println!("tried again: {error}");
        case.tried(OVER)
    })?;
    let (paces, text) = (tried.paces, &tried.text);
    let reported = format!("{}, {}: {paces:.1?}", case.name, case.unit);
    println!("{reported}");
    for part in case.done {
        assert!(text.contains(part), "'{part}' was not said; {reported}\n{text}");
    }
    // If other programs use the machine, the right settings gain less, too.
    let gain = ((case.gain)() / 4.0).min(0.5 * paces.right / paces.before);
    assert!(paces.after >= gain * paces.before, "{reported}\n{text}");
    // MPICH has no right settings; the experiment compares its repair with a preloaded library.
    if case.rule != "mpich-busy-wait" {
        assert!(paces.after >= 0.5 * paces.right, "{reported}\n{text}");
    }
    let (compared, different) = tried.compared();
    assert_eq!(different, None, "results with and without us\n{tried:?}");
    assert!(compared > 0, "nothing came out of both\n{tried:?}");
    Ok(())
}

/// The rule acts and its change is reverted, and the results stay the same. Only long runs measure the gain;
/// in short runs other cases measure rules of the same kind.
fn is_repaired(name: &str) -> Outcome {
    if is_long() {
        return becomes_faster(name);
    }
    let case = repairs::case(name)?;
    let _machine = machine();
    if lacks(name, case.needs)? {
        return Ok(());
    }
    let crowd = (case.start)(Start::Wrong)?;
    crowd.pace(0.1)?;
    let agent = crowd.attach(&[&format!("--apply={}", case.rule)])?;
    agent.lines.wait_for_line(case.done[0], SOON)?;
    crowd.pace(0.1)?;
    let text = leave(agent)?;
    crowd.pace(0.1)?;
    let results = crowd.finish()?;
    assert!(
        !results.is_empty() && results.values().all(|of| of.len() == 1),
        "{results:?}\n{text}"
    );
    Ok(())
}

/// Long runs only: in short runs another test covers the same rule or action.
fn faster_in_long_runs(name: &str) -> Outcome {
    match is_long() {
        true => becomes_faster(name),
        false => Ok(()),
    }
}

#[test]
fn gromacs_with_spinning_ranks_becomes_faster_with_the_same_energies() -> Outcome {
    faster_in_long_runs("GROMACS")
}

#[test]
fn ranks_of_mpi4py_that_spin_become_faster() -> Outcome {
    faster_in_long_runs("mpi4py")
}

#[test]
fn ranks_of_mpich_that_spin_become_faster() -> Outcome {
    faster_in_long_runs("MPICH")
}

#[test]
fn ranks_of_mpich_5_that_spin_become_faster() -> Outcome {
    is_repaired("MPICH 5")
}

/// `openmp_teams_follow_a_quota_down_and_up` includes the verdict on this repair.
#[test]
fn openmp_programs_whose_teams_fight_for_cores_become_faster() -> Outcome {
    is_repaired("OpenMP")
}

#[test]
fn programs_on_other_libraries_of_threads_are_repaired() -> Outcome {
    // XGBoost has thousands of region bodies and loads two copies of OpenBLAS.
    ["NumPy", "MKL", "XGBoost", "llama.cpp"]
        .into_iter()
        .try_for_each(is_repaired)
}

/// With one thread they begin no parallel region any more, so that only their own reading of the number shows their pace.
#[test]
fn programs_on_the_number_of_threads_of_pytorch_become_faster() -> Outcome {
    if is_long() {
        return becomes_faster("PyTorch");
    }
    // The guard's verdict is about that pace.
    let case = repairs::case("PyTorch")?;
    let _machine = require!(machine: Root, Cc);
    let crowd = (case.start)(Start::Wrong)?;
    let text = crowd.repair(case.rule, case.done)?;
    assert_has!(text, case.done[0], case.done[1]);
    let results = crowd.finish()?;
    assert!(results.values().all(|of| of.len() == 1), "{results:?}\n{text}");
    Ok(())
}

#[test]
fn memory_that_is_kept_or_given_back_too_soon_is_repaired() -> Outcome {
    ["freed 512 MiB", "blocks of 64 MiB"]
        .into_iter()
        .try_for_each(is_repaired)
}

#[test]
fn programs_that_state_their_teams_become_faster() -> Outcome {
    ["state their teams", "to LLVM's OpenMP", "LightGBM"]
        .into_iter()
        .try_for_each(faster_in_long_runs)
}

#[test]
fn programs_compiled_by_llvm_become_faster() -> Outcome {
    faster_in_long_runs("on LLVM's OpenMP")
}

/// The call that sets the team size would have no effect here. The effective repair changes code, so its rule
/// must be named in `--apply`.
#[test]
fn a_team_size_that_is_stated_is_repaired_by_its_own_rule_and_put_back() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let crowd = (repairs::case("state their teams")?.start)(Start::Wrong)?;
    let agent = crowd.attach(&["--apply"])?;
    agent
        .lines
        .wait_for_line("finding  openmp-stated-team-size", SOON)?;
    let text = leave(agent)?;
    assert_has!(
        text,
        "The program itself states the size of its teams: up to 2 threads.",
        "--apply=openmp-stated-team-size --keep",
        "must be named",
        "nothing was changed"
    );
    assert!(!text.contains("finding  openmp-team-size"), "{text}");

    let teams = || -> Outcome<serde_json::Value> {
        crowd.pace(0.1)?;
        Ok(crowd.newest("teams").into())
    };
    assert_eq!(teams()?, serde_json::json!([[2, 2], [2, 2]]));
    let agent = crowd.attach(&["--apply=openmp-stated-team-size"])?;
    // Both loops, which start their teams through different functions.
    let done = "set_arg openmp.size = min(original, 1): done in 2 processes";
    agent.lines.wait_for_line(done, SOON)?;
    assert_eq!(
        teams()?,
        serde_json::json!([[1, 1], [1, 1]]),
        "{}",
        agent.lines.text()
    );
    let text = leave(agent)?;
    assert_has!(
        text,
        "argument 2 of GOMP_parallel, GOMP_parallel_loop_nonmonotonic_dynamic = min(original, 1)",
        "2 changes reverted"
    );
    assert_eq!(teams()?, serde_json::json!([[2, 2], [2, 2]]), "{text}");
    let results = crowd.finish()?;
    assert!(results.values().all(|of| of.len() == 1), "{results:?}");
    Ok(())
}

#[test]
fn programs_bound_to_one_core_beside_an_idle_one_become_faster() -> Outcome {
    ["one core", "bound itself"]
        .into_iter()
        .try_for_each(faster_in_long_runs)
}

/// Each thread has its own CPU mask. Only one rule acts: while other programs use the other CPU, a smaller team
/// is the right repair.
#[test]
fn threads_that_were_bound_anew_are_bound_as_before_when_the_agent_leaves() -> Outcome {
    let _machine = require!(machine: Root, Cc, IdleCore);
    let crowd = (repairs::case("bound itself")?.start)(Start::Wrong)?;
    crowd.pace(0.1)?;
    let masks = || masks(&crowd.pids()[0]);
    let before = masks()?;
    assert!(
        before.len() == 2 && before.values().all(|cpus| cpus == "0"),
        "{before:?}"
    );
    let agent = crowd.attach(&["--apply=shared-core"])?;
    agent
        .lines
        .wait_for_line("affinity: spread: done in 1 process", SOON)?;
    let now = masks()?;
    assert!(now.values().all(|cpus| cpus != "0"), "{now:?}");
    agent.lines.wait_for_line("guard", SOON)?;
    let text = leave(agent)?;
    assert_has!(
        text,
        "bound to 1 CPUs",
        "Their parent or launcher may use",
        "1 change reverted"
    );
    assert_eq!(masks()?, before, "{text}");
    crowd.finish().map(|_| ())
}

/// Allowed CPUs of each thread of a process.
fn masks(pid: &str) -> Outcome<BTreeMap<String, String>> {
    let mut masks = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        let status = fs::read_to_string(thread.path().join("status"))?;
        let mut lines = status.lines();
        let cpus = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = cpus.ok_or("no list of CPUs")?.trim().to_owned();
        masks.insert(thread.file_name().to_string_lossy().into_owned(), cpus);
    }
    Ok(masks)
}

/// The threads wait because of the quota, and more CPUs would not help.
#[test]
fn programs_bound_to_one_core_under_a_quota_of_one_cpu_are_not_bound_anew() -> Outcome {
    let _machine = require!(machine: Root, Cc, Quota);
    let crowd = (repairs::case("bound itself")?.start)(Start::Wrong)?.within(Group::with_quota(1.0)?)?;
    crowd.pace(0.1)?;
    let mut agent = crowd.attach(&["--apply", "--duration", JUDGED])?;
    let code = agent.wait(SOON)?;
    let text = agent.lines.text();
    assert!(code == 0 && !text.contains("shared-core"), "{text}");
    crowd.finish().map(|_| ())
}

/// Starts processes that infer by ONNX Runtime.
fn infer(number: usize, threads: u32) -> Outcome<Crowd> {
    let (script, threads) = (programs::source("infer.py"), threads.to_string());
    let python = wheels::ONNX_RUNTIME
        .file()
        .ok_or("ONNX Runtime is not there: cargo xtask setup")?;
    let words = [&script.to_string_lossy(), "DIRECTORY", &threads];
    Crowd::start(number, &[], &python, &words)
}

#[test]
fn processes_of_onnx_runtime_with_too_many_threads_get_advice_and_those_started_right_none() -> Outcome {
    let _machine = require!(machine: Root, OnnxRuntime);
    for (threads, is_advised) in [(2, true), (1, false)] {
        let crowd = infer(2, threads)?;
        crowd.pace(0.1)?;
        let mut agent = crowd.attach(&["--duration", JUDGED])?;
        let code = agent.wait(SOON)?;
        let text = agent.lines.text();
        assert!(
            code == 0 && text.contains("onnx-threads") == is_advised,
            "{threads} threads: {text}"
        );
        assert_eq!(
            text.contains("next   intra_op_num_threads=1 "),
            is_advised,
            "{text}"
        );
        crowd.finish()?;
    }
    Ok(())
}

/// There must be one change, which is reverted when there are enough CPUs again.
fn follows(name: &str) -> Outcome {
    let found = RESIZED.iter().find(|resized| resized.name.contains(name));
    let resized = found.ok_or("there is no such program")?;
    let _machine = machine();
    if lacks(name, resized.needs)? {
        return Ok(());
    }
    let (phases, text) = resized.followed(OVER)?;
    println!("{name}: {phases:.0?}");
    for (phase, cpus) in phases.iter().zip(CPUS) {
        assert!(
            phase.team.is_none_or(|team| team as f64 == cpus),
            "{phases:?}\n{text}"
        );
    }
    assert_has!(text, "1 decision");
    Ok(())
}

/// Long runs only: the first case is covered in every run, and the rules share their texts.
fn follows_in_long_runs(name: &str) -> Outcome {
    match is_long() {
        true => follows(name),
        false => Ok(()),
    }
}

#[test]
fn openmp_teams_follow_a_quota_down_and_up() -> Outcome {
    follows("teams left to the library")
}

#[test]
fn stated_openmp_teams_follow_a_quota_down_and_up() -> Outcome {
    follows_in_long_runs("stated teams")
}

#[test]
fn blas_threads_follow_a_quota_down_and_up() -> Outcome {
    follows_in_long_runs("NumPy")
}

#[test]
fn threads_of_llama_cpp_follow_a_quota_down_and_up() -> Outcome {
    follows_in_long_runs("llama.cpp")
}

#[test]
fn programs_that_are_started_right_are_not_touched() -> Outcome {
    let _machine = require!(machine: Root);
    // In short runs some programs only; the experiment `untouched` runs all of them.
    let every = if is_long() { 1 } else { 5 };
    for Healthy {
        name, needs, start, ..
    } in HEALTHY.iter().step_by(every)
    {
        if lacks(name, needs)? {
            continue;
        }
        let crowd = start()?;
        crowd.pace(0.1)?;
        let mut agent = crowd.attach(&["--apply", "--duration", JUDGED])?;
        let code = agent.wait(SOON)?;
        let text = agent.lines.text();
        for part in ["no finding", "nothing was changed"] {
            assert!(code == 0 && text.contains(part), "{name}: {part}\n{text}");
        }
        assert!(
            !text.contains("apply when") && !text.contains("must be named"),
            "{name} has nothing to be named for:\n{text}"
        );
        // The program continues after the session.
        crowd.pace(0.1)?;
        let results = crowd.finish()?;
        assert!(results.values().all(|of| of.len() == 1), "{name}: {results:?}");
    }
    Ok(())
}
