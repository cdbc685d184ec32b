//! `tuneagent run`: starts a command as the user and in the user's environment, has it watched from its first
//! instruction on, and exits with its status. This process measures nothing: `attend` is a separate process,
//! with the rights for that.

mod attend;
mod environment;
mod files;
mod gate;

use std::{
    error::Error,
    fs::File,
    os::unix::process::ExitStatusExt,
    process::{Child, ExitStatus},
    task::Poll,
    time::Duration,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

pub(super) use self::{attend::attend, environment::Environment, gate::pass};
use self::{
    attend::{WatchRequest, Watcher},
    files::ExpectedFiles,
    gate::Gate,
};
use crate::{
    cli::RunArgs,
    exit::{Code, CommandResult, Failure},
    readable::Readable,
};

pub(super) fn run(args: &RunArgs, environment: &Environment) -> CommandResult {
    refuse_sudo()?;
    if args.watch.json.as_deref() == Some("-") {
        let why = "standard output is the command's: name a file for the report";
        return Err(Failure::new(Code::NOT_STARTED, why));
    }
    let program = args.command.first().map(|word| files::program(word));
    program.transpose()?;
    let gate = Gate::start(&args.command, environment).map_err(not_started)?;
    let files = ExpectedFiles::of(&args.command, environment);
    let order = WatchRequest {
        pid: gate.pid(),
        files,
    };
    let mut watcher = Watcher::start()?;
    watcher.arm(&order)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::failed)?;
    // A key that is pressed as soon as the command prints something must not end this process before the
    // command.
    let passed_on = runtime.block_on(async { SignalForwarder::new() });
    let passed_on = passed_on.map_err(Failure::failed)?;
    let command = gate.open().map_err(not_started)?;
    let status = runtime
        .block_on(accompany(command, watcher, passed_on))
        .map_err(Failure::failed)?;
    Ok(Code::Command(code_of(status)))
}

fn not_started(error: impl Into<Box<dyn Error>>) -> Failure {
    Failure::new(Code::NOT_STARTED, "the command was not started").caused_by(&*error.into())
}

/// Under sudo the command would run as root, without the modules, paths and environment of the user.
fn refuse_sudo() -> Result<(), Failure> {
    let user = std::env::var("SUDO_USER").ok().filter(|user| user != "root");
    let Some(user) = user.filter(|_| geteuid().is_root()) else {
        return Ok(());
    };
    let line = crate::hint::as_typed("tuneagent");
    Err(Failure::new(
        Code::NOT_STARTED,
        format!(
            "not under sudo: the command would run as root and without {user}'s environment. Type\n  {line}\n\
             as {user}: sudo is called for the probes alone, where they need it"
        ),
    ))
}

/// The exit code as a shell reports it.
fn code_of(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(of_signal)).unwrap_or(u8::MAX)
}

/// Signals from keys that end a command may arrive only after its end.
const KEYS_LATE: Duration = Duration::from_millis(200);

/// Waits for the command, and then for the report. The command is collected last: until then the session can
/// read what it did until its end.
async fn accompany(
    mut command: Child,
    mut watcher: Watcher,
    mut passed_on: SignalForwarder,
) -> std::io::Result<ExitStatus> {
    let ended = Readable::end_of(command.id().cast_signed())?;
    let unattended = Readable::end_of(watcher.pid().cast_signed())?;
    let mut is_attended = true;
    loop {
        tokio::select! {
            biased;
            _ = ended.wait() => break,
            signal = passed_on.next() => passed_on.pass(signal, command.id()),
            _ = unattended.wait(), if is_attended => {
                is_attended = false;
                warn!("the session has ended; the command continues without it");
            }
        }
    }
    watcher.release();
    let late = tokio::time::Instant::now() + KEYS_LATE;
    loop {
        tokio::select! {
            _ = unattended.wait(), if is_attended => break,
            _ = passed_on.next(), if is_attended => if tokio::time::Instant::now() > late {
                warn!("the report was not waited for");
                break;
            },
            else => break,
        }
    }
    watcher.finish();
    command.wait()
}

/// Signals that are passed to the command. Those of the terminal's keys reach it anyway.
struct SignalForwarder {
    streams: Vec<(Signals, Signal)>,
    has_terminal: bool,
}

impl SignalForwarder {
    fn new() -> std::io::Result<SignalForwarder> {
        let kinds = [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ];
        let streams = kinds.into_iter().map(|(kind, of)| Ok((signal(kind)?, of)));
        Ok(SignalForwarder {
            streams: streams.collect::<std::io::Result<_>>()?,
            has_terminal: File::open("/dev/tty").is_ok(),
        })
    }

    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let mut streams = self.streams.iter_mut();
            let ready =
                streams.find_map(|(stream, signal)| stream.poll_recv(context).is_ready().then_some(*signal));
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn pass(&self, signal: Signal, to: u32) {
        let is_of_keys = signal == Signal::INT || signal == Signal::QUIT;
        if let Some(pid) = Pid::from_raw(to as i32).filter(|_| !is_of_keys || !self.has_terminal) {
            // If it has ended meanwhile, no signal is needed.
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_the_code_that_a_shell_gives() {
        for (raw, code) in [(0, 0), (7 << 8, 7), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(code_of(ExitStatus::from_raw(raw)), code);
        }
    }
}
