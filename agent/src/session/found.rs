//! Advice that is added to a finding: the command that makes the rule act, and the effects of that. Pure.

use std::collections::BTreeSet;

use super::orders::file_name;

/// Note on changes that a session without probes would make.
const UNJUDGED: &str = "without probes no guard judges it, and it is reverted when that session ends";

/// Note on changes that a session which may write does not make.
const UNNAMED: &str = "this session does not apply it: it must be named in --apply=";

/// A possible repair by a rule with a finding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair<'a> {
    pub(super) rule: &'a str,
    /// The target as it was typed.
    pub(super) target: &'a str,
    /// The flags with which its rules were loaded, each after a space.
    pub(super) loads: &'a str,
    /// This session may write.
    pub(super) may_write: bool,
    /// The rule acts in this session.
    pub(super) acts: bool,
    /// The rule acts only if it is named: always, or because `--apply` names others.
    pub(super) must_be_named: bool,
}

impl Repair<'_> {
    /// The command that makes the rule act, and its effects, in lines; `None` if this session does it, or if
    /// there is nothing to do.
    pub(super) fn advice(self, can_probe: bool, effects: Vec<String>) -> Option<String> {
        if self.acts || effects.is_empty() {
            return None;
        }
        let attach = self.attach();
        // Without probes now, the user has the rights for rules that do without probes; their changes could
        // not be kept.
        let (command, unjudged) = match can_probe {
            true => (self.stays(), None),
            false => (crate::hint::as_we_are(&attach), Some(UNJUDGED.to_owned())),
        };
        let unnamed = self.may_write.then(|| UNNAMED.to_owned());
        let lines = [command].into_iter().chain(effects);
        let lines: Vec<String> = lines.chain(unjudged).chain(unnamed).collect();
        Some(lines.join("\n"))
    }

    /// The command with which the rule's changes stay when its session ends.
    pub(super) fn stays(self) -> String {
        crate::hint::as_root(&format!("{} --keep", self.attach()))
    }

    fn attach(self) -> String {
        let named = match self.must_be_named {
            true => format!("={}", self.rule),
            false => String::new(),
        };
        format!("attach {}{} --apply{named}", self.target, self.loads)
    }
}

/// Names the files with copies of a variable that a rule would write in every process; `None` if there is at
/// most one.
pub(super) fn copies(variable: &str, paths: &BTreeSet<String>) -> Option<String> {
    let files: Vec<&str> = paths.iter().map(|path| file_name(path)).collect();
    (files.len() > 1).then(|| format!("{variable} is in {}", files.join(" and in ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Repair<'_> = Repair {
        rule: "slow",
        target: "42",
        loads: "",
        may_write: false,
        acts: false,
        must_be_named: false,
    };

    #[test]
    fn a_finding_names_the_command_that_would_repair_it_and_what_it_would_do() {
        let does = || vec!["set knob = 4".to_owned()];
        let applies = Repair {
            may_write: true,
            acts: true,
            ..SLOW
        };
        let named = Repair {
            must_be_named: true,
            ..SLOW
        };
        let not_here = Repair {
            may_write: true,
            ..named
        };
        for (repair, can_probe, words) in [
            (
                SLOW,
                true,
                Some(vec!["attach 42 --apply --keep", "\nset knob = 4"]),
            ),
            (SLOW, false, Some(vec!["attach 42 --apply\n", UNJUDGED])),
            (applies, true, None),
            (
                Repair {
                    must_be_named: true,
                    ..applies
                },
                true,
                None,
            ),
            (named, true, Some(vec!["attach 42 --apply=slow --keep"])),
            (
                not_here,
                true,
                Some(vec!["attach 42 --apply=slow --keep", UNNAMED]),
            ),
            (
                not_here,
                false,
                Some(vec!["attach 42 --apply=slow\n", UNJUDGED, UNNAMED]),
            ),
        ] {
            let advice = repair.advice(can_probe, does());
            assert_eq!(advice.is_some(), words.is_some(), "{repair:?}");
            for word in words.into_iter().flatten() {
                let advice = advice.as_deref().unwrap_or_default();
                assert!(advice.contains(word), "{word:?} in {advice:?}");
            }
        }
    }

    #[test]
    fn a_rule_that_would_do_nothing_gets_no_command() {
        assert_eq!(SLOW.advice(true, Vec::new()), None);
    }

    #[test]
    fn lasting_changes_are_named_with_keep_and_if_needed_with_their_rule() {
        assert!(SLOW.stays().ends_with("attach 42 --apply --keep"));
        let named = Repair {
            must_be_named: true,
            ..SLOW
        };
        assert!(named.stays().ends_with("attach 42 --apply=slow --keep"));
        let loaded = Repair {
            loads: " --rules none batch.yaml",
            ..SLOW
        };
        assert!(
            loaded
                .stays()
                .ends_with("attach 42 --rules none batch.yaml --apply --keep")
        );
    }

    #[test]
    fn copies_are_named_by_their_files_where_there_are_several() {
        let of = |paths: &[&str]| copies("knob", &paths.iter().map(|path| (*path).to_owned()).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["/lib/liba.so"]), None);
        let said = of(&["/lib/liba.so", "/opt/libb.so"]);
        assert_eq!(said.as_deref(), Some("knob is in liba.so and in libb.so"));
    }
}
