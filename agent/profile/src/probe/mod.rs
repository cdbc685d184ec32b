//! Probes as plain data: what someone wants probed and read, and what is probed. Nothing here looks into a process or attaches.

mod captures;
mod definition;
mod sought;
mod tallies;

pub use self::captures::{ProbeCapture, Read, Stated, Step, WantedCapture, number as number_of, width};
pub use self::definition::{Probe, Wanted};
pub use self::sought::{ANOTHER, Sought, mark_of, team_size_argument};
pub use self::tallies::{WantedTally, decide as decide_tally, rule as tally_rule};
