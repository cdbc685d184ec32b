//! One run of a program: alone, watched, or tuned. The program reports its iterations; no figure of a run
//! comes from the agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};

use crate::Result;
use crate::measure::Settings;

/// Maximum time for a program to start, and to end after its last iteration should be over.
const SOON: Duration = Duration::from_secs(120);
const RUN_MAX: Duration = Duration::from_secs(600);

/// How the agent takes part in a run.
#[derive(Clone, Debug, Default)]
pub(crate) enum With {
    /// A run without the agent.
    #[default]
    NoRule,
    /// The agent attaches before the first iteration, with these flags.
    Agent(Vec<String>),
    /// As `Agent`, but `rule` may change the program after `after` iterations, where the program waits at a
    /// gate.
    Later {
        flags: Vec<String>,
        rule: &'static str,
        after: usize,
    },
}

impl With {
    /// The agent with a rule and the program's names for the rule's symbols.
    pub(crate) fn rule(rule: &str, names: &[(&str, &str)], more: &[&str]) -> With {
        let mut flags = vec!["--rules".to_owned(), "none".to_owned(), rule.to_owned()];
        for (name, of_program) in names {
            flags.extend(["--bind".to_owned(), format!("{name}={of_program}")]);
        }
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        With::Agent(flags)
    }

    /// Flags of the agent; `None` without the agent.
    fn flags(&self) -> Option<&[String]> {
        match self {
            With::NoRule => None,
            With::Agent(flags) | With::Later { flags, .. } => Some(flags),
        }
    }
}

/// A program and how it is to run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) program: PathBuf,
    pub(crate) mpi: Mpi,
    pub(crate) ranks: usize,
    /// Arguments of the form NAME=VALUE.
    pub(crate) arguments: Vec<String>,
    /// Whether the program leaves the last CPU to the agent.
    pub(crate) is_apart: bool,
    pub(crate) with: With,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// The program's lines about its iterations, in order.
    pub(crate) iterations: Vec<Value>,
    /// The program's result, which must be the same in all runs.
    pub(crate) checksum: String,
    pub(crate) report: Option<Value>,
}

impl Run {
    /// Seconds of all iterations together, as the program measured them.
    pub(crate) fn seconds(&self) -> f64 {
        self.each("seconds").iter().sum()
    }

    /// Field `name` of the last iteration.
    pub(crate) fn last(&self, name: &str) -> f64 {
        self.each(name).last().copied().unwrap_or_default()
    }

    /// Field `name` of each iteration; 0 if missing.
    pub(crate) fn each(&self, name: &str) -> Vec<f64> {
        let number = |of: &Value| of[name].as_f64().unwrap_or_default();
        self.iterations.iter().map(number).collect()
    }

    pub(crate) fn figures(&self) -> Value {
        Value::Array(self.iterations.clone())
    }
}

/// An argument of the form NAME=VALUE.
pub(crate) fn argument(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name}={value}")
}

/// What Open MPI says of a rank whose MPI_Finalize it could not confirm in time, on a busy machine.
const IMPROPER: &str = "exiting improperly";

impl Scenario {
    pub(crate) fn new(
        settings: &Settings,
        program: &Path,
        ranks: usize,
        arguments: Vec<String>,
        with: With,
    ) -> Scenario {
        Scenario {
            program: program.to_owned(),
            mpi: settings.mpi,
            ranks,
            arguments,
            is_apart: false,
            with,
        }
    }

    /// Runs the scenario to its end.
    pub(crate) fn run(&self) -> Result<Run> {
        match self.tried() {
            Err(error) if error.to_string().contains(IMPROPER) => {
                println!("a run is repeated: its mpirun took the end of a rank for an improper one");
                Ok(self.tried()?)
            }
            run => Ok(run?),
        }
    }

    fn tried(&self) -> tuneagent_e2e::Outcome<Run> {
        // Affinity of this thread until dropped; child processes inherit it.
        let _apart = self.is_apart.then(Apart::new).transpose()?;
        let mut job = Job::mpi(self.mpi, Waiting::Yielding, self.ranks, &self.program, |folder| {
            let folder = folder.to_string_lossy().into_owned();
            std::iter::once(folder)
                .chain(self.arguments.iter().cloned())
                .collect()
        })?;
        job.events("ready", self.ranks, SOON)?;
        let agent = match self.with.flags() {
            None => None,
            Some(flags) => {
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let agent = Agent::attach_armed(job.pid(), &flags)?;
                Some(agent)
            }
        };
        job.open("go")?;
        if let (Some(agent), With::Later { rule, after, .. }) = (&agent, &self.with) {
            job.events("iteration", *after, RUN_MAX)?;
            let (code, text) = agent.request("switch", &[rule, "applying"])?;
            if code != 0 {
                return Err(format!("switching {rule}: {text}").into());
            }
            job.open("more")?;
        }
        // The output is parsed after the end: parsing it earlier would take CPU time from the program.
        job.finish(RUN_MAX)?;
        // The agent ends with the program.
        let report = agent
            .map(|mut agent| agent.finish_with(SOON, &[0, 1]))
            .transpose()?;
        let result = job.events("result", 1, SOON)?;
        let checksum = result[0]["checksum"].as_str().unwrap_or_default().to_owned();
        Ok(Run {
            iterations: job.events("iteration", 0, SOON)?,
            checksum,
            report,
        })
    }
}

/// The CPU that is reserved for the agent.
pub(crate) fn last_cpu() -> std::io::Result<usize> {
    let all = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| all.is_set(*cpu));
    last.filter(|_| all.count() > 1)
        .ok_or_else(|| std::io::Error::other("there is but one CPU here: none can be left to the agent"))
}

/// Restricts this thread and its child processes to all CPUs but the last.
struct Apart {
    before: CpuSet,
}

impl Apart {
    fn new() -> std::io::Result<Apart> {
        let before = sched_getaffinity(None)?;
        let mut rest = before;
        rest.unset(last_cpu()?);
        sched_setaffinity(None, &rest)?;
        Ok(Apart { before })
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Restores the affinity that was allowed before, so it cannot fail.
        let _ = sched_setaffinity(None, &self.before);
    }
}
