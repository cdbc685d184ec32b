//! What is said of changes that nobody has judged yet, or never will.

use std::collections::BTreeMap;

use super::{Session, act::time_of_day};
use crate::snapshot::{
    GuardView,
    outcome::{NOT_JUDGED, ON_TRIAL},
};

impl Session {
    /// Of each decision that is being judged how far that is; at the end, that it came to nothing.
    pub(super) fn trials(&self) -> BTreeMap<u64, GuardView> {
        let on_trial = self.rules.on_trial().into_iter().map(|(decision, seen, over)| {
            let reason = format!("{seen} of {over} windows");
            (decision, GuardView::without(ON_TRIAL, reason))
        });
        on_trial.chain(self.unjudged.clone()).collect()
    }

    /// The session is over: what has not been judged never will be.
    pub(super) fn end_trials(&mut self) {
        let has_ended = self.processes.iter().all(|process| process.ended);
        let who = if has_ended { "the program" } else { "the session" };
        for (decision, seen, over) in self.rules.on_trial() {
            let reason = format!("{who} ended after {seen} of {over} windows");
            let rule = self
                .decisions
                .get(&decision)
                .map_or("", |known| known.decision.rule.as_str());
            self.painter.say(&format!(
                "{}  guard    {rule} not judged: {reason}",
                time_of_day()
            ));
            self.unjudged
                .insert(decision, GuardView::without(NOT_JUDGED, reason));
        }
    }
}
