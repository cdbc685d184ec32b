//! Passes the outcome of a decision from the session to the engine.

use rules::{DecisionId, Time};
use session::changes::NotDone;

use super::RuleBook;

impl RuleBook {
    /// Reports the outcome of a decision. Returns false if the rules no longer wait for it: then the written
    /// values must be reverted.
    pub(crate) fn receipt(
        &mut self,
        decision: DecisionId,
        outcome: Result<(), NotDone>,
        now_ns: u64,
    ) -> bool {
        let outcome = match outcome {
            Ok(()) => rules::DecisionOutcome::Applied,
            Err(NotDone {
                reason,
                is_there: true,
                ..
            }) => rules::DecisionOutcome::There(reason),
            Err(NotDone {
                reason,
                may_pass: true,
                ..
            }) => rules::DecisionOutcome::Hindered(reason),
            Err(NotDone { reason, .. }) => rules::DecisionOutcome::Failed(reason),
        };
        self.engine.receipt(decision, outcome, Time(now_ns))
    }
}
