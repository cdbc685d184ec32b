//! Facts about a process, on which roles depend.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::value::Machine;

/// The MPI libraries a role may name, as in `mpi == "Open MPI"`.
pub const MPI_LIBRARIES: &[&str] = &["Open MPI", "MPICH", "Intel MPI"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    /// Its rank in the job's world communicator.
    pub rank: Option<u32>,
    /// Its number in the system; `None` in recordings of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The number of ranks of that communicator.
    pub size: Option<u32>,
    /// File name of its program, without the folder.
    pub exe: String,
    /// One of [`MPI_LIBRARIES`], if it uses MPI.
    pub mpi: Option<String>,
    /// The name of its machine.
    pub host: Option<String>,
    /// The machine's number; for a recorded process, that of the recording.
    #[serde(skip)]
    pub machine: Machine,
    /// Its mapped libraries; only the file name of a path is relevant.
    pub libraries: BTreeSet<String>,
    /// The symbols requested by [`crate::Plan::symbols`] that it has.
    pub symbols: BTreeSet<String>,
}

impl ProcessFacts {
    #[cfg(test)]
    pub(crate) fn of_rank(rank: u32) -> ProcessFacts {
        ProcessFacts {
            rank: Some(rank),
            ..ProcessFacts::default()
        }
    }

    /// Whether the file name of a mapped library matches `glob`.
    pub(crate) fn loads(&self, glob: &str) -> bool {
        self.libraries
            .iter()
            .any(|path| matches_glob(glob, path.rsplit('/').next().unwrap_or(path)))
    }
}

/// Whether a pattern matches a complete text: `*` is any text and `?` any one character. Backtracks to the
/// last `*` only, so that the time is at most the product of the lengths.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern after the last star, and the text that the star has not consumed.
    let mut star = None;
    while let Some(next) = text.clone().next() {
        match pattern.next() {
            Some('*') => star = Some((pattern.clone(), text.clone())),
            Some(wanted) if wanted == '?' || wanted == next => drop(text.next()),
            _ => match &mut star {
                Some((behind, rest)) => {
                    rest.next();
                    (pattern, text) = (behind.clone(), rest.clone());
                }
                None => return false,
            },
        }
    }
    pattern.all(|wanted| wanted == '*')
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (glob, name, expected) in [
            ("libgomp*.so*", "libgomp-e985bcbb.so.1.0.0", true),
            ("libgomp*.so*", "libgomp.so", true),
            ("libgomp*.so*", "libomp.so", false),
            ("lib?.so", "liba.so", true),
            ("lib?.so", "libab.so", false),
            ("*", "", true),
            ("", "x", false),
            ("*a*b", "xaxxab", true),
            ("solver*", "solver_step", true),
            ("*step", "solver_step", true),
            ("s?lver*", "solver", true),
            ("s?lver", "slver", false),
            ("?", "", false),
            ("?", "é", true),
            ("step", "solver_step", false),
            ("*aab", "aaaab", true),
            ("a*b*c", "abbd", false),
            ("app::*", "app::Solver::step(int)", true),
        ] {
            assert_eq!(matches_glob(glob, name), expected, "{glob} {name}");
        }
    }
}
