//! From a decision to orders: what each process is to do, and how that is shown. Orders nothing.

use std::collections::BTreeSet;

use tuner::{
    action::{Action, Reason},
    actuator::{ActCommand, SetCommand},
    process::Pid,
};

use super::{Session, hands::Task, meant};
use crate::{
    evidence::{self, Cores},
    rulebook::{Change, Decision, Deed, Write},
    snapshot::ChangeView,
};

/// A decision that was ordered, with what was ordered for it.
#[derive(Debug)]
pub(super) struct Ordered {
    pub(super) decision: Decision,
    /// By the place of each order.
    pub(super) parts: Vec<Part>,
}

/// One order, as it is shown as long as nothing is known of it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) pid: Pid,
    /// What it acts on: `set_arg send(2)`.
    pub(super) label: String,
    pub(super) view: ChangeView,
    pub(super) task: Task,
}

impl Session {
    /// What a decision comes to, process by process; the error is why it cannot be ordered.
    pub(super) fn parts(&self, decision: &Decision) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        for change in &decision.changes {
            // A process that has ended needs nothing any more.
            let Some(pid) = self.pid_of(change.slot) else {
                continue;
            };
            for (text, task) in self.tasks(decision, change, pid)? {
                parts.push(Part {
                    pid,
                    label: change.label.clone(),
                    view: self.change_view(decision, change, pid, text),
                    task,
                });
            }
        }
        match parts.is_empty() {
            true => Err("no process is left to be changed".to_owned()),
            false => Ok(parts),
        }
    }

    fn tasks(&self, decision: &Decision, change: &Change, pid: Pid) -> Result<Vec<(String, Task)>, String> {
        let act = |action: Action| {
            let reason = Reason {
                why: decision.because.clone(),
                rule: Some(decision.rule.clone()),
            };
            let command = ActCommand { pid, action, reason };
            vec![(change.text.clone(), Task::Act(Box::new(command)))]
        };
        Ok(match &change.deed {
            Deed::Write(write) => self.writes(decision, change.slot, pid, write),
            Deed::Act(action) => act(self.resolved(action, change.slot)?),
            Deed::Bind(how) => act(Action::Affinity {
                cpus: self.cores_of(change.slot, *how)?,
            }),
        })
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
            Deed::Act(_) | Deed::Bind(_) => String::new(),
        };
        ChangeView {
            rule: decision.rule.clone(),
            pid: pid.number,
            rank,
            action: change.keyword,
            variable,
            new,
            ..ChangeView::default()
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
