//! Session logs: tests replay the log of their session, and some logs are committed for tests that need no
//! root.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::agent::Agent;
use crate::{Outcome, Problem, programs};

/// Folder of the committed logs.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/session/tests/sessions");

/// Committed logs, by the rule that acted: LAMMPS, a program under MPICH, OpenMP. `TUNEAGENT_UPDATE=1`
/// rewrites them.
const KEPT: [&str; 3] = ["openmpi-busy-wait", "optimal-workers", "openmp-team-size"];

/// Log file of one session.
pub struct Recorded {
    folder: TempDir,
}

impl Recorded {
    /// A folder for the log, without a log.
    pub fn new() -> Outcome<Recorded> {
        let folder = tempfile::tempdir()?;
        Ok(Recorded { folder })
    }

    /// The flag with which the agent writes the log.
    pub fn flag(&self) -> String {
        format!("--record-session={}", self.name())
    }

    fn name(&self) -> String {
        self.folder
            .path()
            .join("session.jsonl")
            .to_string_lossy()
            .into_owned()
    }

    /// Checks that a replay gives the same effects. Returns the listing. Updates the committed log of this
    /// rule if requested.
    pub fn replay(&self, rule: &str) -> Outcome<String> {
        let (code, listed) = Agent::run(&["replay", &self.name()])?;
        if code != 0 || !listed.contains("with the same effects") {
            return Err(Problem::new(format!("replay ended with {code}:\n{listed}")));
        }
        if KEPT.contains(&rule) && std::env::var_os("TUNEAGENT_UPDATE").is_some() {
            let text = fs::read_to_string(self.name())?;
            // The committed log does not contain the path of the build folder.
            let target = programs::target_folder()?.to_string_lossy().into_owned();
            let kept = Path::new(FOLDER).join(format!("{rule}.jsonl"));
            fs::write(kept, text.replace(&target, "/programs"))?;
        }
        Ok(listed)
    }
}
