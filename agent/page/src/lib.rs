//! A session as one page: a self-contained HTML file, to mail, to archive, to attach to a ticket, or the same
//! page live in a browser. It loads nothing from anywhere else, and shows everything without JavaScript, which
//! adds sorting, filtering, copying and the news of a live page. Pure: takes a snapshot, gives texts.
#![forbid(unsafe_code)]

mod cells;
mod chart;
mod heat;
mod html;
mod make;
mod messages;
mod model;
mod series;
mod tables;
#[cfg(test)]
mod tests;

pub use html::{PageError, PageSection, SCRIPT, STYLE, file, live, sections};
pub use make::page;
pub use model::{PageModel, SCHEMA};
