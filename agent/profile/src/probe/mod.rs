//! Probes as plain data: requested probes and captures, and the resulting probes. Nothing here inspects a
//! process or attaches.

mod captures;
mod definition;
mod partial_sums;
mod selector;

pub use self::captures::{
    CaptureStep, ProbeCapture, Read, Stated, WantedCapture, number as number_of, width,
};
pub use self::definition::{Probe, Wanted};
pub use self::partial_sums::{WantedSum, decide as decide_partial_sum, spec as sum_spec};
pub use self::selector::{ANOTHER, ProbeSelector, blas_function, starts_team};
