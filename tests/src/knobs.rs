//! The program `knobs` and the agent, each run by any user with exactly the given capabilities, for the tests
//! of rights and promises. Both run from folders that every user may enter.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::agent::binary;
use crate::line_program::LineProgram;
use crate::lines::{self, Lines, finish, succeed};
use crate::problem::Context;
use crate::wait::SOON;
use crate::{Outcome, Problem, family, mmix, programs};

/// User ids that no machine assigns.
pub const ANA: u32 = 54_321;
/// A second user id.
pub const BEN: u32 = 54_322;

/// A temporary folder that every user may enter.
pub fn open_folder() -> Outcome<TempDir> {
    let folder = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Copies in a child process. If this process had the copy open for writing, a child started by another
/// thread at that time would inherit the descriptor, and executing the copy would fail with ETXTBSY.
fn copy(from: &Path, to: &Path) -> Outcome {
    succeed(Command::new("cp").arg(from).arg(to)).map(drop)
}

/// A running process of `knobs`.
pub struct Knobs {
    program: LineProgram,
    _folder: TempDir,
}

impl Knobs {
    /// Starts it as the current user.
    pub fn start() -> Outcome<Knobs> {
        Knobs::start_with(&[])
    }

    /// Starts it as another user.
    pub fn start_as(uid: u32) -> Outcome<Knobs> {
        Knobs::start_with(&become_user(uid, &[]))
    }

    fn start_with(setpriv: &[String]) -> Outcome<Knobs> {
        let folder = open_folder()?;
        let path = folder.path().join("knobs");
        copy(&programs::c("knobs")?, &path)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(setpriv);
        let mut program = LineProgram::start(command.arg("--").arg(&path))?;
        event("ready", &program.line()?)?;
        Ok(Knobs {
            program,
            _folder: folder,
        })
    }

    /// Process number of the program.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Values of its variables, read by the program itself.
    pub fn values(&mut self) -> Outcome<Value> {
        event("values", &self.program.say("?")?)
    }

    /// Value of `knob`, read by the program itself.
    pub fn knob(&mut self) -> Outcome<i64> {
        Ok(self.values()?["knob"].as_i64().ok_or("no knob")?)
    }

    /// Makes the program change `knob` itself.
    pub fn change(&mut self, value: i64) -> Outcome {
        event("values", &self.program.say(&format!("set {value}"))?).map(drop)
    }

    /// Lets it end by itself and returns its last line.
    pub fn end(&mut self) -> Outcome<Value> {
        self.program.close();
        let end = event("end", &self.program.line()?)?;
        match self.program.end()?.code() {
            Some(0) => Ok(end),
            code => Err(Problem::new(format!("knobs ended with {code:?}"))),
        }
    }

    /// The program's state after so many rounds, computed independently.
    pub fn state_after(rounds: u64) -> String {
        format!("{:016x}", (0..rounds).fold(1u64, |state, _| mmix(state)))
    }
}

/// A line of `knobs`, which must have this event.
fn event(name: &str, line: &str) -> Outcome<Value> {
    let value: Value = serde_json::from_str(line)?;
    match value["event"] == name {
        true => Ok(value),
        false => Err(Problem::new(format!("not the event {name} of knobs: {line}"))),
    }
}

/// Arguments of setpriv for a user with exactly these capabilities (such as `sys_ptrace`).
fn become_user(uid: u32, capabilities: &[&str]) -> Vec<String> {
    let plus: String = capabilities.iter().map(|name| format!(",+{name}")).collect();
    vec![
        format!("--reuid={uid}"),
        format!("--regid={uid}"),
        "--clear-groups".to_owned(),
        format!("--inh-caps=-all{plus}"),
        format!("--ambient-caps=-all{plus}"),
        format!("--bounding-set=-all{plus}"),
    ]
}

/// A user of this machine with a copy of the agent.
pub struct User {
    uid: u32,
    capabilities: Vec<&'static str>,
    /// Copy of the agent that this user may execute.
    pub program: PathBuf,
    folder: TempDir,
}

impl User {
    /// A user with exactly these capabilities, which child processes inherit.
    pub fn new(uid: u32, capabilities: &[&'static str]) -> Outcome<User> {
        let folder = open_folder()?;
        let program = folder.path().join("tuneagent");
        copy(&binary()?, &program)?;
        for name in ["state", "run"] {
            let own = folder.path().join(name);
            fs::create_dir(&own)?;
            fs::set_permissions(&own, fs::Permissions::from_mode(0o700))?;
            std::os::unix::fs::chown(&own, Some(uid), Some(uid))?;
        }
        Ok(User {
            uid,
            capabilities: capabilities.to_vec(),
            program,
            folder,
        })
    }

    /// The same user id with other capabilities.
    pub fn with(&self, capabilities: &[&'static str]) -> Outcome<User> {
        User::new(self.uid, capabilities)
    }

    /// Folder of the sockets of this user's sessions.
    pub fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Creates a file that every user may read.
    pub fn file(&self, name: &str, text: &str) -> Outcome<String> {
        let path = self.folder.path().join(name);
        fs::write(&path, text).context(path.display())?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// A command of the agent as this user.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .args(become_user(self.uid, &self.capabilities));
        // `timeout` ends a command that hangs, with exit code 124.
        command.args(["--", "timeout", "--foreground", "120"]);
        command.arg(&self.program).args(arguments);
        self.surroundings(&mut command, &self.runtime());
        command
    }

    fn surroundings(&self, command: &mut Command, runtime: &Path) {
        command
            .env("TUNEAGENT_STATE_DIR", self.folder.path().join("state"))
            .env("XDG_RUNTIME_DIR", runtime)
            .env_remove("SUDO_UID");
    }

    /// Runs a command to its end. Returns the exit code and the output.
    pub fn run(&self, arguments: &[&str]) -> Outcome<(i32, String)> {
        finish(&mut self.command(arguments))
    }

    /// As `run`, with the socket folder of another user.
    pub fn run_at(&self, runtime: &Path, arguments: &[&str]) -> Outcome<(i32, String)> {
        let mut command = self.command(arguments);
        finish(command.env("XDG_RUNTIME_DIR", runtime))
    }

    /// Starts ranks of an Open MPI program as this user, which spin while they wait. The program gets a
    /// folder of this user.
    pub fn ranks(&self, program: &Path, number: usize) -> Outcome<Running> {
        let here = self.folder.path().join("ranks");
        copy(program, &here)?;
        let hosts = self.file("hosts", "localhost slots=64\n")?;
        let number = number.to_string();
        let launcher = ["mpirun.openmpi", "--hostfile", &hosts, "--bind-to", "none"];
        let flags = ["--mca", "mpi_yield_when_idle", "0", "-n", &number];
        let own = self.own();
        let words = [&*here.to_string_lossy(), &own];
        self.program(&[&launcher[..], &flags, &words].concat())
    }

    /// Starts a process of Debian's NumPy as this user, which multiplies matrices until it is ended.
    pub fn products(&self) -> Outcome<Running> {
        let script = programs::source("products.py");
        let here = self.folder.path().join("products.py");
        // Not copied again, because the first process may still be reading the file: an empty script ends at
        // once with success.
        if !here.exists() {
            copy(&script, &here)?;
        }
        let words = ["/usr/bin/python3", &*here.to_string_lossy(), &self.own(), "160"];
        self.program(&words)
    }

    /// Starts a program of short parallel regions as this user.
    pub fn teams(&self) -> Outcome<Running> {
        let here = self.folder.path().join("teams");
        if !here.exists() {
            copy(&programs::openmp("teams")?, &here)?;
        }
        self.program(&[&*here.to_string_lossy(), &self.own(), "2000"])
    }

    /// A copy of a program, with this name, that this user may execute.
    pub fn copied(&self, program: &Path, name: &str) -> Outcome<String> {
        let here = self.folder.path().join(name);
        copy(program, &here)?;
        Ok(here.to_string_lossy().into_owned())
    }

    /// Starts a shell script as this user, in a folder that this user owns.
    pub fn script(&self, script: &str) -> Outcome<Running> {
        self.program(&["sh", "-c", script])
    }

    /// A folder that this user owns.
    pub fn own(&self) -> String {
        self.folder.path().join("state").to_string_lossy().into_owned()
    }

    /// Starts a program as this user, in a folder that this user owns.
    fn program(&self, words: &[&str]) -> Outcome<Running> {
        let own = self.own();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        command
            .args(become_user(self.uid, &[]))
            .args(["--", "env", "-C", &own]);
        command.args(words).env("HOME", &own).env("TMPDIR", &own);
        follow(command)
    }

    /// Starts a command and reads its output.
    pub fn start(&self, arguments: &[&str]) -> Outcome<Running> {
        follow(self.command(arguments))
    }
}

/// Starts a command and reads its output.
pub fn follow(mut command: Command) -> Outcome<Running> {
    let (child, lines) = lines::follow(&mut command)?;
    Ok(Running { child, lines })
}

/// A running command of a user.
pub struct Running {
    child: Child,
    /// Lines of both output streams.
    pub lines: Lines,
}

impl Running {
    /// Process number of the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `part`. Fails with the exit code if the command ends before.
    pub fn begun(&mut self, part: &str) -> Outcome {
        let Err(problem) = self.lines.wait_for_line(part, SOON) else {
            return Ok(());
        };
        let code = self.lines.has_ended().then(|| self.wait());
        Err(match code {
            Some(Ok(code)) => Problem::new(format!("{problem}\nit ended with {code}")),
            _ => problem,
        })
    }

    /// Waits for the end. Returns the exit code.
    pub fn wait(&mut self) -> Outcome<i32> {
        let code =
            family::wait(&mut self.child, SOON).context(format!("it printed:\n{}", self.lines.text()))?;
        self.lines.wait_for_end(SOON)?;
        Ok(code)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        family::end(&mut self.child, Duration::from_secs(3));
    }
}
