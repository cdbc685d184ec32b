//! A probe, as requested and as numbered. Nothing is attached here.

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
    /// The required [`SpecFlags`].
    pub flags: u32,
    pub captures: Vec<WantedCapture>,
    /// The aggregation in the kernel that can replace sending each hit.
    pub partial_sum: Option<WantedSum>,
    /// The session switches it on and off.
    pub is_switched: bool,
    pub is_on: bool,
    /// Its functions have no rows of their own in the display.
    pub is_quiet: bool,
    /// Its functions may be sampled in windows: the request does not need every call.
    pub may_pause: bool,
    /// A rule counts its hits over time windows. The functions may be paused; the rule has no value
    /// meanwhile.
    pub is_counted: bool,
}

impl Wanted {
    /// Requests the distribution of a function's call durations; a recording also needs each call.
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

    /// Requests parallel regions, or their bodies, for the profile.
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

#[derive(Clone, Debug, Default)]
pub struct Probe {
    pub name: String,
    /// The MPI function that it is, if any.
    pub mpi: Option<&'static mpi::MpiFunction>,
    /// The actions at a hit.
    pub spec: ProbeSpec,
    /// The values read at a hit, in the order in which the kernel side sends them.
    pub captures: Vec<ProbeCapture>,
    /// Linker symbols, if it is not an MPI function.
    pub symbols: BTreeSet<String>,
    /// For a mark, the values that it passes, as described by the note in the file.
    pub mark: Option<String>,
    /// The requests that include it.
    pub wanted: Vec<usize>,
    /// It is probed only for the profile, and has no row in it.
    pub is_quiet: bool,
    /// Rules count its calls, but only the profile times some of them: the total time is unknown.
    pub is_only_counted: bool,
    /// It is sampled in windows, unless a request needs every call.
    pub is_sampled: bool,
    /// It is not watched now, because no window is open.
    pub is_off: bool,
    /// It is not watched now, because no rule has it switched on or its counting is paused.
    pub is_resting: bool,
}

impl Probe {
    /// A function without captures and requests. `mpi` is the MPI function that it is, if any.
    pub fn new(name: &str, mpi: Option<&'static mpi::MpiFunction>, spec: ProbeSpec) -> Probe {
        Probe {
            name: name.to_owned(),
            mpi,
            spec,
            ..Probe::default()
        }
    }

    /// Direction of its bytes; `None` if they are not counted.
    pub fn bytes_kind(&self) -> Option<BytesKind> {
        let counted = self.spec.flags & SpecFlags::BYTES != 0;
        self.mpi
            .and_then(|function| function.carries)
            .filter(|_| counted)
            .map(|carries| carries.kind)
    }

    /// Rows of a process that count its messages by size; `None` if they are not counted.
    pub(crate) fn rows_of_sizes(&self) -> Option<Range<u32>> {
        self.bytes_kind()?;
        let first = u32::from(self.spec.message.row);
        Some(first..first + Sizes::ROWS)
    }

    /// Rows of a process that count its calls by duration; `None` if they are not counted.
    pub fn rows_of_durations(&self) -> Option<Range<u32>> {
        let first = self.spec.durations;
        (self.spec.flags & SpecFlags::DURATIONS != 0).then_some(first..first + Durations::ROWS)
    }

    /// The name of its mark, as rules write it.
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

    /// Whether programs call it before any other MPI function.
    pub fn is_first(&self) -> bool {
        self.mpi.is_some_and(mpi::MpiFunction::is_first)
    }

    /// Whether programs call it repeatedly while they wait.
    pub fn is_polling(&self) -> bool {
        self.mpi.is_some_and(mpi::MpiFunction::is_polling)
    }

    /// Whether it stands for all GPU functions of one purpose.
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
