//! The findings of the rules.

use std::{collections::BTreeSet, time::Duration};

use profile::FindingView;

/// All findings of a session, each with its rule, and for each rule the last one that no longer holds.
#[derive(Debug, Default)]
pub struct Findings {
    open: Vec<FindingView>,
    past: Vec<FindingView>,
    /// Rules whose change did not make the program faster: to start it that way would not either.
    refuted: BTreeSet<String>,
}

impl Findings {
    /// Adds a finding whose condition holds now, or updates its numbers.
    pub fn open(&mut self, finding: FindingView) {
        self.past.retain(|past| past.rule != finding.rule);
        match self.open.iter_mut().find(|known| known.rule == finding.rule) {
            // A repaired finding keeps its text; the current numbers are those of the repaired program.
            Some(known) if known.repaired => {}
            // The time of the first finding is kept. A finding that is not evaluated again keeps its numbers.
            Some(known) => {
                let is_same = known.text == finding.text;
                *known = FindingView {
                    at: known.at,
                    numbers_at: if is_same {
                        known.numbers_at
                    } else {
                        finding.numbers_at
                    },
                    ..finding
                }
            }
            None => self.open.push(finding),
        }
    }

    /// Whether a rule has a finding that is not repaired.
    pub fn is_open(&self, rule: &str) -> bool {
        self.open
            .iter()
            .any(|finding| finding.rule == rule && !finding.repaired)
    }

    /// Closes a finding whose condition no longer holds since `at`. Repaired findings stay listed.
    pub fn close(&mut self, rule: &str, at: Duration) {
        let is_gone = |finding: &mut FindingView| finding.rule == rule && !finding.repaired;
        let gone = self.open.extract_if(.., is_gone).map(|finding| FindingView {
            gone_at: Some(at),
            now: None,
            ..finding
        });
        self.past.extend(gone);
    }

    /// Findings that no longer hold.
    pub fn past(&self) -> Vec<FindingView> {
        self.past.iter().map(|finding| self.view(finding)).collect()
    }

    /// Sets the command with which the repair of a rule becomes permanent.
    pub fn stays_with(&mut self, rule: &str, command: String) {
        if let Some(finding) = self.open.iter_mut().find(|finding| finding.rule == rule) {
            finding.now = Some(command);
        }
    }

    pub fn views(&self) -> Vec<FindingView> {
        self.open.iter().map(|finding| self.view(finding)).collect()
    }

    fn view(&self, finding: &FindingView) -> FindingView {
        let next_start = finding.next_start.clone();
        FindingView {
            next_start: next_start.filter(|_| !self.refuted.contains(&finding.rule)),
            ..finding.clone()
        }
    }

    /// The guard judged the change of a rule to be worse, or without effect.
    pub(super) fn refuted(&mut self, rule: &str) {
        self.refuted.insert(rule.to_owned());
    }

    /// Removes the findings of a removed rule, none of whose changes is in force.
    pub(super) fn forget(&mut self, rule: &str) {
        self.open.retain(|finding| finding.rule != rule);
        self.past.retain(|finding| finding.rule != rule);
    }

    /// Marks the finding of a rule as repaired.
    pub(super) fn repaired(&mut self, rule: &str) {
        for finding in self.open.iter_mut().filter(|finding| finding.rule == rule) {
            finding.repaired = true;
            finding.now = None;
        }
        self.refuted.remove(rule);
    }

    pub(super) fn repairs(&self) -> impl Iterator<Item = &str> {
        let repaired = self.open.iter().filter(|finding| finding.repaired);
        repaired.map(|finding| finding.rule.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_the_time_of_its_first_window_and_that_of_its_numbers() {
        let mut findings = Findings::default();
        let mut times = |second, text: &str| {
            let at = Duration::from_secs(second);
            findings.open(FindingView {
                rule: "r".to_owned(),
                text: text.to_owned(),
                at,
                numbers_at: at,
                ..FindingView::default()
            });
            let view = &findings.views()[0];
            (view.at.as_secs(), view.numbers_at.as_secs())
        };
        assert_eq!(times(2, "88 % in MPI"), (2, 2));
        assert_eq!(times(5, "85 % in MPI"), (2, 5));
        assert_eq!(times(9, "85 % in MPI"), (2, 5));
    }
}
