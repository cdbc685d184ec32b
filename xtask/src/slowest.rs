//! The tests that kept the machine longest, of those that need it for themselves (`needs::machine`): where a faster run is to be had.

use std::fs;
use std::path::{Path, PathBuf};

use crate::target_folder;

/// What the tests are told the file by.
pub(crate) const VARIABLE: &str = "TUNEAGENT_TIMES";

const SHOWN: usize = 10;

/// To which each test adds a line: seconds, a tab, its name.
pub(crate) fn file(root: &Path) -> PathBuf {
    target_folder(root).join("times.tsv")
}

/// Forgets the times of an earlier run.
pub(crate) fn forget(root: &Path) {
    // It is not there before the first run.
    let _ = fs::remove_file(file(root));
}

/// Empty where no such test has run.
pub(crate) fn table(root: &Path) -> String {
    shown(&fs::read_to_string(file(root)).unwrap_or_default())
}

fn shown(times: &str) -> String {
    let mut times: Vec<(f64, &str)> = times
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(seconds, name)| Some((seconds.parse().ok()?, name)))
        .collect();
    if times.is_empty() {
        return String::new();
    }
    let all: f64 = times.iter().map(|(seconds, _)| seconds).sum();
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lines = times
        .iter()
        .take(SHOWN)
        .map(|(seconds, name)| format!("{seconds:8.1} s  {name}\n"));
    let head = format!(
        "the slowest tests, of {} that took {all:.0} s one after another:\n",
        times.len()
    );
    head + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_what_was_cut_off_is_left_out() {
        assert_eq!(
            shown("1.5\ta::quick\n20.25\tb::slow\n3.0"),
            "the slowest tests, of 2 that took 22 s one after another:\n    20.2 s  b::slow\n     1.5 s  a::quick\n"
        );
        assert_eq!(shown(""), "");
    }
}
