//! The loop that looks at the processes of a pipeline, from the moment at which items arrive at its end.

use std::time::Duration;

use job::{
    monotonic_ns,
    pipes::{self, NoPipeline, PipeSampler},
};
use profile::{
    format,
    streams::{Pipe, Pipeline, Slice},
};
use report::console;
use rules::pseudo_random::mixed;
use tuner::Process;

use crate::{
    commands::target,
    exit::{Code, Failure},
    rights,
};

/// Bounds of the time between two looks. It varies, so that looks do not fall into step with the program.
const PAUSE_MIN_MS: u64 = 6;
const PAUSE_SPREAD_MS: u64 = 9;

/// How long a shell may take to start its pipeline, and how often that is checked.
const START_WAIT: Duration = Duration::from_secs(2);
const START_LOOK: Duration = Duration::from_millis(100);

/// The pipeline of TARGET, and a sampler of its processes. The caller has given up the rights that this does not
/// need.
pub(super) fn open(target: &str) -> Result<(Pipeline, PipeSampler), Failure> {
    let pid = target::pid(target)?;
    let caller = rights::caller();
    let is_own = |pid: i32| Process::open(pid).is_ok_and(|process| process.uid == caller);
    let pipeline = found(pid, is_own).map_err(|error| {
        let code = match error {
            NoPipeline::NotPermitted { .. } => Code::NotPermitted,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    })?;
    let sampler = PipeSampler::open(&pipeline, monotonic_ns()).map_err(Failure::failed)?;
    Ok((pipeline, sampler))
}

/// The pipeline of a process, once two looks have found the same: a shell may still be starting it, and its
/// processes have the shell's name until they execute their programs.
fn found(pid: i32, is_own: impl Fn(i32) -> bool) -> Result<Pipeline, NoPipeline> {
    let end_ns = monotonic_ns() + START_WAIT.as_nanos() as u64;
    let mut before = pipes::find(pid, &is_own);
    loop {
        std::thread::sleep(START_LOOK);
        let now = pipes::find(pid, &is_own);
        let is_over = monotonic_ns() > end_ns;
        match (before, now) {
            (Ok(before), Ok(now)) if before == now || is_over => return Ok(now),
            (Err(_), Err(NoPipeline::NoPipes { .. })) if !is_over => {
                before = Err(NoPipeline::NoPipes { pid })
            }
            (Err(_), Err(error)) => return Err(error),
            (_, now) => before = now,
        }
    }
}

/// Passes on slices of this length until the time is over, a stage ends, or `take` returns false. Those before
/// the first one in which every last stage has taken something are left out: the pipeline was still filling.
pub(super) fn slices(
    pipeline: &Pipeline,
    sampler: &mut PipeSampler,
    slice: Duration,
    duration: Duration,
    mut take: impl FnMut(Slice) -> bool,
) -> Result<(), pipes::StageEnded> {
    // The parent of a stage, such as `timeout`, is part of the job and of no pipe.
    let is_joined = |at: usize| {
        let mut ends = pipeline
            .pipes
            .iter()
            .flat_map(|pipe| pipe.from.iter().chain(&pipe.to));
        ends.any(|end| *end == at)
    };
    let stages = (0..).zip(&pipeline.stages).filter(|(at, _)| is_joined(*at));
    let stages = stages.map(|(_, stage)| stage.name.as_str());
    console::error_line(format_args!(
        "watching {} for {}",
        Vec::from_iter(stages).join(" | "),
        format::duration(duration.as_nanos() as f64)
    ));
    let until = |from: u64, length: Duration| from.saturating_add(length.as_nanos() as u64);
    let end = until(monotonic_ns(), duration);
    let mut random = u64::from(std::process::id());
    let mut is_filled = false;
    while monotonic_ns() < end {
        let slice_end = until(monotonic_ns(), slice).min(end);
        while monotonic_ns() < slice_end {
            sampler.look();
            random = mixed(random);
            let pause = PAUSE_MIN_MS + random % PAUSE_SPREAD_MS;
            std::thread::sleep(Duration::from_millis(pause));
        }
        let seen = sampler.slice(monotonic_ns())?;
        let is_first = !is_filled;
        is_filled |= reaches_the_end(pipeline, &seen);
        if is_filled && !is_first && !take(seen) {
            break;
        }
    }
    Ok(())
}

fn reaches_the_end(pipeline: &Pipeline, slice: &Slice) -> bool {
    let has = |side: fn(&Pipe) -> &Vec<usize>, at| pipeline.pipes.iter().any(|pipe| side(pipe).contains(&at));
    let is_last = |at: &usize| has(|pipe| &pipe.to, *at) && !has(|pipe| &pipe.from, *at);
    let mut last = (0..pipeline.stages.len()).filter(is_last);
    last.all(|at| slice.stages.get(at).is_some_and(|stage| stage.read_bytes > 0))
}
