//! A change of all processes at the same iteration: one order for all of them, and a receipt of each.

use tuner::{actuator::TogetherCommand, process::Pid};

use super::{
    Session,
    act::set_command,
    hands::{Order, SYNC_WAIT},
};
use crate::{
    rulebook::{Decision, Meeting, Write},
    snapshot::ChangeView,
};

impl Session {
    pub(super) fn carry_out_together(&mut self, decision: Decision, meeting: Meeting) {
        let target = |write: &Write| Some((self.pid_of(write.slot)?, write.clone()));
        let targets: Vec<(Pid, Write)> = decision.changes.iter().filter_map(target).collect();
        self.ledger.await_receipts(decision.id, targets.len());
        let (here, all) = (self.job.members.len(), self.job.size());
        let refusal = match meeting.place.parse() {
            _ if here < all => Some(format!(
                "{here} of {all} ranks run on this machine, and the others would not change with them"
            )),
            Ok(at) => {
                let set = |(pid, write): &(Pid, Write)| set_command(*pid, write, &decision);
                let order = Order::Together {
                    decision: decision.id,
                    slots: targets.iter().map(|(_, write)| write.slot).collect(),
                    command: Box::new(TogetherCommand {
                        sets: targets.iter().map(set).collect(),
                        at,
                        key: meeting.key,
                        within_ms: SYNC_WAIT.as_millis() as u64,
                    }),
                };
                let taken = self
                    .hands
                    .as_ref()
                    .is_some_and(|hands| hands.order(order).is_ok());
                (!taken).then(|| "too many orders wait".to_owned())
            }
            Err(error) => Some(tuner::sync::PlaceError::to_string(&error)),
        };
        let (id, rule) = (decision.id, decision.rule.clone());
        self.decisions.insert(id, decision);
        let Some(outcome) = refusal else { return };
        for (pid, write) in targets {
            let view = ChangeView {
                outcome: outcome.clone(),
                ..self.change_view(&rule, pid, &write)
            };
            let carried = self.ledger.refused(id, view, pid);
            self.carried(id, carried);
        }
    }
}
