//! Runs `agent/benches/hits.rs`, which measures one round per input line, so that rounds of other tools can
//! be run in between.

use std::path::Path;

use serde_json::Value;
use tuneagent_e2e::line_program::LineProgram;

use crate::Result;

/// The running program.
pub(super) struct Instrument(LineProgram);

impl Instrument {
    /// Starts the program for these functions at their sites. An empty list means all functions at all their
    /// places.
    pub(super) fn start(program: &Path, calls: u64, functions: &[&str]) -> Result<Instrument> {
        let mut command = super::instrument("hits");
        command.arg(program).arg(calls.to_string()).args(functions);
        Ok(Instrument(LineProgram::start(&mut command)?))
    }

    /// Measures one round. `take` gets each output line with the nanoseconds that its way adds to a call. A
    /// line that `take` rejects is an error.
    pub(super) fn round(&mut self, take: impl FnMut(&Value, f64) -> Option<()>) -> Result<()> {
        self.0.send("")?;
        round(
            std::iter::from_fn(|| Some(self.0.line().map_err(String::from))),
            take,
        )
    }
}

impl Drop for Instrument {
    fn drop(&mut self) {
        // It ends with its input, and removes its probes.
        let _ = self.0.end();
    }
}

/// The first line of each place is a call without a probe, which is subtracted from the others.
fn round(
    lines: impl Iterator<Item = Result<String>>,
    mut take: impl FnMut(&Value, f64) -> Option<()>,
) -> Result<()> {
    let mut bare = None;
    for line in lines {
        let line = line?;
        let value: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        if value.as_object().is_some_and(serde_json::Map::is_empty) {
            return Ok(());
        }
        let ns = value["ns"].as_f64();
        let taken = match (value["way"] == "bare", ns, bare) {
            (true, Some(ns), _) => {
                bare = Some(ns);
                Some(())
            }
            (false, Some(ns), Some(bare)) => take(&value, ns - bare),
            _ => None,
        };
        taken.ok_or_else(|| format!("not understood: {value}"))?;
    }
    Err("the instrument has ended".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> impl Iterator<Item = Result<String>> + '_ {
        text.lines().map(|line| Ok(line.to_owned()))
    }

    #[test]
    fn the_cost_of_a_probe_is_relative_to_a_call_without_probe() {
        let rows = [
            (0, "bare", 2.0),
            (0, "count", 902.0),
            (4, "bare", 3.0),
            (4, "count", 48.0),
        ];
        let rows =
            rows.map(|(bytes, way, ns)| format!("{{\"bytes\":{bytes},\"way\":\"{way}\",\"ns\":{ns}}}\n"));
        let text = rows.concat() + "{}\n";
        let mut added = Vec::new();
        let mut take = |line: &Value, ns: f64| {
            added.push((line["bytes"].as_u64()?, ns));
            Some(())
        };
        round(lines(&text), &mut take).unwrap();
        assert_eq!(added, [(0, 900.0), (4, 45.0)]);
        for wrong in [
            "{\"way\":\"count\",\"ns\":1}\n{}\n",
            "{\"way\":\"bare\"}\n{}\n",
            "",
        ] {
            assert!(round(lines(wrong), |_, _| Some(())).is_err(), "{wrong}");
        }
    }
}
