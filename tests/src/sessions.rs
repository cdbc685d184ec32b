//! Session logs: whatever a session of a test decided is replayed by the program, and some logs are kept for the tests that need no root.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::agent::Agent;
use crate::{Outcome, Problem, programs};

/// Where logs are kept.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/session/tests/sessions");

/// The logs that are kept, by the rule that acted; `TUNEAGENT_UPDATE=1` makes them anew. Of LAMMPS, of a program under MPICH, of OpenMP.
const KEPT: [&str; 3] = ["openmpi-busy-wait", "optimal-workers", "openmp-team-size"];

/// The log of one session.
pub struct Recorded {
    folder: TempDir,
}

impl Recorded {
    /// Begins with no log.
    pub fn new() -> Outcome<Recorded> {
        let folder = tempfile::tempdir()?;
        Ok(Recorded { folder })
    }

    /// The flag that has it written.
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

    /// Replays it: the effects are the same. What is listed. Kept, if that is wanted, as the log of the rule that acted.
    pub fn replay(&self, rule: &str) -> Outcome<String> {
        let (code, listed) = Agent::run(&["replay", &self.name()])?;
        if code != 0 || !listed.contains("with the same effects") {
            return Err(Problem::new(format!("replay ended with {code}:\n{listed}")));
        }
        if KEPT.contains(&rule) && std::env::var_os("TUNEAGENT_UPDATE").is_some() {
            let text = fs::read_to_string(self.name())?;
            // Where this was built concerns nobody.
            let target = programs::target_folder()?.to_string_lossy().into_owned();
            let kept = Path::new(FOLDER).join(format!("{rule}.jsonl"));
            fs::write(kept, text.replace(&target, "/programs"))?;
        }
        Ok(listed)
    }
}
