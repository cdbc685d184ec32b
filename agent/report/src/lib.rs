//! What is shown of a [`profile::snapshot::Snapshot`]: lines and the live view ([`view`]), the report as
//! JSON, CSV and TALP ([`report`]), the page of /metrics ([`metrics`]), traces ([`trace`]) and pictures
//! ([`plot`]). Everything is printed by [`console`]. Knows no session: pressed keys are passed on, and the
//! caller passes what is shown.
#![forbid(unsafe_code)]

pub mod console;
pub mod metrics;
pub mod plot;
pub mod report;
pub mod trace;
pub mod view;
