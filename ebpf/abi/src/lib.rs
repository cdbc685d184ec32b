//! The records that the kernel side and the user side of tuneagent share: what a probe has to do
//! ([`ProbeSpec`]), what it keeps ([`Totals`], [`Thread`], [`Call`], [`Pair`], [`Row`]), what it sends
//! ([`HitRecord`], [`TextRecord`]), what it aggregates instead ([`SumCell`]), what it lost ([`Loss`]), what
//! waits for a sync point ([`Hold`]); and which processes are of a command ([`Coming`], [`FamilyState`]).
//!
//! Plain `repr(C)` data without padding and without dependencies; every size is asserted where it is
//! declared, so that a change of one side alone does not compile. No policy lives here, and no knowledge of
//! MPI's functions: a probe learns from its spec which registers to read.
#![no_std]
#![forbid(unsafe_code)]

mod family;
mod histogram;
mod hold;
mod limits;
mod message;
mod partial_sum;
mod records;
mod spec;

pub use family::{Coming, ComingKind, FamilyState};
pub use histogram::{Durations, Row, Sizes};
pub use hold::{Hold, HoldState, KEY_IN_MEMORY, KEY_NONE_YET, StoreResult};
pub use limits::*;
pub use message::{
    Amount, AmountForm, Flow, MessageRule, NO_ARGUMENT, Objects, Pair, Pending, RankMap, SizeLayout,
    Template, UNKNOWN_BYTES, World,
};
pub use partial_sum::{SumCell, SumRule, SumValue, ValueSums};
pub use records::{
    Alarm, Call, Filling, Frame, HitKind, HitRecord, Loss, NO_DURATION, RingHead, TextRecord, Thread, Totals,
};
pub use spec::{Capture, CaptureKind, ExitSite, ProbeSpec, SpecFlags};
