//! Settings of measurements from the command line.

use std::path::PathBuf;

use tuneagent_e2e::job::Mpi;

use super::{Measurement, Suite};
use crate::{Result, process};

#[derive(Debug)]
pub(crate) struct Settings {
    /// Folder for tables and figures.
    pub(crate) out: PathBuf,
    /// Whether to run a short form, whose figures only show that everything works.
    pub(crate) quick: bool,
    /// Number of runs per scenario.
    pub(crate) repeats: usize,
    pub(crate) mpi: Mpi,
    numbers: Vec<(String, f64)>,
}

impl Settings {
    /// Returns `quick` in the quick form, otherwise `full`.
    pub(crate) fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The last value of an option, or the default of the form.
    pub(crate) fn number(&self, name: &str, quick: f64, full: f64) -> f64 {
        let given = self.numbers.iter().rfind(|(given, _)| given == name);
        given.map_or(self.either(quick, full), |(_, number)| *number)
    }

    /// Writes a file into the folder of results.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.out.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// The MPI implementation to use: Open MPI if installed, because the claims are about it.
pub(crate) fn mpi_here() -> Option<Mpi> {
    let has = |mpi: &str| process::find_program(&format!("mpirun.{mpi}")).is_some();
    match (has("openmpi"), has("mpich")) {
        (true, _) => Some(Mpi::OpenMpi),
        (false, true) => Some(Mpi::Mpich),
        (false, false) => None,
    }
}

/// Parses names of measurements and settings. Rejects options that no chosen measurement knows.
pub(super) fn parse(suite: &Suite, words: &[&str]) -> Result<(Vec<&'static Measurement>, Settings)> {
    let mut chosen = Vec::new();
    let mut settings = Settings {
        out: crate::target_folder(&crate::root()).join(suite.folder),
        quick: false,
        repeats: 0,
        mpi: mpi_here().unwrap_or(Mpi::OpenMpi),
        numbers: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match *word {
            "--quick" => settings.quick = true,
            "--out" => settings.out = PathBuf::from(value()?),
            "--mpi" => {
                settings.mpi = match *value()? {
                    "openmpi" => Mpi::OpenMpi,
                    "mpich" => Mpi::Mpich,
                    other => return Err(format!("--mpi is openmpi or mpich, not {other}")),
                }
            }
            "all" => chosen.extend(suite.all),
            "--help" => return Err(list(suite)),
            option if option.starts_with("--") => {
                let number = value()?.parse().ok().filter(|number| *number > 0.0);
                let number = number.ok_or(format!("{option} wants a number above 0"))?;
                settings.numbers.push((option.to_owned(), number));
            }
            name => {
                let found = suite.all.iter().find(|known| known.name == name);
                chosen.push(
                    found.ok_or_else(|| format!("there is no {} {name}\n{}", suite.command, list(suite)))?,
                );
            }
        }
    }
    if chosen.is_empty() {
        return Err(format!("which {}?\n{}", suite.command, list(suite)));
    }
    settings.repeats = settings.number("--repeats", 1.0, 5.0) as usize;
    let is_known = |name: &str| {
        let mut known = chosen.iter().flat_map(|chosen| chosen.numbers);
        name == "--repeats" || known.any(|known| *known == name)
    };
    match settings.numbers.iter().find(|(name, _)| !is_known(name)) {
        Some((name, _)) => Err(format!("{name} is not known\n{}", list(suite))),
        None => Ok((chosen, settings)),
    }
}

fn list(suite: &Suite) -> String {
    let line = |of: &Measurement| {
        let numbers: String = of.numbers.iter().map(|name| format!(" [{name} N]")).collect();
        format!("  {:<10} {}{numbers}\n", of.name, of.about)
    };
    let lines: String = suite.all.iter().map(line).collect();
    format!(
        "{lines}  all\nand [--quick] [--repeats N] [--out DIR, else target/{}] [--mpi openmpi|mpich]",
        suite.folder
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    const fn one(name: &'static str, numbers: &'static [&'static str]) -> Measurement {
        Measurement {
            name,
            about: "",
            numbers,
            run: |_| Ok(Outcome::default()),
        }
    }

    const SUITE: Suite = Suite {
        command: "bench",
        folder: "bench",
        all: &[one("idle", &["--seconds"]), one("hits", &[])],
    };

    #[test]
    fn unknown_settings_are_refused_with_the_known_ones() {
        for (words, expected) in [
            (&["hist"][..], "there is no bench hist\n  idle"),
            (&[], "which bench?"),
            (&["hits", "--help"], "  idle"),
            (&["all", "--repeats", "0"], "a number above 0"),
            (&["all", "--out"], "--out wants a value"),
            (&["all", "--mpi", "x"], "--mpi is openmpi or mpich"),
            (&["hits", "--seconds", "2"], "--seconds is not known"),
        ] {
            let refused = parse(&SUITE, words).map(|_| ()).unwrap_err();
            assert!(refused.contains(expected), "{words:?}: {refused}");
        }
    }

    #[test]
    fn all_means_every_one_once_and_numbers_have_two_defaults() {
        let (chosen, settings) = parse(&SUITE, &["all", "--quick", "--seconds", "3"]).unwrap();
        assert_eq!(chosen.len(), SUITE.all.len());
        assert_eq!((settings.quick, settings.repeats), (true, 1));
        assert_eq!(settings.number("--seconds", 1.0, 2.0), 3.0);
        assert_eq!(settings.number("--windows", 1.0, 2.0), 1.0);
    }
}
