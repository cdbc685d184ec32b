//! Where a session writes to, opened before it gives up the right to open anything for writing.

use std::{
    fs::File,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
};

use crate::{exit::Failure, report, snapshot::Snapshot};

/// The report's place.
#[derive(Debug)]
enum Report {
    Stdout,
    File(File, String),
}

/// All outputs besides the terminal.
#[derive(Debug, Default)]
pub struct Outputs {
    report: Option<Report>,
    /// The port of /metrics.
    pub metrics: Option<TcpListener>,
}

impl Outputs {
    /// Opens what was asked for. `%h` in a file's name is the host's name.
    pub fn open(json: Option<&str>, metrics: Option<SocketAddr>, host: &str) -> Result<Outputs, Failure> {
        let report = match json {
            None => None,
            Some("-") => Some(Report::Stdout),
            Some(name) => {
                let name = name.replace("%h", host);
                let file = File::create(&name)
                    .map_err(|error| Failure::not_there(format!("{name} cannot be written: {error}")))?;
                Some(Report::File(file, name))
            }
        };
        let metrics = metrics.map(|address| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let metrics: io::Result<Option<TcpListener>> = metrics.transpose();
        let metrics = metrics.map_err(|error| {
            Failure::not_there(format!("/metrics cannot be served at the address given: {error}"))
        })?;
        Ok(Outputs { report, metrics })
    }

    /// Whether standard output belongs to the report.
    pub fn report_is_stdout(&self) -> bool {
        matches!(self.report, Some(Report::Stdout))
    }

    /// Writes the report.
    pub fn write(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        let Some(place) = &mut self.report else {
            return Ok(());
        };
        let text = report::render(snapshot).map_err(Failure::no)?;
        match place {
            Report::Stdout => io::stdout().write_all(text.as_bytes()).map_err(Failure::no),
            Report::File(file, name) => file
                .write_all(text.as_bytes())
                .map_err(|error| Failure::no(format!("{name} could not be written: {error}"))),
        }
    }
}
