//! The user interface: a live view on a terminal, or consecutive lines elsewhere. Both show a
//! [`profile::Snapshot`] and messages, and depend on nothing else.

mod contract;
mod cost;
mod cpus;
mod durations;
mod efficiency;
mod findings;
mod history;
mod inside_mpi;
mod live;
mod memory;
mod none;
mod pace;
mod pairs;
mod parts;
mod progress;
mod rows;
mod scaling;
mod screen;
mod sizes;
mod spread;
mod step;
mod terminal;

pub use efficiency::{efficiencies, efficiency};
pub use findings::{text as finding_text, without as without_findings};
pub use live::{Diagnostics, Input, Keys, UserRequest, give_back_terminal};
pub use parts::{Accuracy, mpi_mark};
pub use screen::{closing, header, losses, overview, summary};
pub use sizes::message_sizes;
pub use step::calls_each;
pub use terminal::{Painter, columns};
