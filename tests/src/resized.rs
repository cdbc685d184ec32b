//! Programs in a control group whose quota is halved and restored while a rule follows it, as if a container
//! were resized in place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::crowd::{Crowd, TRIAL_MAX, leave};
use crate::group::Group;
use crate::needs::Need;
use crate::{Outcome, programs, repairs};

/// Maximum time for a rule to see a condition in several windows.
const SOON: Duration = Duration::from_secs(90);

/// CPUs of the group in each phase.
pub const CPUS: [f64; 2] = [1.0, 2.0];

/// One kind of program, and the rule that adapts it to the available CPUs.
pub struct Resized {
    /// Name of the case.
    pub name: &'static str,
    /// Name of the rule.
    pub rule: &'static str,
    /// Requirements of the program.
    pub needs: &'static [Need],
    /// The agent's text about the change.
    pub change: &'static str,
    /// Starts a program with this number of threads.
    pub start: fn(u32) -> Outcome<Crowd>,
}

/// Pace at one quota, and the team size if the program reports one.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Pace by the program's own clock.
    pub pace: f64,
    /// Team size of its newest region.
    pub team: Option<u64>,
}

/// One case for each way in which a program chooses its number of threads.
pub static RESIZED: [Resized; 4] = [
    Resized {
        name: "OpenMP, teams left to the library",
        rule: "openmp-team-size",
        needs: &[Need::Root, Need::Cc, Need::Quota],
        change: "call omp_set_num_threads(1): done in 1 process",
        start: |threads| {
            let environment = format!("OMP_NUM_THREADS={threads}");
            let program = programs::openmp("teams")?;
            Crowd::start(1, &[&environment], &program, &["DIRECTORY", "100000"])
        },
    },
    Resized {
        name: "OpenMP, stated teams",
        rule: "openmp-stated-team-size",
        needs: &[Need::Root, Need::Cc, Need::Quota],
        change: "set_arg openmp.size = min(original, 1): done in 1 process",
        start: |threads| {
            let (program, threads) = (programs::openmp("teams")?, threads.to_string());
            Crowd::start(1, &[], &program, &["DIRECTORY", "100000", &threads])
        },
    },
    Resized {
        name: "NumPy, products of 160 rows",
        rule: "blas-threads",
        needs: &[Need::Root, Need::PythonWheels, Need::Quota],
        change: "1 change written and read back",
        start: |threads| repairs::products(1, &[&format!("OPENBLAS_NUM_THREADS={threads}")], 160),
    },
    Resized {
        name: "llama.cpp",
        rule: "ggml-threads",
        needs: &[Need::Root, Need::LlamaCpp, Need::Quota],
        change: "set_arg ggml_graph_plan(2) = min(original, 1): done in 1 process",
        start: |threads| repairs::tokens(1, threads),
    },
];

impl Resized {
    /// Starts a program with two threads, halves and restores the quota, and lets the rule follow. Returns
    /// both phases and the output.
    pub fn followed(&self, over: f64) -> Outcome<([Phase; 2], String)> {
        let group = Group::with_quota(CPUS[1])?;
        let crowd = (self.start)(2)?;
        crowd.pids().iter().try_for_each(|pid| group.take(pid))?;
        crowd.pace(0.1)?;
        let (_folder, rule) = by_the_quota_alone(self.rule)?;
        let apply = format!("--apply={}", self.rule);
        let agent = crowd.attach(&["--rules", "none", &rule, &apply])?;
        agent.lines.wait_for_line("armed", SOON)?;
        group.set_quota(CPUS[0])?;
        agent.lines.wait_for_line(self.change, SOON)?;
        agent.lines.wait_for_line("kept", TRIAL_MAX)?;
        let phase = || -> Outcome<Phase> {
            let pace = crowd.pace(over)?;
            let team = crowd.newest("teams")[0][0].as_u64();
            Ok(Phase { pace, team })
        };
        let halved = phase()?;
        group.set_quota(CPUS[1])?;
        // The same words are printed for a probe that was switched off before.
        agent
            .lines
            .wait_for("what was kept to be reverted", SOON, |lines| {
                let mut lines = lines.iter().map(|line| &line.text);
                lines.find(|line| line.contains("kept"))?;
                lines.find(|line| line.contains("its condition no longer holds; reverted"))?;
                Some(())
            })?;
        let phases = [halved, phase()?];
        let text = leave(agent)?;
        crowd.finish()?;
        Ok((phases, text))
    }

    /// Pace at each quota of a program started with the right settings.
    pub fn right(&self, over: f64) -> Outcome<[f64; 2]> {
        let at = |cpus: f64| {
            let crowd = (self.start)(cpus as u32)?.within(Group::with_quota(cpus)?)?;
            crowd.pace(0.1)?;
            let pace = crowd.pace(over)?;
            crowd.finish()?;
            Outcome::Ok(pace)
        };
        Ok([at(CPUS[0])?, at(CPUS[1])?])
    }
}

/// A shipped rule that uses only the quota, so that other load on this machine has no effect. The file is
/// deleted with the folder.
fn by_the_quota_alone(rule: &str) -> Outcome<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/library/runtime");
    let source = fs::read_to_string(library.join(format!("{rule}.yaml")))?;
    let file = folder.path().join(format!("{rule}.yaml"));
    fs::write(&file, source.replace("cpus.free", "job.cpus"))?;
    let file = file.to_string_lossy().into_owned();
    Ok((folder, file))
}
