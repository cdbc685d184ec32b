//! `cargo xtask experiment`: the published experiments repeated on real MPI, each with a table, a picture and the published figures
//! beside ours; and, of our own, what the run-time rules do for programs that nobody prepared, and what
//! they cost those that need none.
//!
//! `scenario` runs one program once, alone or with the agent; `sweep` looks once at each of some fixed settings; `rounds` repeats
//! scenarios in turns, so that what disturbs the machine disturbs all of them; `stats`, `table` and `chart` are what is made of the
//! times. An experiment is a module: a list of scenarios, tables of their figures, pictures of the tables' columns, and claims. The
//! programs sleep their compute time, so that 26 ranks fit on two cores:
//! what is measured is the tuning, not the machine.

pub(crate) mod chart;
mod factoring;
mod fire;
mod index;
mod network;
mod reaction;
mod rounds;
mod runtime;
mod scenario;
pub(crate) mod stats;
mod sweep;
pub(crate) mod table;
mod untouched;
mod wildfire;
mod workers;

use std::path::{Path, PathBuf};
use std::time::Instant;

use tuneagent_e2e::job::Mpi;

pub(crate) use self::scenario::build_agent;
use self::{chart::Picture, table::Table};
use crate::{Result, process};

/// An experiment: its name, what it asks, and how it is done.
type Experiment = (&'static str, &'static str, fn(&Settings) -> Result<Outcome>);

#[rustfmt::skip]
const EXPERIMENTS: &[Experiment] = &[
    ("workers", "MATE 5.1.6: the number of workers, fixed against tuned", workers::run),
    ("reaction", "MATE 3.1.3: from the end of an iteration to the write that follows", reaction::run),
    ("network", "MATE 5.1.1: latency and cost of a byte, measured", network::run),
    ("factoring", "MATE 5.2.6: load balancing by factoring", factoring::run),
    ("wildfire", "MATE for MPI 5.5: factors of batches, the original, fixed and tuned", wildfire::run),
    ("index", "MATE for MPI 4.3: the number of workers by the performance index", index::run),
    ("runtime", "programs that nobody prepared: repaired while they run, against started right", runtime::run),
    ("untouched", "programs that need nothing: what it costs that every rule looks", untouched::run),
];

/// How experiments are to be done.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where tables and pictures go.
    out: PathBuf,
    /// A short form, whose figures say only that everything works.
    quick: bool,
    /// How often each scenario runs.
    repeats: usize,
    mpi: Mpi,
}

impl Settings {
    /// The first in the quick form, else the second.
    fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[derive(Debug)]
pub(crate) struct Outcome {
    sections: Vec<Section>,
    picture: Picture,
    /// What the figures must show, and whether they do.
    claims: Vec<Claim>,
}

#[derive(Debug)]
pub(crate) struct Section {
    title: String,
    table: Table,
    notes: Vec<String>,
}

impl Section {
    fn new<T: Into<String>>(title: &str, table: Table, notes: impl IntoIterator<Item = T>) -> Section {
        Section {
            title: title.to_owned(),
            table,
            notes: notes.into_iter().map(Into::into).collect(),
        }
    }
}

/// Something that the figures must show.
#[derive(Debug)]
pub(crate) struct Claim {
    text: String,
    holds: bool,
    /// It speaks of times, which the quick form is too short for.
    of_times: bool,
}

impl Claim {
    /// What times must show.
    fn of_times(text: String, holds: bool) -> Claim {
        Claim {
            text,
            holds,
            of_times: true,
        }
    }

    /// What must be so however short the run and however busy the machine.
    fn of_logic(text: impl Into<String>, holds: bool) -> Claim {
        Claim {
            text: text.into(),
            holds,
            of_times: false,
        }
    }
}

/// What they are called.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|(name, ..)| *name)
}

pub(crate) fn main(words: &[&str]) -> Result<()> {
    let (names, settings) = understood(words)?;
    if !rustix::process::geteuid().is_root() {
        return Err(
            "the experiments attach probes and so need root: sudo -E cargo xtask experiment ...".to_owned(),
        );
    }
    std::fs::create_dir_all(&settings.out).map_err(|error| format!("{}: {error}", settings.out.display()))?;
    build_agent(&crate::root())?;
    let mut broken = Vec::new();
    for (name, about, run) in EXPERIMENTS.iter().filter(|(name, ..)| names.contains(name)) {
        println!("==> {name}: {about}");
        let began = Instant::now();
        let outcome = run(&settings).map_err(|error| format!("{name}: {error}"))?;
        let text = outcome.text(name, about, settings.quick);
        println!("{text}");
        write(&settings.out, &format!("{name}.md"), &text)?;
        write(&settings.out, &format!("{name}.svg"), &outcome.picture.svg())?;
        println!("    {name}: {:.0} s", began.elapsed().as_secs_f64());
        // A run of a few seconds cannot settle a claim about seconds.
        let counts = |claim: &&Claim| !(claim.holds || settings.quick && claim.of_times);
        let claims = outcome.claims.iter().filter(counts);
        broken.extend(claims.map(|claim| format!("{name}: {}", claim.text)));
    }
    println!("tables and pictures are in {}", settings.out.display());
    match broken.as_slice() {
        [] => Ok(()),
        _ => Err(format!("the figures do not show:\n{}", broken.join("\n"))),
    }
}

/// What was typed: names of experiments, and settings.
fn understood(words: &[&str]) -> Result<(Vec<&'static str>, Settings)> {
    let mut names = Vec::new();
    let mut settings = Settings {
        out: crate::target_folder(&crate::root()).join("experiments"),
        quick: false,
        repeats: 0,
        mpi: the_mpi_here()?,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match *word {
            "--quick" => settings.quick = true,
            "--out" => settings.out = PathBuf::from(value()?),
            "--repeats" => {
                let count = value()?.parse().ok().filter(|count| *count > 0);
                settings.repeats = count.ok_or("--repeats wants a number above 0")?;
            }
            "--mpi" => {
                settings.mpi = match *value()? {
                    "openmpi" => Mpi::OpenMpi,
                    "mpich" => Mpi::Mpich,
                    other => return Err(format!("--mpi is openmpi or mpich, not {other}")),
                }
            }
            "all" => names.extend(self::names()),
            name => names.push(
                EXPERIMENTS
                    .iter()
                    .find(|(known, ..)| *known == name)
                    .map(|(known, ..)| *known)
                    .ok_or(format!("there is no experiment {name}\n{}", list()))?,
            ),
        }
    }
    if names.is_empty() {
        return Err(format!("which experiment?\n{}", list()));
    }
    if settings.repeats == 0 {
        settings.repeats = if settings.quick { 1 } else { 5 };
    }
    Ok((names, settings))
}

fn list() -> String {
    let line = |(name, about, _): &Experiment| format!("  {name:<10} {about}\n");
    let lines: String = EXPERIMENTS.iter().map(line).collect();
    format!(
        "{lines}  all\nand [--quick] [--repeats N] [--out DIR, else target/experiments] [--mpi openmpi|mpich]"
    )
}

/// Open MPI, as the claims are about it, where it is there.
fn the_mpi_here() -> Result<Mpi> {
    let has = |mpi: &str| process::find_program(&format!("mpirun.{mpi}")).is_some();
    match (has("openmpi"), has("mpich")) {
        (true, _) => Ok(Mpi::OpenMpi),
        (false, true) => Ok(Mpi::Mpich),
        (false, false) => Err("no MPI is here: cargo xtask setup installs it".to_owned()),
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let file = folder.join(name);
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

impl Outcome {
    /// As Markdown, which a terminal shows as well.
    fn text(&self, name: &str, about: &str, quick: bool) -> String {
        let mut text = format!("# {name}\n{about}\n");
        for section in &self.sections {
            text += &format!("\n## {}\n\n{}", section.title, section.table);
            if !section.notes.is_empty() {
                text += &format!("\n{}\n", section.notes.join("\n"));
            }
        }
        text += "\n## What must hold\n\n";
        for claim in &self.claims {
            let verdict = match (claim.holds, quick && claim.of_times) {
                (_, true) => "not settled by the quick form",
                (true, false) => "holds",
                (false, false) => "DOES NOT HOLD",
            };
            text += &format!("- {verdict}: {}\n", claim.text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mistyped_is_told_with_what_there_is() {
        let told = |words: &[&str]| understood(words).map(|_| ()).unwrap_err();
        if the_mpi_here().is_err() {
            return;
        }
        assert!(told(&["wrokers"]).contains("there is no experiment wrokers\n  workers"));
        assert!(told(&[]).contains("which experiment?"));
        assert!(told(&["all", "--repeats", "0"]).contains("a number above 0"));
        assert!(told(&["all", "--out"]).contains("--out wants a value"));
    }

    #[test]
    fn all_means_every_one_once() {
        if the_mpi_here().is_err() {
            return;
        }
        let (names, settings) = understood(&["all", "--quick"]).unwrap();
        assert_eq!(names.len(), EXPERIMENTS.len());
        assert_eq!((settings.quick, settings.repeats), (true, 1));
    }
}
