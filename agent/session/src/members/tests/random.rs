//! Random events against a model of the running processes: never a panic, every found process is attached to
//! once or refused, each slot ends once, and the session is over exactly when all have ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::{collection::vec, prelude::*};

use super::vocabulary::*;
use crate::log::Recorded;

/// The next step; a number selects one of the candidates.
#[derive(Clone, Debug)]
enum Step {
    /// Ranks appear below the launcher.
    Begin(u8),
    /// The shell answers attaching to the next ones: watched, refused or no room.
    Answers(u8),
    /// Time for a tick.
    Tick,
    /// A process runs another program.
    Execute(u8),
    /// A process ends.
    End(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u8..4).prop_map(Step::Begin),
        1 => any::<u8>().prop_map(Step::Answers),
        4 => Just(Step::Tick),
        1 => any::<u8>().prop_map(Step::Execute),
        2 => any::<u8>().prop_map(Step::End),
    ]
}

struct World {
    members: Members,
    recorded: Recorded,
    now_s: u64,
    how: u8,
    next_pid: i32,
    /// Running processes, with their watched slots.
    running: BTreeMap<i32, Vec<u32>>,
    slots: u32,
    ended: BTreeSet<u32>,
    is_over: bool,
}

impl World {
    fn on(&mut self, event: MemberEvent) {
        let now = s(self.now_s);
        let mut effects: VecDeque<MemberEffect> = self.recorded.on(&mut self.members, event, now).into();
        while let Some(effect) = effects.pop_front() {
            let answer = match effect {
                MemberEffect::Scan(machine) => {
                    let known = self.members.known(machine);
                    let found = self.running.keys().filter(|pid| !known.contains(pid));
                    let found = found.map(|pid| (plain(*pid), true)).collect();
                    Some(MemberEvent::Found(machine, found))
                }
                MemberEffect::Watch { pid, .. } => Some(self.attach(pid.number)),
                MemberEffect::End(processes) => {
                    for process in processes {
                        assert!(self.ended.insert(process.slot), "{process:?} ends twice");
                    }
                    None
                }
                MemberEffect::Finish(_) => {
                    self.is_over = true;
                    None
                }
                _ => None,
            };
            let next = answer
                .map(|event| self.recorded.on(&mut self.members, event, now))
                .unwrap_or_default();
            next.into_iter()
                .rev()
                .for_each(|effect| effects.push_front(effect));
        }
    }

    fn attach(&mut self, pid: i32) -> MemberEvent {
        if self.how % 5 == 4 {
            return MemberEvent::NoRoom(HERE, super::vocabulary::pid(pid));
        }
        let number = self.slots;
        self.slots += 1;
        let slots = self.running.get_mut(&pid).unwrap();
        let ended = &self.ended;
        assert!(
            slots.iter().all(|slot| ended.contains(slot)),
            "{pid} is attached to twice"
        );
        slots.push(number);
        match self.how % 5 == 3 {
            true => refused(number, &plain(pid), "no"),
            false => watched(number, &plain(pid)),
        }
    }

    fn pick(&self, which: u8) -> Option<i32> {
        let watched = self.running.iter().filter(|(_, slots)| !slots.is_empty());
        let watched: Vec<i32> = watched.map(|(pid, _)| *pid).collect();
        watched.get(usize::from(which) % watched.len().max(1)).copied()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin(count) => {
                for _ in 0..*count {
                    self.running.insert(self.next_pid, Vec::new());
                    self.next_pid += 1;
                }
            }
            Step::Answers(how) => self.how = *how,
            Step::Tick => {
                self.now_s += 2;
                self.on(tick());
            }
            Step::Execute(which) => {
                if let Some(pid) = self.pick(*which) {
                    let last = *self.running[&pid].last().unwrap();
                    self.on(runs(last, "/bin/other"));
                }
            }
            Step::End(which) => {
                if let Some(pid) = self.pick(*which) {
                    for number in self.running.remove(&pid).unwrap() {
                        self.on(MemberEvent::Ended(slot(number)));
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn a_process_that_comes_and_goes_is_attached_to_once_and_ends_once(steps in vec(step(), 1..60)) {
        let mut world = World {
            members: alone([]),
            recorded: Recorded::new(ms(0)),
            now_s: 0,
            how: 0,
            next_pid: 2,
            running: BTreeMap::from([(1, vec![0])]),
            slots: 1,
            ended: BTreeSet::new(),
            is_over: false,
        };
        world.on(MemberEvent::Present(slot(0), plain(1)));
        for step in &steps {
            world.step(step);
            let has_watched = world.running.values().any(|slots| !slots.is_empty());
            prop_assert_eq!(world.is_over, !has_watched, "after {:?}", step);
            if world.is_over {
                break;
            }
        }
        world.recorded.assert_replays();
    }
}
