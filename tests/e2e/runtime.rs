//! The run-time rules on programs that nobody prepared: how much faster each becomes by its own clock, against one that was
//! started right, with the same results. The factors asked for are well below what is seen on an idle machine.

use std::path::{Path, PathBuf};

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::crowd::Crowd;
use tuneagent_e2e::job::{Job, Waiting};
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, gromacs, programs, require};

use crate::expected::SOON;

/// Lines of each program, four a second, that make a pace.
const LINES: usize = 8;

/// What is tried: programs started wrong, the rule that repairs them, and how they are started right.
struct Case<'a> {
    rule: &'a str,
    number: usize,
    program: &'a Path,
    arguments: &'a [&'a str],
    wrong: &'a [&'a str],
    right: &'a [&'a str],
    /// What the agent says once it is done.
    done: &'a str,
    /// The pace after must be so many times that before, or half of what starting right gives on a machine that others use; and
    /// the guard must have kept the change. None where that depends on the library's version.
    gain: Option<f64>,
}

impl Case<'_> {
    fn check(&self) -> Outcome {
        let start = |environment| Crowd::start(self.number, environment, self.program, self.arguments);
        let crowd = start(self.wrong)?;
        let before: f64 = crowd.pace(LINES)?.iter().sum();
        let text = crowd.repair(self.rule)?;
        let after: f64 = crowd.pace(LINES)?.iter().sum();
        let results = crowd.finish()?;
        let crowd = start(self.right)?;
        let right: f64 = crowd.pace(LINES)?.iter().sum();
        let expected = crowd.finish()?;
        let told = format!(
            "{}: {before:.1}/s, after {after:.1}/s, started right {right:.1}/s",
            self.rule
        );
        println!("{told}");
        assert!(text.contains(self.done), "{told}\n{text}");
        if let Some(gain) = self.gain {
            assert!(text.contains("kept"), "no change was kept; {told}\n{text}");
            assert!(after >= gain.min(0.5 * right / before) * before, "{told}\n{text}");
        }
        assert!(after >= 0.5 * right, "{told}\n{text}");
        assert_eq!(
            (results.len(), &results),
            (1, &expected),
            "results with and without us"
        );
        Ok(())
    }
}

fn products() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/products.py")
}

#[test]
fn numpy_processes_with_too_many_blas_threads_become_faster() -> Outcome {
    require!(Root, NumPy);
    let _machine = machine();
    let script = products();
    // Debian's OpenBLAS waits politely and loses little; that of the wheels spins. A Python that has NumPy from a wheel can be named.
    let wheels = std::env::var("TUNEAGENT_PYTHON").ok();
    Case {
        rule: "blas-threads",
        number: 4,
        program: Path::new(wheels.as_deref().unwrap_or("/usr/bin/python3")),
        arguments: &[&script.to_string_lossy(), "DIRECTORY", "160"],
        wrong: &[],
        right: &["OPENBLAS_NUM_THREADS=1"],
        done: "4 changes written and read back",
        gain: wheels.as_ref().map(|_| 5.0),
    }
    .check()
}

#[test]
fn openmp_programs_whose_teams_fight_for_cores_become_faster() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    Case {
        rule: "openmp-team-size",
        number: 2,
        program: &programs::openmp("teams")?,
        arguments: &["DIRECTORY", "2000"],
        wrong: &[],
        right: &["OMP_NUM_THREADS=1"],
        done: "call omp_set_num_threads(1): done in 2 processes",
        gain: Some(2.0),
    }
    .check()
}

#[test]
fn a_program_that_gives_its_memory_back_becomes_faster() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    Case {
        rule: "memory-given-back",
        number: 1,
        program: &programs::c("churn")?,
        arguments: &["DIRECTORY", "3", "64"],
        wrong: &[],
        right: &["GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296"],
        done: "call mallopt(-1, -1): done in 1 process",
        gain: Some(2.0),
    }
    .check()
}

/// Lines about steps that make a pace.
const STEPS: usize = 5;

#[test]
fn an_unmodified_gromacs_whose_ranks_spin_becomes_faster_with_the_same_energies() -> Outcome {
    require!(Root, OpenMpi, Gromacs);
    let _machine = machine();
    let begun = |job: &Job, more: usize| {
        let had = gromacs::steps(&job.lines.all()).len();
        job.lines.wait_for("steps of GROMACS", 6 * SOON, |lines| {
            let steps = gromacs::steps(lines);
            (steps.len() > had + more).then(|| steps[had..].to_vec())
        })
    };
    let job = gromacs::start(Waiting::Spinning, 4)?;
    let before = gromacs::pace(&begun(&job, STEPS)?)?;
    let mut agent = Agent::attach(job.pid(), &["--apply", "--keep"])?;
    agent.lines.wait_for_line("kept", 4 * SOON)?;
    agent.finish(2 * SOON)?;
    let after = gromacs::pace(&begun(&job, 10 * STEPS)?)?;
    let right = gromacs::start(Waiting::Yielding, 4)?;
    let expected = gromacs::pace(&begun(&right, 10 * STEPS)?)?;
    let told = format!("GROMACS: {before:.1} steps/s, after {after:.1}, started right {expected:.1}");
    println!("{told}");
    assert!(
        after >= (3.0 * before).min(0.5 * expected),
        "{told}\n{}",
        agent.lines.text()
    );
    let (ours, theirs) = (gromacs::energies(&job)?, gromacs::energies(&right)?);
    let both: Vec<&u64> = ours.keys().filter(|step| theirs.contains_key(step)).collect();
    assert!(both.len() > STEPS, "{} steps are in both", both.len());
    for step in both {
        assert_eq!(ours[step], theirs[step], "energies of step {step}");
    }
    Ok(())
}

#[test]
fn programs_that_are_started_right_are_not_touched() -> Outcome {
    require!(Root, Cc, NumPy);
    let _machine = machine();
    let (script, python) = (products(), Path::new("/usr/bin/python3"));
    let (script, teams, churn) = (
        script.to_string_lossy(),
        programs::openmp("teams")?,
        programs::c("churn")?,
    );
    let keeps = "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296";
    let right: [(&str, &Path, &[&str]); 3] = [
        ("OPENBLAS_NUM_THREADS=1", python, &[&script, "DIRECTORY", "160"]),
        ("OMP_NUM_THREADS=1", &teams, &["DIRECTORY", "2000"]),
        (keeps, &churn, &["DIRECTORY", "3", "64"]),
    ];
    for (environment, program, arguments) in right {
        let crowd = Crowd::start(1, &[environment], program, arguments)?;
        crowd.pace(2)?;
        let (code, text) = Agent::run(&[
            "attach",
            &crowd.pids()[0],
            "--plain",
            "--apply",
            "--duration",
            "6s",
        ])?;
        assert_eq!(code, 0, "{text}");
        for part in ["no finding", "nothing was changed"] {
            assert!(text.contains(part), "{environment}: {part}\n{text}");
        }
        // It counts from its start, so that a pace says that it goes on.
        crowd.pace(2)?;
        assert_eq!(crowd.finish()?.len(), 1);
    }
    Ok(())
}
