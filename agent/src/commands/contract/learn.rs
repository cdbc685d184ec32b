//! `tuneagent contract learn TARGET`: the contract of a running pipeline, from what its processes are seen to
//! do, without root and probes; or of an MPI job, from its messages.

use std::time::Duration;

use profile::streams::{Learned, NotLearned, ObservedGraph, RankReport, learn, observed, observed_ranks};
use report::console;

use super::{
    job::{self, JobSession, StreamSource},
    sampling,
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

/// Number of reports of an MPI job, and the least time between two: messages by pair are read once a second.
const REPORTS: u32 = 10;
const BETWEEN_MIN: Duration = Duration::from_secs(2);

pub(super) fn run(args: &LearnArgs) -> CommandResult {
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
        None => console::complete(&learned.text).map_err(Failure::no)?,
        Some(file) => {
            file.complete(learned.text.as_bytes()).map_err(Failure::no)?;
            console::error_line(format_args!("written: {}", args.output));
        }
    }
    Ok(Code::Done)
}

fn learned(args: &LearnArgs) -> Result<Learned, Failure> {
    let messages = |reports: Vec<RankReport>| {
        let seen = observed_ranks(&reports).map_err(Failure::no)?;
        Ok((seen, "Learned from the messages between the ranks of an MPI job."))
    };
    let (seen, about) = match StreamSource::of(args.target.as_deref(), args.reports.as_deref()) {
        StreamSource::Job(target) => messages(reports(args, target)?)?,
        StreamSource::Written(file) => messages(job::written(file)?.collect::<Result<_, _>>()?)?,
        StreamSource::Pipes(target) => (
            pipeline(args, target)?,
            "Learned from running processes that are joined by pipes.",
        ),
    };
    learn(&seen, &name(&seen), about).map_err(Failure::no)
}

/// The reports of a session that watches an MPI job.
fn reports(args: &LearnArgs, target: &str) -> Result<Vec<RankReport>, Failure> {
    let every = (args.duration / REPORTS).max(BETWEEN_MIN);
    let mut session = JobSession::start(&[target.to_owned()], (args.duration, every), false)?;
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
        return Err(Failure::no(format!("{ended} before enough was seen of it")));
    }
    if slices.len() < 2 {
        return Err(Failure::no(NotLearned::Filling {
            seconds: args.duration.as_secs_f64(),
        }));
    }
    observed(&pipeline, &slices).map_err(Failure::no)
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
