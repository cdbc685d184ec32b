//! A warm-up shortly before a decision is likely: it is decided, serialised and sent like the last decisions,
//! and processed by the actuator up to the write. Data that was last used an iteration before has left the
//! caches, and fetching it takes longer than using it.
//!
//! Orders nothing: the result is a [`tuner::actuator::SetWarmUp`], which cannot be turned into a set.

use plan::Action;

use crate::rulebook::{ResolvedAction, ResolvedDecision};

/// Maximum number of changes of a decision that is warmed up for: with more the warm-up takes longer than it
/// saves.
const CHANGES_MAX: usize = 8;

/// Whether all changes are written at once, without lookups.
pub(super) fn is_quick(decision: &ResolvedDecision) -> bool {
    let has_no_place = decision.at.is_none() && decision.together.is_none();
    let is_plain = |change: &ResolvedAction| matches!(&change.action, Action::Set(set) if !set.everywhere);
    has_no_place
        && decision.switches.is_empty()
        && decision.changes.len() <= CHANGES_MAX
        && decision.changes.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rulebook::DecisionId;
    use plan::{Inverse, Invocation, Scalar, Set};

    fn decision(everywhere: bool) -> ResolvedDecision {
        let set = Set {
            variable: "knob".into(),
            value_type: None,
            everywhere,
            value: Scalar::Number(11.0),
        };
        ResolvedDecision {
            id: DecisionId(1),
            rule: "r".into(),
            changes: vec![ResolvedAction {
                slot: 0,
                action: Action::Set(set),
            }],
            ..ResolvedDecision::default()
        }
    }

    #[test]
    fn only_what_is_written_at_once_and_without_a_search_is_warmed_up_for() {
        assert!(is_quick(&decision(false)));
        assert!(!is_quick(&decision(true)));
        let at = Some("entry:step".parse().unwrap());
        assert!(!is_quick(&ResolvedDecision {
            at,
            ..decision(false)
        }));
        let mut called = decision(false);
        let flush = Invocation::parse("flush()").unwrap();
        called.changes[0].action = Action::call(flush, Inverse::Unstated);
        assert!(!is_quick(&called));
        let mut many = decision(false);
        many.changes = vec![many.changes[0].clone(); CHANGES_MAX + 1];
        assert!(!is_quick(&many));
    }
}
