//! `tuneagent contract learn TARGET`: the contract of a running pipeline, from what its processes are seen to
//! do, without root and probes; of an MPI job, from its messages; or of stages, from calls of functions.

use std::time::Duration;

use profile::streams::{
    Learned, NotLearned, ObservedGraph, RankReport, learn, observed, observed_ranks, observed_stages,
};
use report::console;

use super::{
    job::{self, JobSession, StreamSource},
    sampling, stages,
};
use crate::{
    cli::LearnArgs,
    exit::{Code, CommandResult, Failure},
    output_name::{STDOUT, cannot_be_written},
    report_file::ReportFile,
    rights,
};

/// Number of slices from whose differences intervals are computed, and the least length of one.
const SLICES: u32 = 20;
const SLICE_MIN: Duration = Duration::from_millis(100);

/// Number of reports of an MPI job or of stages, and the least time between two: messages by pair are read once a
/// second.
const REPORTS: u32 = 10;
const BETWEEN_MIN: Duration = Duration::from_secs(2);
const BETWEEN_CALLS_MIN: Duration = Duration::from_millis(500);

pub(super) fn run(args: &LearnArgs) -> CommandResult {
    stages::check(&args.stages.stages, args.target.as_deref())?;
    // The right to create files is given up before other programs are looked at.
    let file = match args.output.as_str() {
        STDOUT => None,
        name => Some(ReportFile::create(name).map_err(|error| cannot_be_written(name, &error))?),
    };
    let learned = learned(args)?;
    console::error_line(format_args!("{}", learned.bottleneck.sentence()));
    for doubt in &learned.doubts {
        console::error_line(format_args!("in doubt: {doubt}"));
    }
    for wrong in &learned.wrong {
        console::error_line(format_args!("does not hold: {wrong}"));
    }
    match file {
        None => console::complete(&learned.text).map_err(Failure::failed)?,
        Some(file) => {
            file.complete(learned.text.as_bytes()).map_err(Failure::failed)?;
            console::error_line(format_args!("written: {}", args.output));
        }
    }
    Ok(Code::Done)
}

fn learned(args: &LearnArgs) -> Result<Learned, Failure> {
    let stages = &args.stages.stages;
    let reported = |reports: Vec<RankReport>| match stages.is_empty() {
        true => Ok((
            observed_ranks(&reports).map_err(Failure::failed)?,
            "Learned from the messages between the ranks of an MPI job.",
        )),
        false => Ok((
            observed_stages(stages, &reports).map_err(not_activated)?,
            "Learned from calls of functions that were named.",
        )),
    };
    let (target, written) = (args.target.as_deref(), args.reports.as_deref());
    let (seen, about) = match StreamSource::of(target, written, !stages.is_empty()) {
        StreamSource::Job(target) => reported(reports(args, target)?)?,
        StreamSource::Written(file) => reported(job::written(file)?.collect::<Result<_, _>>()?)?,
        StreamSource::Pipes(target) => (
            pipeline(args, target)?,
            "Learned from running processes that are joined by pipes.",
        ),
    };
    learn(&seen, &name(&seen), about).map_err(Failure::failed)
}

/// A function that is never called is a mistake of the command line.
fn not_activated(why: NotLearned) -> Failure {
    match why {
        NotLearned::NotActivated { .. } => Failure::invalid(format!("--stage: {why}")),
        _ => Failure::failed(why),
    }
}

/// The reports of a session that watches an MPI job, or functions.
fn reports(args: &LearnArgs, target: &str) -> Result<Vec<RankReport>, Failure> {
    let stages = &args.stages.stages;
    let least = if stages.is_empty() {
        BETWEEN_MIN
    } else {
        BETWEEN_CALLS_MIN
    };
    let every = (args.duration / REPORTS).max(least);
    let mut session = JobSession::start(&[target.to_owned()], stages, args.duration, every, false)?;
    let mut reports = Vec::new();
    while let Some(report) = session.next()? {
        reports.push(report);
    }
    session.end()?;
    Ok(reports)
}

/// What is seen of processes that are joined by pipes.
fn pipeline(args: &LearnArgs, target: &str) -> Result<ObservedGraph, Failure> {
    rights::only_look().map_err(Failure::not_permitted)?;
    let (pipeline, mut sampler) = sampling::open(target)?;
    let slice = (args.duration / SLICES).max(SLICE_MIN);
    let mut slices = Vec::new();
    let ended = sampling::slices(&pipeline, &mut sampler, slice, args.duration, |slice| {
        slices.push(slice);
        true
    });
    if let (Err(ended), true) = (&ended, slices.len() < 2) {
        return Err(Failure::failed(format!("{ended} before enough was seen of it")));
    }
    if slices.len() < 2 {
        return Err(Failure::failed(NotLearned::Filling {
            seconds: args.duration.as_secs_f64(),
        }));
    }
    observed(&pipeline, &slices).map_err(Failure::failed)
}

/// A name for the contract: `zstd-awk-xz`.
fn name(seen: &ObservedGraph) -> String {
    let names = seen.modules.iter().map(|module| module.name.to_ascii_lowercase());
    let names: Vec<String> = names.take(8).collect();
    let words = names
        .iter()
        .flat_map(|name| name.split('_'))
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}
