//! `tuneagent contract watch FILE TARGET`: measured rates of a running pipeline, or of an MPI job, against its
//! contract; or those of a session that has ended.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use contract::Contract;
use profile::format::significant;
use profile::streams::{
    ContractWatch, NotJudged, NotLearned, Pipeline, RankReport, RankWindows, Slice, counted,
};
use report::console;
use thiserror::Error;

use super::{
    ShowResult,
    act::Actor,
    job::{self, JobSession, StreamSource},
    metrics::{Metrics, MetricsAddress},
    required::Required,
    sampling, stages,
};
use crate::{
    cli::WatchContractArgs,
    exit::{Code, Failure},
    output_name::cannot_be_written,
    report_file::ReportFile,
    rights,
};

/// A window has as many slices; from their differences follows how uncertain its rates are.
const SLICES: usize = 10;
const SLICE: Duration = Duration::from_millis(100);
/// Slices that wait to be judged: a minute of them. Then looking waits, too.
const WAITING_MAX: usize = 600;

pub(super) const NO_WINDOW: &str = "too few reports for a window: it has five, from the first in which a message had arrived at each end of the graph";

pub(super) fn run(contract: &Contract, args: &WatchContractArgs) -> ShowResult {
    let stages = &args.stages.stages;
    stages::check(stages, args.target.as_deref())?;
    let source = StreamSource::of(
        args.target.as_deref(),
        args.reports.as_deref(),
        !stages.is_empty(),
    );
    let mut required = Required::of(contract, &args.contract, matches!(source, StreamSource::Pipes(_)))?;
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
    match source {
        StreamSource::Job(target) => watch_job(&mut required, args, target, metrics)?,
        StreamSource::Pipes(target) => watch_pipes(&mut required, args, target, metrics)?,
        StreamSource::Written(file) => watch_written(&mut required, args, file)?,
    }
    let summary = required.watch.summary();
    if summary.windows == 0 {
        let why = match source {
            StreamSource::Written(file) => Failure::failed(format!("{}: {NO_WINDOW}", file.display())),
            StreamSource::Job(_) | StreamSource::Pipes(_) => Failure::failed(filling(args)),
        };
        return Err(why.into());
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
        picture.complete(svg.as_bytes()).map_err(Failure::failed)?;
    }
    Ok(if summary.holds { Code::Done } else { Code::Failed })
}

/// Data for other programs, an object a line.
fn print_line(data: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(data).map_err(Failure::failed)?;
    console::complete(&(text + "\n")).map_err(Failure::failed)
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

pub(super) fn failure(why: NotJudged) -> Failure {
    use NotLearned::{Filling, Still, TooFew};
    match why {
        // It may be seen when watched for longer.
        NotJudged::NotCounted(Filling { .. } | Still { .. } | TooFew) => Failure::failed(why),
        _ => Failure::invalid(why),
    }
}

fn watch_pipes(
    required: &mut Required<'_>,
    args: &WatchContractArgs,
    target: &str,
    metrics: Option<MetricsAddress>,
) -> Result<(), Failure> {
    // What may change the program is not given up, so other processes are looked at by a thread without it.
    let opened = match args.apply {
        true => rights::looking(|| sampling::open(target)),
        false => rights::only_look().map(|()| sampling::open(target)),
    };
    let (pipeline, mut sampler) = opened.map_err(Failure::not_permitted)??;
    let shown = WindowOutputs::open(args, metrics, !args.apply)?;
    let part = required.watch.part_of(&pipeline);
    let session = args.apply.then(|| StageSession::start(required, &part, args));
    let mut session = session.transpose()?;
    let (sender, slices) = sync_channel(WAITING_MAX);
    let seen = &part;
    let look = move || -> Result<(), Failure> {
        if args.apply {
            rights::only_look_in_this_thread().map_err(Failure::not_permitted)?;
        }
        let ended = sampling::slices(seen, &mut sampler, SLICE, args.duration, |slice| {
            sender.send(slice).is_ok()
        });
        if let Err(ended) = ended {
            console::error_line(format_args!("{ended}"));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let judged = judge_slices(required, &part, slices, &shown, session.as_mut());
        let looked = looking.join();
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        judged
    })?;
    session.map_or(Ok(()), |session| session.session.end())
}

/// Judges windows of slices, until there are no more of them.
fn judge_slices(
    required: &mut Required<'_>,
    part: &Pipeline,
    slices: Receiver<Slice>,
    shown: &WindowOutputs,
    mut session: Option<&mut StageSession>,
) -> Result<(), Failure> {
    let (mut window, mut passed_ns) = (Vec::new(), 0);
    for slice in slices {
        passed_ns += slice.ns;
        window.push(slice);
        if window.len() < SLICES {
            continue;
        }
        let end_s = passed_ns as f64 / 1e9;
        let is_changed = required.has_changed(end_s);
        let watch = &mut required.watch;
        let lines = counted(part, &window)
            .map_err(NotJudged::from)
            .and_then(|seen| Ok(watch.window(end_s, &seen)?))
            .map_err(failure)?;
        shown.window(watch, &lines, end_s)?;
        window.clear();
        let Some(session) = session.as_deref_mut() else {
            continue;
        };
        if is_changed {
            session.actor.require(&required.contract);
        }
        if session.session.has_ended() {
            break;
        }
        let report = session.session.newest()?;
        if let Some(report) = report
            && let Some(line) = session.actor.look(&mut required.watch, &report)?
        {
            say!("{:>7} s  {line}", significant(end_s, 4));
        }
    }
    Ok(())
}

/// A session that may set the workers of processes of a pipeline.
struct StageSession {
    session: JobSession,
    actor: Actor,
}

impl StageSession {
    fn start(
        required: &Required<'_>,
        part: &Pipeline,
        args: &WatchContractArgs,
    ) -> Result<StageSession, Failure> {
        let targets = changeable(&required.contract, part).map_err(Failure::invalid)?;
        let every = RankWindows::REPORT_EVERY;
        let mut session = JobSession::start(&targets, &[], args.duration, every, true)?;
        if session.next()?.is_none() {
            session.end()?;
            return Err(Failure::failed("the program has ended"));
        }
        let actor = Actor::new(&required.contract, &targets, session.pid());
        Ok(StageSession { session, actor })
    }
}

/// Why the workers of no process of a pipeline can be set.
#[derive(Debug, Error)]
enum NotChangeable {
    #[error(
        "--apply: {0} and {1} run the same program, {2}, so that a rule cannot distinguish them: leave one of them out of \
         `adapt`"
    )]
    SameProgram(String, String, String),
    #[error("--apply: `adapt` of the contract names no process of this pipeline with `workers`")]
    NoProcess,
}

/// The processes of a pipeline whose workers a contract sets.
fn changeable(contract: &Contract, part: &Pipeline) -> Result<Vec<String>, NotChangeable> {
    let mut programs = BTreeMap::new();
    for (name, stage) in part.named_stages() {
        if contract.variable_of(&name).is_err() {
            continue;
        }
        if let Some((other, _)) = programs.insert(&stage.program, (name.clone(), stage.pid)) {
            return Err(NotChangeable::SameProgram(other, name, stage.program.clone()));
        }
    }
    if programs.is_empty() {
        return Err(NotChangeable::NoProcess);
    }
    Ok(programs.into_values().map(|(_, pid)| pid.to_string()).collect())
}

/// Nothing has arrived at an end of the graph.
fn filling(args: &WatchContractArgs) -> NotLearned {
    let seconds = args.duration.as_secs_f64();
    NotLearned::Filling { seconds }
}

/// Judges windows of the reports of a session, or of those that one has written.
fn watch_reports(
    required: &mut Required<'_>,
    mut windows: RankWindows,
    mut reports: impl FnMut() -> Result<Option<RankReport>, Failure>,
    shown: &WindowOutputs,
    mut actor: Option<Actor>,
) -> Result<(), Failure> {
    while let Some(report) = reports()? {
        if !windows.take(report, &required.watch) {
            continue;
        }
        let end_s = windows.end_s();
        if required.has_changed(end_s)
            && let Some(actor) = &mut actor
        {
            actor.require(&required.contract);
        }
        let watch = &mut required.watch;
        match windows.judge(watch) {
            Ok(lines) => shown.window(watch, &lines, end_s)?,
            // It leaves its loop, as at its end.
            Err(why) => {
                console::error_line(format_args!("{why}"));
                break;
            }
        }
        if let (Some(actor), Some(last)) = (&mut actor, windows.last())
            && let Some(line) = actor.look(watch, last)?
        {
            say!("{:>7} s  {line}", significant(end_s, 4));
        }
    }
    windows
        .not_begun()
        .map_or(Ok(()), |why| Err(failure(why.clone())))
}

/// Judges the reports of a session that watches an MPI job, or functions.
fn watch_job(
    required: &mut Required<'_>,
    args: &WatchContractArgs,
    target: &str,
    metrics: Option<MetricsAddress>,
) -> Result<(), Failure> {
    let every = RankWindows::REPORT_EVERY;
    let targets = &[target.to_owned()];
    let stages = &args.stages.stages;
    let mut session = JobSession::start(targets, stages, args.duration, every, args.apply)?;
    let shown = WindowOutputs::open(args, metrics, false)?;
    let actor = args
        .apply
        .then(|| Actor::new(&required.contract, targets, session.pid()));
    let watched = watch_reports(
        required,
        RankWindows::of(stages),
        || session.next(),
        &shown,
        actor,
    );
    // The reason why it could not begin comes first.
    session.end().and(watched)
}

/// Judges reports that a session has written, as it would have done then.
fn watch_written(required: &mut Required<'_>, args: &WatchContractArgs, file: &Path) -> Result<(), Failure> {
    let shown = WindowOutputs::open(args, None, false)?;
    let mut reports = job::written(file)?;
    let windows = RankWindows::of(&args.stages.stages);
    watch_reports(required, windows, || reports.next().transpose(), &shown, None)
}
