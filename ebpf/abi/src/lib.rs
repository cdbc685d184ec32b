//! The records that the kernel side and the user side of tuneagent share: what a probe does ([`ProbeSpec`]),
//! what it keeps ([`Totals`], [`Thread`], [`Call`], [`Pair`], [`Row`]), sends ([`HitRecord`],
//! [`TextRecord`]), aggregates ([`SumCell`]) and loses ([`Loss`]), pending actions at sync points ([`Hold`]),
//! and the processes of a command ([`FamilyEvent`], [`FamilyState`]).
//!
//! Plain `repr(C)` data without padding and without dependencies. Every size is asserted where the type is
//! declared, so a change of one side alone does not compile. There is no policy here and no knowledge of
//! MPI's functions: a probe's spec says which registers to read.
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
mod word;

pub use family::{FamilyEvent, FamilyEventKind, FamilyState};
pub use histogram::{Durations, Row, Sizes};
pub use hold::{Hold, HoldState, KEY_IN_MEMORY, KEY_NONE_YET, StoreResult};
pub use limits::*;
pub use message::{
    Amount, AmountForm, Flow, MessageSpec, NO_ARGUMENT, Objects, Pair, Pending, RankMap, SizeLayout,
    Template, UNKNOWN_BYTES, World,
};
pub use partial_sum::{SumCell, SumSpec, SumValue, ValueSums};
pub use records::{
    Alarm, Call, Filling, Frame, HitKind, HitRecord, Loss, LossEffect, NO_DURATION, RingHead, TextRecord,
    Thread, Totals,
};
pub use spec::{Capture, CaptureKind, ExitSite, ProbeSpec, SpecFlags};
pub use word::SharedWord;
