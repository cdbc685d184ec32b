//! What is shown of a stream program that is compared with its contract: plain data, and its text.

mod bottleneck;
mod shares;
mod summary;

pub use bottleneck::{Bottleneck, Victim};
pub use shares::{ModuleVerdict, TimeShares};
pub use summary::{ContractView, WatchSummary, WatchedModule, WatchedRate, WatchedWindow, WindowRate};

/// A rate is violated when its upper bound was below its target in this many windows, one after the other.
pub(crate) const WINDOWS_BELOW: u32 = 3;
