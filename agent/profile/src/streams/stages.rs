//! A chain of stages as a stream program: each stage is a module, and functions that the user names show what it
//! does. From the reports that a session writes at intervals, which count and time the calls of these functions.

use super::counted::Names;
use super::{
    CalledTotals, End, ItemsAre, ModuleProcesses, NotLearned, ObservedGraph, ObservedModule, ObservedStream,
    RankReport, StageFunctions, TimeShares, counted_ranks,
};
use crate::format::{count, percent};

/// Fewer slices give no intervals.
const SLICES_MIN: usize = 3;

/// What a sum of times may exceed that of a whole number of threads by: calls are not timed to the end of a slice.
const TIMES_EXCEED: f64 = 0.1;

/// Two explanations of the times whose errors differ by less are equally good.
const ERRORS_DIFFER: f64 = 0.02;

/// Shares of time below which it does not matter what a stage did.
const SMALL_SHARE: f64 = 0.05;
const ELSEWHERE_SHARE: f64 = 0.1;

/// What the reports of a session show: of stages, or without any of an MPI job.
///
/// # Errors
/// If that is no stream program, or there are too few reports.
pub fn counted_reports(
    stages: &[StageFunctions],
    begin: &RankReport,
    reports: &[&RankReport],
) -> Result<ObservedGraph, NotLearned> {
    match stages.is_empty() {
        true => counted_ranks(begin, reports),
        false => counted_stages(stages, begin, reports),
    }
}

/// The modules and streams of a chain of stages, to learn from.
///
/// # Errors
/// If a function was never called, or too little was seen.
pub fn observed_stages(
    stages: &[StageFunctions],
    reports: &[RankReport],
) -> Result<ObservedGraph, NotLearned> {
    let last = reports.last().ok_or(NotLearned::TooFew)?;
    for stage in stages {
        let mut functions = stage.functions();
        if let Some(function) = functions.find(|function| called(last, function).0 == 0.0) {
            return Err(NotLearned::NotActivated {
                stage: stage.name.clone(),
                function: function.clone(),
                seconds: last.elapsed_s,
            });
        }
    }
    let has_arrived = |report: &&RankReport| {
        let end = stages.last();
        end.is_some_and(|stage| called(report, stage.takes()).0 > 0.0)
    };
    let reports: Vec<&RankReport> = reports.iter().filter(has_arrived).collect();
    match reports.as_slice() {
        [first, ..] if reports.len() > SLICES_MIN => counted_stages(stages, first, &reports),
        _ => Err(NotLearned::TooFew),
    }
}

/// Calls of a function in all processes since the probes were attached, and the time in them.
fn called(report: &RankReport, function: &str) -> (f64, f64) {
    let all = calls(report, function);
    let add = |sum: (f64, f64), one: &CalledTotals| {
        (sum.0 + one.calls as f64, sum.1 + one.time_s.unwrap_or_default())
    };
    all.fold((0.0, 0.0), add)
}

fn calls<'a>(report: &'a RankReport, function: &str) -> impl Iterator<Item = &'a CalledTotals> {
    let all = report.processes.iter().flat_map(|process| &process.functions);
    all.filter(move |one| one.name == function)
}

/// A stream that has carried nothing since `begin` is left out, as at the start.
fn counted_stages(
    stages: &[StageFunctions],
    begin: &RankReport,
    reports: &[&RankReport],
) -> Result<ObservedGraph, NotLearned> {
    let [first, .., last] = reports else {
        return Err(NotLearned::TooFew);
    };
    let mut seen = ObservedGraph {
        slices_ns: slices(reports, |report| report.elapsed_s * 1e9)
            .map(|ns| ns as u64)
            .collect(),
        ..ObservedGraph::default()
    };
    let mut names = Names::default();
    let waits = waits_for_cpu(stages, (first, last), &mut seen.doubts);
    for (at, (stage, waits)) in stages.iter().zip(waits).enumerate() {
        names.unique(&stage.name);
        let is_end = [at == 0, at + 1 == stages.len()];
        let seconds = last.elapsed_s - first.elapsed_s;
        let share = |function: &String| (called(last, function).1 - called(first, function).1) / seconds;
        let times = StageTimes {
            work: share(&stage.work),
            taking: stage.take.as_ref().map(share),
            putting: stage.put.as_ref().map(share),
            waits_for_cpu: waits,
        };
        let module = times.module(stage, is_end, &mut seen.doubts);
        seen.modules.push(module);
        let mut functions = stage.functions();
        if let Some(function) = functions.find(|function| calls(last, function).any(|one| one.estimated)) {
            let text = format!("calls of {function} are estimated: counting all of them would cost too much");
            seen.doubts.push(text);
        }
    }
    for (from, pair) in stages.windows(2).enumerate() {
        let [sender, receiver] = pair else { continue };
        if called(last, receiver.takes()).0 > called(begin, receiver.takes()).0 {
            let name = names.unique(&format!("{}_to_{}", sender.name, receiver.name));
            seen.streams.push(stream(name, reports, from, sender, receiver));
        }
    }
    Ok(seen)
}

fn slices(reports: &[&RankReport], value: impl Fn(&RankReport) -> f64) -> impl Iterator<Item = f64> {
    reports
        .windows(2)
        .map(move |pair| (value(pair[1]) - value(pair[0])).max(0.0))
}

/// The items that flow from a stage to the next one.
fn stream(
    name: String,
    reports: &[&RankReport],
    from: usize,
    sender: &StageFunctions,
    receiver: &StageFunctions,
) -> ObservedStream {
    let end = |module, function: &str| End {
        module,
        items: slices(reports, |report| called(report, function).0).collect(),
    };
    let (sent, received) = (end(from, sender.sends()), end(from + 1, receiver.takes()));
    let number = |end: &End| count(end.items.iter().sum());
    ObservedStream {
        name,
        items_are: ItemsAre::Messages,
        item_bytes: 1.0,
        item: None,
        is_on_demand: false,
        basis: format!(
            "{} calls of {} and {} of {}",
            number(&sent),
            sender.sends(),
            number(&received),
            receiver.takes()
        ),
        sent: vec![sent],
        received: vec![received],
    }
}

/// Shares of the time in which the threads of each stage waited for a CPU. It is known of processes, so only of
/// those with one stage.
fn waits_for_cpu(
    stages: &[StageFunctions],
    (first, last): (&RankReport, &RankReport),
    doubts: &mut Vec<String>,
) -> Vec<f64> {
    let mut waits = vec![0.0; stages.len()];
    let seconds = last.elapsed_s - first.elapsed_s;
    for (at, process) in last.processes.iter().enumerate() {
        let calls = |stage: &StageFunctions| {
            let mut called = process.functions.iter().filter(|one| one.calls > 0);
            called.any(|one| stage.functions().any(|function| *function == one.name))
        };
        let of: Vec<usize> = (0..stages.len()).filter(|at| calls(&stages[*at])).collect();
        // In recordings processes have no pid, and are in the order in which they joined.
        let mut all = first.processes.iter().enumerate();
        let is_same = |other: usize, pid: Option<i32>| pid == process.pid && (pid.is_some() || other == at);
        let before = all.find(|(other, before)| is_same(*other, before.pid));
        let before = before.and_then(|(_, before)| before.runqueue_time_s);
        let Some((before, now)) = before.zip(process.runqueue_time_s) else {
            continue;
        };
        let share = (now - before) / seconds;
        match of[..] {
            [one] => waits[one] += share,
            [_, ..] if share > SMALL_SHARE => doubts.push(format!(
                "threads of process {} waited for a CPU {} of the time, which is a part of their service times",
                process.pid.unwrap_or_default(),
                percent(share)
            )),
            _ => {}
        }
    }
    waits
}

/// Time in the functions of a stage, added up over its threads, in shares of the time that passed.
#[derive(Clone, Copy, Debug)]
struct StageTimes {
    work: f64,
    taking: Option<f64>,
    putting: Option<f64>,
    waits_for_cpu: f64,
}

/// Threads whose times add up to this sum, and the time that they spend elsewhere.
struct Fit {
    workers: f64,
    elsewhere: f64,
}

impl Fit {
    fn of(sum: f64) -> Fit {
        let workers = (sum - TIMES_EXCEED).ceil().max(1.0);
        Fit {
            workers,
            elsewhere: workers - sum,
        }
    }

    fn error(&self) -> f64 {
        self.elsewhere.abs()
    }
}

impl StageTimes {
    fn waiting(&self) -> f64 {
        self.taking.unwrap_or_default() + self.putting.unwrap_or_default()
    }

    /// Whether TAKE and PUT are called within WORK; `None` if it matters and the times do not show it. A thread is
    /// always in one of its functions, or nearly: so the time in all of them, or that in WORK if it contains the
    /// others, is that of a whole number of threads.
    fn is_within(&self) -> Option<bool> {
        if self.work < self.waiting() {
            return Some(false);
        }
        let [apart, within] = [self.work + self.waiting(), self.work].map(|sum| Fit::of(sum).error());
        let is_clear = (apart - within).abs() >= ERRORS_DIFFER;
        let matters = self.waiting() > SMALL_SHARE;
        (is_clear || !matters).then_some(is_clear && within < apart)
    }

    /// `is_end`: whether it is the first stage, which takes nothing, and the last one, which sends nothing.
    fn module(&self, stage: &StageFunctions, is_end: [bool; 2], doubts: &mut Vec<String>) -> ObservedModule {
        let (name, within) = (&stage.name, self.is_within());
        let is_within = within.unwrap_or_default();
        let sum = self.work + if is_within { 0.0 } else { self.waiting() };
        let fit = Fit::of(sum);
        let work = if is_within {
            self.work - self.waiting()
        } else {
            self.work
        };
        if within.is_none() {
            doubts.push(format!(
                "the times do not show whether {} is called within {}: it is taken to be outside",
                stage.takes_or_puts(),
                stage.work
            ));
        }
        let elsewhere = fit.elsewhere.max(0.0);
        let [mut busy, mut starved, mut blocked] = [
            work,
            self.taking.unwrap_or_default(),
            self.putting.unwrap_or_default(),
        ];
        let (counts_as, share) = match (self.taking, self.putting, is_end) {
            (None, _, [false, _]) => ("waiting for input", &mut starved),
            (_, None, [_, false]) => ("waiting for room", &mut blocked),
            _ => ("work", &mut busy),
        };
        *share += elsewhere;
        if elsewhere > ELSEWHERE_SHARE * fit.workers {
            doubts.push(format!(
                "{name} is in none of its functions {} of the time, which counts as {counts_as}",
                percent(elsewhere / fit.workers)
            ));
        }
        let waits = self.waits_for_cpu.min(busy);
        ObservedModule {
            name: name.clone(),
            about: stage.about(is_within),
            shares: TimeShares::of(busy - waits, 0.0, waits, starved, blocked),
            workers: fit.workers as u32,
            processes: ModuleProcesses::Ranks(Vec::new()),
            counted: 0.0,
            has_computations: false,
        }
    }
}
