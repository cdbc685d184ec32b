//! A probe: as it is requested, and as it is numbered. Attaches nothing.

use std::{collections::BTreeSet, ops::Range};

use abi::{CaptureKind, Durations, ProbeSpec, Sizes, SpecFlags};

use super::{ProbeCapture, ProbeSelector, WantedCapture, WantedSum, selector};
use crate::{
    calls::TeamPart,
    mpi::{self, BytesKind},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub selector: ProbeSelector,
    /// [`SpecFlags`] that are needed.
    pub flags: u32,
    pub captures: Vec<WantedCapture>,
    /// What may be added up of hits instead of sending them.
    pub partial_sum: Option<WantedSum>,
    /// It is switched on and off as the session goes.
    pub is_switched: bool,
    pub is_on: bool,
    /// Its functions have no rows of their own among those that are shown.
    pub is_quiet: bool,
    /// Its functions may be watched in windows: the request does not need every call.
    pub may_pause: bool,
    /// A rule counts its hits over windows that go by time: they may rest meanwhile, and the rule has no
    /// value then.
    pub is_counted: bool,
}

impl Wanted {
    /// The calls of a function by how long they took; a recording has each of them.
    pub fn calls_of(function: &str, are_recorded: bool) -> Wanted {
        let sent = if are_recorded { SpecFlags::SEND_RETURN } else { 0 };
        Wanted {
            selector: ProbeSelector::Function(function.to_owned()),
            flags: SpecFlags::SPAN | SpecFlags::DURATIONS | sent,
            captures: Vec::new(),
            partial_sum: None,
            is_switched: false,
            is_on: true,
            is_quiet: false,
            may_pause: !are_recorded,
            is_counted: false,
        }
    }

    /// Parallel regions, or what each thread does in them, for the profile.
    pub fn quietly(selector: ProbeSelector) -> Wanted {
        Wanted {
            selector,
            flags: SpecFlags::SPAN | SpecFlags::SEQUENCE,
            captures: Vec::new(),
            partial_sum: None,
            is_switched: true,
            is_on: true,
            is_quiet: true,
            may_pause: false,
            is_counted: false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Probe {
    pub name: String,
    /// What it is in MPI, and whether its counts have 64 bits.
    pub mpi: Option<&'static mpi::MpiFunction>,
    /// What is done at a hit.
    pub spec: ProbeSpec,
    /// What is read at a hit, in the order in which the kernel side sends it.
    pub captures: Vec<ProbeCapture>,
    /// What the linker calls it, where it is none of MPI's.
    pub symbols: BTreeSet<String>,
    /// Of a mark, the values that it passes, as the note in the file describes them.
    pub mark: Option<String>,
    /// The requests that include it.
    pub wanted: Vec<usize>,
    /// It is probed for the profile alone, which has no row for it.
    pub is_quiet: bool,
    /// Rules count its calls, which only the profile times, now and then: no time of all of them is known.
    pub is_only_counted: bool,
    /// It is watched in windows, unless somebody needs every call of it.
    pub is_sampled: bool,
    /// It is not watched now, for no window is open.
    pub is_off: bool,
    /// It is not watched now: no rule has it switched on, or its counting rests.
    pub is_resting: bool,
}

impl Probe {
    /// A function without captures and requests. `mpi` says what it is in MPI, and `spec` what is done at its
    /// hits.
    pub fn new(name: &str, mpi: Option<&'static mpi::MpiFunction>, spec: ProbeSpec) -> Probe {
        Probe {
            name: name.to_owned(),
            mpi,
            spec,
            captures: Vec::new(),
            symbols: BTreeSet::new(),
            mark: None,
            wanted: Vec::new(),
            is_quiet: false,
            is_only_counted: false,
            is_sampled: false,
            is_off: false,
            is_resting: false,
        }
    }

    /// Which way its bytes go, when they are counted.
    pub fn bytes_kind(&self) -> Option<BytesKind> {
        let counted = self.spec.flags & SpecFlags::BYTES != 0;
        self.mpi
            .and_then(|function| function.carries)
            .filter(|_| counted)
            .map(|carries| carries.kind)
    }

    /// The rows of a process that count its messages by size, where they are.
    pub(crate) fn rows_of_sizes(&self) -> Option<Range<u32>> {
        self.bytes_kind()?;
        let first = u32::from(self.spec.message.row);
        Some(first..first + Sizes::ROWS)
    }

    /// The rows of a process that count its calls by duration, where they are.
    pub fn rows_of_durations(&self) -> Option<Range<u32>> {
        let first = self.spec.durations;
        (self.spec.flags & SpecFlags::DURATIONS != 0).then_some(first..first + Durations::ROWS)
    }

    /// The mark it is of, as rules write it.
    pub fn mark_name(&self) -> Option<&str> {
        self.mark.as_ref().map(|_| selector::mark_of(&self.name))
    }

    pub fn part(&self) -> Option<TeamPart> {
        match self.mpi {
            None if selector::starts_team(&self.name) => Some(TeamPart::Region),
            None if selector::is_body(&self.name) => Some(TeamPart::Body),
            _ => None,
        }
    }

    /// A process calls it before any other function of MPI.
    pub fn is_first(&self) -> bool {
        self.mpi.is_some_and(mpi::MpiFunction::is_first)
    }

    /// A program calls it again and again while it waits.
    pub fn is_polling(&self) -> bool {
        self.mpi.is_some_and(mpi::MpiFunction::is_polling)
    }

    /// Whether it is all functions of a GPU of one purpose.
    pub fn is_gpu(&self) -> bool {
        plan::GpuCall::named(&self.name).is_some()
    }

    pub fn reads_returned(&self) -> bool {
        let captures = self.spec.captures.iter();
        captures
            .into_iter()
            .any(|capture| capture.kind == CaptureKind::Return as u8)
    }

    pub fn is_timed(&self) -> bool {
        self.spec.flags & SpecFlags::SPAN != 0
    }
}
