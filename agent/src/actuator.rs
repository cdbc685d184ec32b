//! Starts the actuator process, and describes how it made a change.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use plan::SyncPoint;
use probe::kernel::LinkChoice;
use probe::{KernelRendezvous, Prepared, RendezvousError};
use profile::error::ErrorText;
use profile::format::{duration, plural};
use tuner::actuator::{ActuatorClient, ClientError, Hello, Orphaned, RendezvousSource, ServeOptions};
use tuner::journal::{Mechanism, StateDir};
use tuner::rendezvous::Rendezvous;
use tuner::{Author, HoldStatistics};

use crate::{
    heap,
    rights::{self, ProgramPart},
};

/// An actuator that does not answer within this time is considered dead, and gets no more requests. If ranks
/// spin on too few CPUs, which is what rules repair, it waits its turn at every thread that it holds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

const SYNC: &str = "--sync";

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the actuator could not be started")]
    Spawn(#[from] io::Error),
    /// It did not complete the handshake.
    #[error("the actuator did not begin")]
    Begin(#[from] ClientError),
    /// There is no folder for the journal.
    #[error(transparent)]
    Journal(#[from] tuner::journal::JournalError),
}

/// Why the actuator's own process ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Rights(#[from] rights::RightsError),
    /// It has no stream.
    #[error(transparent)]
    Stream(#[from] io::Error),
    #[error(transparent)]
    Served(#[from] tuner::actuator::ServeError),
}

/// The purpose of an actuator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOptions {
    /// Leave confirmed changes in place at the end.
    pub keeps: bool,
    /// Changes at sync points are possible.
    pub has_sync_points: bool,
    /// Another process reverts the changes if the actuator is killed.
    pub has_stand_in: bool,
}

/// A running actuator. When this is dropped, the actuator reverts all unconfirmed changes and ends.
#[derive(Debug)]
pub(crate) struct Actuator {
    /// The connection for requests.
    pub client: ActuatorClient,
    stream: UnixStream,
    child: Child,
}

impl Actuator {
    /// Starts an actuator. Must be called before the right to write is dropped.
    pub(crate) fn start(options: StartOptions) -> Result<Actuator, StartError> {
        Actuator::start_in(StateDir::usual()?.path().to_owned(), options)
    }

    /// Starts an actuator for changes by hand, which stay in place. With `despite_seccomp` it calls functions
    /// regardless of the program's seccomp filters.
    pub(crate) fn by_hand(despite_seccomp: bool) -> Result<Actuator, StartError> {
        let hello = Hello {
            keep: true,
            despite_seccomp,
            state_dir: StateDir::usual()?.path().to_owned(),
            who: Author::current(),
        };
        let options = StartOptions {
            keeps: true,
            has_sync_points: false,
            has_stand_in: false,
        };
        Actuator::begin(hello, options)
    }

    /// As `start`, with the journals in this folder.
    pub(crate) fn start_in(state_dir: PathBuf, options: StartOptions) -> Result<Actuator, StartError> {
        let hello = Hello {
            keep: options.keeps,
            despite_seccomp: false,
            state_dir,
            who: Author::current(),
        };
        Actuator::begin(hello, options)
    }

    fn begin(hello: Hello, options: StartOptions) -> Result<Actuator, StartError> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let child = Command::new("/proc/self/exe")
            .arg("actuator")
            .args(options.has_sync_points.then_some(SYNC))
            .args(options.has_stand_in.then_some("--guarded"))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // A separate process group, so that Ctrl-C on the terminal reaches only the agent, which then
            // ends the stream.
            .process_group(0)
            .spawn()?;
        let stream = ours.try_clone()?;
        let client = ActuatorClient::begin(ours, hello)?;
        Ok(Actuator {
            client,
            stream,
            child,
        })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// A duplicate of its stream. When that is shut down, the actuator reverts all unconfirmed changes and
    /// ends.
    pub(crate) fn stream(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }

    /// Ends the session: reverts all changes that do not stay.
    pub(crate) fn finish(mut self) -> Result<tuner::actuator::RevertSummary, ClientError> {
        let summary = self.client.shutdown();
        // Either the actuator has answered and is about to end, or its stream has ended and it reverts what
        // it can. It is not waited for if it hangs.
        let given_up = Instant::now() + ANSWER_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        summary
    }
}

/// The main function of the actuator process: serves the stream on its standard input until that ends. With
/// `sync` it is prepared for changes at sync points; without, it has given up the right to probe.
pub(crate) fn serve(sync: bool, has_stand_in: bool) -> Result<(), ServeError> {
    if sync {
        // Before rights are dropped: permitting a probe to write by itself takes a right that the actuator
        // does not keep.
        prepare();
        heap::give_back();
    }
    // Without it the next start reverts what is left if this process is killed.
    let refused = |error: &io::Error| tracing::warn!(%error, "the actuator has no stand-in");
    let guard = has_stand_in.then(|| start_stand_in(sync).inspect_err(refused).ok());
    let (stand_in, notes) = guard.flatten().unzip();
    let options = drop_rights(sync)?;
    let served = tuner::actuator::serve(standard_input()?, options, notes);
    if let Some(mut stand_in) = stand_in {
        // It ends as soon as the stream does.
        let _ = stand_in.wait();
    }
    served?;
    Ok(())
}

/// The main function of the process that reverts what an actuator left that was killed.
pub(crate) fn stand_in(sync: bool) -> Result<(), ServeError> {
    let options = drop_rights(sync)?;
    if let Some(orphaned) = Orphaned::wait(standard_input()?) {
        if sync {
            prepare();
        }
        orphaned.revert(options);
    }
    Ok(())
}

/// The stand-in, and the stream to it.
fn start_stand_in(sync: bool) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new("/proc/self/exe")
        .arg("stand-in")
        .args(sync.then_some(SYNC))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        // What is sent to the actuator's group must not reach it.
        .process_group(0)
        .spawn()?;
    Ok((child, ours))
}

/// Leaves this process the rights of an actuator.
fn drop_rights(sync: bool) -> Result<ServeOptions, ServeError> {
    let options = ServeOptions {
        only_user: rights::is_lent().then(rights::caller),
        rendezvous: sync.then_some(rendezvous as RendezvousSource),
        ..ServeOptions::default()
    };
    let part = if sync {
        ProgramPart::WriterAtPlaces
    } else {
        ProgramPart::Writer
    };
    rights::keep_only(part)?;
    Ok(options)
}

fn standard_input() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

fn prepare() {
    *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Prepared::load(LinkChoice::Best));
}

/// Prepared before rights are dropped.
static PREPARED: Mutex<Option<Result<Prepared, RendezvousError>>> = Mutex::new(None);

fn rendezvous() -> Result<Box<dyn Rendezvous>, Box<dyn std::error::Error + Send + Sync>> {
    let prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let prepared = prepared.ok_or("it was not prepared for")?;
    // The actuator shows the outermost text only.
    let started = prepared.and_then(KernelRendezvous::start);
    Ok(Box::new(
        started.map_err(|error| ErrorText::new(error).to_string())?,
    ))
}

/// How a change without a sync point was made, for people.
pub(crate) fn hold_text(mechanism: Mechanism, hold_ns: u64) -> String {
    let (how, held) = match mechanism {
        Mechanism::Plain => ("", "the program was held"),
        Mechanism::Rendezvous | Mechanism::Store => ("at a sync point, ", "the program was held"),
        Mechanism::Stop => ("at a sync point, ", "one thread was stopped for"),
        Mechanism::HoldThread => ("by one thread, ", "which was stopped for"),
        Mechanism::HoldAll => ("while no thread ran, ", "all threads were stopped for"),
    };
    match hold_ns {
        0 => format!("{how}without stopping the program"),
        hold_ns => format!("{how}{held} {}", duration(hold_ns as f64)),
    }
}

/// How a change reached its sync point, for people. A hold or a write that did not happen is not described.
pub(crate) fn passage_text(
    place: &SyncPoint,
    mechanism: Mechanism,
    passage: &HoldStatistics,
    is_written: bool,
) -> String {
    // The first hit is the expected case.
    let hit = match passage.hits {
        0 | 1 => String::new(),
        hits => format!(" (hit {hits})"),
    };
    let held = (passage.hold_ns > 0).then(|| duration(passage.hold_ns as f64));
    let mut text = match (mechanism, &held) {
        (Mechanism::Plain | Mechanism::HoldThread | Mechanism::HoldAll, _) => {
            hold_text(mechanism, passage.hold_ns)
        }
        (Mechanism::Rendezvous, Some(held)) => format!("at {place}, held in the kernel for {held}{hit}"),
        (Mechanism::Stop, Some(held)) => format!("at {place}, its thread stopped for {held}{hit}"),
        (Mechanism::Store, _) if is_written => format!("at {place}, written by the probe itself{hit}"),
        (Mechanism::Rendezvous | Mechanism::Stop | Mechanism::Store, _) if passage.hits == 0 => {
            format!("no thread came to {place}")
        }
        (Mechanism::Rendezvous | Mechanism::Stop | Mechanism::Store, _) => format!("at {place}{hit}"),
    };
    if passage.misses > 0 {
        text += &format!(
            ", after {} (held {})",
            plural(
                usize::try_from(passage.misses).unwrap_or(usize::MAX),
                "failed attempt"
            ),
            duration(passage.missed_ns as f64)
        );
    }
    let was_answered = matches!(mechanism, Mechanism::Rendezvous | Mechanism::Stop) && held.is_some();
    if was_answered && !passage.real_time {
        text += ", answered without real-time priority";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_described_only_if_a_thread_was_held() {
        let place: SyncPoint = "entry:step".parse().unwrap();
        let passage = |hits, misses, hold_ns| HoldStatistics {
            hits,
            misses,
            hold_ns,
            missed_ns: misses * 2_000_000,
            real_time: hold_ns != 7000,
            ..HoldStatistics::default()
        };
        let (held, stopped, stored) = (Mechanism::Rendezvous, Mechanism::Stop, Mechanism::Store);
        let none = HoldStatistics::default();
        let late = "after 2 failed attempts (held 4 ms)";
        let rows = [
            (
                held,
                true,
                passage(1, 0, 5000),
                "at entry:step, held in the kernel for 5 us".to_owned(),
            ),
            (
                held,
                true,
                passage(3, 2, 7000),
                format!(
                    "at entry:step, held in the kernel for 7 us (hit 3), {late}, answered without real-time priority"
                ),
            ),
            (held, false, none, "no thread came to entry:step".to_owned()),
            (
                held,
                false,
                passage(2, 2, 0),
                format!("at entry:step (hit 2), {late}"),
            ),
            (
                stopped,
                true,
                passage(1, 0, 5000),
                "at entry:step, its thread stopped for 5 us".to_owned(),
            ),
            (stopped, false, none, "no thread came to entry:step".to_owned()),
            (
                stored,
                true,
                passage(1, 0, 0),
                "at entry:step, written by the probe itself".to_owned(),
            ),
            (stored, false, passage(1, 0, 0), "at entry:step".to_owned()),
            (stored, false, none, "no thread came to entry:step".to_owned()),
        ];
        for (mechanism, is_written, passage, wanted) in rows {
            let text = passage_text(&place, mechanism, &passage, is_written);
            assert_eq!(text, wanted, "{passage:?}");
        }
    }
}
