//! The live view: a full screen with tabs, drawn from a snapshot, that reads keys. `state` is where the user
//! is and what a key does, `page` puts tabs together, one module a tab makes its lines, `terminal` takes the
//! terminal over and returns it.
//!
//! It changes nothing by itself: a key becomes a [`UserRequest`], and the session carries it out as if it had come
//! through the control socket.

mod bars;
mod call_sites;
mod detail;
mod functions;
mod help;
mod log;
mod matrix;
mod overview;
mod page;
mod ranks;
mod rules;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

pub use state::UserRequest;
pub use terminal::give_back as give_back_terminal;
pub use terminal::{Diagnostics, Input, Keys};
pub(super) use terminal::{Live, can_be_taken};
