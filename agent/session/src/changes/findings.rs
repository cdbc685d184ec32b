//! What the rules found.

use profile::FindingView;

/// All findings of a session, each with its rule.
#[derive(Debug, Default)]
pub struct Findings(Vec<FindingView>);

impl Findings {
    /// A condition holds now, or its numbers changed.
    pub fn open(&mut self, finding: FindingView) {
        match self.0.iter_mut().find(|known| known.rule == finding.rule) {
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
            None => self.0.push(finding),
        }
    }

    /// Whether a rule has found something that is not repaired.
    pub fn is_open(&self, rule: &str) -> bool {
        self.0
            .iter()
            .any(|finding| finding.rule == rule && !finding.repaired)
    }

    /// A condition holds no longer. What was repaired stays listed.
    pub fn close(&mut self, rule: &str) {
        self.0.retain(|finding| finding.rule != rule || finding.repaired);
    }

    /// With what command the repair of a rule stays.
    pub fn stays_with(&mut self, rule: &str, command: String) {
        if let Some(finding) = self.0.iter_mut().find(|finding| finding.rule == rule) {
            finding.now = Some(command);
        }
    }

    pub fn views(&self) -> Vec<FindingView> {
        self.0.clone()
    }

    /// A rule is gone, and nothing of it is in force.
    pub(super) fn forget(&mut self, rule: &str) {
        self.0.retain(|finding| finding.rule != rule);
    }

    /// The finding of a rule was repaired.
    pub(super) fn repaired(&mut self, rule: &str) {
        for finding in self.0.iter_mut().filter(|finding| finding.rule == rule) {
            finding.repaired = true;
            finding.now = None;
        }
    }

    pub(super) fn repairs(&self) -> impl Iterator<Item = &str> {
        let repaired = self.0.iter().filter(|finding| finding.repaired);
        repaired.map(|finding| finding.rule.as_str())
    }
}
