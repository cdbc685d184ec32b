//! The program under test: starts `tuneagent` as a user would, sends it signals, reads its output and its
//! report.
//!
//! The binary is TUNEAGENT_BIN if set, else the one given to `take`, else the one in the target directory of
//! the running test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::lines::{Lines, finish, follow};
use crate::problem::Context;
use crate::{Outcome, Problem, family, programs};

static TAKEN: OnceLock<PathBuf> = OnceLock::new();

/// Uses this binary from now on, unless TUNEAGENT_BIN is set. The first call wins.
pub fn take(binary: PathBuf) {
    TAKEN.get_or_init(|| binary);
}

/// Path of the program under test.
pub fn binary() -> Outcome<PathBuf> {
    if let Some(given) = std::env::var_os("TUNEAGENT_BIN") {
        return Ok(PathBuf::from(given));
    }
    if let Some(taken) = TAKEN.get() {
        return Ok(taken.clone());
    }
    let file = programs::target_folder()?.join("tuneagent");
    if file.exists() {
        return Ok(file);
    }
    let file = file.display();
    Err(Problem::new(format!(
        "{file} is not there: build it first (cargo build), or set TUNEAGENT_BIN"
    )))
}

/// A running agent, which is killed on drop.
pub struct Agent {
    child: Child,
    /// Lines of both output streams.
    pub lines: Lines,
    folder: TempDir,
}

/// A command that enters the namespaces of the process `node`.
fn enter(node: &str) -> [&str; 8] {
    [
        "nsenter", "--pid", "--mount", "--uts", "--net", "--target", node, "--",
    ]
}

impl Agent {
    /// Starts `tuneagent attach PID --plain --json FILE FLAGS…`.
    pub fn attach(pid: u32, flags: &[&str]) -> Outcome<Agent> {
        Agent::attach_in(None, pid, flags)
    }

    /// As `attach`; returns when all probes are attached.
    pub fn attach_armed(pid: u32, flags: &[&str]) -> Outcome<Agent> {
        let agent = Agent::attach(pid, flags)?;
        agent.armed()?;
        Ok(agent)
    }

    /// As `attach`, with the journals in `state`. Without a budget, unless the flags have one.
    pub fn attach_in(state: Option<&Path>, pid: u32, flags: &[&str]) -> Outcome<Agent> {
        Agent::attach_by(&[], state, &pid.to_string(), flags)
    }

    /// As `attach`; the command `by` executes the agent.
    pub fn attach_under(by: &[&str], pid: u32, flags: &[&str]) -> Outcome<Agent> {
        Agent::attach_by(by, None, &pid.to_string(), flags)
    }

    /// As `attach`, in the UTS namespace of that process, so that the agent runs on the same node by its host
    /// name.
    pub fn attach_on_its_node(pid: u32, flags: &[&str]) -> Outcome<Agent> {
        let target = pid.to_string();
        Agent::attach_by(
            &["nsenter", "--uts", "--target", &target, "--"],
            None,
            &target,
            flags,
        )
    }

    /// As `attach`, in the namespaces of the process `node`; `target` is the process number in that
    /// namespace.
    pub fn attach_in_node(node: u32, target: &str, flags: &[&str]) -> Outcome<Agent> {
        Agent::attach_in_node_by(node, &[], target, flags)
    }

    /// As `attach_in_node`; there the command `by` executes the agent.
    pub fn attach_in_node_by(node: u32, by: &[&str], target: &str, flags: &[&str]) -> Outcome<Agent> {
        let node = node.to_string();
        let words = [&enter(&node)[..], by].concat();
        Agent::attach_by(&words, None, target, flags)
    }

    fn attach_by(by: &[&str], state: Option<&Path>, target: &str, flags: &[&str]) -> Outcome<Agent> {
        let folder = tempfile::tempdir()?;
        let report = text(&folder.path().join("report.json"));
        let arguments = ["attach", target, "--plain", "--json", &report];
        let arguments = [&arguments[..], flags, budget(flags)].concat();
        Agent::start_by(by, &arguments, folder, state)
    }

    /// Runs a command in the namespaces of `node` to its end. Returns the exit code and the output.
    pub fn run_in_node(node: u32, arguments: &[&str]) -> Outcome<(i32, String)> {
        let folder = tempfile::tempdir()?;
        let mut agent = Agent::start_by(&enter(&node.to_string()), arguments, folder, None)?;
        let code = agent.wait(Duration::from_secs(60))?;
        Ok((code, agent.lines.text()))
    }

    /// Starts a command in the namespaces of `node`.
    pub fn start_in_node(node: u32, arguments: &[&str]) -> Outcome<Agent> {
        Agent::start_by(&enter(&node.to_string()), arguments, tempfile::tempdir()?, None)
    }

    /// Sends a signal to the agent of a node: `nsenter` does not pass it on.
    pub fn signal_in_node(&self, command: &str, signal: Signal) -> Outcome {
        let members = family::descendants(self.pid());
        let member = members.iter().find(|member| member.has_word(command));
        member.ok_or("the agent of the node has ended")?.signal(signal);
        Ok(())
    }

    /// Actuators of this agent. The process that writes the report file is not one of them.
    pub fn actuators(&self) -> Vec<family::Member> {
        let mut members = family::descendants(self.pid());
        members.retain(|member| member.has_word("actuator"));
        members
    }

    /// Starts `tuneagent run --json FILE FLAGS… -- COMMAND…`, without a budget, unless the flags have one.
    pub fn starting(flags: &[&str], command: &[String]) -> Outcome<Agent> {
        let folder = tempfile::tempdir()?;
        let report = text(&folder.path().join("report.json"));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let arguments = [
            &["run", "--json", &report],
            flags,
            budget(flags),
            &["--"],
            &command,
        ]
        .concat();
        Agent::start_by(&[], &arguments, folder, None)
    }

    /// Starts a command of the agent with these arguments.
    pub fn command(arguments: &[&str]) -> Outcome<Agent> {
        Agent::command_in(None, arguments)
    }

    /// As `command`, with the journals in `state`.
    pub fn command_in(state: Option<&Path>, arguments: &[&str]) -> Outcome<Agent> {
        Agent::start_by(&[], arguments, tempfile::tempdir()?, state)
    }

    /// Runs a command to its end, with the journals in `state`. Returns the exit code and the output.
    pub fn run_in(state: &Path, arguments: &[&str]) -> Outcome<(i32, String)> {
        Agent::run_by(&[], state, arguments)
    }

    /// Runs a command that must succeed. Returns the output.
    pub fn succeed(arguments: &[&str]) -> Outcome<String> {
        succeeded(arguments, Agent::run(arguments)?)
    }

    /// As `succeed`, with the journals in `state`.
    pub fn succeed_in(state: &Path, arguments: &[&str]) -> Outcome<String> {
        succeeded(arguments, Agent::run_in(state, arguments)?)
    }

    /// Value of a variable by process, from the output of `get`.
    pub fn values_in(state: &Path, pid: &str, variable: &str) -> Outcome<BTreeMap<u32, i64>> {
        let text = Agent::succeed_in(state, &["get", pid, variable])?;
        let value = |line: &str| {
            let (process, rest) = line.split_once(&format!("  {variable} = "))?;
            let value = rest.split(' ').next()?.parse().ok()?;
            Some((process.trim().parse().ok()?, value))
        };
        Ok(text.lines().filter_map(value).collect())
    }

    /// Runs a command to its end; the command `by` executes the agent.
    fn run_by(by: &[&str], state: &Path, arguments: &[&str]) -> Outcome<(i32, String)> {
        // `timeout` ends a command that hangs, with exit code 124.
        let mut command = Command::new("timeout");
        command.arg("120").args(by).arg(binary()?).args(arguments);
        finish(command.env("TUNEAGENT_STATE_DIR", state))
    }

    /// As `run_in`, with a limit on file descriptors.
    pub fn run_with_descriptors(
        descriptors: u32,
        state: &Path,
        arguments: &[&str],
    ) -> Outcome<(i32, String)> {
        let limit = format!("--nofile={descriptors}");
        Agent::run_by(&["prlimit", &limit], state, arguments)
    }

    /// Runs a command to its end, with new journals. Returns the exit code and the output.
    pub fn run(arguments: &[&str]) -> Outcome<(i32, String)> {
        Agent::run_in(tempfile::tempdir()?.path(), arguments)
    }

    /// Starts the agent; the command `by` executes it.
    fn start_by(by: &[&str], arguments: &[&str], folder: TempDir, state: Option<&Path>) -> Outcome<Agent> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(by);
        command.arg(binary()?).args(arguments);
        // Journals of a test must not mix with those of other tests or of the user.
        command
            .env("TUNEAGENT_STATE_DIR", state.unwrap_or(folder.path()))
            .env("XDG_STATE_HOME", folder.path())
            .env("XDG_RUNTIME_DIR", folder.path());
        let (child, lines) = follow(command.process_group(0))?;
        Ok(Agent { child, lines, folder })
    }

    /// Waits until all probes are attached.
    pub fn armed(&self) -> Outcome {
        let armed = |lines: &[crate::lines::Line]| {
            lines
                .iter()
                .any(|line| line.text.starts_with("armed"))
                .then_some(())
        };
        self.lines
            .wait_for("the agent to be armed", Duration::from_secs(30), armed)
    }

    /// Folder of its socket and its report.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process number of the agent.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs `tuneagent session VERB PID ARGUMENTS…` for this session. Returns the exit code and the output.
    pub fn request(&self, verb: &str, arguments: &[&str]) -> Outcome<(i32, String)> {
        self.request_to(self.pid(), verb, arguments)
    }

    /// As `request`, for a session that this one has started: the number of its process, or of a program that it
    /// watches.
    pub fn request_to(&self, session: u32, verb: &str, arguments: &[&str]) -> Outcome<(i32, String)> {
        let mut command = Command::new("timeout");
        command.arg("120").arg(binary()?);
        command
            .args(["session", verb, &session.to_string()])
            .args(arguments);
        finish(command.env("XDG_RUNTIME_DIR", self.folder.path()))
    }

    /// The current report of the session.
    pub fn snapshot(&self) -> Outcome<Value> {
        match self.request("snapshot", &[])? {
            (0, text) => Ok(serde_json::from_str(&text)?),
            (code, text) => Err(Problem::new(format!("snapshot: {code}: {text}"))),
        }
    }

    /// Sends a signal to the agent only.
    pub fn signal(&self, signal: Signal) -> Outcome {
        family::signal(&self.child, signal)
    }

    /// Stops the agent and all its descendants until `resume`.
    pub fn pause(&self) -> Outcome {
        family::signal_all(&self.child, Signal::STOP)
    }

    /// Continues the agent and all its descendants.
    pub fn resume(&self) -> Outcome {
        family::signal_all(&self.child, Signal::CONT)
    }

    /// Waits for the end. Returns the exit code, or 128 + the signal.
    pub fn wait(&mut self, within: Duration) -> Outcome<i32> {
        let code = family::wait(&mut self.child, within)
            .context(format!("tuneagent; it printed:\n{}", self.lines.text()))?;
        // The last lines may arrive later: the actuator keeps the stream open until it has ended, too.
        self.lines.wait_for_end(within)?;
        Ok(code)
    }

    /// Sends SIGINT and returns the report. Fails unless the exit code is 0.
    pub fn stop(&mut self) -> Outcome<Value> {
        self.signal(Signal::INT)?;
        self.finish(Duration::from_secs(30))
    }

    /// Waits for the end with exit code 0 and returns the report.
    pub fn finish(&mut self, within: Duration) -> Outcome<Value> {
        self.finish_with(within, &[0])
    }

    /// As `finish`, with one of these exit codes; 1 means that a change was reverted.
    pub fn finish_with(&mut self, within: Duration, codes: &[i32]) -> Outcome<Value> {
        match self.wait(within)? {
            code if codes.contains(&code) => self.report(),
            code => Err(Problem::new(format!(
                "tuneagent ended with {code}:\n{}",
                self.lines.text()
            ))),
        }
    }

    fn report(&self) -> Outcome<Value> {
        let file = self.folder.path().join("report.json");
        let text = fs::read_to_string(&file).context("the agent left no report")?;
        let report: Value = serde_json::from_str(&text)?;
        match report["schema"].as_str() {
            Some("tuneagent.report/1") => Ok(report),
            other => Err(Problem::new(format!("the report's schema is {other:?}"))),
        }
    }
}

/// Tests compare every call. An unoptimised build costs more than the default budget permits.
fn budget(flags: &[&str]) -> &'static [&'static str] {
    let is_stated = flags.contains(&"--budget");
    if is_stated { &[] } else { &["--budget", "none"] }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Drop for Agent {
    fn drop(&mut self) {
        family::end(&mut self.child, Duration::from_secs(5));
    }
}

fn succeeded(arguments: &[&str], (code, text): (i32, String)) -> Outcome<String> {
    match code {
        0 => Ok(text),
        _ => Err(Problem::new(format!("{arguments:?} ended with {code}:\n{text}"))),
    }
}
