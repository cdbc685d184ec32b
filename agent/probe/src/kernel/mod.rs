//! The user side of the BPF programs: loads the object, attaches its two programs to functions, reads what
//! they aggregated, receives what they send.
//!
//! This module knows neither MPI nor rules nor ranks: a probe is a number, a process a slot. [`Holds`] is a
//! separate object, which the actuator loads for the first action with a sync point.

mod calibration;
mod calls;
mod cells;
mod closer;
mod error;
mod fallback;
mod family;
mod fields;
mod frame;
mod holds;
mod links;
mod loading;
mod maps;
mod object;
mod partial_sums;
mod program;
mod records;
mod ring;
mod served;
mod service;
mod synthetic;
mod sys;
mod version;

pub use calibration::{Calibration, measure};
pub use closer::{CloseTicket, Closer, serve as serve_closer};
pub use error::KernelError;
pub use fallback::{TracefsLink, lower_paranoia, perf_wants_admin};
pub use family::{FamilyRoot, read_family_event};
pub use frame::{FrameError, MESSAGE_BYTES_MAX, ServiceRefusal, ServiceReply, ServiceRequest, protocol};
pub use holds::set_real_time;
pub use holds::{Holds, Records};
pub use links::{CallMoment, Link, LinkChoice, LinkKind, LinkRequest, Nothing, ProbeSite, emulation};
pub use loading::LoadOptions;
pub use object::Kernel;
pub use partial_sums::SumReadings;
pub(crate) use program::has_same_pid_in_kernel;
pub use records::{is_filling, read_hit, read_sum_cell, read_text};
pub use ring::Ring;
pub use served::{ServedPrograms, served_namespace};
pub use service::{ProbeLoader, Service, ServiceError, receive, send};
pub use synthetic::Producer;
pub use sys::ignore_file_size_signal;
pub use version::{refusal, release, version};
