//! The records that the kernel side and the user side of tuneagent share: what a probe is told to do
//! ([`ProbeSpec`]), what it keeps ([`Totals`], [`Thread`]), what it sends ([`Hit`], [`Text`]), what it lost ([`Loss`]), and
//! what waits for a sync point ([`Hold`]).
//!
//! Plain `repr(C)` data without padding and without dependencies; every size is asserted where it is declared, so
//! that a change of one side alone does not compile. No policy lives here, and no knowledge of MPI: a probe learns
//! from its spec which registers to read.
#![no_std]
#![forbid(unsafe_code)]

mod hold;
mod limits;
mod records;
mod spec;

pub use hold::{Hold, HoldState, KEY_IN_MEMORY, KEY_NONE_YET, StoreResult};
pub use limits::*;
pub use records::{Frame, Hit, HitKind, Loss, NO_DURATION, Text, Thread, Totals};
pub use spec::{ByteRule, Capture, CaptureKind, ProbeSpec, SizeLayout, SpecFlags};
