//! Runs `agent/benches/hits.rs`, which measures one round per input line, so that rounds of other tools can
//! be run in between.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use crate::Result;
use crate::process::cannot_start;

pub(super) struct Instrument {
    child: Child,
    /// Standard input of the program; closing it ends the program.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Instrument {
    /// Starts the program for these functions at their sites. An empty list means all functions at all their
    /// places.
    pub(super) fn start(program: &Path, calls: u64, functions: &[&str]) -> Result<Instrument> {
        let mut command = super::instrument("hits");
        command.arg(program).arg(calls.to_string()).args(functions);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| cannot_start(&command, &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Instrument {
                child,
                input: Some(input),
                output: BufReader::new(output),
            }),
            _ => Err("the instrument has no pipes".to_owned()),
        }
    }

    /// Measures one round. `take` gets each output line with the nanoseconds that its way adds to a call. A
    /// line that `take` rejects is an error.
    pub(super) fn round(&mut self, take: impl FnMut(&Value, f64) -> Option<()>) -> Result<()> {
        let input = self.input.as_mut().ok_or("the instrument has ended")?;
        writeln!(input).map_err(|error| format!("the instrument has ended: {error}"))?;
        round(&mut self.output, take)
    }
}

impl Drop for Instrument {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// The first line of each place is a call without a probe, which is subtracted from the others.
fn round(lines: &mut impl BufRead, mut take: impl FnMut(&Value, f64) -> Option<()>) -> Result<()> {
    let mut bare = None;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).map_err(|error| error.to_string())?;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_probe_is_relative_to_a_call_without_probe() {
        let lines = [
            (0, "bare", 2.0),
            (0, "count", 902.0),
            (4, "bare", 3.0),
            (4, "count", 48.0),
        ];
        let lines =
            lines.map(|(bytes, way, ns)| format!("{{\"bytes\":{bytes},\"way\":\"{way}\",\"ns\":{ns}}}\n"));
        let text = lines.concat() + "{}\n";
        let mut added = Vec::new();
        let mut take = |line: &Value, ns: f64| {
            added.push((line["bytes"].as_u64()?, ns));
            Some(())
        };
        round(&mut text.as_bytes(), &mut take).unwrap();
        assert_eq!(added, [(0, 900.0), (4, 45.0)]);
        for wrong in [
            "{\"way\":\"count\",\"ns\":1}\n{}\n",
            "{\"way\":\"bare\"}\n{}\n",
            "",
        ] {
            assert!(round(&mut wrong.as_bytes(), |_, _| Some(())).is_err(), "{wrong}");
        }
    }
}
