//! What figures must show. Machines are noisy: claims about times are settled by full runs only, and a target
//! that was missed fails a run only where the figure is far from it.

use super::stats::figure;

/// Something that the figures must show.
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
    /// A figure with a target, and a bound beyond which something is broken.
    Target {
        is_far_off: bool,
    },
}

impl Claim {
    /// What times must show; the quick form is too short for it.
    pub(crate) fn of_times(text: String, holds: bool) -> Claim {
        let kind = Kind::Times;
        Claim { text, holds, kind }
    }

    /// What must be so however short the run and however busy the machine.
    pub(crate) fn of_logic(text: impl Into<String>, holds: bool) -> Claim {
        let (text, kind) = (text.into(), Kind::Logic);
        Claim { text, holds, kind }
    }

    /// No more than the target; beyond the bound it fails. A figure that is no number fails too.
    pub(crate) fn at_most(what: &str, value: f64, target: f64, bound: f64) -> Claim {
        Claim {
            text: format!("{what}: {}, at most {}", figure(value), figure(target)),
            holds: value <= target,
            kind: Kind::Target {
                is_far_off: value.is_nan() || value > bound,
            },
        }
    }

    /// No less than the target; below the bound it fails.
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
