//! Prefetches the data for a first change when the session begins: the actuator looks up the address and type
//! of variables in symbols and debug information, which takes milliseconds that would otherwise delay a
//! decision. Writes nothing.

use job::Member;
use tuner::actuator::GetCommand;

use super::actuator_queue::{ActuatorQueue, QueuedOrder};
use crate::rulebook::RuleBook;

/// Maximum number of variables that are looked up; others are looked up when they are written.
const LOOKED_UP_MAX: usize = 64;

/// Makes the actuator look up the variables that applying rules would write in these processes.
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
        // With the names that are used when they are written.
        match copies.len() {
            0 | 1 => commands.push(command(&variable, None)),
            _ => commands.extend(copies.into_iter().map(|module| command(&variable, Some(module)))),
        }
    }
    commands
}
