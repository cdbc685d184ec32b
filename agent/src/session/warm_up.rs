//! A warm-up shortly before a decision is likely: decided on as the last decisions were, put into words and sent, and done by the actuator up to the
//! write. What was last used an iteration before has left the caches, and fetching it takes longer than using it.
//!
//! Orders nothing: what leaves here is a [`tuner::actuator::Practice`], of which nobody can make a set.

use crate::rulebook::{Change, Decision, Deed};

/// No decision of more changes is warmed up for: that would take longer than what it is to save.
const CHANGES_MAX: usize = 8;

/// Whether all of it is written at once, and nothing has to be looked for first.
pub(super) fn is_quick(decision: &Decision) -> bool {
    let has_no_place = decision.at.is_none() && decision.together.is_none() && decision.refused.is_none();
    let is_plain = |change: &Change| matches!(&change.deed, Deed::Write(write) if !write.everywhere);
    has_no_place
        && decision.switches.is_empty()
        && decision.changes.len() <= CHANGES_MAX
        && decision.changes.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rulebook::Write;

    fn decision(everywhere: bool) -> Decision {
        let write = Write {
            variable: "knob".into(),
            everywhere,
            value: "11".into(),
            type_name: None,
        };
        Decision {
            id: 1,
            rule: "r".into(),
            because: Vec::new(),
            expect: None,
            asked: Vec::new(),
            changes: vec![Change {
                slot: 0,
                keyword: "set",
                label: "set knob".into(),
                text: "knob".into(),
                deed: Deed::Write(write),
            }],
            at: None,
            together: None,
            switches: Vec::new(),
            refused: None,
            window_ns: None,
        }
    }

    #[test]
    fn only_what_is_written_at_once_and_without_a_search_is_warmed_up_for() {
        assert!(is_quick(&decision(false)));
        assert!(!is_quick(&decision(true)));
        let at = Some("entry:step".to_owned());
        assert!(!is_quick(&Decision {
            at,
            ..decision(false)
        }));
        let mut called = decision(false);
        called.changes[0].deed = Deed::Call {
            call: crate::rulebook::Invocation {
                function: "flush".into(),
                arguments: Vec::new(),
            },
            inverse: crate::rulebook::Inverse::Unstated,
        };
        assert!(!is_quick(&called));
        let mut many = decision(false);
        many.changes = vec![many.changes[0].clone(); CHANGES_MAX + 1];
        assert!(!is_quick(&many));
    }
}
