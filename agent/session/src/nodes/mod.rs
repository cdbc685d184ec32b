//! A job on several machines: the state machines of the coordinator, which shows the whole job, and of a node, which
//! watches its own processes and reports. [`message`] is what they send to each other; who carries it is not
//! their business. On one machine there is neither.
//!
//! A node has one unacknowledged report at most; what comes until then is merged into the next one. Whatever
//! arrives is checked before it is used: a node may speak of its own ranks only.

mod clock;
mod coordinator;
pub mod message;
mod node;
mod part;
mod remote;
mod start;

pub use clock::{ClockEstimate, Exchange, NodeClock};
pub use coordinator::{Coordinator, CoordinatorEffect, CoordinatorSetup};
pub use node::{NodeAgent, NodeEffect};
pub use part::{JobPart, PartReport};
pub use start::{StartEffect, StartEnd, Starts};

#[cfg(test)]
mod tests;
