//! Starts programs as users do, under an MPI launcher or alone, reads their output by line, and always ends
//! them.
//!
//! Knows each MPI's flags for more ranks than cores. Does not know the agent.

use std::fs;
use std::os::unix::{fs::PermissionsExt, process::CommandExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::lines::{Lines, follow};
use crate::problem::Context;
use crate::wait::{SOON, wait_until};
use crate::{Outcome, Problem, family, programs};

/// The MPI implementation of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mpi {
    /// Open MPI: waiting ranks spin, and yield the CPU only if a parameter is set.
    OpenMpi,
    /// MPICH: waiting ranks spin; there is no parameter.
    Mpich,
}

/// How waiting ranks behave on shared CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waiting {
    /// They keep the CPU, which the run-time rules repair.
    Spinning,
    /// They yield the CPU to other ranks.
    Yielding,
}

impl Mpi {
    /// All supported MPI implementations.
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        }
    }

    pub(crate) fn compiler(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "mpicc.openmpi",
            Mpi::Mpich => "mpicc.mpich",
        }
    }

    /// A complete command line, in which Open MPI's waiting ranks yield. Its host file is in `folder`.
    pub fn command(
        self,
        ranks: usize,
        folder: &Path,
        program: &Path,
        arguments: &[&str],
    ) -> Outcome<Vec<String>> {
        let mut words = self.launcher(ranks, Waiting::Yielding, folder)?;
        words.push(program.to_string_lossy().into_owned());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        Ok(words)
    }

    pub(crate) fn compiler_of_cxx(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "mpicxx.openmpi",
            Mpi::Mpich => "mpicxx.mpich",
        }
    }

    pub(crate) fn compiler_of_fortran(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "mpif90.openmpi",
            Mpi::Mpich => "mpif90.mpich",
        }
    }

    /// The launcher's command line up to the program. Open MPI counts a core as a slot, refuses more ranks
    /// than slots, and refuses to run as root: hence the host file in `folder` and the flags.
    fn launcher(self, ranks: usize, waiting: Waiting, folder: &Path) -> Outcome<Vec<String>> {
        let mut words: Vec<String> = Vec::new();
        match self {
            Mpi::Mpich => words.push("mpirun.mpich".into()),
            Mpi::OpenMpi => {
                let hosts = folder.join("hosts");
                fs::write(&hosts, "localhost slots=64\n").context(hosts.display())?;
                words.push("mpirun.openmpi".into());
                if rustix::process::geteuid().is_root() {
                    words.push("--allow-run-as-root".into());
                }
                let yields = if waiting == Waiting::Yielding { "1" } else { "0" };
                let hosts = hosts.to_string_lossy();
                let flags = format!("--hostfile {hosts} --bind-to none --mca mpi_yield_when_idle {yields}");
                words.extend(flags.split(' ').map(str::to_owned));
            }
        }
        words.extend(["-n".to_owned(), ranks.to_string()]);
        Ok(words)
    }
}

/// A running program. It and all its descendants are ended on drop.
pub struct Job {
    child: Child,
    /// Lines of both output streams.
    pub lines: Lines,
    folder: TempDir,
    command: String,
}

impl Job {
    /// Starts a program under MPI. `arguments` gets the folder of the job, in which gates are files.
    pub fn mpi(
        mpi: Mpi,
        waiting: Waiting,
        ranks: usize,
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        Job::mpi_under(&[], (mpi, waiting), ranks, program, arguments)
    }

    /// As `mpi`, with additional environment variables for the ranks (`NAME=VALUE`).
    pub fn mpi_under(
        environment: &[String],
        (mpi, waiting): (Mpi, Waiting),
        ranks: usize,
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        let folder = tempfile::tempdir()?;
        let mut words = mpi.launcher(ranks, waiting, folder.path())?;
        if (mpi, waiting) == (Mpi::Mpich, Waiting::Yielding) {
            // MPICH has no such parameter. The preloaded library does what the rule mpich-busy-wait does.
            let library = programs::library("yielding", 1)?;
            words.splice(1..1, ["-genv", "LD_PRELOAD"].map(str::to_owned));
            words.insert(3, library.to_string_lossy().into_owned());
        }
        if !environment.is_empty() {
            words.push("env".to_owned());
            words.extend(environment.iter().cloned());
        }
        words.push(program.to_string_lossy().into_owned());
        words.extend(arguments(folder.path()));
        Job::start(words, folder)
    }

    /// Starts a program without MPI.
    pub fn alone(program: &Path, arguments: impl FnOnce(&Path) -> Vec<String>) -> Outcome<Job> {
        let folder = tempfile::tempdir()?;
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(arguments(folder.path()));
        Job::start(words, folder)
    }

    /// Starts a program under MPICH on several nodes. The nodes are on this machine but have different host
    /// names, and their ranks are not children of the launcher, as if they had been started over a network.
    pub fn on_nodes(
        nodes: &[&str],
        ranks_each: usize,
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        let folder = tempfile::tempdir()?;
        // Called as `ssh -x HOST COMMAND...`. The shell stays, so that the ranks of a node have a launcher of
        // their own.
        let shell = folder.path().join("remote-shell");
        let text = "#!/bin/sh\nwhile [ \"$1\" = -x ]; do shift; done\nexport NODE=\"$1\"\nshift\n\
            unshare --uts sh -c 'hostname \"$NODE\"; eval \"$*\"; exit $?' node \"$@\"\n";
        fs::write(&shell, text).context(shell.display())?;
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).context(shell.display())?;
        let hosts: Vec<String> = nodes.iter().map(|node| format!("{node}:{ranks_each}")).collect();
        let count = (nodes.len() * ranks_each).to_string();
        let shell = shell.to_string_lossy();
        let launcher = format!("mpirun.mpich -localhost 127.0.0.1 -launcher ssh -launcher-exec {shell}");
        let mut words: Vec<String> = launcher.split(' ').map(str::to_owned).collect();
        words.extend(["-hosts".to_owned(), hosts.join(","), "-n".to_owned(), count]);
        words.push(program.to_string_lossy().into_owned());
        words.extend(arguments(folder.path()));
        Job::start(words, folder)
    }

    /// Starts a program under another launcher, given by its command line.
    pub(crate) fn by(
        mut words: Vec<String>,
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        let folder = tempfile::tempdir()?;
        words.push(program.to_string_lossy().into_owned());
        words.extend(arguments(folder.path()));
        Job::start(words, folder)
    }

    fn start(words: Vec<String>, folder: TempDir) -> Outcome<Job> {
        // setpriv: if this process is killed, the launcher gets SIGTERM and ends its ranks.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "--"])
            .args(&words)
            .current_dir(folder.path());
        // A separate process group: Ctrl-C at a terminal reaches only this process, which ends the job in
        // order.
        let (child, lines) = follow(command.process_group(0))?;
        // An agent that is attached at once must find the launcher, and not setpriv.
        let name = format!("/proc/{}/comm", child.id());
        wait_until("the launcher in place of setpriv", SOON, || {
            Ok(fs::read_to_string(&name).is_ok_and(|name| name.trim() != "setpriv"))
        })?;
        Ok(Job {
            child,
            lines,
            folder,
            command: words.join(" "),
        })
    }

    /// Process number of the launcher, or of the program if it runs alone.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command line as text.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Stops all processes of the job until `resume`.
    pub fn pause(&self) -> Outcome {
        family::signal_all(&self.child, Signal::STOP)
    }

    /// Continues all processes of the job.
    pub fn resume(&self) -> Outcome {
        family::signal_all(&self.child, Signal::CONT)
    }

    /// Opens a gate: programs wait for files in the job's folder.
    pub fn open(&self, gate: &str) -> Outcome {
        let file = self.folder.path().join(gate);
        fs::write(&file, "").context(file.display())
    }

    /// Path of a file in the job's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for `count` JSON lines with this "event" and returns them in rank order.
    pub fn events(&self, event: &str, count: usize, within: Duration) -> Outcome<Vec<Value>> {
        let found = self.lines.events(event, count, within);
        let mut found = found.context(&self.command)?;
        found.sort_by_key(|value| value["rank"].as_u64());
        Ok(found)
    }

    /// Opens the gate at the program's end and waits until it has ended.
    pub fn end(&mut self, within: Duration) -> Outcome {
        self.open("end")?;
        self.finish(within)
    }

    /// Waits until the program has ended by itself with exit code 0.
    pub fn finish(&mut self, within: Duration) -> Outcome {
        let code = family::wait(&mut self.child, within).context(&self.command)?;
        self.lines.wait_for_end(Duration::from_secs(5))?;
        match code {
            0 => Ok(()),
            _ => Err(Problem::new(format!(
                "{} ended with {code}:\n{}",
                self.command,
                self.lines.text()
            ))),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        family::end_launcher(&mut self.child, Duration::from_secs(3));
    }
}
