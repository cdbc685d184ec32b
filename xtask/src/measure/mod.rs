//! Shared by benchmarks and experiments: selection and execution of a measurement, and its outcome: sections
//! with tables, figures, and claims about the figures.
//!
//! A measurement is a function from settings to an outcome. Tables are printed and kept in `NAME.md`, the
//! figures in `NAME.json`.

mod claim;
mod settings;
pub(crate) mod stats;
pub(crate) mod table;

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tuneagent_e2e::agent;

pub(crate) use self::claim::Claim;
pub(crate) use self::settings::{Settings, mpi_here};
use self::table::Table;
use crate::{Result, process};

/// A benchmark or an experiment.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    /// The question that it answers.
    pub(crate) about: &'static str,
    /// Its options with a number, besides `--repeats`.
    pub(crate) numbers: &'static [&'static str],
    pub(crate) run: fn(&Settings) -> Result<Outcome>,
}

impl Measurement {
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        numbers: &'static [&'static str],
        run: fn(&Settings) -> Result<Outcome>,
    ) -> Measurement {
        Measurement {
            name,
            about,
            numbers,
            run,
        }
    }
}

/// The measurements of an xtask command.
pub(crate) struct Suite {
    pub(crate) command: &'static str,
    /// Folder of the results, in cargo's target folder.
    pub(crate) folder: &'static str,
    pub(crate) all: &'static [Measurement],
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sections: Vec<Section>,
    /// Claims about the figures.
    pub(crate) claims: Vec<Claim>,
    /// All measured values, for `NAME.json`.
    pub(crate) figures: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct Section {
    title: String,
    table: Table,
    notes: Vec<String>,
}

impl Section {
    pub(crate) fn new<T: Into<String>>(
        title: &str,
        table: Table,
        notes: impl IntoIterator<Item = T>,
    ) -> Section {
        Section {
            title: title.to_owned(),
            table,
            notes: notes.into_iter().map(Into::into).collect(),
        }
    }

    /// A section with a table and no notes.
    pub(crate) fn of(title: &str, table: Table) -> Section {
        Section::new(title, table, [] as [String; 0])
    }
}

/// Runs the chosen measurements in order. Failures are listed at the end and do not stop the others.
pub(crate) fn run(suite: &Suite, words: &[&str]) -> Result<()> {
    let (chosen, settings) = settings::parse(suite, words)?;
    let command = suite.command;
    if !rustix::process::geteuid().is_root() {
        return Err(format!(
            "{command} attaches probes and so needs root: sudo -E cargo xtask {command} ..."
        ));
    }
    std::fs::create_dir_all(&settings.out).map_err(|error| format!("{}: {error}", settings.out.display()))?;
    build_agent(&crate::root())?;
    let mut broken = Vec::new();
    for measurement in chosen {
        let Measurement { name, about, .. } = measurement;
        println!("==> {name}: {about}");
        let began = Instant::now();
        match measure(measurement, &settings) {
            Ok(failed) => broken.extend(failed.iter().map(|text| format!("{name}: {text}"))),
            Err(error) => {
                println!("{name}: {error}");
                broken.push(format!("{name}: {error}"));
            }
        }
        println!("    {name}: {:.0} s", began.elapsed().as_secs_f64());
    }
    println!("all results are in {}", settings.out.display());
    match broken.as_slice() {
        [] => Ok(()),
        _ => Err(format!("the figures do not show:\n{}", broken.join("\n"))),
    }
}

/// Runs one measurement, prints and stores its outcome, and returns the failed claims.
fn measure(measurement: &Measurement, settings: &Settings) -> Result<Vec<String>> {
    let Measurement { name, about, run, .. } = measurement;
    let outcome = run(settings)?;
    let text = outcome.text(name, about, settings.quick);
    println!("{text}");
    settings.write(&format!("{name}.md"), &text)?;
    if let Some(figures) = &outcome.figures {
        settings.write(&format!("{name}.json"), &format!("{figures:#}\n"))?;
    }
    let failed = outcome.claims.iter().filter(|claim| claim.fails(settings.quick));
    Ok(failed.map(|claim| claim.text.clone()).collect())
}

impl Outcome {
    /// The outcome as Markdown, which is readable on a terminal, too.
    fn text(&self, name: &str, about: &str, quick: bool) -> String {
        let mut text = format!("# {name}\n{about}\n");
        for section in &self.sections {
            text += &format!("\n## {}\n\n{}", section.title, section.table);
            if !section.notes.is_empty() {
                text += &format!("\n{}\n", section.notes.join("\n"));
            }
        }
        if !self.claims.is_empty() {
            text += "\n## What must hold\n\n";
        }
        for claim in &self.claims {
            text += &format!("- {}: {}\n", claim.verdict(quick), claim.text);
        }
        text
    }
}

/// Builds the measured agent with optimisation, as users have it. TUNEAGENT_BIN names another one, as in the
/// tests.
pub(crate) fn build_agent(root: &Path) -> Result<()> {
    if std::env::var_os("TUNEAGENT_BIN").is_some() {
        return Ok(());
    }
    println!("building tuneagent (release)");
    let mut build = process::cargo(root, "build --quiet --release --package tuneagent");
    process::run(build.env_remove("TUNEAGENT_REQUIRE_ALL"))?;
    agent::take(crate::target_folder(root).join("release/tuneagent"));
    Ok(())
}
