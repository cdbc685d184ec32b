//! From a decision to orders: what each process is to do, and how that is shown. Orders nothing.

use std::collections::BTreeSet;

use tuner::{
    action::{
        Action, Argument, CallRequest, InsertPlace, InverseRequest, Invocation, PatchRequest, Reason,
        ReturnType,
    },
    actuator::{ActCommand, SetCommand, TogetherCommand},
    expression::Expression,
    process::Pid,
    sync::SyncPlace,
};

use super::{
    Session,
    act::{Path, undo},
    changes::{Decided, How, Machine, Order, Part, Process},
    hands::{self, Task},
    meant,
    switching::switched,
};
use crate::{
    evidence::{self, Cores},
    rulebook::{self, Change, Decision, Deed, Inverse, Passed, Write},
    snapshot::{ChangeView, Reaction, outcome::NOBODY_LEFT},
};

/// So long a function that a rule calls is waited for; one that takes longer goes on, and its result is in the journal later.
const CALL_WAIT_MS: u64 = 2_000;
/// So long the dynamic linker is waited for.
const LOAD_WAIT_MS: u64 = 8_000;

/// What a decision takes, until it is answered.
#[derive(Debug)]
pub(super) struct Ordered {
    /// By the numbers of its parts.
    work: Vec<Work>,
    /// Where in the program.
    at: Option<SyncPlace>,
    together: Option<Box<TogetherCommand>>,
    /// When the window began and ended that it was decided on.
    window_ns: Option<(u64, u64)>,
    /// Its way so far; not known before all is ordered.
    pub(super) path: Option<Path>,
}

impl Ordered {
    pub(super) fn at(&self) -> Option<&SyncPlace> {
        let meeting = self.together.as_ref().map(|command| &command.at);
        self.at.as_ref().or(meeting)
    }

    pub(super) fn reaction(&self, done_ns: u64) -> Option<Reaction> {
        let (path, window_ns) = self.path.zip(self.window_ns)?;
        Some(path.reaction(window_ns, done_ns))
    }

    /// A call of which the rule says that it leaves nothing to be taken back.
    pub(super) fn leaves_nothing(&self, part: usize) -> bool {
        self.work.get(part).is_some_and(|work| work.leaves_nothing)
    }
}

/// What one process is to do.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) task: Task,
    leaves_nothing: bool,
}

impl Session {
    /// What a decision comes to; the error is why it cannot be ordered.
    pub(super) fn resolve(&self, decision: Decision) -> Result<(Decided, Ordered), String> {
        if let Some(reason) = decision.refused.clone() {
            return Err(reason);
        }
        let at = decision.at.as_deref().map(str::parse::<SyncPlace>).transpose();
        let at = at.map_err(|error| error.to_string())?;
        let (mut how, mut together) = (How::Each, None);
        let (parts, work): (Vec<Part>, Vec<Work>) = match decision.switches.is_empty() {
            true => self.parts(&decision)?.into_iter().unzip(),
            false => {
                how = How::Switch(decision.switches.clone());
                Default::default()
            }
        };
        if let (How::Each, Some(meeting)) = (&how, &decision.together) {
            match self.together(meeting, &parts, &work) {
                Ok(command) => (how, together) = (How::Together, Some(Box::new(command))),
                Err(reason) => how = How::Barred(reason),
            }
        }
        let is_value = |change: &Change| matches!(change.deed, Deed::Write(_));
        let is_counted = decision.changes.first().is_none_or(is_value) && decision.switches.is_empty();
        let decided = Decided {
            id: decision.id,
            rule: decision.rule,
            promise: decision.expect,
            summary: (!is_counted).then(|| switched(&decision.asked)),
            how,
            parts,
        };
        let ordered = Ordered {
            work,
            at,
            together,
            window_ns: decision.window_ns,
            path: None,
        };
        Ok((decided, ordered))
    }

    /// What is sent to the actuator of this machine for an order.
    pub(super) fn actuator_orders(&self, order: &Order) -> Result<Vec<hands::Order>, ()> {
        let single = match order {
            Order::Do {
                decision,
                part,
                replaces,
            } => {
                let ordered = self.ordered.get(decision).ok_or(())?;
                let task = hands::Order::Do {
                    decision: *decision,
                    part: *part,
                    task: ordered.work.get(*part).ok_or(())?.task.clone(),
                    at: ordered.at.clone(),
                };
                return Ok(undo(replaces).into_iter().chain([task]).collect());
            }
            Order::Together { decision } => {
                let ordered = self.ordered.get(decision).ok_or(())?;
                hands::Order::Together {
                    decision: *decision,
                    parts: ordered.work.len(),
                    command: ordered.together.clone().ok_or(())?,
                }
            }
            Order::GiveUp(decision) => hands::Order::GiveUp(*decision),
            Order::Confirm(change) => hands::Order::Confirm(change.pid, change.number),
            Order::Undo(changes) => return Ok(undo(changes).into_iter().collect()),
        };
        Ok(vec![single])
    }

    /// What a decision comes to, process by process; the error is why it cannot be ordered.
    pub(super) fn parts(&self, decision: &Decision) -> Result<Vec<(Part, Work)>, String> {
        let mut parts = Vec::new();
        for change in &decision.changes {
            let Some(pid) = self.pid_of(change.slot) else {
                continue;
            };
            let leaves_nothing = matches!(
                change.deed,
                Deed::Call {
                    inverse: Inverse::NotNeeded,
                    ..
                }
            );
            for (text, task) in self.tasks(decision, change, pid)? {
                let part = Part {
                    process: process_here(change.slot),
                    pid,
                    label: change.label.clone(),
                    view: self.change_view(decision, change, pid, text),
                };
                parts.push((part, Work { task, leaves_nothing }));
            }
        }
        match parts.is_empty() {
            true => Err(NOBODY_LEFT.to_owned()),
            false => Ok(parts),
        }
    }

    fn tasks(&self, decision: &Decision, change: &Change, pid: Pid) -> Result<Vec<(String, Task)>, String> {
        if let Deed::Write(write) = &change.deed {
            return Ok(self.writes(decision, change.slot, pid, write));
        }
        let action = match &change.deed {
            Deed::Bind(how) => Action::Affinity {
                cpus: self.cores_of(change.slot, *how)?,
            },
            deed => self.resolved(&action(deed)?, change.slot)?,
        };
        let reason = Reason {
            why: decision.because.clone(),
            rule: Some(decision.rule.clone()),
        };
        let command = ActCommand { pid, action, reason };
        Ok(vec![(change.text.clone(), Task::Act(Box::new(command)))])
    }

    fn resolved(&self, action: &Action, slot: u32) -> Result<Action, String> {
        let Some(member) = self.job.members.get(slot as usize) else {
            return Ok(action.clone());
        };
        // What it has loaded since the session began is meant, too.
        let now = member.space_now(self.scout.images());
        let resolved = meant::resolved(action, now.as_ref().unwrap_or(&member.space));
        resolved.map_err(|error| error.to_string())
    }

    fn writes(&self, decision: &Decision, slot: u32, pid: Pid, write: &Write) -> Vec<(String, Task)> {
        let member = self.job.members.get(slot as usize);
        let copies = member.filter(|_| write.everywhere).map_or(vec![None], |member| {
            // A library that came since the session began has a copy, too.
            member.copies(&write.variable, self.scout.images())
        });
        let command = |module: &Option<String>| SetCommand {
            pid,
            variable: write.variable.clone(),
            module: module.clone(),
            value: write.value.clone(),
            value_type: write.type_name.as_deref().and_then(|name| name.parse().ok()),
            expect_old: None,
            why: decision.because.clone(),
            rule: Some(decision.rule.clone()),
        };
        let shown = |module: &Option<String>| match module {
            Some(module) => format!("{}:{}", file_name(module), write.variable),
            None => write.variable.clone(),
        };
        let tasks = copies.iter();
        tasks
            .map(|module| (shown(module), Task::Set(Box::new(command(module)))))
            .collect()
    }

    /// The CPUs that one process gets when all of the job have cores of their own, in the order of their ranks.
    fn cores_of(&self, slot: u32, how: Cores) -> Result<String, String> {
        let mut living: Vec<_> = self.processes.iter().filter(|process| !process.ended).collect();
        living.sort_by_key(|process| (process.rank, process.slot));
        let pids: Vec<i32> = living.iter().map(|process| process.pid).collect();
        let roots = self.job.roots.iter().map(|root| root.process.pid.number);
        // Ranks may be bound already, to less than the job was given.
        let all: Vec<i32> = pids.iter().copied().chain(roots).collect();
        let cpus: BTreeSet<usize> = evidence::usable(&all);
        let dealt = how.dealt(&pids, &cpus)?;
        let place = living.iter().position(|process| process.slot == slot);
        let own = place.and_then(|place| dealt.into_iter().nth(place));
        own.ok_or_else(|| "the process has ended".to_owned())
    }

    pub(super) fn pid_of(&self, slot: u32) -> Option<Pid> {
        self.job
            .members
            .get(slot as usize)
            .map(|member| member.process.pid)
    }

    fn change_view(&self, decision: &Decision, change: &Change, pid: Pid, variable: String) -> ChangeView {
        let rank = self
            .processes
            .iter()
            .find(|process| process.slot == change.slot)
            .and_then(|process| process.rank);
        let new = match &change.deed {
            Deed::Write(write) => write.value.clone(),
            _ => String::new(),
        };
        ChangeView {
            rule: decision.rule.clone(),
            pid: pid.number,
            rank,
            decision: decision.id,
            at: self.start.since_armed(),
            expect: decision.expect.clone(),
            because: decision.because.clone(),
            action: change.keyword,
            variable,
            new,
            ..ChangeView::default()
        }
    }
}

pub(super) fn process_here(slot: u32) -> Process {
    Process {
        machine: Machine::HERE,
        slot,
    }
}

/// What the tuner is asked for.
fn action(deed: &Deed) -> Result<Action, String> {
    let name = |text: &String| text.as_str().into();
    let given = |arguments: &[Passed]| arguments.iter().cloned().map(argument).collect();
    Ok(match deed {
        Deed::Call { call, inverse } => Action::Call(CallRequest {
            function: name(&call.function),
            arguments: given(&call.arguments),
            returns: Some(ReturnType::IfKnown),
            wait_ms: CALL_WAIT_MS,
            thread: None,
            inverse: match inverse {
                Inverse::Unstated | Inverse::NotNeeded => None,
                Inverse::Call { was, call } => Some(InverseRequest {
                    call: invocation(call),
                    was: was.as_ref().map(invocation),
                }),
            },
        }),
        Deed::Load { library } => Action::Load {
            path: library.clone(),
            wait_ms: LOAD_WAIT_MS,
        },
        Deed::Replace { function, with } => Action::Patch(PatchRequest::Replace {
            function: name(function),
            with: name(with),
        }),
        Deed::InsertCall {
            function,
            arguments,
            inside,
            at_return,
        } => Action::Patch(PatchRequest::InsertCall {
            function: name(function),
            arguments: given(arguments),
            into: name(inside),
            place: match at_return {
                true => InsertPlace::Return,
                false => InsertPlace::Entry,
            },
        }),
        Deed::RemoveCall { function, inside } => Action::Patch(PatchRequest::RemoveCall {
            function: name(function),
            within: inside.as_ref().map(name),
        }),
        Deed::SetArgument {
            function,
            argument,
            value,
        } => Action::Patch(PatchRequest::SetArgument {
            function: name(function),
            index: usize::from(*argument),
            value_type: None,
            value: Expression::parse(value).map_err(|error| error.to_string())?,
        }),
        Deed::Write(_) | Deed::Bind(_) => return Err("it is no action of its own".to_owned()),
    })
}

fn invocation(call: &rulebook::Invocation) -> Invocation {
    Invocation {
        function: call.function.as_str().into(),
        arguments: call.arguments.iter().cloned().map(argument).collect(),
    }
}

fn argument(given: Passed) -> Argument {
    match given {
        Passed::Whole(number) => Argument::Integer(number),
        Passed::Real(number) => Argument::Double(number),
        Passed::Text(text) => Argument::Text(text),
        Passed::Variable(name) => Argument::Variable(name),
        Passed::Was => Argument::Was,
    }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
