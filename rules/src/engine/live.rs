//! Adding and removing rules while others are evaluated: conflicts between rules, and the remainder of a
//! removed rule, which is its number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::Mode;
use thiserror::Error;

use super::Engine;
use super::output::Output;
use super::running::Running;
use crate::ids::RuleId;
use crate::rule::CheckedRule;
use crate::value::Time;

/// Rules that can be added to an engine over time: the numbers of removed rules are not reused.
const RULES_MAX: usize = 4096;

/// Why a rule cannot run together with the others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// Another rule has this name.
    #[error("there is a rule {0} already; a second one needs a name of its own")]
    SameName(String),
    /// Two rules would change the same target.
    #[error("the rules {} and {} both claim {claim}; leave one of them out, or give them priorities", .rules.0, .rules.1)]
    Claimed {
        /// The target of both.
        claim: String,
        rules: (String, String),
    },
    #[error("an engine takes {RULES_MAX} rules in its life")]
    TooMany,
}

impl Engine {
    /// Adds a rule in advising mode, whose first windows begin at `now`: earlier observations do not count
    /// for it. The other rules are unaffected.
    ///
    /// # Errors
    /// If another rule has its name or changes the same target.
    pub fn add(&mut self, rule: CheckedRule, now: Time) -> Result<RuleId, Conflict> {
        if self.rules.len() >= RULES_MAX {
            return Err(Conflict::TooMany);
        }
        if self.rules().any(|(_, known, _)| known.name == rule.name) {
            return Err(Conflict::SameName(rule.name));
        }
        let both = self
            .rules()
            .find_map(|(_, known, _)| Some((known, in_conflict(known, &rule)?)));
        if let Some((known, claim)) = both {
            let rules = (known.name.clone(), rule.name);
            return Err(Conflict::Claimed { claim, rules });
        }
        let id = RuleId(self.rules.len());
        self.rules.push(Running::new(Arc::new(rule), self.room(), now));
        let known: Vec<_> = self
            .processes
            .iter()
            .map(|(id, known)| (*id, known.facts.clone()))
            .collect();
        if let Some(running) = self.rules.last_mut() {
            known
                .into_iter()
                .for_each(|(process, facts)| running.assign(process, &facts));
        }
        Ok(id)
    }

    /// The targets that applying rules claim or have changed, by priority.
    pub(super) fn claimed(&self) -> BTreeMap<String, (i64, String)> {
        let mut claimed: BTreeMap<String, (i64, String)> = BTreeMap::new();
        for running in self.rules.iter().filter(|running| running.mode == Mode::Applying) {
            let priority = running.rule.priority;
            for (state, tune) in running.tunes.iter().zip(&running.rule.tunes) {
                let claim = tune.action.as_ref().and_then(|change| change.action.claim());
                let Some(claim) = claim.filter(|_| state.has_claim()) else {
                    continue;
                };
                let known = claimed
                    .entry(claim)
                    .or_insert((priority, running.rule.name.clone()));
                if known.0 < priority {
                    *known = (priority, running.rule.name.clone());
                }
            }
        }
        claimed
    }

    /// Begins the windows of a rule at `now`, as if it had just been added; its mode stays.
    pub fn begin(&mut self, rule: RuleId, now: Time) {
        let room = self.room();
        let Some(running) = self.rules.get_mut(rule.0) else {
            return;
        };
        let (mode, roles) = (running.mode, std::mem::take(&mut running.roles));
        *running = Running {
            mode,
            roles,
            ..Running::new(Arc::clone(&running.rule), room, now)
        };
        self.samples.drop_rule(rule);
    }

    /// The name of a rule, including a removed one.
    pub fn rule_name(&self, rule: RuleId) -> &str {
        self.rules.get(rule.0).map_or("", |running| running.rule.name())
    }

    /// Removes a rule: a change on trial is given up, its findings are closed, and the caller must revert
    /// what it has in force. The other rules are unaffected, except that a trial may begin.
    pub fn remove(&mut self, rule: RuleId) -> Vec<Output> {
        let out = self.set_mode(rule, Mode::Off);
        let findings = self.findings();
        let applied = findings.into_iter().filter(|finding| finding.rule == rule);
        let closed = applied.map(|finding| Output::FindingClosed {
            rule,
            tune: finding.tune,
        });
        let out = out.into_iter().chain(closed).collect();
        self.samples.drop_rule(rule);
        self.closed.retain(|window| window.rule != rule);
        let room = self.room();
        if let Some(running) = self.rules.get_mut(rule.0) {
            let rule = CheckedRule::empty(&running.rule.name, &running.rule.about);
            *running = Running {
                is_removed: true,
                mode: Mode::Off,
                ..Running::new(Arc::new(rule), room, running.since)
            };
        }
        out
    }
}

/// A target that two rules of equal priority would both change.
fn in_conflict(known: &CheckedRule, new: &CheckedRule) -> Option<String> {
    let mut both = claims(known)
        .into_iter()
        .filter(|claim| claims(new).contains(claim));
    both.next().filter(|_| known.priority == new.priority)
}

/// The targets that it would change. Conflicts within one rule are left to its author.
fn claims(rule: &CheckedRule) -> BTreeSet<String> {
    let changes = rule.tunes.iter().filter_map(|tune| tune.action.as_ref());
    changes.filter_map(|change| change.action.claim()).collect()
}
