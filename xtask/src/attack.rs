//! `cargo xtask attack`: repeats the stress tests at full length on the release build. Agent and actuator are
//! killed at random times, many sessions attach to one program, one session stays for minutes, and hostile
//! programs are watched and changed.
//!
//! `cargo xtask test` runs a short form of each of these tests. This module only sets the numbers of
//! repetitions.

use crate::process::run;
use crate::{Result, ci};

/// Flag, environment variable that the test reads, filter of the test, default number with and without
/// `--quick`.
const ATTACKS: [(&str, &str, &str, [u32; 2]); 4] = [
    ("--kills", "TUNEAGENT_KILLS", "kills::", [20, 330]),
    (
        "--cycles",
        "TUNEAGENT_CYCLES",
        "lasting::sessions_that",
        [20, 1000],
    ),
    (
        "--soak-s",
        "TUNEAGENT_SOAK_S",
        "lasting::a_session_that",
        [20, 450],
    ),
    ("--rounds", "TUNEAGENT_ROUNDS", "hostile::", [2, 20]),
];

pub(crate) fn main(words: &[&str]) -> Result<()> {
    let (numbers, is_quick) = numbers(words)?;
    let profile = if is_quick { "" } else { "--release" };
    let build = if is_quick {
        "build --quiet --workspace"
    } else {
        "build --quiet --release -p tuneagent"
    };
    run(&mut crate::process::cargo(&crate::root(), build))?;
    let mut failed = Vec::new();
    for ((_, variable, test, _), number) in ATTACKS.iter().zip(numbers) {
        if number == 0 {
            continue;
        }
        println!("==> {variable}={number}");
        let number = number.to_string();
        let mut tests = ci::program_tests(&crate::root(), profile, &[(variable, &number)])?;
        if let Err(error) = run(tests.args([test, "--", "--nocapture"])) {
            failed.push(format!("{variable}={number}: {error}"));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// Parses the number of repetitions of each attack (0 omits it) and `--quick`.
fn numbers(words: &[&str]) -> Result<([u32; ATTACKS.len()], bool)> {
    let is_quick = words.contains(&"--quick");
    let mut numbers = ATTACKS.map(|(_, _, _, [quick, full])| if is_quick { quick } else { full });
    let mut words = words.iter().filter(|word| **word != "--quick");
    while let Some(word) = words.next() {
        let known = ATTACKS.iter().position(|(flag, ..)| flag == word);
        let known = known.ok_or_else(|| {
            let flags = ATTACKS.map(|(flag, ..)| format!(", {flag} N"));
            format!(
                "cargo xtask attack does not know {word}; it knows --quick{}",
                flags.concat()
            )
        })?;
        let number = words.next().and_then(|value| value.parse().ok());
        numbers[known] = number.ok_or(format!("{word} wants a number; 0 leaves it out"))?;
    }
    Ok((numbers, is_quick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_flag_and_what_is_mistyped_is_refused() {
        assert_eq!(numbers(&[]).unwrap(), ([330, 1000, 450, 20], false));
        assert_eq!(
            numbers(&["--kills", "7", "--quick", "--soak-s", "0"]).unwrap(),
            ([7, 20, 0, 2], true)
        );
        assert!(numbers(&["--kill", "7"]).unwrap_err().contains("--kills N"));
        assert!(numbers(&["--kills"]).unwrap_err().contains("wants a number"));
    }
}
