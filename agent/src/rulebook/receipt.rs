//! What came of a decision, as the session tells the engine.

use rules::Time;
use serde::{Deserialize, Serialize};

use super::RuleBook;

/// Why a decision was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDone {
    /// In words.
    pub reason: String,
    /// Later it may go.
    pub may_pass: bool,
}

impl NotDone {
    /// Nothing will change that.
    pub fn for_good(reason: impl Into<String>) -> NotDone {
        let reason = reason.into();
        NotDone {
            reason,
            may_pass: false,
        }
    }
}

impl RuleBook {
    /// What came of a decision. False when the rules no longer wait for it: what was written for it must be undone.
    pub fn receipt(&mut self, decision: u64, outcome: Result<(), NotDone>, now_ns: u64) -> bool {
        let outcome = match outcome {
            Ok(()) => rules::Outcome::Applied,
            Err(NotDone {
                reason,
                may_pass: true,
            }) => rules::Outcome::Hindered(reason),
            Err(NotDone { reason, .. }) => rules::Outcome::Failed(reason),
        };
        self.engine
            .receipt(rules::DecisionId(decision), outcome, Time(now_ns))
    }
}
