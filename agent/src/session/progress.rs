//! Reads the program's step counter and its number of steps (`--progress 'step/steps'`).

use std::time::Duration;

use job::{Job, Member, end_time_s, unix_s};
use profile::progress::{ProgressSource, ProgressView, StepCount, StepProgress};
use tuner::Memory;

use super::{Options, target::WatchedJob, written::TargetVariable};
use crate::{exit::Failure, similar_name};

/// Reads the variables of one process.
#[derive(Debug)]
pub(super) struct ProgressReader {
    of: ProgressSource,
    /// The slot of the process that is read, and its variables; `None` until a process has them.
    found: Option<(u32, TargetVariable, Total)>,
    progress: StepProgress,
    /// When the batch system ends the job, in seconds since 1970.
    end_time_s: Option<f64>,
}

#[derive(Debug)]
enum Total {
    Number(f64),
    Variable(Box<TargetVariable>),
}

impl ProgressReader {
    /// `None` without `--progress`. Fails if no process has the variables. For a command this is not checked,
    /// because it has no process yet.
    pub(super) fn of(options: &Options, job: &Job) -> Result<Option<ProgressReader>, Failure> {
        let Some(of) = &options.progress else {
            return Ok(None);
        };
        if options.started.is_none() {
            check(of, &job.members)?;
        }
        Ok(Some(ProgressReader {
            of: of.clone(),
            found: None,
            progress: StepProgress::default(),
            end_time_s: end_time_s(job),
        }))
    }

    /// Reads the variables. Takes the first process that has them, and stays with it until it ends.
    pub(super) fn read(&mut self, target: &WatchedJob, slots: &[u32], now_ns: u64) {
        let is_there = |slot: u32| target.member(slot).is_some();
        if self.found.as_ref().is_none_or(|(slot, ..)| !is_there(*slot)) {
            let found = slots.iter().find_map(|slot| {
                let (step, total) = places(&self.of, target.member(*slot)?)?;
                Some((*slot, step, total))
            });
            self.found = found;
        }
        let Some((slot, step, total)) = &self.found else {
            return;
        };
        let memory = target.member(*slot).map(|member| Memory::open(&member.process));
        let Some(Ok(memory)) = memory else { return };
        let total = match total {
            Total::Number(total) => Some(*total),
            Total::Variable(place) => place.read(&memory),
        };
        if let Some((step, total)) = step.read(&memory).zip(total) {
            self.progress.observe(now_ns, step, total);
        }
    }

    pub(super) fn view(&self) -> Option<ProgressView> {
        let left = |end_s: f64| Duration::try_from_secs_f64(end_s - unix_s()).unwrap_or_default();
        let limit = self.end_time_s.map(left);
        self.progress.view().map(|view| ProgressView { limit, ..view })
    }
}

/// Fails if no process has the variables.
fn check(of: &ProgressSource, members: &[Member]) -> Result<(), Failure> {
    if members.iter().any(|member| places(of, member).is_some()) {
        return Ok(());
    }
    let is_known = |name: &str| {
        members
            .iter()
            .any(|member| TargetVariable::of(name.to_owned(), None, member).is_some())
    };
    let unknown = |name: &str| {
        let similar = |member: &Member| similar_name::of_variable(&member.space, name);
        let similar = members.iter().find_map(similar);
        let similar = similar.map_or_else(String::new, |similar| format!("; {similar}"));
        format!("--progress: no process has a numeric variable `{name}`{similar}")
    };
    let names = [Some(of.step.as_str()), of.total_name()].into_iter().flatten();
    let unknown: Vec<String> = names.filter(|name| !is_known(name)).map(unknown).collect();
    Err(Failure::not_there(format!(
        "{} (all variables: tuneagent symbols PID --variables)",
        unknown.join("\n")
    )))
}

fn places(of: &ProgressSource, member: &Member) -> Option<(TargetVariable, Total)> {
    let step = TargetVariable::of(of.step.clone(), None, member)?;
    let total = match &of.total {
        StepCount::Number(total) => Total::Number(*total),
        StepCount::Variable(name) => {
            Total::Variable(Box::new(TargetVariable::of(name.clone(), None, member)?))
        }
    };
    Some((step, total))
}
