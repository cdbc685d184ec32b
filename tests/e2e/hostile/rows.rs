//! The table: which programs there are, and which of them run side by side.

use std::path::PathBuf;

use tuneagent_e2e::job::Mpi;
use tuneagent_e2e::{Outcome, programs};

/// A source in `programs/hostile`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// User code that MPI calls and that does not come back to it.
    Callbacks,
    /// MPI calls that are disturbed from elsewhere.
    Messages,
    /// Processes, threads and libraries that come and go.
    Processes,
    /// Functions that are left in every way but by returning.
    Unwinding,
    /// System calls that block.
    Blocking,
    /// System calls that were given up.
    Filtered,
}

/// One hostile program: a source, what it does, and under which MPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) source: Source,
    pub(super) mode: &'static str,
    pub(super) mpi: Option<Mpi>,
    /// One of MPICH is started without a launcher.
    pub(super) ranks: usize,
}

/// Modes, with blanks between. User code in MPI: what MPI calls, and how it is left.
const CALLBACKS: &str = "error-throw error-jump error-fiber error-exit error-cancel copy-throw \
    copy-jump copy-fiber copy-exit query-throw query-jump query-fiber query-exit \
    file-error-throw free-throw delete-throw";

/// The same in the operation of a collective, which needs two ranks.
const OPERATIONS: &str = "operation-throw operation-jump operation-fiber operation-exit";

const PROCESSES: &str = "fork vfork exec clone threads libraries workers selfexec pages";

const UNWINDING: &str = "throw jump exit cancel forced foreign fibers handler recursion";

const BLOCKING: &str = "nanosleep nanosleep-alarm clock-nanosleep clock-nanosleep-alarm poll \
    poll-alarm ppoll ppoll-alarm select select-alarm epoll epoll-alarm futex \
    futex-alarm read read-alarm write write-alarm sigtimedwait sigtimedwait-alarm \
    recv recv-alarm accept accept-alarm semtimedop semtimedop-alarm msgrcv \
    msgrcv-alarm wait wait-alarm";

const FILTERED: &str = "kill trap errno strict";

/// What runs side by side, and is watched by one session.
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
    /// One word; no two rows have the same.
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

    /// What follows the program, its mode, its name and its file.
    pub(super) fn arguments(&self) -> Outcome<Vec<PathBuf>> {
        match self.mode {
            "libraries" => [1, 2]
                .map(|copy| programs::library("hostile/part", copy))
                .into_iter()
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// What a change by hand may disturb in a way of its own: calls that wait, processes and libraries.
    pub(super) fn blocks_or_comes_and_goes(&self) -> bool {
        matches!(
            self.source,
            Source::Blocking | Source::Filtered | Source::Processes
        )
    }

    /// One process all the time, with one place for each variable: a change by hand must be made.
    pub(super) fn stays_what_it_is(&self) -> bool {
        self.source != Source::Processes || self.mode == "threads" || self.mode == "pages"
    }
}
