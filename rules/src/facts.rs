//! What is known of a process, for roles to choose by.

use std::collections::BTreeSet;

use crate::value::Machine;

/// The MPI libraries a role may name, as in `mpi == "Open MPI"`.
pub const MPI_LIBRARIES: &[&str] = &["Open MPI", "MPICH", "Intel MPI"];

/// Facts about one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    pub machine: Machine,
    /// Its mapped libraries; of a path only the file name counts.
    pub libraries: BTreeSet<String>,
    /// Of the symbols that [`crate::Plan::symbols`] asks for, those it has.
    pub symbols: BTreeSet<String>,
}

impl ProcessFacts {
    /// Whether a mapped library's file name fits `glob`.
    pub(crate) fn loads(&self, glob: &str) -> bool {
        self.libraries
            .iter()
            .any(|path| fits(glob, path.rsplit('/').next().unwrap_or(path)))
    }
}

/// Whether `name` fits `glob`, where `*` is any text and `?` any one character.
///
/// The agent uses it too, so that both ask the same question of a library.
pub fn fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut g, mut n) = (0, 0);
    // Where to go back to: behind the last star, and one character further in the name.
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                g += 1;
                back = Some((g, n));
            }
            Some(&c) if c == '?' || c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match back {
                Some((star, tried)) => {
                    g = star;
                    n = tried + 1;
                    back = Some((star, n));
                }
                None => return false,
            },
        }
    }
    glob.get(g..).unwrap_or(&[]).iter().all(|&c| c == '*')
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
        ] {
            assert_eq!(fits(glob, name), expected, "{glob} {name}");
        }
    }
}
