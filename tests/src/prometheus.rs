//! A real Prometheus server for a test, on a free port and with its own folder, queried through its HTTP API.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::lines::{Lines, follow};
use crate::problem::Context;
use crate::{Outcome, Problem, each, family};

/// Maximum time for a page, a scrape or a query.
const PATIENCE: Duration = Duration::from_secs(30);

/// Folder of the files that the repository has for Prometheus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/prometheus")
}

/// A running Prometheus, which is killed on drop.
pub struct Prometheus {
    child: Child,
    lines: Lines,
    address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it with the shipped configuration, changed to these agents and to a scrape interval of 2 s: it is also how
    /// long an answer may take, and on a busy machine the session of another user has taken more than 1 s.
    pub fn start(agents: &[SocketAddr]) -> Outcome<Prometheus> {
        let folder = tempfile::tempdir()?;
        let targets: Vec<String> = agents.iter().map(|agent| format!("\"{agent}\"")).collect();
        for entry in fs::read_dir(self::folder()).context(self::folder().display())? {
            let file = entry?.path();
            let name = file.file_name().ok_or("a file without a name")?;
            let text = fs::read_to_string(&file).context(file.display())?;
            let text = text
                .replace("\"127.0.0.1:9477\"", &targets.join(", "))
                .replace("_interval: 5s", "_interval: 2s");
            fs::write(folder.path().join(name), text)?;
        }
        let address = free_address()?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "prometheus"])
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let (child, lines) = follow(&mut command)?;
        lines.wait_for_line("Server is ready", PATIENCE)?;
        Ok(Prometheus {
            child,
            lines,
            address,
            _folder: folder,
        })
    }

    /// The field `data` of an API response.
    pub fn get(&self, path: &str) -> Outcome<Value> {
        let (status, body) = get(self.address, path)?;
        let answer: Value = serde_json::from_str(&body).context(format!("{path}: {status}: {body}"))?;
        if answer["status"] != "success" {
            return Err(Problem::new(format!("{path}: {answer}")));
        }
        Ok(answer["data"].clone())
    }

    /// Series that a query returns now.
    pub fn query(&self, query: &str) -> Outcome<Vec<Value>> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(query)))?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Values of a label of a metric, as for a variable of a dashboard.
    pub fn label_values(&self, metric: &str, label: &str) -> Outcome<Vec<String>> {
        let data = self.get(&format!(
            "/api/v1/label/{label}/values?match[]={}",
            encoded(metric)
        ))?;
        let values = each(&data);
        Ok(values.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Its log output, for error messages.
    pub fn said(&self) -> String {
        self.lines.text()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        family::end(&mut self.child, Duration::from_secs(5));
    }
}

/// An address on which no process listens now.
pub fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Status line and body of a page.
pub fn get(address: SocketAddr, path: &str) -> Outcome<(String, String)> {
    let mut stream = TcpStream::connect(address).context(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0, so that the body is not chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context(path)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no end of the head")?;
    Ok((head.to_owned(), body.to_owned()))
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        // Writing into a String does not fail.
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}

/// Runs `promtool ARGUMENTS` with a text as input. Returns the output; fails if promtool reports an error.
pub fn promtool(arguments: &[&str], input: &str) -> Outcome<String> {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start promtool")?;
    child
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(Problem::new(format!("promtool {}:\n{text}", arguments.join(" ")))),
    }
}
