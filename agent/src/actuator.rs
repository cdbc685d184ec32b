//! Starts the actuator process; texts for how it made a change.

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
use profile::format::{duration, plural};
use tuner::actuator::{ActuatorClient, ClientError, Hello, RendezvousSource, ServeOptions};
use tuner::journal::{Mechanism, StateDir};
use tuner::rendezvous::Rendezvous;
use tuner::{Passage, Who};

use crate::{
    heap,
    rights::{self, ProgramPart},
};

/// An actuator that does not answer within this time is considered dead, and gets no more requests. If ranks
/// spin on too few CPUs, which is what rules repair, it waits its turn at every thread that it holds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the actuator could not be started: {0}")]
    Spawn(#[from] io::Error),
    /// It did not begin.
    #[error("the actuator did not begin: {0}")]
    Begin(#[from] ClientError),
    /// There is no place for the journal.
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

/// What an actuator is started for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOptions {
    /// Confirmed changes stay at the end.
    pub keeps: bool,
    /// There will be changes at sync points.
    pub has_sync_points: bool,
}

/// A running actuator. When it is dropped, the actuator reverts what was not confirmed, and ends.
#[derive(Debug)]
pub(crate) struct Actuator {
    /// The connection for requests.
    pub client: ActuatorClient,
    stream: UnixStream,
    child: Child,
}

impl Actuator {
    /// Starts one. Must be called before the right to write is dropped.
    pub(crate) fn start(options: StartOptions) -> Result<Actuator, StartError> {
        Actuator::start_in(StateDir::usual()?.path().to_owned(), options)
    }

    /// One that does what the user names by hand, which stays; with `despite_seccomp` it calls functions
    /// whatever the program's seccomp filters may do to them.
    pub(crate) fn by_hand(despite_seccomp: bool) -> Result<Actuator, StartError> {
        let hello = Hello {
            keep: true,
            despite_seccomp,
            state_dir: StateDir::usual()?.path().to_owned(),
            who: Who::current(),
        };
        Actuator::begin(hello, false)
    }

    /// As `start`, with its journals in this folder.
    pub(crate) fn start_in(state_dir: PathBuf, options: StartOptions) -> Result<Actuator, StartError> {
        let hello = Hello {
            keep: options.keeps,
            despite_seccomp: false,
            state_dir,
            who: Who::current(),
        };
        Actuator::begin(hello, options.has_sync_points)
    }

    fn begin(hello: Hello, sync: bool) -> Result<Actuator, StartError> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let child = Command::new("/proc/self/exe")
            .arg("actuator")
            .args(sync.then_some("--sync"))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // A group of its own: Ctrl-C on the terminal is for the agent, which then ends the stream.
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

    /// Its stream once more: when that is shut down the actuator reverts what was not confirmed, and ends.
    pub(crate) fn stream(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }

    /// Ends the session: reverts what does not stay.
    pub(crate) fn finish(mut self) -> Result<tuner::actuator::RevertSummary, ClientError> {
        let summary = self.client.shutdown();
        // It has answered, so it is about to end; or its stream has ended, and it reverts what it can,
        // unless it hangs.
        let given_up = Instant::now() + ANSWER_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        summary
    }
}

/// The actuator's own process: serves the stream that is its standard input until it ends. With `sync` it is
/// prepared for changes at sync points; without, it has given up the right to probe.
pub(crate) fn serve(sync: bool) -> Result<(), ServeError> {
    if sync {
        // Before rights are dropped: to let a probe write by itself takes one that the actuator does not
        // keep.
        *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Prepared::load(LinkChoice::Best));
        heap::give_back();
    }
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
    let stream = io::stdin().as_fd().try_clone_to_owned()?;
    tuner::actuator::serve(UnixStream::from(stream), options)?;
    Ok(())
}

/// What was prepared before rights were dropped.
static PREPARED: Mutex<Option<Result<Prepared, RendezvousError>>> = Mutex::new(None);

fn rendezvous() -> Result<Box<dyn Rendezvous>, Box<dyn std::error::Error + Send + Sync>> {
    let prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let prepared = prepared.ok_or("it was not prepared for")?;
    Ok(Box::new(prepared.and_then(KernelRendezvous::start)?))
}

/// How a change was made that minded no sync point, for people.
pub(crate) fn hold_text(mechanism: Mechanism, hold_ns: u64) -> String {
    let how = match mechanism {
        Mechanism::Plain => "plain write",
        Mechanism::Rendezvous | Mechanism::Store | Mechanism::Stop => "at a sync point",
        Mechanism::HoldThread => "by one thread",
        Mechanism::HoldAll => "while no thread ran",
    };
    match hold_ns {
        0 => format!("{how}, the program was not held"),
        hold_ns => format!("{how}, the program was held {}", duration(hold_ns as f64)),
    }
}

/// How a change met its sync point, for people.
pub(crate) fn passage_text(place: &SyncPoint, mechanism: Mechanism, passage: &Passage) -> String {
    // The first hit is where one expects it.
    let hit = match passage.hits {
        0 | 1 => String::new(),
        hits => format!(" (hit {hits})"),
    };
    let mut text = match mechanism {
        Mechanism::Plain | Mechanism::HoldThread | Mechanism::HoldAll => {
            hold_text(mechanism, passage.hold_ns)
        }
        Mechanism::Rendezvous => format!(
            "at {place}, held in the kernel for {}{hit}",
            duration(passage.hold_ns as f64)
        ),
        Mechanism::Stop => format!(
            "at {place}, its thread stopped for {}{hit}",
            duration(passage.hold_ns as f64)
        ),
        Mechanism::Store => format!("at {place}, written by the probe itself{hit}"),
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
    if matches!(mechanism, Mechanism::Rendezvous | Mechanism::Stop) && !passage.real_time {
        text += ", answered without real-time priority";
    }
    text
}
