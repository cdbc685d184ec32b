//! `tuneagent replay`: evaluates rules on recordings. Prints findings and decisions, window by window, and
//! then the data of the recorded ranks, of all hosts together.

mod lines;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::PathBuf,
};

use profile::Snapshot;
use profile::format::{csv_field, duration, plural};
use report::{Plot, PlotMarkKind, console, render, view};
use rules::{Dimension, MetricReading};

use self::lines::{Lines, ReplayLine};
use super::{contract, replay_session};
use crate::{
    atomic_file::AtomicFile,
    cli::ReplayArgs,
    exit::{Code, CommandResult, Failure, unreadable},
    output_name::{cannot_be_written, refuse_overwriting, refuse_shared},
    rulebook::{Act, DecisionId, ReplayEvent, RuleBook, joined, replay},
};
use session::log::is_log;

/// The source of a line that the recorded session reported.
const SESSION: &str = "session ";

/// The value of a table is the mean of its rows.
const COLUMNS: &str = "time_s,rule,window,index,metric,unit,value,least,greatest,note";

pub(super) fn run(args: &ReplayArgs) -> CommandResult {
    let outputs = [
        ("--csv", args.csv.as_deref()),
        ("--json", args.json.as_deref()),
        ("--html", args.html.as_deref()),
        ("--svg", args.svg.as_deref()),
    ];
    refuse_shared(&outputs, "%h")?;
    for recording in &args.recordings {
        refuse_overwriting(&outputs, recording)?;
    }
    let files: Vec<io::Result<Vec<u8>>> = args.recordings.iter().map(fs::read).collect();
    if let Some(log) = files.iter().flatten().find(|bytes| is_log(bytes)) {
        return replay_session::run(args, log);
    }
    if let Some(file) = &args.contract {
        return contract::replay(file, &args.stages, &recordings(&args.recordings, files)?);
    }
    let settings = args.rules.settings.as_settings();
    let mut rules = RuleBook::load(&args.rules.paths, settings, args.apply.as_deref(), true)?;
    let recordings = recordings(&args.recordings, files)?;
    let mut outputs = Outputs::open(args, rules.objectives())?;
    let json = args.json.as_deref().map(Report::open).transpose()?;
    let html = args.html.as_deref().map(Report::open).transpose()?;
    let result = replay(&mut rules, &recordings, |since_ns, what| {
        outputs.take(since_ns, what)
    });
    let (is_quiet, windows) = (outputs.is_quiet, outputs.windows);
    // If a file is no recording, its error is the only message.
    outputs.is_quiet |= windows == 0 && result.is_err();
    outputs.finish()?;
    report_job(&recordings, json, html, is_quiet, result.is_err())?;
    result.map_err(Failure::failed)?;
    match windows == 0 && !rules.is_empty() {
        true => Err(Failure::failed(without_windows(&rules))),
        false => Ok(Code::Done),
    }
}

/// The content of each recording, with its name.
fn recordings(paths: &[PathBuf], files: Vec<io::Result<Vec<u8>>>) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let named = paths.iter().zip(files).map(|(path, bytes)| {
        let (name, bytes) = (
            path.display().to_string(),
            bytes.map_err(|error| unreadable(path, &error))?,
        );
        match bytes.starts_with(b"{") {
            true => Err(Failure::failed(format!(
                "{name}: this is JSON, such as a report (--json); replay needs a file of --record"
            ))),
            false => Ok((name, bytes)),
        }
    });
    named.collect()
}

/// Why no window was evaluated, for each rule with a reason.
fn without_windows(rules: &RuleBook) -> String {
    let mut text = "no window was evaluated: none closed in the recording".to_owned();
    for view in rules.views() {
        text += &format!("\n  {}: {}", view.name, view.state);
    }
    text
}

/// Reports the data of the recorded ranks, of all hosts together.
fn report_job(
    recordings: &[(String, Vec<u8>)],
    json: Option<Report>,
    html: Option<Report>,
    is_quiet: bool,
    is_broken: bool,
) -> Result<(), Failure> {
    let snapshot = match joined(recordings) {
        Ok(snapshot) => snapshot,
        Err(error) if json.is_some() || html.is_some() => return Err(Failure::failed(error)),
        Err(error) => {
            // The last sentence should be the error of the recording.
            if !is_quiet && !is_broken {
                say!("no report of the job: {error}");
            }
            return Ok(());
        }
    };
    let is_measured = snapshot.processes.iter().any(|process| process.watched_ns > 0);
    if is_measured && !is_quiet {
        let mut painter = view::Painter::lines();
        painter.say("");
        painter.say(&view::header(&snapshot));
        view::closing(&snapshot, false)
            .iter()
            .for_each(|line| painter.say(line));
    }
    if let Some(place) = html {
        let page = page::file(&page::page(&snapshot)).map_err(Failure::failed)?;
        place.write_text(&page)?;
    }
    json.map_or(Ok(()), |place| place.write(&snapshot))
}

/// The destination of the report.
pub(super) enum Report {
    Stdout,
    File(AtomicFile),
}

impl Report {
    pub(super) fn open(name: &str) -> Result<Report, Failure> {
        match name {
            "-" => Ok(Report::Stdout),
            name => AtomicFile::create(name)
                .map(Report::File)
                .map_err(|error| cannot_be_written(name, &error)),
        }
    }

    fn write(self, snapshot: &Snapshot) -> Result<(), Failure> {
        self.write_text(&render(snapshot))
    }

    pub(super) fn write_text(self, text: &str) -> Result<(), Failure> {
        match self {
            Report::Stdout => console::complete(text).map_err(Failure::failed),
            Report::File(file) => file.complete(text.as_bytes()).map_err(Failure::failed),
        }
    }
}

/// The outputs of a replay.
struct Outputs {
    csv: Option<Box<dyn Write>>,
    svg: Option<(Box<dyn Write>, Plot)>,
    /// Standard output is used for a table or a picture.
    is_quiet: bool,
    windows: usize,
    has_found: bool,
    /// Decisions that only switch probes, and do not change the program.
    switches: BTreeSet<DecisionId>,
    lines: Lines,
    failed: Option<io::Error>,
}

impl Outputs {
    fn open(args: &ReplayArgs, objectives: Vec<(String, String)>) -> Result<Outputs, Failure> {
        let mut csv = open(args.csv.as_deref())?;
        let failed = csv.as_mut().and_then(|csv| writeln!(csv, "{COLUMNS}").err());
        let requested = [&args.csv, &args.svg, &args.json, &args.html];
        Ok(Outputs {
            csv,
            svg: open(args.svg.as_deref())?.map(|file| (file, Plot::new(objectives))),
            is_quiet: requested.into_iter().flatten().any(|name| name == "-"),
            windows: 0,
            has_found: false,
            switches: BTreeSet::new(),
            lines: Lines::default(),
            failed,
        })
    }

    fn take(&mut self, since_ns: u64, what: ReplayEvent) {
        match what {
            ReplayEvent::Window {
                rule,
                window,
                index,
                duration: length,
                metrics,
                readings,
            } => {
                self.windows += 1;
                if let Some(csv) = &mut self.csv {
                    let rows = metrics.iter().zip(&readings).map(|((metric, text), reading)| {
                        let (unit, values, note) = columns(text, *reading);
                        let named =
                            [rule.as_str(), &window, &index.to_string(), metric, &unit].map(csv_field);
                        format!("{},{values},{}", named.join(","), csv_field(note))
                    });
                    let mut written = rows.map(|row| writeln!(csv, "{},{row}", since_ns as f64 / 1e9));
                    let error = written.find_map(Result::err);
                    self.failed = self.failed.take().or(error);
                }
                if let Some((_, plot)) = &mut self.svg {
                    let named = metrics.iter().map(|(name, _)| name.as_str()).zip(readings);
                    plot.window(since_ns, &rule, &window, length, named);
                }
            }
            ReplayEvent::Marked { kind, rule, text } => {
                if let Some((_, plot)) = &mut self.svg {
                    plot.recorded(since_ns, &rule, kind.into(), &text);
                }
                // Findings are made again by the replay.
                if kind != plan::MarkKind::Finding {
                    // The text of a verdict contains its kind.
                    let text = match kind {
                        plan::MarkKind::Kept | plan::MarkKind::Reverted => text,
                        other => format!("{}: {text}", other.name()),
                    };
                    self.say(since_ns, SESSION, &rule, &text);
                }
            }
            ReplayEvent::Missing { rule, what } => self.say(since_ns, "missing ", &rule, &what),
            ReplayEvent::Act(act) => {
                if self.only_switches(&act) {
                    return;
                }
                let Some((kind, rule, text)) = reported(&act) else {
                    return;
                };
                self.has_found |= matches!(kind, PlotMarkKind::Finding);
                if let Some((_, plot)) = &mut self.svg {
                    plot.mark(since_ns, rule, kind, &text);
                }
                let word = match kind {
                    PlotMarkKind::Finding => "finding ",
                    PlotMarkKind::Gone => "gone    ",
                    PlotMarkKind::Decision if is_repeated(&act) => return,
                    PlotMarkKind::Decision => "decision",
                    PlotMarkKind::Kept | PlotMarkKind::Reverted => "guard   ",
                };
                self.say(since_ns, word, rule, &text);
            }
        }
    }

    fn say(&mut self, since_ns: u64, source: &'static str, rule: &str, text: &str) {
        self.lines.add(ReplayLine {
            since_ns,
            source,
            rule: rule.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Whether it only switches probes, or switches them back.
    fn only_switches(&mut self, act: &Act) -> bool {
        match act {
            Act::Decided(decision) => {
                let only_switches = !decision.switches.is_empty();
                self.switches.extend(only_switches.then_some(decision.id));
                only_switches
            }
            Act::Judged(judged) => self.switches.contains(&judged.decision),
            Act::Found { .. } | Act::Gone { .. } => false,
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let mut failed = self.failed;
        if let Some((mut file, plot)) = self.svg {
            let written = file.write_all(plot.svg().as_bytes()).and_then(|()| file.flush());
            failed = failed.or(written.err());
        }
        if let Some(mut csv) = self.csv {
            failed = failed.or(csv.flush().err());
        }
        // A reader that has closed the pipe is no error.
        if let Some(error) = failed.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(Failure::failed("the output could not be written").caused_by(&error));
        }
        if !self.is_quiet {
            self.lines.into_ordered().iter().for_each(print);
            let found = if self.has_found { "" } else { ", no findings" };
            say!("{} evaluated{found}", plural(self.windows, "window"));
        }
        Ok(())
    }
}

/// A change that was reverted to compare is made again.
fn is_repeated(act: &Act) -> bool {
    matches!(act, Act::Decided(decision) if decision.again)
}

fn print(line: &ReplayLine) {
    let line = format!(
        "{:>9}  {} {}   {}",
        duration(line.since_ns as f64),
        line.source,
        line.rule,
        indented(&line.text)
    );
    say!("{}", line.trim_end());
}

/// Indented to below the first line of a finding.
fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{:21}", ""))
}

fn open(name: Option<&str>) -> Result<Option<Box<dyn Write>>, Failure> {
    match name {
        None => Ok(None),
        Some("-") => Ok(Some(Box::new(console::StandardOutput))),
        Some(name) => match fs::File::create(name) {
            Ok(file) => Ok(Some(Box::new(io::BufWriter::new(file)))),
            Err(error) => Err(cannot_be_written(name, &error)),
        },
    }
}

/// Unit, value, minimum and maximum row of a metric for a table, in base units and full precision. A metric
/// that is no number, or has no value, becomes a note.
fn columns(text: &str, reading: Option<MetricReading>) -> (String, String, &str) {
    match reading {
        None => (String::new(), ",,".to_owned(), text),
        Some(MetricReading {
            low,
            mean,
            high,
            dimension,
            ..
        }) => {
            let unit = dimension.map(Dimension::unit).unwrap_or_default();
            (unit, format!("{mean},{low},{high}"), "")
        }
    }
}

/// Steps without the process ids of the recording, grouped.
fn steps(steps: &[String]) -> String {
    let mut texts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps {
        let text = step.split(" in process").next().unwrap_or(step);
        *texts.entry(text).or_default() += 1;
    }
    let texts = texts.into_iter();
    let texts = texts.map(|(text, count)| format!("{text} in {}", plural(count, "process")));
    texts.collect::<Vec<_>>().join(", ")
}

/// The report of an act; `None` for a finding that only continues.
fn reported(act: &Act) -> Option<(PlotMarkKind, &str, String)> {
    match act {
        Act::Found {
            rule,
            text,
            is_new: true,
            ..
        } => Some((PlotMarkKind::Finding, rule, text.trim_end().to_owned())),
        Act::Found { .. } => None,
        Act::Gone { rule } => Some((PlotMarkKind::Gone, rule, "the finding no longer holds".to_owned())),
        Act::Decided(decision) => Some((PlotMarkKind::Decision, &decision.rule, steps(&decision.steps))),
        Act::Judged(judged) => {
            let kind = match judged.keeps {
                true => PlotMarkKind::Kept,
                false => PlotMarkKind::Reverted,
            };
            let sentence = judged.guard.sentence();
            let text = format!("{sentence} (by the recorded data: a replay changes nothing)");
            Some((kind, &judged.rule, text))
        }
    }
}
