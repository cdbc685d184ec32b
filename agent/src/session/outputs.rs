//! The outputs of a session, opened before it gives up the right to open files for writing.

use std::{
    fs::File,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use profile::{Snapshot, TraceView};
use report::{Trace, TraceEnd, console, line, render, table};

use crate::{control::Control, exit::Failure, http, output_name::cannot_be_written, report_file::ReportFile};
use profile::error::ErrorText;
use session::log::LogFile;

/// Maximum size of the file of snapshots; later ones are counted.
const SNAPSHOTS_BYTES_MAX: u64 = 1 << 30;

/// Names of files that are written for other programs, in addition to the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exports {
    /// The session as one page.
    pub html: Option<String>,
    /// The report as a table.
    pub csv: Option<String>,
    /// MPI calls and iterations, one by one.
    pub trace: Option<String>,
    /// Maximum size of the trace in bytes.
    pub trace_max: u64,
    /// A series of reports.
    pub snapshots: Option<String>,
    /// The interval of `snapshots`.
    pub every: Duration,
    /// The log of the session.
    pub session: Option<String>,
}

/// Why an output is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("{name} could not be written: {error}")]
    File { name: String, error: io::Error },
    #[error(
        "{dropped} snapshots are not in {name}: they could not be written, or it would have more than {SNAPSHOTS_BYTES_MAX} bytes"
    )]
    LineReports { name: String, dropped: u64 },
    #[error("standard output could not be written: {0}")]
    Stdout(io::Error),
    #[error("there is no page")]
    Page(#[from] page::PageError),
    /// Several, each on its line.
    #[error("{}", .0.iter().map(|error| ErrorText::of(error).to_string()).collect::<Vec<_>>().join("\n"))]
    Several(Vec<OutputError>),
}

/// The destination of an output that is written once, at the end.
#[derive(Debug)]
enum OutputFile {
    Stdout,
    File(ReportFile, String),
}

/// A report on each line, written while the session runs.
#[derive(Debug)]
struct LineReports {
    file: File,
    name: String,
    every: Duration,
    bytes: u64,
    /// Reports that did not fit, or could not be written.
    dropped: u64,
}

/// All outputs except the terminal.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    report: Option<OutputFile>,
    table: Option<OutputFile>,
    page: Option<OutputFile>,
    series: Option<LineReports>,
    /// The trace of single calls.
    pub trace: Option<Trace>,
    log: Option<LogFile>,
    /// The port of /metrics.
    pub metrics: Option<TcpListener>,
    pub web: Option<PageAddress>,
}

/// Where the live page is served.
#[derive(Debug)]
pub(crate) struct PageAddress {
    pub listener: TcpListener,
    /// Host names under which browsers may ask for it, beside those of this machine.
    pub names: Vec<String>,
}

/// The addresses that a session serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    pub metrics: Option<SocketAddr>,
    pub web: Option<SocketAddr>,
    /// Names of [`PageAddress`].
    pub web_names: Vec<String>,
}

impl Outputs {
    /// Opens the requested files. `%h` in a file's name is the host's name.
    pub(crate) fn open(
        json: Option<&str>,
        exports: &Exports,
        addresses: Addresses,
        host: &str,
    ) -> Result<Outputs, Failure> {
        let named = |name: &String| name.replace("%h", host);
        let created = |name: String| match File::create(&name) {
            Ok(file) => Ok((file, name)),
            Err(error) => Err(cannot_be_written(&name, &error)),
        };
        let series = exports.snapshots.as_ref().map(named).map(created).transpose()?;
        let trace = exports.trace.as_ref().map(named).map(created).transpose()?;
        let log = exports
            .session
            .as_ref()
            .map(named)
            .map(|name| match ReportFile::create(&name) {
                Ok(file) => Ok(LogFile::new(name, move |text| file.complete(text))),
                Err(error) => Err(cannot_be_written(&name, &error)),
            });
        let bind = |what, flag, address: Option<SocketAddr>| {
            let bound = address.map(|address| http::bind(what, flag, address));
            bound.transpose().map_err(Failure::invalid)
        };
        let metrics = bind("/metrics", "--metrics", addresses.metrics)?;
        let web = bind("the page", "--web", addresses.web)?.map(|listener| PageAddress {
            listener,
            names: addresses.web_names,
        });
        if [json, exports.csv.as_deref()].contains(&Some("-")) {
            console::keep_for_data();
        }
        Ok(Outputs {
            report: place(json, host)?,
            table: place(exports.csv.as_deref(), host)?,
            page: place(exports.html.as_deref(), host)?,
            series: series.map(|(file, name)| LineReports {
                file,
                name,
                every: exports.every,
                bytes: 0,
                dropped: 0,
            }),
            trace: trace.map(|(file, name)| Trace::new(file, name, exports.trace_max)),
            log: log.transpose()?,
            metrics,
            web,
        })
    }

    /// The file for the log of the session.
    pub(crate) fn take_log(&mut self) -> Option<LogFile> {
        self.log.take()
    }

    /// Whether the report or its table is written to standard output.
    pub(crate) fn report_is_stdout(&self) -> bool {
        let places = [&self.report, &self.table];
        places
            .iter()
            .any(|place| matches!(place, Some(OutputFile::Stdout)))
    }

    pub(crate) fn every(&self) -> Option<Duration> {
        self.series.as_ref().map(|series| series.every)
    }

    /// Adds a snapshot to the series. Each line is written at once, so that readers find complete lines,
    /// except possibly the last.
    pub(crate) fn add(&mut self, snapshot: &Snapshot) {
        let Some(series) = &mut self.series else { return };
        let line = line(snapshot);
        let bytes = series.bytes + line.len() as u64;
        match bytes <= SNAPSHOTS_BYTES_MAX && series.file.write_all(line.as_bytes()).is_ok() {
            true => series.bytes = bytes,
            false => series.dropped += 1,
        }
    }

    /// Ends the trace: what became of it.
    pub(crate) fn end_trace(
        &mut self,
        ending: &TraceEnd<'_>,
    ) -> (Option<TraceView>, Result<(), OutputError>) {
        let Some(trace) = self.trace.take() else {
            return (None, Ok(()));
        };
        let (view, result) = trace.finish(ending);
        let name = view.file.clone();
        let result = result.map_err(|error| OutputError::File { name, error });
        (Some(view), result)
    }

    /// Writes the report and its table, and returns the part for standard output. Everything that can be
    /// written is written before an error is reported.
    pub(crate) fn write(self, snapshot: &Snapshot) -> (Result<(), OutputError>, Printout) {
        let mut printout = Printout(None);
        let report = self
            .report
            .map(|place| place.write(render(snapshot), &mut printout));
        let table = self
            .table
            .map(|place| place.write(table(snapshot), &mut printout));
        let page = self.page.map(|place| {
            let text = page::file(&page::page(snapshot))?;
            place.write(text, &mut printout)
        });
        let series = self.series.filter(|series| series.dropped > 0).map(|series| {
            let (name, dropped) = (series.name, series.dropped);
            Err(OutputError::LineReports { name, dropped })
        });
        let written = [report, table, page, series].into_iter().flatten();
        let errors: Vec<OutputError> = written.filter_map(Result::err).collect();
        match errors.is_empty() {
            true => (Ok(()), printout),
            false => (Err(OutputError::Several(errors)), printout),
        }
    }
}

/// Text for standard output, to be printed after everything else.
#[derive(Debug)]
#[must_use]
pub(crate) struct Printout(Option<String>);

impl Printout {
    pub(crate) fn write(self) -> Result<(), OutputError> {
        let Some(text) = self.0 else { return Ok(()) };
        let written = console::printing(|| console::complete(&text));
        written.map_err(OutputError::Stdout)
    }
}

impl OutputFile {
    fn write(self, text: String, printout: &mut Printout) -> Result<(), OutputError> {
        match self {
            OutputFile::Stdout => {
                printout.0 = Some(text);
                Ok(())
            }
            OutputFile::File(file, name) => file
                .complete(text.as_bytes())
                .map_err(|error| OutputError::File { name, error }),
        }
    }
}

fn place(name: Option<&str>, host: &str) -> Result<Option<OutputFile>, Failure> {
    match name {
        None => Ok(None),
        Some("-") => Ok(Some(OutputFile::Stdout)),
        Some(name) => {
            let name = name.replace("%h", host);
            let file = ReportFile::create(&name).map_err(|error| cannot_be_written(&name, &error))?;
            Ok(Some(OutputFile::File(file, name)))
        }
    }
}

/// Data that the last steps of a session share.
#[derive(Default)]
pub(super) struct Closing {
    /// Dropping it removes its socket.
    pub(super) control: Option<Control>,
    pub(super) snapshot: Snapshot,
    pub(super) outputs: Outputs,
    pub(super) printout: Option<Printout>,
}
