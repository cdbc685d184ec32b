//! Claims about figures. Machines are noisy: claims about times are checked in full runs only, and a missed
//! target fails a run only if the figure is beyond a second bound.

use super::stats::figure;

/// A statement that the figures must support.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) text: String,
    holds: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Logic,
    Times,
    /// A figure with a target, and a bound beyond which the run fails.
    Target {
        is_far_off: bool,
    },
}

impl Claim {
    /// A claim about times; the quick form is too short to check it.
    pub(crate) fn of_times(text: String, holds: bool) -> Claim {
        let kind = Kind::Times;
        Claim { text, holds, kind }
    }

    /// A claim that must hold in every run, on every machine.
    pub(crate) fn of_logic(text: impl Into<String>, holds: bool) -> Claim {
        let (text, kind) = (text.into(), Kind::Logic);
        Claim { text, holds, kind }
    }

    /// Claims `value` <= `target`; fails the run above `bound` or if `value` is NaN.
    pub(crate) fn at_most(what: &str, value: f64, target: f64, bound: f64) -> Claim {
        Claim {
            text: format!("{what}: {}, at most {}", figure(value), figure(target)),
            holds: value <= target,
            kind: Kind::Target {
                is_far_off: value.is_nan() || value > bound,
            },
        }
    }

    /// Claims `value` >= `target`; fails the run below `bound`.
    pub(crate) fn at_least(what: &str, value: f64, target: f64, bound: f64) -> Claim {
        Claim {
            text: format!("{what}: {}, at least {}", figure(value), figure(target)),
            holds: value >= target,
            kind: Kind::Target {
                is_far_off: value.is_nan() || value < bound,
            },
        }
    }

    pub(super) fn fails(&self, quick: bool) -> bool {
        match self.kind {
            Kind::Logic => !self.holds,
            Kind::Times => !self.holds && !quick,
            Kind::Target { is_far_off } => is_far_off,
        }
    }

    pub(super) fn verdict(&self, quick: bool) -> &'static str {
        match self.kind {
            Kind::Times if quick => "not settled by the quick form",
            _ if self.holds => "holds",
            _ if self.fails(quick) => "DOES NOT HOLD",
            _ => "missed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_fails_only_where_the_figure_is_far_off() {
        for (claim, verdict) in [
            (Claim::at_most("a", 1.2, 1.25, 2.0), "holds"),
            (Claim::at_most("a", 1.3, 1.25, 2.0), "missed"),
            (Claim::at_most("a", 2.1, 1.25, 2.0), "DOES NOT HOLD"),
            (Claim::at_most("a", f64::NAN, 1.0, 2.0), "DOES NOT HOLD"),
            (Claim::at_least("a", 6.0, 5.0, 1.0), "holds"),
            (Claim::at_least("a", 4.0, 5.0, 1.0), "missed"),
            (Claim::at_least("a", 0.5, 5.0, 1.0), "DOES NOT HOLD"),
        ] {
            for quick in [false, true] {
                assert_eq!(claim.verdict(quick), verdict, "{}", claim.text);
                assert_eq!(claim.fails(quick), verdict == "DOES NOT HOLD", "{}", claim.text);
            }
        }
        assert_eq!(Claim::at_most("a", 2.1, 1.25, 2.0).text, "a: 2.10, at most 1.25");
    }

    #[test]
    fn the_quick_form_settles_logic_and_no_times() {
        let (times, logic) = (
            Claim::of_times("t".to_owned(), false),
            Claim::of_logic("l", false),
        );
        assert!(times.fails(false) && !times.fails(true));
        assert!(logic.fails(false) && logic.fails(true));
    }
}
