//! The table of hostile programs, and the batches that run side by side.

use std::path::PathBuf;

use tuneagent_e2e::job::Mpi;
use tuneagent_e2e::{Outcome, programs};

/// A source file in `programs/hostile`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// Callbacks of MPI that do not return to it.
    Callbacks,
    /// MPI calls that are interrupted by signals, threads or other ranks.
    Messages,
    /// Processes, threads and libraries that start and end.
    Processes,
    /// Functions that are left in every way except a return.
    Unwinding,
    /// System calls that block.
    Blocking,
    /// System calls that a seccomp filter forbids.
    Filtered,
}

/// A hostile program: source file, mode, and MPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) source: Source,
    pub(super) mode: &'static str,
    pub(super) mpi: Option<Mpi>,
    /// Number of ranks; a single rank of MPICH runs without a launcher.
    pub(super) ranks: usize,
}

/// Modes, separated by blanks: the callback, and the way in which it is left.
const CALLBACKS: &str = "error-throw error-jump error-fiber error-exit error-cancel copy-throw \
    copy-jump copy-fiber copy-exit query-throw query-jump query-fiber query-exit \
    file-error-throw free-throw delete-throw";

/// Modes for the operation of a collective call, which needs two ranks.
const OPERATIONS: &str = "operation-throw operation-jump operation-fiber operation-exit";

const PROCESSES: &str = "fork vfork exec clone threads libraries workers selfexec pages";

const UNWINDING: &str = "throw jump exit cancel forced foreign fibers handler recursion";

const BLOCKING: &str = "nanosleep nanosleep-alarm clock-nanosleep clock-nanosleep-alarm poll \
    poll-alarm ppoll ppoll-alarm select select-alarm epoll epoll-alarm futex \
    futex-alarm read read-alarm write write-alarm sigtimedwait sigtimedwait-alarm \
    recv recv-alarm accept accept-alarm semtimedop semtimedop-alarm msgrcv \
    msgrcv-alarm wait wait-alarm";

const FILTERED: &str = "kill trap errno strict";

/// Batches of rows; each runs side by side and is watched by one session.
pub(super) fn batches() -> Vec<Vec<Row>> {
    let rows = |source, modes: &'static str, mpi, ranks| {
        let row = |mode| Row {
            source,
            mode,
            mpi,
            ranks,
        };
        modes.split(' ').map(row).collect::<Vec<Row>>()
    };
    let mut batches: Vec<Vec<Row>> = Vec::new();
    for mpi in Mpi::ALL {
        let mpi = Some(mpi);
        let mut all = rows(Source::Callbacks, CALLBACKS, mpi, 1);
        all.extend(rows(Source::Callbacks, OPERATIONS, mpi, 2));
        all.extend(rows(Source::Messages, "alarm threads", mpi, 1));
        all.extend(rows(Source::Messages, "ranks", mpi, 2));
        batches.push(all);
    }
    let mut alone = rows(Source::Processes, PROCESSES, None, 1);
    alone.extend(rows(Source::Unwinding, UNWINDING, None, 1));
    batches.push(alone);
    let mut waiting = rows(Source::Blocking, BLOCKING, None, 1);
    waiting.extend(rows(Source::Filtered, FILTERED, None, 1));
    batches.push(waiting);
    batches
}

impl Row {
    /// A unique name without blanks.
    pub(super) fn name(&self) -> String {
        let source = format!("{:?}", self.source).to_lowercase();
        let mpi = match self.mpi {
            Some(Mpi::OpenMpi) => "-openmpi",
            Some(Mpi::Mpich) => "-mpich",
            None => "",
        };
        format!("{source}{mpi}-{}", self.mode)
    }

    pub(super) fn program(&self) -> Outcome<PathBuf> {
        let file = format!("hostile/{}", format!("{:?}", self.source).to_lowercase());
        match (self.mpi, self.source) {
            (Some(mpi), _) => programs::mpi_cxx(&file, mpi),
            (None, Source::Unwinding) => programs::cxx(&file),
            (None, _) => programs::threads(&file),
        }
    }

    /// Arguments after the mode, the name and the file.
    pub(super) fn arguments(&self) -> Outcome<Vec<PathBuf>> {
        match self.mode {
            "libraries" => [1, 2]
                .map(|copy| programs::library("hostile/part", copy))
                .into_iter()
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether a command may disturb the program in a specific way: blocking calls, processes and libraries.
    pub(super) fn blocks_or_comes_and_goes(&self) -> bool {
        matches!(
            self.source,
            Source::Blocking | Source::Filtered | Source::Processes
        )
    }

    /// Whether the program is one process with one instance of each variable, so that a change must succeed.
    pub(super) fn stays_what_it_is(&self) -> bool {
        self.source != Source::Processes || self.mode == "threads" || self.mode == "pages"
    }
}
