//! The tests that occupied the machine longest, alone or beside others (`tests/src/turns.rs`): where time can
//! be saved.

use std::fs;
use std::path::{Path, PathBuf};

use crate::target_folder;

/// Environment variable with the name of the file.
pub(crate) const VARIABLE: &str = "TUNEAGENT_TIMES";

const SHOWN: usize = 20;

/// Each test appends a line: seconds, name, and `alone`, `calm` or `shared`, separated by tabs.
pub(crate) fn file(root: &Path) -> PathBuf {
    target_folder(root).join("times.tsv")
}

/// Deletes the times of an earlier run.
pub(crate) fn forget(root: &Path) {
    // The file does not exist before the first run.
    let _ = fs::remove_file(file(root));
}

/// The table as text; empty if no test wrote a line.
pub(crate) fn table(root: &Path) -> String {
    shown(&fs::read_to_string(file(root)).unwrap_or_default())
}

fn shown(times: &str) -> String {
    let parsed = |line| {
        let mut fields = str::split(line, '\t');
        let seconds = fields.next()?.parse::<f64>().ok()?;
        Some((seconds, fields.next()?, fields.next()?))
    };
    let mut times: Vec<(f64, &str, &str)> = times.lines().filter_map(parsed).collect();
    if times.is_empty() {
        return String::new();
    }
    let sum = |wanted: &str| {
        let of = times.iter().filter(|(_, _, how)| *how == wanted);
        of.map(|(seconds, ..)| seconds).sum::<f64>()
    };
    let head = format!(
        "the slowest of {} tests, which had the machine alone for {:.0} s, beside calm ones for {:.0} s and shared it for {:.0} s:\n",
        times.len(),
        sum("alone"),
        sum("calm"),
        sum("shared")
    );
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lines = times
        .iter()
        .take(SHOWN)
        .map(|(seconds, name, how)| format!("{seconds:8.1} s  {name} ({how})\n"));
    head + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_what_was_cut_off_is_left_out() {
        assert_eq!(
            shown("1.5\ta::quick\tshared\n20.25\tb::slow\talone\n4\td::sleeps\tcalm\n3.0\tc::cut"),
            "the slowest of 3 tests, which had the machine alone for 20 s, beside calm ones for 4 s and shared it for 2 s:\n    \
             20.2 s  b::slow (alone)\n     4.0 s  d::sleeps (calm)\n     1.5 s  a::quick (shared)\n"
        );
        assert_eq!(shown(""), "");
    }
}
