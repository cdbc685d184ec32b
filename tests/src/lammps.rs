//! LAMMPS: Debian's unmodified `lmp` on its own `melt` example, and parsers for its pace and its results.
//!
//! The physics of the example is unchanged; only the number of steps and the output are set here. For a given
//! number of ranks its numbers are equal in every run, independent of timing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::job::{Job, Mpi, Waiting};
use crate::lines::Line;
use crate::problem::Context;
use crate::{Outcome, Problem};

const EXAMPLES: &str = "/usr/share/lammps/examples/melt";

/// The example's input file, plain or compressed, if installed.
pub fn example() -> Option<PathBuf> {
    ["in.melt", "in.melt.gz"]
        .iter()
        .map(|name| Path::new(EXAMPLES).join(name))
        .find(|file| file.exists())
}

/// Cells of the lattice per side, as in the example: 4 000 atoms.
pub const CELLS: u32 = 10;

/// The example with `steps` steps, a line of output every `every` steps, flushed at once, and `cells` cells
/// per side.
pub fn input(steps: u64, every: u64, cells: u32) -> Outcome<String> {
    let file = example().ok_or("the LAMMPS example is not installed (package lammps-examples)")?;
    let text = if file.extension().is_some_and(|ending| ending == "gz") {
        let unpacked = Command::new("gzip")
            .arg("-dc")
            .arg(&file)
            .output()
            .context("gzip")?;
        String::from_utf8_lossy(&unpacked.stdout).into_owned()
    } else {
        fs::read_to_string(&file).context(file.display())?
    };
    let ours = |line: &&str| !matches!(line.split_whitespace().next(), Some("run" | "thermo"));
    let text = text.replace(
        "block 0 10 0 10 0 10",
        &format!("block 0 {cells} 0 {cells} 0 {cells}"),
    );
    let physics: Vec<&str> = text.lines().filter(ours).collect();
    Ok(format!(
        "{}\nthermo_style custom step cpu temp pe etotal press\nthermo_modify flush yes\n\
         thermo {every}\nrun {steps}\n",
        physics.join("\n")
    ))
}

/// Starts it under Open MPI: `steps` steps, a line of output every 10.
pub fn start(waiting: Waiting, ranks: usize, steps: u64) -> Outcome<Job> {
    start_printing((waiting, ranks), steps, 10)
}

/// As `start`, with a line of output every `every` steps.
pub fn start_printing(ranks: (Waiting, usize), steps: u64, every: u64) -> Outcome<Job> {
    started(&[], ranks, input(steps, every, CELLS)?)
}

/// As `start`, with eight times as many atoms and additional environment variables (`NAME=VALUE`). A line
/// covers 20 steps, because neighbour lists are rebuilt every 20 steps; so every line has the same work.
pub fn start_large(environment: &[String], waiting: Waiting, ranks: usize, steps: u64) -> Outcome<Job> {
    started(environment, (waiting, ranks), input(steps, 20, 2 * CELLS)?)
}

fn started(environment: &[String], (waiting, ranks): (Waiting, usize), input: String) -> Outcome<Job> {
    let mut written = Ok(());
    let program = Path::new("lmp");
    let job = Job::mpi_under(environment, (Mpi::OpenMpi, waiting), ranks, program, |folder| {
        written = fs::write(folder.join("in.melt"), input).context("in.melt");
        ["-in", "in.melt", "-log", "none"].map(str::to_owned).to_vec()
    })?;
    written.map(|()| job)
}

/// One line of LAMMPS's thermodynamic output.
#[derive(Clone, Debug)]
pub struct Thermo {
    /// Number of the step.
    pub step: u64,
    /// Seconds since the start of the run, by LAMMPS's clock.
    pub seconds: f64,
    /// Temperature, energies and pressure as printed, which must not depend on the agent.
    pub values: Vec<String>,
    /// Arrival time of the line.
    pub at: Instant,
}

/// All lines below the header that have a number in each of its columns.
pub fn thermo(lines: &[Line]) -> Vec<Thermo> {
    let header = lines
        .iter()
        .position(|line| line.text.trim_start().starts_with("Step"));
    let Some(header) = header else { return Vec::new() };
    let columns = lines[header].text.split_whitespace().count();
    lines[header + 1..]
        .iter()
        .filter_map(|line| parsed(line, columns))
        .collect()
}

fn parsed(line: &Line, columns: usize) -> Option<Thermo> {
    let words: Vec<&str> = line.text.split_whitespace().collect();
    if words.len() != columns || words.iter().any(|word| word.parse::<f64>().is_err()) {
        return None;
    }
    let [step, seconds, values @ ..] = words.as_slice() else {
        return None;
    };
    let values = values.iter().map(|word| (*word).to_owned()).collect();
    Some(Thermo {
        step: step.parse().ok()?,
        seconds: seconds.parse().ok()?,
        values,
        at: line.at,
    })
}

/// Steps per second over these lines, by LAMMPS's clock.
pub fn pace(lines: &[Thermo]) -> Outcome<f64> {
    let too_few = || {
        Problem::new(format!(
            "{} lines of LAMMPS's output are too few for a pace",
            lines.len()
        ))
    };
    let (first, last) = (
        lines.first().ok_or_else(too_few)?,
        lines.last().ok_or_else(too_few)?,
    );
    let seconds = last.seconds - first.seconds;
    if last.step > first.step && seconds > 0.0 {
        Ok((last.step - first.step) as f64 / seconds)
    } else {
        Err(too_few())
    }
}

/// Pace between two times.
pub fn pace_between(lines: &[Thermo], from: Instant, to: Instant) -> Outcome<f64> {
    let between: Vec<Thermo> = lines
        .iter()
        .filter(|line| line.at >= from && line.at <= to)
        .cloned()
        .collect();
    pace(&between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .map(|text| Line {
                at: Instant::now(),
                text: text.to_owned(),
            })
            .collect()
    }

    #[test]
    fn the_pace_comes_from_the_programs_own_clock_and_other_lines_do_not_count() -> Outcome {
        let output = "3 4 5 6\n   Step          CPU           Temp\n 0 0 3\n 10 0.5 2.1\nWARNING: 1 2\n 20 1.0 1.6\nLoop time of 1.0";
        let thermo = thermo(&lines(output));
        assert_eq!(thermo.len(), 3);
        assert_eq!(thermo[2].values, ["1.6"]);
        assert_eq!(pace(&thermo)?, 20.0);
        Ok(())
    }

    #[test]
    fn a_pace_needs_two_lines() {
        assert!(pace(&[]).is_err());
        assert!(pace(&thermo(&lines("Step CPU\n 0 0"))).is_err());
    }
}
