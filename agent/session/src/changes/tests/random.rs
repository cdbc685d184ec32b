//! Random events against a model of what the actuators have in force: never a panic, never an order for an
//! ended process, every order is answered, reverted or reported, and at the end nothing is left changed
//! unless it was kept.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*, test_runner::Config};

use super::vocabulary::*;
use crate::log::Recorded;

const RANKS: [Rank; 3] = [R0, R1, FAR];

/// The next step; a number selects one of the candidates.
#[derive(Clone, Debug)]
enum Step {
    Decide {
        ranks: u8,
        action: u8,
    },
    Answer {
        which: u8,
        how: u8,
    },
    End(u8),
    GiveUp(u8),
    Judge {
        which: u8,
        keeps: bool,
    },
    Wait(u8),
    Remove(bool),
    /// The queue has no room for a while.
    Fill(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<u8>(), any::<u8>()).prop_map(|(ranks, action)| Step::Decide { ranks, action }),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Step::Answer { which, how }),
        1 => any::<u8>().prop_map(Step::End),
        1 => any::<u8>().prop_map(Step::GiveUp),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(which, keeps)| Step::Judge { which, keeps }),
        2 => any::<u8>().prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Remove),
        1 => any::<bool>().prop_map(Step::Fill),
    ]
}

/// Orders without an answer.
#[derive(Clone, Debug)]
enum Sent {
    Part(u64, usize, Rank),
    Revert(ChangeId, Rank),
}

/// The session, its actuators and its processes.
#[derive(Default)]
struct World {
    changes: Changes,
    recorded: Recorded,
    now: u64,
    decisions: Vec<(u64, Vec<Rank>)>,
    sent: Vec<Sent>,
    in_force: BTreeMap<ChangeId, Rank>,
    confirmed: BTreeSet<ChangeId>,
    ended: BTreeSet<Rank>,
    results: BTreeMap<u64, usize>,
    given_up: BTreeSet<u64>,
    is_full: bool,
    made: u64,
}

impl World {
    fn on(&mut self, event: ChangeEvent) {
        for effect in self.recorded.on(&mut self.changes, event, s(self.now)) {
            match effect {
                ChangeEffect::Order(machine, order) if self.is_full => {
                    self.on(ChangeEvent::NoRoom(machine, order))
                }
                ChangeEffect::Order(machine, order) => self.send(machine, order),
                ChangeEffect::Result(decision, _) => *self.results.entry(decision.0).or_default() += 1,
                _ => {}
            }
        }
    }

    fn send(&mut self, machine: MachineId, order: Order) {
        match order {
            Order::Do {
                decision,
                part,
                replaces,
            } => {
                replaces.into_iter().for_each(|change| self.send_revert(change));
                self.send_part(machine, decision.0, part);
            }
            Order::Together { decision } => {
                let ranks = self.ranks(decision.0);
                for (part, _) in ranks
                    .iter()
                    .enumerate()
                    .filter(|(_, rank)| rank.machine == machine)
                {
                    self.send_part(machine, decision.0, part);
                }
            }
            Order::Revert(changes) => {
                assert!(!changes.is_empty());
                changes.into_iter().for_each(|change| self.send_revert(change));
            }
            Order::Confirm(change) => {
                let rank = self.in_force.get(&change);
                assert!(rank.is_none_or(|rank| !self.ended.contains(rank)), "{change:?}");
                self.confirmed.insert(change);
            }
            Order::GiveUp(_) => {}
        }
    }

    fn ranks(&self, decision: u64) -> Vec<Rank> {
        let mut known = self.decisions.iter();
        known.find(|(id, _)| *id == decision).unwrap().1.clone()
    }

    fn send_part(&mut self, machine: MachineId, decision: u64, part: usize) {
        let rank = self.ranks(decision)[part];
        assert_eq!(rank.machine, machine);
        assert!(!self.ended.contains(&rank), "an order for an ended process");
        self.sent.push(Sent::Part(decision, part, rank));
    }

    fn send_revert(&mut self, change: ChangeId) {
        let rank = RANKS.into_iter().find(|rank| pid(*rank) == change.pid).unwrap();
        assert!(!self.ended.contains(&rank), "an order for an ended process");
        self.sent.push(Sent::Revert(change, rank));
    }

    /// The actuator answers one of the orders.
    fn answer(&mut self, which: u8, how: u8) {
        if self.sent.is_empty() {
            return;
        }
        let sent = self.sent.remove(usize::from(which) % self.sent.len());
        match sent {
            Sent::Part(decision, part, rank) => self.answer_part(decision, part, rank, how),
            Sent::Revert(change, rank) => {
                let has_ended = self.ended.contains(&rank);
                let result = match how % 4 {
                    _ if has_ended => failed("it has ended", false),
                    0 => failed("busy", true),
                    1 => {
                        self.in_force.remove(&change);
                        RevertResult::ChangedSince
                    }
                    _ => {
                        self.in_force.remove(&change);
                        RevertResult::Reverted
                    }
                };
                self.on(ChangeEvent::Reverted(change, result));
            }
        }
    }

    fn answer_part(&mut self, decision: u64, part: usize, rank: Rank, how: u8) {
        if !self.changes.is_waiting(DecisionId(decision)) {
            return;
        }
        self.made += 1;
        let number = self.made;
        let outcome = match how % 7 {
            _ if self.ended.contains(&rank) => ChangeOutcome::Refused("it has ended".to_owned()),
            0 => ChangeOutcome::Refused("read-only".to_owned()),
            1 => ChangeOutcome::AlreadyThere,
            2 => ChangeOutcome::Stays("0".to_owned()),
            6 => ChangeOutcome::NotReached("not reached".to_owned()),
            _ => ChangeOutcome::InForce,
        };
        if outcome == ChangeOutcome::InForce {
            self.in_force.insert(change(rank, number), rank);
        }
        let number = if outcome == ChangeOutcome::AlreadyThere {
            0
        } else {
            number
        };
        self.on(came(decision, part, outcome, number));
    }

    fn take(&mut self, step: Step) {
        let pick = |which: u8, all: &[(u64, Vec<Rank>)]| {
            (!all.is_empty()).then(|| all[usize::from(which) % all.len()].0)
        };
        match step {
            Step::Decide { ranks, action } => self.decide(ranks, action),
            Step::Answer { which, how } => self.answer(which, how),
            Step::End(which) => {
                let rank = RANKS[usize::from(which) % RANKS.len()];
                self.ended.insert(rank);
                self.in_force.retain(|_, of| *of != rank);
                self.on(ChangeEvent::Ended(rank));
            }
            Step::GiveUp(which) => {
                if let Some(decision) = pick(which, &self.decisions) {
                    self.given_up
                        .extend(self.changes.is_waiting(DecisionId(decision)).then_some(decision));
                    self.on(ChangeEvent::GaveUp(DecisionId(decision)));
                }
            }
            Step::Judge { which, keeps } => {
                let decision = pick(which, &self.decisions);
                // A decision without all answers cannot be judged.
                if let Some(decision) =
                    decision.filter(|decision| !self.changes.is_waiting(DecisionId(*decision)))
                {
                    self.on(if keeps {
                        kept(decision)
                    } else {
                        taken_back(decision)
                    });
                }
            }
            Step::Wait(seconds) => {
                self.now += u64::from(seconds);
                self.on(ChangeEvent::Tick);
            }
            Step::Remove(keeps) => self.on(removed("r", keeps)),
            Step::Fill(is_full) => self.is_full = is_full,
        }
    }

    fn decide(&mut self, ranks: u8, action: u8) {
        let chosen = RANKS.into_iter().enumerate();
        let chosen = chosen.filter(|(index, _)| ranks & (1 << index) != 0);
        let chosen: Vec<Rank> = chosen.map(|(_, rank)| rank).collect();
        let id = self.decisions.len() as u64 + 1;
        let action = [Keyword::Set, Keyword::SetArgument, Keyword::Call][usize::from(action) % 3];
        let ChangeEvent::Decided(template) = acts(action, id, RANKS) else {
            unreachable!()
        };
        let how = if ranks & 8 != 0 {
            Execution::Together
        } else {
            Execution::Each
        };
        let parts = template.parts.into_iter();
        let mut parts: Vec<_> = parts.filter(|part| chosen.contains(&part.process)).collect();
        // Some calls are made in two copies of a library.
        if action == Keyword::Call && ranks & (8 | 16) == 16 {
            parts = parts.into_iter().flat_map(|part| [part.clone(), part]).collect();
            parts.iter_mut().for_each(|part| part.is_copy = true);
        }
        let ranks = parts.iter().map(|part| part.process).collect();
        let decided = Decided {
            how,
            parts,
            ..template
        };
        self.decisions.push((id, ranks));
        self.on(ChangeEvent::Decided(decided));
    }

    /// The session stops: all orders are answered, and actuators revert unconfirmed changes or fail to.
    fn stop(&mut self, keeps: bool, how: u8) {
        self.on(stop());
        while !self.sent.is_empty() {
            self.answer(0, how);
        }
        let mut left: BTreeSet<ChangeId> = BTreeSet::new();
        for machine in [MachineId(0), MachineId(1)] {
            let mut actuator_end = MachineReverts::default();
            let here: Vec<ChangeId> = self
                .in_force
                .keys()
                .copied()
                .filter(|change| change.machine == machine)
                .collect();
            for change in here {
                if keeps && self.confirmed.contains(&change) {
                    actuator_end.kept.push(change);
                    left.insert(change);
                } else {
                    actuator_end.reverted.push((change, RevertResult::Reverted));
                    self.in_force.remove(&change);
                }
            }
            self.on(ChangeEvent::ActuatorEnded(machine, actuator_end));
        }
        assert_eq!(self.in_force.keys().copied().collect::<BTreeSet<_>>(), left);
    }

    fn check(&self) {
        assert_eq!(self.changes.waiting().count(), 0, "an order without an answer");
        for (decision, _) in &self.decisions {
            let results = self.results.get(decision).copied().unwrap_or_default();
            let is_given_up = self.given_up.contains(decision);
            assert_eq!(
                results,
                usize::from(!is_given_up),
                "decision {decision} has one result"
            );
        }
        let in_force = self.changes.in_force_of("r");
        let unsettled = in_force.filter(|change| {
            let process = self.changes.process_of(*change);
            process.is_none_or(|process| !self.ended.contains(&process))
        });
        assert_eq!(unsettled.count(), 0, "what lives is reverted, kept or reported");
        let last = at_last(&self.changes);
        assert!(!last.contains("the state of the changes is not known"), "{last}");
    }
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_happens_every_order_is_settled(
        steps in vec(step(), 1..60), keeps: bool, how: u8,
    ) {
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.take(step));
        world.is_full = false;
        world.stop(keeps, how);
        world.check();
        world.recorded.assert_replays();
    }
}

/// 300, or the number in PROPTEST_CASES.
fn cases() -> u32 {
    let said = std::env::var("PROPTEST_CASES").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(300)
}
