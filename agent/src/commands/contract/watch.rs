//! `tuneagent contract watch FILE TARGET`: measured rates of a running pipeline, or of an MPI job, against its
//! contract.

use std::{collections::VecDeque, time::Duration};

use profile::format::significant;
use profile::streams::{ContractWatch, NotComparable, NotLearned, RankReport, Slice, counted, counted_ranks};
use report::console;
use rules::contract::Contract;

use super::{
    ShowResult,
    act::Actor,
    job::{self, JobSession},
    metrics::{Metrics, MetricsAddress},
    required::Required,
    sampling,
};
use crate::{
    cli::WatchContractArgs,
    exit::{Code, Failure},
    output_name::cannot_be_written,
    report_file::ReportFile,
};

/// A window has as many slices; from their differences follows how uncertain its rates are.
const SLICES: usize = 10;
const SLICE: Duration = Duration::from_millis(100);

/// A window of an MPI job has as many reports behind its first. Messages by pair are read once a second.
const REPORTS: usize = 4;
const REPORT_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(contract: &Contract, args: &WatchContractArgs) -> ShowResult {
    let is_job = job::has_mpi(&args.target);
    let mut required = Required::of(contract, &args.contract, !is_job)?;
    if args.contract.json {
        console::keep_for_data();
    }
    // The right to create files is given up before other programs are looked at.
    let picture = args.svg.as_ref().map(|name| {
        let created = ReportFile::create(name);
        created.map_err(|error| cannot_be_written(name, &error))
    });
    let picture = picture.transpose()?;
    let metrics = args.metrics.map(MetricsAddress::bind).transpose()?;
    match is_job {
        true => watch_job(&mut required, args, metrics)?,
        false => watch_pipes(&mut required, args, metrics)?,
    }
    let summary = required.watch.summary();
    if summary.windows == 0 {
        return Err(Failure::no(filling(args)).into());
    }
    match args.contract.json {
        true => print_line(&summary)?,
        false => summary.lines().iter().for_each(|line| say!("{line}")),
    }
    if let Some(picture) = picture {
        let (assessment, capacity) = required.contract.capacity()?;
        let svg = required
            .contract
            .svg(&assessment, &capacity, Some(&summary.seen()));
        picture.complete(svg.as_bytes()).map_err(Failure::no)?;
    }
    Ok(if summary.holds { Code::Done } else { Code::No })
}

/// Data for other programs, an object a line.
fn print_line(data: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(data).map_err(Failure::no)?;
    console::complete(&(text + "\n")).map_err(Failure::no)
}

/// Where windows are shown.
struct WindowOutputs {
    json: bool,
    metrics: Option<Metrics>,
}

impl WindowOutputs {
    fn open(
        args: &WatchContractArgs,
        metrics: Option<MetricsAddress>,
        can_only_look: bool,
    ) -> Result<WindowOutputs, Failure> {
        let metrics = metrics.map(|metrics| metrics.serve(can_only_look));
        Ok(WindowOutputs {
            json: args.contract.json,
            metrics: metrics.transpose()?,
        })
    }

    /// A window that has been judged, and what is said of it.
    fn window(&self, watch: &ContractWatch, lines: &[String], end_s: f64) -> Result<(), Failure> {
        lines.iter().for_each(|line| say!("{line}"));
        let window = watch.last_window(end_s);
        if self.json {
            print_line(&window)?;
        }
        if let Some(metrics) = &self.metrics {
            metrics.publish(window);
        }
        Ok(())
    }
}

/// Why a window is not judged.
#[derive(Debug, thiserror::Error)]
enum Unwatched {
    #[error(transparent)]
    NotCounted(#[from] NotLearned),
    #[error(transparent)]
    NotComparable(#[from] NotComparable),
}

impl From<Unwatched> for Failure {
    fn from(why: Unwatched) -> Failure {
        use NotLearned::{Filling, Still, TooFew};
        match why {
            // It may be seen when watched for longer.
            Unwatched::NotCounted(Filling { .. } | Still { .. } | TooFew) => Failure::no(why),
            _ => Failure::not_there(why),
        }
    }
}

fn watch_pipes(
    required: &mut Required<'_>,
    args: &WatchContractArgs,
    metrics: Option<MetricsAddress>,
) -> Result<(), Failure> {
    if args.apply {
        return Err(Failure::not_there(
            "--apply: workers are set in MPI jobs only, and this is none; watch it without",
        ));
    }
    let (pipeline, mut sampler) = sampling::open(&args.target)?;
    let shown = WindowOutputs::open(args, metrics, true)?;
    let part = required.watch.part_of(&pipeline);
    let (mut window, mut passed_ns, mut refused) = (VecDeque::new(), 0, None);
    let ended = sampling::slices(&part, &mut sampler, SLICE, args.duration, |slice: Slice| {
        passed_ns += slice.ns;
        window.push_back(slice);
        if window.len() < SLICES {
            return true;
        }
        let slices: Vec<Slice> = window.drain(..).collect();
        let end_s = passed_ns as f64 / 1e9;
        required.has_changed(end_s);
        let watch = &mut required.watch;
        let judged = counted(&part, &slices)
            .map_err(Unwatched::from)
            .and_then(|seen| Ok(watch.window(end_s, &seen)?))
            .map_err(Failure::from)
            .and_then(|lines| shown.window(watch, &lines, end_s));
        refused = judged.err();
        refused.is_none()
    });
    if let Some(why) = refused {
        return Err(why);
    }
    if let Err(ended) = ended {
        console::error_line(format_args!("{ended}"));
    }
    Ok(())
}

/// Nothing has arrived at an end of the graph.
fn filling(args: &WatchContractArgs) -> NotLearned {
    let seconds = args.duration.as_secs_f64();
    NotLearned::Filling { seconds }
}

/// Judges windows of the reports of a session, from the first in which a message has arrived at each end.
fn watch_job(
    required: &mut Required<'_>,
    args: &WatchContractArgs,
    metrics: Option<MetricsAddress>,
) -> Result<(), Failure> {
    let times = (args.duration, REPORT_EVERY);
    let mut session = JobSession::start(&args.target, times, args.apply)?;
    let shown = WindowOutputs::open(args, metrics, false)?;
    let mut actor = args
        .apply
        .then(|| Actor::new(&required.contract, &args.target, session.pid()));
    let (mut begin, mut window) = (None, Vec::<RankReport>::new());
    // Until all of the graph has been seen, or for good if the contract is of another program.
    let mut unfilled = Some(Unwatched::NotCounted(filling(args)));
    while let Some(report) = session.next()? {
        let begin = begin.get_or_insert_with(|| report.clone());
        if unfilled.is_some() {
            unfilled = filled(&required.watch, args, begin, &report).err();
        }
        if unfilled.is_none() {
            window.push(report);
        }
        if window.len() <= REPORTS {
            continue;
        }
        let reports: Vec<&RankReport> = window.iter().collect();
        let end_s = window[REPORTS].elapsed_s;
        if required.has_changed(end_s)
            && let Some(actor) = &mut actor
        {
            actor.require(&required.contract);
        }
        let watch = &mut required.watch;
        let seen = counted_ranks(begin, &reports).map_err(Unwatched::from);
        match seen.and_then(|seen| Ok(watch.window(end_s, &seen)?)) {
            Ok(lines) => shown.window(watch, &lines, end_s)?,
            // It leaves its loop, as at its end.
            Err(why) => {
                console::error_line(format_args!("{why}"));
                break;
            }
        }
        window.drain(..REPORTS);
        if let (Some(actor), Some(last)) = (&mut actor, window.last())
            && let Some(line) = actor.look(watch, last)?
        {
            say!("{:>7} s  {line}", significant(end_s, 4));
        }
    }
    session.end()?;
    unfilled.map_or(Ok(()), |why| Err(why.into()))
}

/// Whether all that the contract is about has been seen since the begin.
fn filled(
    watch: &ContractWatch,
    args: &WatchContractArgs,
    begin: &RankReport,
    now: &RankReport,
) -> Result<(), Unwatched> {
    let seen = counted_ranks(begin, &[begin, now])?;
    match watch.is_filled(&seen)? {
        true => Ok(()),
        false => Err(filling(args).into()),
    }
}
