//! What the rules found.

use std::time::Duration;

use profile::FindingView;

/// All findings of a session, each with its rule, and of each rule the last one that does not hold any more.
#[derive(Debug, Default)]
pub struct Findings {
    open: Vec<FindingView>,
    past: Vec<FindingView>,
}

impl Findings {
    /// A condition holds now, or its numbers changed.
    pub fn open(&mut self, finding: FindingView) {
        self.past.retain(|past| past.rule != finding.rule);
        match self.open.iter_mut().find(|known| known.rule == finding.rule) {
            // What was repaired stays listed as it was found; its numbers now are those of the repaired
            // program.
            Some(known) if known.repaired => {}
            // It was found when it was first found.
            Some(known) => {
                *known = FindingView {
                    at: known.at,
                    ..finding
                }
            }
            None => self.open.push(finding),
        }
    }

    /// Whether a rule has found something that is not repaired.
    pub fn is_open(&self, rule: &str) -> bool {
        self.open
            .iter()
            .any(|finding| finding.rule == rule && !finding.repaired)
    }

    /// A condition holds no longer from then on. What was repaired stays listed.
    pub fn close(&mut self, rule: &str, at: Duration) {
        let is_gone = |finding: &mut FindingView| finding.rule == rule && !finding.repaired;
        let gone = self.open.extract_if(.., is_gone).map(|finding| FindingView {
            gone_at: Some(at),
            now: None,
            ..finding
        });
        self.past.extend(gone);
    }

    /// Those that do not hold any more.
    pub fn past(&self) -> Vec<FindingView> {
        self.past.clone()
    }

    /// With what command the repair of a rule stays.
    pub fn stays_with(&mut self, rule: &str, command: String) {
        if let Some(finding) = self.open.iter_mut().find(|finding| finding.rule == rule) {
            finding.now = Some(command);
        }
    }

    pub fn views(&self) -> Vec<FindingView> {
        self.open.clone()
    }

    /// A rule is gone, and nothing of it is in force.
    pub(super) fn forget(&mut self, rule: &str) {
        self.open.retain(|finding| finding.rule != rule);
        self.past.retain(|finding| finding.rule != rule);
    }

    /// The finding of a rule was repaired.
    pub(super) fn repaired(&mut self, rule: &str) {
        for finding in self.open.iter_mut().filter(|finding| finding.rule == rule) {
            finding.repaired = true;
            finding.now = None;
        }
    }

    pub(super) fn repairs(&self) -> impl Iterator<Item = &str> {
        let repaired = self.open.iter().filter(|finding| finding.repaired);
        repaired.map(|finding| finding.rule.as_str())
    }
}
