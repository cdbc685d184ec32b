//! What a benchmark is held against: a target, which is told beside what was measured, and a bound far from it, beyond which something is
//! broken and the benchmark fails. Machines are noisy; a target that was missed is for people to look at.

use crate::Result;
use crate::experiment::{stats::figure, table::Table};

/// A figure, what it ought to be, and what it must be.
pub(super) struct Verdict {
    what: String,
    is: f64,
    bounds: Bounds,
}

enum Bounds {
    AtMost { target: f64, bound: f64 },
    AtLeast { target: f64, bound: f64 },
}

impl Verdict {
    /// No more than the target; beyond the bound it fails.
    pub(super) fn at_most(what: impl Into<String>, is: f64, target: f64, bound: f64) -> Verdict {
        Verdict {
            what: what.into(),
            is,
            bounds: Bounds::AtMost { target, bound },
        }
    }

    /// No less than the target; below the bound it fails.
    pub(super) fn at_least(what: impl Into<String>, is: f64, target: f64, bound: f64) -> Verdict {
        Verdict {
            what: what.into(),
            is,
            bounds: Bounds::AtLeast { target, bound },
        }
    }

    fn told(&self) -> (String, &'static str) {
        let (target, meets, holds) = match self.bounds {
            Bounds::AtMost { target, bound } => (
                format!("at most {}", figure(target)),
                self.is <= target,
                self.is <= bound,
            ),
            Bounds::AtLeast { target, bound } => (
                format!("at least {}", figure(target)),
                self.is >= target,
                self.is >= bound,
            ),
        };
        let word = match (meets, holds) {
            (true, _) => "yes",
            (false, true) => "no",
            (false, false) => "FAR OFF",
        };
        (target, word)
    }
}

/// Tells all of them; an error names those that are beyond their bounds.
pub(super) fn judge(verdicts: &[Verdict]) -> Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["what", "measured", "target", "met"]);
    let mut broken = Vec::new();
    for verdict in verdicts {
        let (target, word) = verdict.told();
        if word == "FAR OFF" {
            broken.push(format!("{}: {}, {target}", verdict.what, figure(verdict.is)));
        }
        table.row([verdict.what.clone(), figure(verdict.is), target, word.to_owned()]);
    }
    println!("{table}");
    match broken.is_empty() {
        true => Ok(()),
        false => Err(format!("far off its target: {}", broken.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_far_off_its_target_fails() {
        let missed = [
            Verdict::at_most("a", 1.3, 1.25, 2.0),
            Verdict::at_least("b", 4.0, 5.0, 1.0),
        ];
        assert_eq!(
            missed.iter().map(|verdict| verdict.told().1).collect::<Vec<_>>(),
            ["no", "no"]
        );
        assert_eq!(judge(&missed), Ok(()));
        let broken = [
            Verdict::at_most("a", 2.1, 1.25, 2.0),
            Verdict::at_least("b", 0.5, 5.0, 1.0),
            Verdict::at_least("c", 6.0, 5.0, 1.0),
            Verdict::at_most("d", f64::NAN, 1.0, 2.0),
        ];
        let told = judge(&broken).unwrap_err();
        assert!(
            told.contains("a: 2.10, at most 1.25") && told.contains("b: 0.500"),
            "{told}"
        );
        assert!(!told.contains("c:") && told.contains("d: "), "{told}");
    }
}
