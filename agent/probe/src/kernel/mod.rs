//! The kernel side, as the agent sees it: load the BPF object, attach its two programs to functions, read what they
//! aggregated, receive what they send.
//!
//! Nothing here knows of MPI, rules or ranks: a probe is a number, a process a slot. [`Holds`] is an object of its own, which
//! the actuator loads when an action is to wait for a sync point.

mod calls;
mod cells;
mod closer;
mod error;
mod fallback;
mod family;
mod fields;
mod gauge;
mod holds;
mod links;
mod object;
mod program;
mod records;
mod ring;
mod synthetic;
mod sys;
mod tallies;
mod version;

pub use closer::{Closer, Ticket, serve as serve_closer};
pub use error::KernelError;
pub use fallback::{TracefsLink, lower_paranoia, perf_wants_admin};
pub use family::{FamilyRoot, read_coming};
pub use gauge::{Gauge, measure};
pub use holds::{Holds, Records, set_real_time};
pub use links::{At, Link, LinkKind, LinkRequest, Nothing, Site, attaches_by_files, emulation};
pub use object::{Kernel, LoadOptions};
pub use program::tells_number_of;
pub use records::{is_filling, read_hit, read_tally, read_text};
pub use ring::Ring;
pub use synthetic::Producer;
pub use sys::ignore_file_size_signal;
pub use tallies::Tallies;
pub use version::{refusal, release, version};
