//! The alternations of a trial as one line: a trial reverts its change up to a hundred times to compare.

use std::collections::BTreeMap;

use profile::format::plural;
use profile::outcome::COMPARED;

/// Who reported a revert: the recorded session or the replay; and the rule.
type RevertKey = (&'static str, String);

/// Reverts that are not printed yet.
#[derive(Debug)]
struct Reverts {
    text: String,
    count: usize,
    last_ns: u64,
}

/// The trials whose change was reverted to compare, until the next line about them.
#[derive(Debug, Default)]
pub(super) struct Compared(BTreeMap<RevertKey, Reverts>);

/// The reverts of a trial, to be printed.
#[derive(Debug, PartialEq)]
pub(super) struct Alternations {
    pub(super) since_ns: u64,
    pub(super) source: &'static str,
    pub(super) rule: String,
    pub(super) text: String,
}

impl Compared {
    /// Keeps the text of a revert to compare; false for any other text, which must be printed.
    pub(super) fn keeps(&mut self, since_ns: u64, source: &'static str, rule: &str, text: &str) -> bool {
        if !text.contains(&format!("; {COMPARED}")) {
            return false;
        }
        let reverts = self.0.entry((source, rule.to_owned()));
        let reverts = reverts.or_insert_with(|| Reverts {
            text: text.to_owned(),
            count: 0,
            last_ns: 0,
        });
        reverts.count += 1;
        reverts.last_ns = since_ns;
        true
    }

    /// Takes the reverts of a rule from all sources, because another line about the rule follows.
    pub(super) fn take(&mut self, rule: &str) -> Vec<Alternations> {
        let all = std::mem::take(&mut self.0).into_iter();
        let (of_rule, others): (BTreeMap<_, _>, BTreeMap<_, _>) = all.partition(|((_, of), _)| of == rule);
        self.0 = others;
        of_rule
            .into_iter()
            .map(|(trial, reverts)| line(trial, reverts))
            .collect()
    }

    /// Takes the reverts of all trials, at the end.
    pub(super) fn take_all(&mut self) -> Vec<Alternations> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.map(|(trial, reverts)| line(trial, reverts)).collect()
    }
}

fn line((source, rule): RevertKey, reverts: Reverts) -> Alternations {
    let text = match reverts.count {
        1 => reverts.text,
        count => {
            let counted = format!("{COMPARED} {}", plural(count, "time"));
            reverts.text.replacen(COMPARED, &counted, 1)
        }
    };
    Alternations {
        since_ns: reverts.last_ns,
        source,
        rule,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reverts_of_a_trial_are_one_line_with_their_number() {
        let mut compared = Compared::default();
        let text = "pace: 45 ms -> 19.9 ms (46 ms -> 20 ms a step); reverted to compare";
        for at in [10, 20, 30] {
            assert!(compared.keeps(at, "session", "workers", text));
        }
        assert!(compared.keeps(25, "guard", "workers", text));
        assert!(!compared.keeps(
            40,
            "session",
            "workers",
            "pace: 45 ms -> 19.9 ms, confirmed; kept"
        ));
        let line = |since_ns, source, text: &str| Alternations {
            since_ns,
            source,
            rule: "workers".to_owned(),
            text: text.to_owned(),
        };
        let counted = "pace: 45 ms -> 19.9 ms (46 ms -> 20 ms a step); reverted to compare 3 times";
        assert!(compared.take("chunks").is_empty());
        let both = [line(25, "guard", text), line(30, "session", counted)];
        assert_eq!(compared.take("workers"), both);
        assert!(compared.take_all().is_empty());
        compared.keeps(50, "guard", "workers", text);
        assert_eq!(compared.take_all(), [line(50, "guard", text)]);
    }
}
