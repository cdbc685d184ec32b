//! The syntax of places: `cfg.solver.chunk`, `limits[2]`, `head->next`, `solver.c:limit`, `*counter`. Text
//! in, parts out; independent of programs.
//!
//! A path is a name followed by steps. It may be preceded by the module and the source file that distinguish
//! several variables of one name, each followed by a colon: `libopenblas.so:blas.c:threads`. A `*` in front
//! dereferences the complete expression, as in C.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Bytes of the longest text that is parsed.
pub(crate) const PATH_BYTES_MAX: usize = 4_096;
/// Bound on the steps of a path.
const STEPS_MAX: usize = 64;
/// Characters of a path that an error shows.
const SHOWN_MAX: usize = 100;

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a variable: {why} at column {column}")]
pub struct PathError {
    pub text: String,
    pub why: &'static str,
    /// Column of the error, from 1.
    pub column: usize,
}

/// One step from a value to a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathStep {
    /// A field: `.name`, `->name`, or `%name` as in Fortran. Pointers are followed.
    Field(String),
    /// An element, by the program's own index: from 0 in C, from the lower bound in Fortran.
    Index(i64),
    Deref,
}

/// A name with its steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Path {
    /// The module, the source file, or both in this order.
    pub within: Vec<String>,
    /// The name, as the source or the linker has it.
    pub name: String,
    /// The steps, in order.
    pub steps: Vec<PathStep>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let derefs = self
            .steps
            .iter()
            .rev()
            .take_while(|step| **step == PathStep::Deref)
            .count();
        f.write_str(&"*".repeat(derefs))?;
        for part in &self.within {
            write!(f, "{part}:")?;
        }
        f.write_str(&self.name)?;
        for step in &self.steps[..self.steps.len() - derefs] {
            match step {
                PathStep::Field(name) => write!(f, ".{name}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
                // A dereference in the middle is the same place as the first element.
                PathStep::Deref => write!(f, "[0]")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Path, PathError> {
        let error = |at: usize, why| PathError {
            text: text.chars().take(SHOWN_MAX).collect(),
            why,
            column: at + 1,
        };
        if text.len() > PATH_BYTES_MAX {
            return Err(error(PATH_BYTES_MAX, "it is too long"));
        }
        let derefs = text.len() - text.trim_start_matches('*').len();
        let mut within = Vec::new();
        let mut start = derefs;
        while let Some(at) = single_colon(&text[start..]).filter(|_| within.len() < 2) {
            within.push(text[start..start + at].to_owned());
            start += at + 1;
        }
        let name = &text[start..start + name_length(&text[start..])];
        if name.is_empty() || within.iter().any(String::is_empty) {
            return Err(error(start, "a name is missing"));
        }
        let mut steps =
            steps(&text[start + name.len()..]).map_err(|(at, why)| error(start + name.len() + at, why))?;
        steps.extend(std::iter::repeat_n(PathStep::Deref, derefs));
        if steps.len() > STEPS_MAX {
            return Err(error(0, "it has too many steps"));
        }
        Ok(Path {
            within,
            name: name.to_owned(),
            steps,
        })
    }
}

/// The steps of `.count`, `->next.size`, `[3].x`, as they follow a name or an argument. The error has its
/// position and a description.
pub fn steps(text: &str) -> Result<Vec<PathStep>, (usize, &'static str)> {
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let field = ["->", ".", "%"].iter().find_map(|sign| rest.strip_prefix(sign));
        if let Some(after) = field {
            let name: &str = &after[..identifier_length(after)];
            if name.is_empty() {
                return Err((at, "a field's name is missing"));
            }
            steps.push(PathStep::Field(name.to_owned()));
            at = text.len() - after.len() + name.len();
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, _) = after.split_once(']').ok_or((at, "`]` is missing"))?;
            for index in inside.split(',') {
                let index = index.trim().parse();
                steps.push(PathStep::Index(
                    index.map_err(|_| (at + 1, "an element's number is missing"))?,
                ));
            }
            at += inside.len() + 2;
        } else {
            return Err((at, "`.field`, `->field` or `[index]` is expected"));
        }
        if steps.len() > STEPS_MAX {
            return Err((at, "it has too many steps"));
        }
    }
    Ok(steps)
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn identifier_length(text: &str) -> usize {
    text.find(|c| !is_identifier(c)).unwrap_or(text.len())
}

/// The position of a single colon outside of brackets: `::` belongs to a C++ name.
fn single_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' | b'<' => depth += 1,
            b')' | b'>' => depth = depth.saturating_sub(1),
            b':' if bytes.get(at + 1) == Some(&b':') => at += 1,
            b':' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The length of the name. A dot before a digit belongs to it: compilers number the static variables of
/// functions (`count.0`).
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        let next = bytes.get(at + c.len_utf8());
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' if depth > 0 => depth -= 1,
            _ if depth > 0 || is_identifier(c) || matches!(c, ':' | '~' | '@') => {}
            '.' if next.is_some_and(u8::is_ascii_digit) => {}
            _ => return at,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> (Vec<String>, String, Vec<PathStep>) {
        let path: Path = text.parse().unwrap();
        (path.within, path.name, path.steps)
    }

    fn field(name: &str) -> PathStep {
        PathStep::Field(name.to_owned())
    }

    #[test]
    fn a_path_is_read_as_users_write_it() {
        let within = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cases = [
            ("knob", within(&[]), "knob", vec![]),
            (
                "cfg.solver.chunk",
                within(&[]),
                "cfg",
                vec![field("solver"), field("chunk")],
            ),
            ("limits[2]", within(&[]), "limits", vec![PathStep::Index(2)]),
            (
                "grid[1,-2].x",
                within(&[]),
                "grid",
                vec![PathStep::Index(1), PathStep::Index(-2), field("x")],
            ),
            (
                "head->next->value",
                within(&[]),
                "head",
                vec![field("next"), field("value")],
            ),
            ("*p.next", within(&[]), "p", vec![field("next"), PathStep::Deref]),
            ("src/solver.c:limit", within(&["src/solver.c"]), "limit", vec![]),
            (
                "libx.so.1:a.c:limit",
                within(&["libx.so.1", "a.c"]),
                "limit",
                vec![],
            ),
            (
                "app::Solver::limit.x",
                within(&[]),
                "app::Solver::limit",
                vec![field("x")],
            ),
            (
                "(anonymous namespace)::n",
                within(&[]),
                "(anonymous namespace)::n",
                vec![],
            ),
            (
                "Table<int, 3>::rows[0]",
                within(&[]),
                "Table<int, 3>::rows",
                vec![PathStep::Index(0)],
            ),
            ("config::Chunk", within(&[]), "config::Chunk", vec![]),
            ("solver%tol", within(&[]), "solver", vec![field("tol")]),
            ("count.0", within(&[]), "count.0", vec![]),
        ];
        for (text, within, name, steps) in cases {
            assert_eq!(parts(text), (within, name.to_owned(), steps), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_path_says_where_it_stops_to_be_one() {
        let cases = [
            ("", "a name is missing at column 1"),
            ("cfg.", "a field's name is missing at column 4"),
            ("limits[2", "`]` is missing at column 7"),
            ("limits[x]", "an element's number is missing at column 8"),
            (":x", "a name is missing"),
            ("a b", "is expected at column 2"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Path>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<Path>();
        }

        #[test]
        fn a_path_that_is_shown_reads_back(text in r"\*?([a-z]\.c:)?[a-z]{1,3}(::[a-z])?(\.[a-z]|\[[0-9]\]){0,4}") {
            let path: Path = text.parse().unwrap();
            prop_assert_eq!(path.to_string().parse::<Path>().unwrap(), path);
        }
    }
}
