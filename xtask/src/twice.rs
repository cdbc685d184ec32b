//! Runs tests of complete programs, and repeats the few that fail. On two cores a test with sixteen ranks can
//! miss a deadline. A failed test is run once more, alone; tests that needed this are listed as flaky.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::process::{cannot_start, shown};

/// Maximum number of failures that may be coincidence; with more nothing is repeated.
const RETRIES_MAX: usize = 4;

/// Tests that needed a second try since this program started.
static DEFECTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tests that failed once and then passed alone. Each is a defect of the test or of the product.
pub(crate) fn defects() -> Vec<String> {
    DEFECTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs the tests of a cargo command.
pub(crate) fn run(command: &dyn Fn() -> Result<Command>) -> Result<()> {
    let mut first = command()?;
    first.arg("--no-fail-fast");
    let mut shown = Shown::default();
    let is_passed = follow(&mut first, &mut |line| shown.line(line))?;
    if is_passed {
        return Ok(());
    }
    let failed = failed(&shown.held);
    let error = format!("{} failed", self::shown(&first));
    if failed.is_empty() || failed.len() > RETRIES_MAX {
        print!("{}", shown.held);
        return Err(error);
    }
    for line in shown.held.lines() {
        println!("first try | {line}");
    }
    println!("--> alone, for they failed beside others: {}", failed.join(", "));
    let mut second = command()?;
    second.args(["--no-fail-fast", "--", "--exact", "--test-threads=1"]);
    let mut output = String::new();
    let is_passed = follow(second.args(&failed), &mut |line| {
        println!("{line}");
        output += line;
        output.push('\n');
    })?;
    if !is_passed || passed(&output) < failed.len() {
        return Err(error);
    }
    println!(
        "--> passed at the second try, to be mended: {}",
        failed.join(", ")
    );
    DEFECTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(failed);
    Ok(())
}

/// Prints the output of the first try. Failures are printed only if the second try fails too, so that every
/// printed failure is final.
#[derive(Default)]
struct Shown {
    held: String,
    is_list: bool,
}

impl Shown {
    fn line(&mut self, line: &str) {
        self.is_list |= line == "failures:";
        match line.strip_suffix(" ... FAILED") {
            Some(test) => println!("{test} ... not passed yet"),
            None if self.is_list => {
                self.held += line;
                self.held.push('\n');
            }
            None => println!("{line}"),
        }
        self.is_list &= !line.starts_with("test result: ");
    }
}

/// Runs a command to its end and passes on every line. Returns whether it succeeded.
fn follow(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(command, &error))?;
    let lines = child
        .stdout
        .take()
        .map(|output| BufReader::new(output).split(b'\n'));
    for bytes in lines.into_iter().flatten() {
        let bytes = bytes.map_err(|error| format!("{}: {error}", shown(command)))?;
        line(&String::from_utf8_lossy(&bytes));
    }
    let status = child.wait().map_err(|error| cannot_start(command, &error))?;
    Ok(status.success())
}

/// Names of failed tests from the lists at the end of the test programs' output, without duplicates.
fn failed(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_list = false;
    for line in output.lines() {
        if line == "failures:" {
            is_list = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| is_list) {
            names.push(name.to_owned());
        } else {
            is_list = false;
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Number of passed tests, over all test programs.
fn passed(output: &str) -> usize {
    let results = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    let counts = results.filter_map(|line| line.split_once(". ")?.1.split(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test a::good ... ok

failures:

---- a::bad stdout ----
    indented: what it said
failures:

failures:
    a::bad
    b::worse

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 633.31s

failures:
    a::bad

test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.31s
";

    #[test]
    fn the_tests_that_failed_are_read_from_their_list_and_nothing_else_is() {
        assert_eq!(failed(OUTPUT), ["a::bad", "b::worse"]);
        assert!(failed("error: could not compile `agent`\n    Finished").is_empty());
    }

    #[test]
    fn messages_about_failures_are_printed_at_the_end_of_each_test_program() {
        let mut shown = Shown::default();
        OUTPUT.lines().for_each(|line| shown.line(line));
        assert_eq!(failed(&shown.held), failed(OUTPUT));
        assert!(shown.held.contains("indented: what it said") && !shown.held.contains("a::good"));
        assert!(!shown.is_list, "what follows is shown at once");
    }

    #[test]
    fn those_that_passed_are_counted_over_all_test_programs() {
        assert_eq!(passed(OUTPUT), 5);
    }

    fn shell(script: &str) -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Ok(command)
    }

    #[test]
    fn tests_that_fail_twice_or_do_not_run_again_fail() {
        let always = "printf 'failures:\\n    a\\n\\ntest result: FAILED. 0 passed; 1 failed\\n'; exit 1";
        assert!(run(&|| shell(always)).is_err());
        let vanishes = "case \"$*\" in *--exact*) printf 'test result: ok. 0 passed; 0 failed\\n';; *) printf 'failures:\\n    a\\n'; exit 1;; esac";
        assert!(run(&|| shell(vanishes)).is_err());
        let once = "case \"$*\" in *--exact*) printf 'test result: ok. 1 passed; 0 failed\\n';; *) printf 'failures:\\n    a\\n'; exit 1;; esac";
        assert!(run(&|| shell(once)).is_ok());
        assert_eq!(defects(), ["a"]);
    }

    #[test]
    fn many_failures_are_not_tried_again() {
        let many = "case \"$*\" in *--exact*) printf 'test result: ok. 9 passed\\n';; *) printf 'failures:\\n    a\\n    b\\n    c\\n    d\\n    e\\n'; exit 1;; esac";
        assert!(run(&|| shell(many)).is_err());
    }
}
