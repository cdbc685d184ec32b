//! How far the program is: its step counter and its number of steps (`--progress 'step/steps'`), a rule's metric
//! (`--progress 'rule.metric/5000'`), or the iterations of its loop (`--iterations N`).

use std::time::Duration;

use job::{Job, Member, end_time_s, unix_s};
use profile::Metered;
use profile::progress::{LoopProgress, ProgressSource, ProgressView, StepCount, StepProgress};
use tuner::Memory;

use super::{Options, sequence, target::WatchedJob, written::TargetVariable};
use crate::{exit::Failure, rulebook::RuleBook, similar_name};

#[derive(Debug)]
pub(super) struct ProgressReader {
    steps: StepCounter,
    /// When the batch system ends the job, in seconds since 1970.
    end_time_s: Option<f64>,
}

#[derive(Debug)]
enum StepCounter {
    Variables(Box<StepVariables>),
    /// A rule's metric, for programs whose step no variable has.
    Metric {
        rule: String,
        metric: String,
        total: f64,
        progress: StepProgress,
    },
    Iterations {
        progress: LoopProgress,
        total: f64,
        /// The processes are watched from their start.
        is_from_start: bool,
    },
}

/// The variables of one process.
#[derive(Debug)]
struct StepVariables {
    step: String,
    total: StepCount,
    /// The slot of the process that is read, and its variables; `None` until a process has them.
    found: Option<(u32, TargetVariable, Total)>,
    progress: StepProgress,
}

#[derive(Debug)]
enum Total {
    Number(f64),
    Variable(Box<TargetVariable>),
}

impl ProgressReader {
    /// `None` without the flags. Fails if no process has the variables. For a command this is not checked,
    /// because it has no process yet.
    pub(super) fn of(
        options: &Options,
        job: &Job,
        rules: &RuleBook,
    ) -> Result<Option<ProgressReader>, Failure> {
        let is_from_start = options.started.is_some();
        let steps = match options.progress.clone() {
            None => return Ok(None),
            Some(ProgressSource::Iterations(total)) => StepCounter::Iterations {
                progress: LoopProgress::default(),
                total,
                is_from_start,
            },
            Some(ProgressSource::Variable { step, total }) if rules.has_metric(&step) => {
                let StepCount::Number(total) = total else {
                    return Err(Failure::invalid(format!(
                        "--progress: {step} is a metric of a rule, so the number of steps must be a number: {step}/5000"
                    )));
                };
                let (rule, metric) = step.split_once('.').unwrap_or_default();
                StepCounter::Metric {
                    rule: rule.to_owned(),
                    metric: metric.to_owned(),
                    total,
                    progress: StepProgress::default(),
                }
            }
            Some(ProgressSource::Variable { step, total }) => {
                if !is_from_start {
                    check(&step, &total, &job.members)?;
                }
                StepCounter::Variables(Box::new(StepVariables {
                    step,
                    total,
                    found: None,
                    progress: StepProgress::default(),
                }))
            }
        };
        Ok(Some(ProgressReader {
            steps,
            end_time_s: end_time_s(job),
        }))
    }

    pub(super) fn read(&mut self, target: &WatchedJob, processes: &[Metered], rules: &RuleBook, now_ns: u64) {
        match &mut self.steps {
            StepCounter::Metric {
                rule,
                metric,
                total,
                progress,
            } => match rules.value(rule, metric) {
                Some(done) => progress.observe(now_ns, done, *total),
                None => progress.stand(now_ns),
            },
            StepCounter::Variables(variables) => variables.read(target, processes, now_ns),
            StepCounter::Iterations { progress, total, .. } => {
                let has_mpi = target.job.has_mpi();
                let looping = sequence::looping(processes, has_mpi).filter(|process| !process.ended);
                if let Some(iterations) = looping.and_then(|process| process.sequence.iterations()) {
                    progress.observe(iterations, now_ns, *total);
                }
            }
        }
    }

    /// Time until the program ends; `None` if unknown.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.view()?.eta.ok()?.remaining)
    }

    pub(super) fn view(&self) -> Option<ProgressView> {
        let left = |end_s: f64| Duration::try_from_secs_f64(end_s - unix_s()).unwrap_or_default();
        let limit = self.end_time_s.map(left);
        let view = match &self.steps {
            StepCounter::Variables(variables) => variables.progress.view()?,
            StepCounter::Metric { progress, .. } => progress.view()?,
            StepCounter::Iterations {
                progress,
                total,
                is_from_start,
            } => progress.view(*total, *is_from_start),
        };
        Some(ProgressView { limit, ..view })
    }
}

impl StepVariables {
    /// Reads the variables. Takes the first process that has them, and stays with it until it ends.
    fn read(&mut self, target: &WatchedJob, processes: &[Metered], now_ns: u64) {
        let is_there = |slot: u32| target.member(slot).is_some();
        if self.found.as_ref().is_none_or(|(slot, ..)| !is_there(*slot)) {
            let mut running = processes.iter().filter(|process| !process.ended);
            let found = running.find_map(|process| {
                let (step, total) = places(&self.step, &self.total, target.member(process.slot)?)?;
                Some((process.slot, step, total))
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
}

/// Fails if no process has the variables.
fn check(step: &str, total: &StepCount, members: &[Member]) -> Result<(), Failure> {
    if members.iter().any(|member| places(step, total, member).is_some()) {
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
    let names = [Some(step), total.name()].into_iter().flatten();
    let unknown: Vec<String> = names.filter(|name| !is_known(name)).map(unknown).collect();
    Err(Failure::invalid(format!(
        "{} (all variables: tuneagent symbols PID --variables)",
        unknown.join("\n")
    )))
}

fn places(step: &str, total: &StepCount, member: &Member) -> Option<(TargetVariable, Total)> {
    let step = TargetVariable::of(step.to_owned(), None, member)?;
    let total = match total {
        StepCount::Number(total) => Total::Number(*total),
        StepCount::Variable(name) => {
            Total::Variable(Box::new(TargetVariable::of(name.clone(), None, member)?))
        }
    };
    Some((step, total))
}
