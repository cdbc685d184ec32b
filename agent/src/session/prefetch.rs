//! Prefetches what a first change takes when the session begins: where a variable is and of what type, the
//! actuator learns from symbols and debug information, and that takes milliseconds, which a decision would
//! have to wait for. Writes nothing.

use job::Member;
use tuner::actuator::GetCommand;

use super::actuator_queue::{ActuatorQueue, QueuedOrder};
use crate::rulebook::RuleBook;

/// Variables of processes that are looked up; those of more wait until they are written.
const LOOKED_UP_MAX: usize = 64;

/// Has the actuator look up what rules that may act would write in these processes.
pub(super) fn look_up(queue: &ActuatorQueue, rules: &RuleBook, members: &[Member]) {
    let commands = members.iter().flat_map(|member| written_in(rules, member));
    for command in commands.take(LOOKED_UP_MAX) {
        if queue.order(QueuedOrder::LookUp(Box::new(command))).is_err() {
            return;
        }
    }
}

fn written_in(rules: &RuleBook, member: &Member) -> Vec<GetCommand> {
    let command = |variable: &String, module| GetCommand {
        pid: member.process.pid,
        variable: variable.clone(),
        module,
        value_type: None,
    };
    let mut commands = Vec::new();
    for (variable, everywhere) in rules.may_write(member) {
        let copies = match everywhere {
            true => member.copies_at_start(&variable),
            false => Vec::new(),
        };
        // As they are named when they are written.
        match copies.len() {
            0 | 1 => commands.push(command(&variable, None)),
            _ => commands.extend(copies.into_iter().map(|module| command(&variable, Some(module)))),
        }
    }
    commands
}
