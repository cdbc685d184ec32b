//! GROMACS, Debian's unmodified `gmx_mpi`, on a box of water from the package's own data; parsers for its
//! pace (`-v`) and for the results in its log.
//!
//! Without load balancing and with a fixed order of sums, its energies are equal in every run with the same
//! number of ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Outcome;
use crate::job::{Job, Mpi, Waiting};
use crate::lines::{Line, succeed};
use crate::problem::Context;

const TOPOLOGY: &str = "#include \"oplsaa.ff/forcefield.itp\"\n#include \"oplsaa.ff/spce.itp\"\n\
    [ system ]\nwater\n[ molecules ]\n";

/// More steps than a test needs; energies in the log every 10 steps.
const SETTINGS: &str = "integrator = md\nnsteps = 10000000\ndt = 0.002\ncutoff-scheme = Verlet\ncoulombtype = PME\n\
    rcoulomb = 0.9\nrvdw = 0.9\ngen-vel = yes\ngen-seed = 1\nconstraints = h-bonds\nnstlog = 10\nnstenergy = 10\n\
    nstcalcenergy = 10\n";

/// Length of an edge of the water box.
const SMALL_NM: f64 = 2.5;
/// Three times the box that it is filled from, so that molecules do not overlap at the edges: 17 172 atoms.
const LARGE_NM: f64 = 3.0 * 1.86206;

/// Starts it under Open MPI with one thread per rank.
pub fn start(waiting: Waiting, ranks: usize) -> Outcome<Job> {
    started(&[], (waiting, ranks), SMALL_NM)
}

/// As `start`, with much more water and additional environment variables (`NAME=VALUE`).
pub fn start_large(environment: &[String], waiting: Waiting, ranks: usize) -> Outcome<Job> {
    started(environment, (waiting, ranks), LARGE_NM)
}

fn started(environment: &[String], (waiting, ranks): (Waiting, usize), box_nm: f64) -> Outcome<Job> {
    let mut made = Ok(());
    let program = Path::new("gmx_mpi");
    let job = Job::mpi_under(environment, (Mpi::OpenMpi, waiting), ranks, program, |folder| {
        made = prepare_box(folder, box_nm);
        arguments(&[])
    })?;
    made.map(|()| job)
}

/// Command line of a run with one thread per rank, with additional arguments.
pub fn arguments(more: &[&str]) -> Vec<String> {
    let words = "mdrun -s water.tpr -v -stepout 5 -ntomp 1 -dlb no -reprod -notunepme -pin off";
    words
        .split(' ')
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// Writes the input files into a folder.
pub fn prepare(folder: &Path) -> Outcome {
    prepare_box(folder, SMALL_NM)
}

fn prepare_box(folder: &Path, box_nm: f64) -> Outcome {
    fs::write(folder.join("water.top"), TOPOLOGY)?;
    fs::write(folder.join("water.mdp"), SETTINGS)?;
    let solvate = format!("solvate -cs spc216.gro -box {box_nm} {box_nm} {box_nm} -p water.top -o water.gro");
    let grompp = "grompp -f water.mdp -c water.gro -p water.top -o water.tpr -maxwarn 2";
    for words in [solvate.as_str(), grompp] {
        succeed(Command::new("gmx").args(words.split(' ')).current_dir(folder))?;
    }
    Ok(())
}

/// Step numbers from the output, with the arrival time of each line.
pub fn steps(lines: &[Line]) -> Vec<(u64, Instant)> {
    // A text about load balance may precede it on the line.
    let step = |line: &Line| {
        let (_, rest) = line.text.split_once("step ")?;
        let number = rest.split([',', ' ']).next()?.parse().ok()?;
        rest.contains("will finish").then_some((number, line.at))
    };
    lines.iter().filter_map(step).collect()
}

/// Steps per second between the first and the last of these.
pub fn pace(steps: &[(u64, Instant)]) -> Outcome<f64> {
    let ends = steps
        .first()
        .zip(steps.last())
        .filter(|(first, last)| last.0 > first.0);
    let ((first, from), (last, to)) = ends.ok_or("too few steps for a pace")?;
    Ok((last - first) as f64 / to.duration_since(*from).as_secs_f64())
}

/// Energies by step from the current log, as printed.
pub fn energies(job: &Job) -> Outcome<BTreeMap<u64, String>> {
    let file = job.file("md.log");
    Ok(energies_in(&fs::read_to_string(&file).context(file.display())?))
}

fn energies_in(log: &str) -> BTreeMap<u64, String> {
    let lines: Vec<&str> = log.lines().collect();
    let mut energies = BTreeMap::new();
    let mut step = None;
    for pair in lines.windows(2) {
        if pair[0].split_whitespace().eq(["Step", "Time"]) {
            step = pair[1]
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok());
        } else if pair[0].contains("Potential") {
            energies.extend(step.take().map(|step| (step, pair[1].trim().to_owned())));
        }
    }
    // The last entry may be incomplete.
    energies.pop_last();
    energies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_energies_are_what_it_says() {
        let at = Instant::now();
        let text = |text: &str| Line {
            at,
            text: text.to_owned(),
        };
        let lines = [
            "step 10, will finish Wed",
            "imb F  4% step 20, will finish Wed",
            "step 5: note",
        ]
        .map(text);
        assert_eq!(steps(&lines), [(10, at), (20, at)]);
        let log = "           Step           Time\n             10        0.02000\n\n   Energies (kJ/mol)\n        LJ (SR)   \
            Potential    Kinetic En.\n    1.0e+03   -2.1e+04    3.1e+03\n\
            \x20          Step           Time\n             20        0.04000\n      Potential\n   -2.1";
        let expected = BTreeMap::from([(10, "1.0e+03   -2.1e+04    3.1e+03".to_owned())]);
        assert_eq!(energies_in(log), expected);
    }
}
