//! The run-time rules on programs that nobody prepared: how much faster each becomes by its own clock, against one that was
//! started right, with the same results. The factors asked for are well below what is seen on an idle machine.

use std::path::{Path, PathBuf};

use tuneagent_e2e::crowd::Crowd;
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, programs, require};

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
    /// The pace after must be so many times that before.
    gain: f64,
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
        assert!(text.contains("kept"), "no change was kept; {told}\n{text}");
        assert!(after >= self.gain * before, "{told}\n{text}");
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
    Case {
        rule: "blas-threads",
        number: 4,
        program: Path::new("/usr/bin/python3"),
        arguments: &[&script.to_string_lossy(), "DIRECTORY", "160"],
        // As on a larger machine, from which the command was copied.
        wrong: &["OPENBLAS_NUM_THREADS=8"],
        right: &["OPENBLAS_NUM_THREADS=1"],
        gain: 1.3,
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
        gain: 2.0,
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
        gain: 2.0,
    }
    .check()
}
