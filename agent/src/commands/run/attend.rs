//! The process that watches a command, and how it is started: directly if we have the rights that probes
//! need, otherwise through sudo, as the same user and with only these rights.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use job::{Discovery, Job, Member};
use probe::kernel::FamilyRoot;
use rustix::process::{getgid, getgroups, getuid};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tuner::Process;

use super::files::{ExpectedFiles, program};
use crate::{
    cli::RunArgs,
    commands::{attach, target},
    exit::{Code, CommandResult, Failure},
    rights,
    session::{Options, Started},
};

/// The message that the probes are attached.
const ARMED: &str = "armed";

/// Environment variables that sudo removes but a session needs, for journals, sockets and messages.
const HANDED_ON: [&str; 9] = [
    "PATH",
    "HOME",
    "LANG",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "TUNEAGENT_STATE_DIR",
    "TUNEAGENT_LOG",
    "NO_COLOR",
    "TERM",
];

/// The order to watch a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WatchRequest {
    /// The process that will become the command.
    pub(super) pid: i32,
    /// Files that its processes are expected to use.
    pub(super) files: ExpectedFiles,
}

/// Handle to the watching process.
pub(super) struct Watcher {
    child: Child,
    /// Open as long as the command runs. Two pipes and no socket, so that sudo does not touch the terminal.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    is_by_sudo: bool,
}

impl Watcher {
    /// Starts it with our own arguments.
    pub(super) fn start() -> Result<Watcher, Failure> {
        let is_by_sudo = !rights::missing_to_probe().is_empty();
        let mut command = match is_by_sudo {
            false => Command::new("/proc/self/exe"),
            true => by_sudo()?,
        };
        command.arg("attend").args(std::env::args_os().skip(2));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(super::not_started)?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| super::not_started("it has no output"))?;
        Ok(Watcher {
            child,
            orders,
            answers: BufReader::new(answers),
            is_by_sudo,
        })
    }

    /// Returns when the probes are attached. On failure the process has reported the reason itself.
    pub(super) fn arm(&mut self, order: &WatchRequest) -> Result<(), Failure> {
        let mut text = serde_json::to_string(order).map_err(super::not_started)?;
        text.push('\n');
        // If it has ended, this fails; the missing answer shows it.
        let _ = self
            .orders
            .as_mut()
            .map(|orders| orders.write_all(text.as_bytes()));
        let mut answer = String::new();
        let _ = self.answers.read_line(&mut answer);
        if answer.trim() == ARMED {
            return Ok(());
        }
        let _ = self.child.wait();
        let mut why = "the command was not started".to_owned();
        if self.is_by_sudo {
            why += &format!(
                ": sudo gave no rights, so there are no probes\nonce, for your own programs: {}",
                rights::give_command()
            );
        }
        Err(Failure::new(Code::NOT_STARTED, why))
    }

    /// Its process id, or that of sudo.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reports that the command has ended.
    pub(super) fn release(&mut self) {
        self.orders = None;
    }

    /// Collects it if it has ended; does not wait.
    pub(super) fn finish(mut self) {
        let _ = self.child.try_wait();
    }
}

/// The `sudo` command line before our own arguments. The user stays the same, with only the capabilities of
/// `rights::capabilities`.
fn by_sudo() -> Result<Command, Failure> {
    let missing = rights::missing_to_probe().join(", ");
    let sudo = program("sudo".as_ref()).map_err(|_| {
        super::not_started(format!(
            "probes need {missing}, which this process does not have, and there is no sudo here\n\
             once, for your own programs, as root: {}",
            rights::give_command_of_root()
        ))
    })?;
    let own = std::env::current_exe().map_err(super::not_started)?;
    let names = rights::capabilities().iter().map(|row| row.name.to_lowercase());
    let plus: Vec<String> = names.map(|name| name.replace("cap_", "+")).collect();
    let plus = plus.join(",");
    let groups = getgroups().unwrap_or_default();
    let groups: Vec<String> = groups.iter().map(|group| group.as_raw().to_string()).collect();
    let mut command = Command::new(sudo);
    command.args(["--", "setpriv"]);
    command.arg(format!("--reuid={}", getuid().as_raw()));
    command.arg(format!("--regid={}", getgid().as_raw()));
    command.arg(match groups.is_empty() {
        true => "--clear-groups".to_owned(),
        false => format!("--groups={}", groups.join(",")),
    });
    command.arg(format!("--inh-caps={plus}"));
    command.arg(format!("--ambient-caps={plus}"));
    command.args(["--", "env"]);
    for name in HANDED_ON {
        if let Some(value) = std::env::var_os(name) {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            command.arg(variable);
        }
    }
    command.arg(own);
    Ok(command)
}

/// Ignores Ctrl-C and Ctrl-\, which reach all processes of the terminal, so that they end only the processes
/// of the command. The session handles signals only once the command has begun.
fn leave_keys_to_the_command() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    // The disposition stays changed for the life of this process, even if the stream is not read.
    drop(signal(SignalKind::interrupt())?);
    drop(signal(SignalKind::quit())?);
    Ok(())
}

pub(in crate::commands) fn attend(args: RunArgs) -> CommandResult {
    let missing = rights::missing_to_probe();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(Failure::not_permitted(format!("probes need {missing}")));
    }
    leave_keys_to_the_command().map_err(Failure::failed)?;
    let mut text = String::new();
    io::stdin().read_line(&mut text).map_err(Failure::invalid)?;
    let order: WatchRequest = serde_json::from_str(&text).map_err(Failure::invalid)?;
    let process = Process::open(order.pid).map_err(Failure::invalid)?;
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    target::may_look(&process, &words.join(" "), false)?;
    // A failure is reported once there is a session.
    let _ = crate::priority::raise();
    let mut discovery = Discovery::default();
    let expected = rights::looking(|| foresee(&mut discovery, &process, &order.files));
    let expected = expected.map_err(Failure::not_permitted)?;
    let root = FamilyRoot {
        pid: order.pid.unsigned_abs(),
        user: process.uid,
        rights: rights::handed_on_by(order.pid).map_err(Failure::invalid)?,
    };
    let program = expected.last().map_or_else(|| "?".to_owned(), Member::program);
    let options = Options {
        typed: order.pid.to_string(),
        started: Some(Started {
            process: process.clone(),
            root,
            expected,
            no_member: Discovery::no_member().map_err(Failure::invalid)?,
        }),
        ..attach::compared(&args.watch)?
    };
    let rules = attach::rules(&args.watch, true)?;
    let watched = attach::Watched {
        job: Job::of_command(process),
        discovery,
        rules,
        program,
        // The processes have not begun, so no numbers are urgent.
        real_time: None,
        nodes: None,
    };
    // If the parent is gone, the message is lost; but then the input has ended, and the session ends too.
    let armed = || {
        say!("{ARMED}");
        Ok(())
    };
    watched.watch(args.watch, options, armed)
}

/// The expected processes: one for each program, and one with the MPI of the launcher if no program has an
/// MPI.
fn foresee(discovery: &mut Discovery, process: &Process, files: &ExpectedFiles) -> Vec<Member> {
    let programs = files.programs.iter();
    let mut expected: Vec<Member> = programs
        .filter_map(|files| discovery.expected(process, files))
        .collect();
    let has_mpi = expected.iter().any(|member| member.mpi.is_some());
    if let (Some(launcher), false) = (&files.launcher, has_mpi) {
        let candidates = files.mpi.iter();
        let mut candidates =
            candidates.filter_map(|path| discovery.expected(process, std::slice::from_ref(path)));
        expected.extend(candidates.find(|member| {
            let mpi = member.mpi.as_ref();
            mpi.is_some_and(|mpi| starts(launcher, mpi.implementation.name))
        }));
    }
    expected
}

/// Whether a launcher, by its file name, starts programs of this MPI. Generic launchers return false.
fn starts(launcher: &str, implementation: &str) -> bool {
    let is = |names: &[&str]| names.iter().any(|name| launcher.contains(name));
    match implementation {
        "Open MPI" => is(&["orte", "prte", "openmpi"]),
        _ => is(&["hydra", "mpich"]),
    }
}

#[cfg(test)]
mod tests {
    use super::starts;

    #[test]
    fn a_launcher_starts_programs_of_its_own_mpi() {
        for (launcher, implementation, expected) in [
            ("orterun", "Open MPI", true),
            ("prterun", "Open MPI", true),
            ("mpiexec.hydra", "Open MPI", false),
            ("mpiexec.hydra", "MPICH", true),
            ("mpiexec.hydra", "Intel MPI", true),
            ("orterun", "MPICH", false),
            ("srun", "MPICH", false),
        ] {
            assert_eq!(
                starts(launcher, implementation),
                expected,
                "{launcher}, {implementation}"
            );
        }
    }
}
