//! A change of all processes at the same iteration: one order for all of them, and a receipt of each.

use tuner::{
    actuator::{SetCommand, TogetherCommand},
    sync::{KeyName, SyncPlaceError},
};

use super::{
    Session,
    hands::{Order, SYNC_WAIT, Task},
    orders::{Ordered, Part},
};
use crate::{
    rulebook::{Decision, Key, Meeting},
    snapshot::ChangeView,
};

impl Session {
    pub(super) fn carry_out_together(&mut self, decision: Decision, meeting: Meeting) {
        let parts = match self.parts(&decision) {
            Ok(parts) => parts,
            Err(reason) => return self.refuse(&decision, reason),
        };
        self.ledger.await_receipts(decision.id, parts.len());
        let refusal = self.order_together(&decision, meeting, &parts).err();
        let id = decision.id;
        let refused: Vec<Part> = refusal.iter().flat_map(|_| parts.clone()).collect();
        self.decisions.insert(id, Ordered::new(decision, parts));
        for part in refused {
            let outcome = refusal.clone().unwrap_or_default();
            let view = ChangeView { outcome, ..part.view };
            let carried = self.ledger.refused(id, view, part.pid, false);
            self.carried(id, carried);
        }
    }

    fn order_together(&self, decision: &Decision, meeting: Meeting, parts: &[Part]) -> Result<(), String> {
        is_whole(self.job.size_here(), self.job.size())?;
        let order = Order::Together {
            decision: decision.id,
            parts: parts.len(),
            command: Box::new(TogetherCommand {
                sets: parts.iter().map(set).collect::<Result<_, _>>()?,
                at: meeting
                    .place
                    .parse()
                    .map_err(|error: SyncPlaceError| error.to_string())?,
                key: key(meeting.key),
                within_ms: SYNC_WAIT.as_millis() as u64,
            }),
        };
        let hands = self.hands.as_ref().ok_or("this session does not write")?;
        hands.order(order).map_err(|_| "too many orders wait".to_owned())
    }
}

/// Whether all ranks of the job are here: a part of them would change without the others.
fn is_whole(here: usize, size: Option<usize>) -> Result<(), String> {
    match size {
        None => Err(
            "nothing states how many ranks the job has: where some run on other machines, they would not change with those here"
                .to_owned(),
        ),
        Some(all) if here < all => Err(format!(
            "{here} of {all} ranks run on this machine, and the others would not change with them"
        )),
        Some(_) => Ok(()),
    }
}

fn set(part: &Part) -> Result<SetCommand, String> {
    match &part.task {
        Task::Set(command) => Ok((**command).clone()),
        Task::Act(_) => Err(format!(
            "only values change in all processes together, not `{}`",
            part.label
        )),
    }
}

fn key(key: Key) -> KeyName {
    match key {
        Key::Argument { number, bytes } => KeyName::Argument { number, bytes },
        Key::NamedArgument { name } => KeyName::NamedArgument { name },
        Key::Variable { name, bytes } => KeyName::Variable { name, bytes },
    }
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn ranks_change_together_only_where_it_is_known_that_all_are_here() {
        assert_eq!(is_whole(4, Some(4)), Ok(()));
        assert!(
            is_whole(2, Some(4))
                .unwrap_err()
                .starts_with("2 of 4 ranks run on this machine")
        );
        assert!(
            is_whole(2, None)
                .unwrap_err()
                .starts_with("nothing states how many ranks")
        );
    }
}
