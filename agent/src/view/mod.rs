//! What a person sees: a screen that is repainted on a terminal, lines that follow one another elsewhere. Both show a
//! [`crate::snapshot::Snapshot`] and know nothing else.

mod history;
mod screen;
mod terminal;

pub use screen::{closing, header, screen, summary};
pub use terminal::Painter;
