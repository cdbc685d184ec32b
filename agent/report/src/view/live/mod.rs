//! The live view: a full screen with tabs, drawn from a snapshot, that reads keys. `state` has the user's
//! position and handles keys, `page` composes the screen, one module per tab makes its lines, `terminal`
//! takes over the terminal and releases it.
//!
//! The view changes nothing itself: a key becomes a [`UserRequest`], which the session handles like a request
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
