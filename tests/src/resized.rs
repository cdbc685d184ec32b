//! Programs in a control group whose quota is halved and restored while a rule follows it, as a container is resized in place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::crowd::{Crowd, TRIAL_MAX, leave};
use crate::group::Group;
use crate::needs::Need;
use crate::{Outcome, programs, repairs};

/// Long enough for a rule to see what it has to see several times.
const SOON: Duration = Duration::from_secs(90);

/// The CPUs that the group gets, phase by phase.
pub const CPUS: [f64; 2] = [1.0, 2.0];

/// Programs of one kind, and the rule that follows the CPUs they have.
pub struct Resized {
    /// What they are.
    pub name: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// Without which they do not run.
    pub needs: &'static [Need],
    /// What the agent prints of the change.
    pub change: &'static str,
    /// Starts one with so many threads.
    pub start: fn(u32) -> Outcome<Crowd>,
}

/// A pace at one quota, and the threads of a team as the program sees it, if it says so.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// By the program's own clock.
    pub pace: f64,
    /// In its newest region.
    pub team: Option<u64>,
}

/// One for each way in which a program comes to its threads.
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
    /// Started with two threads, and followed by the rule while the quota is halved and restored: each phase, and what was printed.
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
        // A probe that was switched off before is said in the same words.
        agent
            .lines
            .wait_for("what was kept to be undone", SOON, |lines| {
                let mut lines = lines.iter().map(|line| &line.text);
                lines.find(|line| line.contains("kept"))?;
                lines.find(|line| line.contains("its condition no longer holds; undone"))?;
                Some(())
            })?;
        let phases = [halved, phase()?];
        let text = leave(agent)?;
        crowd.finish()?;
        Ok((phases, text))
    }

    /// The pace of one that was started right, at each quota.
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

/// A shipped rule that knows the CPUs by the quota alone, whatever else this machine does; its file lasts as long as the folder.
fn by_the_quota_alone(rule: &str) -> Outcome<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/library/runtime");
    let source = fs::read_to_string(library.join(format!("{rule}.yaml")))?;
    let file = folder.path().join(format!("{rule}.yaml"));
    fs::write(&file, source.replace("cpus.free", "job.cpus"))?;
    let file = file.to_string_lossy().into_owned();
    Ok((folder, file))
}
