//! What is known of a process, for roles to choose by.

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
    /// The number of ranks of that communicator.
    pub size: Option<u32>,
    /// File name of its program, without the folder.
    pub exe: String,
    /// One of [`MPI_LIBRARIES`], if it uses MPI.
    pub mpi: Option<String>,
    /// The name of the machine it runs on.
    pub host: Option<String>,
    /// That of the recording where it was recorded.
    #[serde(skip)]
    pub machine: Machine,
    /// Its mapped libraries; of a path only the file name counts.
    pub libraries: BTreeSet<String>,
    /// Of the symbols that [`crate::Plan::symbols`] requests, those it has.
    pub symbols: BTreeSet<String>,
}

impl ProcessFacts {
    pub fn of_rank(rank: u32) -> ProcessFacts {
        ProcessFacts {
            rank: Some(rank),
            ..ProcessFacts::default()
        }
    }

    /// Whether a mapped library's file name fits `glob`.
    pub(crate) fn loads(&self, glob: &str) -> bool {
        self.libraries
            .iter()
            .any(|path| fits(glob, path.rsplit('/').next().unwrap_or(path)))
    }
}

/// Whether a pattern fits all of a text: `*` is any text and `?` any one character. Goes back to the last `*`
/// only, so that the time is at most the product of the lengths.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern behind the last star, and the text that the star has not taken yet.
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
    use super::fits;

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
            assert_eq!(fits(glob, name), expected, "{glob} {name}");
        }
    }
}
