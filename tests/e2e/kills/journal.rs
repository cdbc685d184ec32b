//! An independent parser of the journal's lines, and of the effects of each change on the program, so that
//! the tuner's own code is not used for its test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tuneagent_e2e::underload::Underload;
use tuneagent_e2e::{Outcome, Problem};

/// State of a change, from the last line about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing {
    /// Announced or being reverted, without an outcome.
    Open,
    InForce,
    /// Not written, or reverted.
    Out,
    /// A call that has returned.
    Done,
}

#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) number: u64,
    intent: Value,
    /// State after each line about the change, and whether the line was written by a recovery.
    standings: Vec<(Standing, bool)>,
}

pub(crate) struct Journal(BTreeMap<u64, Change>);

impl Journal {
    /// Reads the journal of the only process in this folder.
    pub(crate) fn read(folder: &Path) -> Outcome<Journal> {
        let mut text = String::new();
        for entry in fs::read_dir(folder).into_iter().flatten() {
            assert!(text.is_empty(), "one process alone is changed");
            text = fs::read_to_string(entry?.path())?;
        }
        let mut changes = BTreeMap::new();
        // A line that is incomplete because of a kill announced nothing that was done.
        for record in text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let number = record["change"].as_u64().ok_or("no number")?;
            let kind = record["record"].as_str().unwrap_or_default().to_owned();
            if kind == "intent" {
                let change = Change {
                    number,
                    intent: record,
                    standings: vec![(Standing::Open, false)],
                };
                assert!(changes.insert(number, change).is_none(), "{number} twice");
                continue;
            }
            let change: &mut Change = changes.get_mut(&number).ok_or("nobody announced it")?;
            let is_load = change.intent["action"] == "load";
            let standing = match (kind.as_str(), &record["outcome"]) {
                ("outcome", outcome) if outcome == "applied" => Standing::InForce,
                ("outcome", outcome) if outcome["not_written"].is_string() => Standing::Out,
                ("returned", _) if is_load => Standing::InForce,
                ("returned", _) => Standing::Done,
                ("revert_intent", _) => Standing::Open,
                ("revert_outcome", outcome) if outcome == "reverted" => Standing::Out,
                ("revert_outcome", outcome) if outcome["failed"].is_string() => Standing::InForce,
                ("confirmed", _) => continue,
                _ => return Err(Problem::new(format!("what is {record}"))),
            };
            change.standings.push((standing, record["recovered"] == true));
        }
        Ok(Journal(changes))
    }

    pub(crate) fn newest(&self) -> u64 {
        self.0.keys().last().copied().unwrap_or(0)
    }

    pub(crate) fn behind(&self, number: u64) -> impl Iterator<Item = &Change> {
        self.0.range(number + 1..).map(|(_, change)| change)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.behind(0).any(|change| change.standing() == Standing::Open)
    }

    /// Number of calls with a line about their return.
    pub(crate) fn calls(&self) -> u64 {
        self.behind(0)
            .filter(|change| change.standing() == Standing::Done)
            .count() as u64
    }

    /// Result of the recovery of a change: whether it was in force. `None` if it was not recovered.
    pub(crate) fn found_out(&self, number: u64) -> Option<bool> {
        let standings = &self.0.get(&number)?.standings;
        let (standing, _) = standings.iter().find(|(_, recovered)| *recovered)?;
        Some(*standing == Standing::InForce)
    }
}

impl Change {
    pub(crate) fn standing(&self) -> Standing {
        self.standings
            .last()
            .map_or(Standing::Open, |(standing, _)| *standing)
    }

    /// Whether the change is in force in the program, at least in part. `None` if this cannot be seen or is
    /// in progress.
    pub(crate) fn holds(&self, program: &Underload) -> Outcome<Option<bool>> {
        let intent = &self.intent;
        Ok(match intent["action"].as_str().ok_or("no action")? {
            "set" => Some(is_new(intent, program)?),
            "patch" => {
                let sites = intent["sites"].as_array().ok_or("no sites")?;
                let mut held = false;
                for site in sites {
                    held |= is_new(site, program)?;
                }
                Some(held)
            }
            "affinity" => {
                let ours = intent["cpus"].as_str().ok_or("no CPUs")?;
                Some(program.cpus()?.iter().any(|(_, cpus)| cpus == ours))
            }
            // The dynamic linker may still be loading the library.
            "load" if self.standing() == Standing::Open => None,
            "load" => Some(
                program
                    .maps()?
                    .contains(intent["symbol"].as_str().ok_or("no path")?),
            ),
            _ => None,
        })
    }
}

/// Whether the bytes at a place are the new ones. An error if they are neither the new nor the old ones.
fn is_new(place: &Value, program: &Underload) -> Outcome<bool> {
    let new = place["new"].as_str().ok_or("no new bytes")?;
    let address = place["address"].as_u64().ok_or("no address")?;
    let found = program.bytes(address, new.len() / 2)?;
    let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    if found != new && place["old"] != found.as_str() {
        return Err(Problem::new(format!(
            "{found} is neither what was nor what was to be: {place}"
        )));
    }
    Ok(found == new)
}
