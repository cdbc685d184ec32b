//! What benchmarks and experiments share: how one is chosen and run, and what it gives: sections of tables, a
//! picture, figures, and claims that the figures must support.
//!
//! A measurement is a function from settings to an outcome. Its tables are printed and kept in `NAME.md`, its
//! picture in `NAME.svg`, its figures in `NAME.json`.

pub(crate) mod chart;
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
use self::{chart::Picture, table::Table};
use crate::{Result, process};

/// A benchmark or an experiment.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    /// What it asks.
    pub(crate) about: &'static str,
    /// The options with a number that it takes besides `--repeats`.
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

/// The measurements of one command of xtask.
pub(crate) struct Suite {
    pub(crate) command: &'static str,
    /// Where results go, below cargo's target folder.
    pub(crate) folder: &'static str,
    pub(crate) all: &'static [Measurement],
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sections: Vec<Section>,
    pub(crate) picture: Option<Picture>,
    /// What the figures must show, and whether they do.
    pub(crate) claims: Vec<Claim>,
    /// All that was measured.
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

    /// A table that needs no notes.
    pub(crate) fn of(title: &str, table: Table) -> Section {
        Section::new(title, table, [] as [String; 0])
    }
}

/// Runs the chosen ones one after the other. What failed is shown at the end, so that one does not hide the
/// others.
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

/// One of them, shown and kept. Returns the claims that fail.
fn measure(measurement: &Measurement, settings: &Settings) -> Result<Vec<String>> {
    let Measurement { name, about, run, .. } = measurement;
    let outcome = run(settings)?;
    let text = outcome.text(name, about, settings.quick);
    println!("{text}");
    settings.write(&format!("{name}.md"), &text)?;
    if let Some(picture) = &outcome.picture {
        settings.write(&format!("{name}.svg"), &picture.svg())?;
    }
    if let Some(figures) = &outcome.figures {
        settings.write(&format!("{name}.json"), &format!("{figures:#}\n"))?;
    }
    let failed = outcome.claims.iter().filter(|claim| claim.fails(settings.quick));
    Ok(failed.map(|claim| claim.text.clone()).collect())
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
        if !self.claims.is_empty() {
            text += "\n## What must hold\n\n";
        }
        for claim in &self.claims {
            text += &format!("- {}: {}\n", claim.verdict(quick), claim.text);
        }
        text
    }
}

/// The agent that is measured: built for speed, as users have it; TUNEAGENT_BIN names another one, as for the
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
