//! The fire simulator `wildfire` for two experiments. It runs with real-time priority, so that its sleeps are
//! exact on a busy machine, too.

use std::path::PathBuf;

use serde_json::Value;
use tuneagent_e2e::programs;

use super::scenario::{Run, Scenario, With};
use crate::Result;
use crate::measure::Settings;
use crate::measure::stats::{Spread, figure};

/// The simulator under one load.
#[derive(Clone, Debug)]
pub(super) struct Fire<'a> {
    settings: &'a Settings,
    program: PathBuf,
    /// Number of workers; the master is one more rank.
    workers: usize,
    load: Vec<String>,
}

impl<'a> Fire<'a> {
    pub(super) fn new(settings: &'a Settings, workers: usize, load: &[String]) -> Result<Fire<'a>> {
        let program = programs::mpi("wildfire", settings.mpi)?;
        Ok(Fire {
            settings,
            program,
            workers,
            load: [&["realtime=1".to_owned()], load].concat(),
        })
    }

    pub(super) fn scenario(&self, more: &[String], with: With) -> Scenario {
        let arguments = [self.load.as_slice(), more].concat();
        Scenario::new(self.settings, &self.program, self.workers + 1, arguments, with)
    }

    /// Writes a schedule, one line per iteration, and returns the argument that passes it to the program.
    pub(super) fn schedule(&self, name: &str, lines: &[String]) -> Result<String> {
        self.settings.write(name, &(lines.join("\n") + "\n"))?;
        let folder = std::path::absolute(&self.settings.out).map_err(|error| error.to_string())?;
        Ok(format!("schedule={}", folder.join(name).display()))
    }
}

/// Text about what the agent saw and did in a run. `None` for a run without the agent.
pub(super) fn seen(run: &Run) -> Option<String> {
    let report = run.report.as_ref()?;
    let functions = report["processes"]
        .as_array()?
        .iter()
        .flat_map(|of| of["functions"].as_array())
        .flatten();
    let (mut of_mpi, mut of_program) = (0, 0);
    for function in functions {
        let is_mpi = function["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("MPI_"));
        *if is_mpi { &mut of_mpi } else { &mut of_program } += function["calls"].as_u64()?;
    }
    let changes = report["changes"].as_array()?;
    let microseconds = |of: &Value| of.as_f64().map(|of| of / 1e3);
    let lags: Vec<f64> = changes
        .iter()
        .filter_map(|change| microseconds(&change["reaction"]["lag_ns"]))
        .collect();
    let lag = Spread::of(&lags).map_or(String::new(), |lag| {
        format!(
            ", each {} us after its window in the median, {} us at most",
            figure(lag.median),
            figure(lag.greatest)
        )
    });
    let longest = changes
        .iter()
        .filter_map(|change| microseconds(&change["hold_ns"]))
        .fold(0.0, f64::max);
    let held = if longest > 0.0 {
        format!("; the program was held for at most {} us", figure(longest))
    } else {
        String::new()
    };
    Some(format!(
        "{of_mpi} calls of MPI and {of_program} of the program's functions were seen, {} changes made{lag}{held}",
        changes.len()
    ))
}
