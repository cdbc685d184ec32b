//! A session as one page: a self-contained HTML file, to mail, to archive, to attach to a ticket. It loads
//! nothing from anywhere, and shows everything without JavaScript, which only adds sorting, filtering and
//! copying. Pure: takes a snapshot, gives a text.
#![forbid(unsafe_code)]

mod chart;
mod heat;
mod html;
mod make;
mod model;
mod series;
mod tables;
#[cfg(test)]
mod tests;

pub use html::{PageError, html};
pub use make::page;
pub use model::{PageModel, SCHEMA};
