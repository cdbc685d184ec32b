//! Renders a session as one page: a self-contained HTML file to mail, archive or attach to a ticket, or the
//! same page live in a browser. The page loads nothing from other servers. It shows everything without
//! JavaScript; scripts add sorting, filtering, copying, ranges and live updates. Pure: snapshots become
//! texts.
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
