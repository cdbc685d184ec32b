//! Reads the report of another run, as far as computation scalability needs it.

use std::{fs, io};

use serde_json::Value;
use thiserror::Error;

use super::SCHEMA;

/// Why a file cannot be used as a reference.
#[derive(Debug, Error)]
pub enum ReferenceError {
    #[error("{file} cannot be read: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error("{file} cannot be used as a reference: {why}")]
    NoReference { file: String, why: NoReference },
}

/// What a report lacks to be a reference.
#[derive(Debug, Error)]
pub enum NoReference {
    #[error("it is not valid JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("its schema is {0}, not {SCHEMA}")]
    OtherSchema(String),
    #[error("it is not a tuneagent report ({SCHEMA}), as attach --json writes it")]
    NoReport,
    #[error("it has no useful time of an iteration: not every rank has a detected loop")]
    NoIterations,
    #[error("it is of {ranks} ranks of {size}, the others ran elsewhere")]
    Partial { ranks: u64, size: Value },
    #[error("nothing was computed in it")]
    NothingComputed,
}

/// Results of another run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    pub ranks: usize,
    /// Useful time of all ranks in an iteration, in nanoseconds.
    pub useful_ns: f64,
}

impl Reference {
    /// Reads a report. The error contains what it lacks.
    pub fn read(file: &str) -> Result<Reference, ReferenceError> {
        let text = fs::read_to_string(file).map_err(|error| ReferenceError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        Reference::of(&text).map_err(|why| ReferenceError::NoReference {
            file: file.to_owned(),
            why,
        })
    }

    fn of(text: &str) -> Result<Reference, NoReference> {
        let report: Value = serde_json::from_str(text).map_err(NoReference::NoJson)?;
        match report["schema"].as_str() {
            Some(schema) if schema == SCHEMA => {}
            Some(schema) => return Err(NoReference::OtherSchema(schema.to_owned())),
            None => return Err(NoReference::NoReport),
        }
        let efficiencies = &report["efficiencies"];
        let useful_s = efficiencies["useful_time_per_iteration_s"].as_f64();
        let ranks = efficiencies["ranks"].as_u64();
        let (Some(useful_s), Some(ranks)) = (useful_s, ranks) else {
            return Err(NoReference::NoIterations);
        };
        if report["job"]["size"].as_u64() != Some(ranks) {
            let size = report["job"]["size"].clone();
            return Err(NoReference::Partial { ranks, size });
        }
        if useful_s <= 0.0 || ranks == 0 {
            return Err(NoReference::NothingComputed);
        }
        Ok(Reference {
            ranks: ranks as usize,
            useful_ns: useful_s * 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{efficiencies, job};
    use profile::{EfficienciesView, SequenceView, Snapshot};

    fn report(size: usize, useful_ns: Option<f64>) -> String {
        let snapshot = Snapshot {
            job: job(Some(size)),
            sequence: SequenceView {
                efficiencies: Some(EfficienciesView {
                    useful_ns,
                    ..efficiencies([0.5; 4])
                }),
                ..SequenceView::default()
            },
            ..Snapshot::default()
        };
        super::super::render(&snapshot)
    }

    #[test]
    fn a_report_with_iterations_of_every_rank_is_a_reference() {
        let found = Reference::of(&report(4, Some(2.5e8))).unwrap();
        assert_eq!((found.ranks, found.useful_ns), (4, 2.5e8));
    }

    #[test]
    fn a_report_that_cannot_be_a_reference_is_refused_with_the_reason() {
        for (text, why) in [
            ("{".to_owned(), "not valid JSON"),
            ("{}".to_owned(), "not a tuneagent report"),
            ("{\"schema\": \"tuneagent.report/0\"}".to_owned(), "its schema is"),
            (report(4, None), "a detected loop"),
            (report(8, Some(2.5e8)), "4 ranks of 8"),
            (report(4, Some(0.0)), "nothing was computed"),
        ] {
            let said = Reference::of(&text).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        assert!(
            Reference::read("/no/such/file")
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
