//! Output of a [`profile::Snapshot`]: lines and the live view ([`view`]), the report as JSON, CSV and TALP
//! (`report`), the page of /metrics (`metrics`), traces (`trace`) and pictures (`plot`). Everything is
//! printed through [`console`]. Independent of the session: the caller passes the data to show, and receives
//! the pressed keys.
#![forbid(unsafe_code)]

// Used as `console::line`.
pub mod console;
#[cfg(test)]
mod example;
mod metrics;
mod plot;
mod report;
mod trace;
// Used as `view::header`.
pub mod view;

// Files and pages.
pub use metrics::{render as metrics_page, render_contract as contract_metrics_page};
pub use plot::{Plot, PlotMarkKind};
pub use report::reference::Reference;
pub use report::{line, render, report, table};
pub use trace::{Trace, TraceEnd};
