//! What the page shows, as plain data: every number as text, formatted as on the terminal, and the series of
//! the charts. Times are seconds since the probes were armed. Scripts read it from `/api/page` and from the file:
//! its comments are the descriptions in docs/page.schema.json.

use serde::Serialize;

/// Name and version of the form. New fields may be added; what exists keeps its meaning.
pub const SCHEMA: &str = "tuneagent.page/1";

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct PageModel {
    pub schema: &'static str,
    /// Version of the program that made it.
    pub tuneagent: &'static str,
    /// Program, ranks, MPI, user, machine.
    pub title: String,
    pub program: String,
    /// The wall clock at the end of the session (RFC 3339, UTC); none of a recording without one.
    pub taken_at: Option<String>,
    pub elapsed: String,
    /// Whether the session changed the program, or may change it.
    pub access: &'static str,
    /// The lines above the findings on the terminal.
    pub summary: Vec<String>,
    pub tiles: Vec<Tile>,
    pub findings: Vec<FindingBlock>,
    /// Why there is no finding; none where there is one.
    pub without_findings: Vec<String>,
    pub timeline: Timeline,
    pub efficiencies: Vec<Efficiency>,
    /// What ranks sent to each other; none if no message was seen.
    pub matrix: Option<MessageMatrix>,
    pub tables: Vec<Table>,
    /// What was lost, not measured or estimated. Empty means complete.
    pub incomplete: Vec<String>,
}

/// A number at the head of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Tile {
    pub name: &'static str,
    pub value: String,
    /// What it was before the change that the guard kept.
    pub before: Option<String>,
    /// What it is of, or why it has no value.
    pub note: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct FindingBlock {
    pub rule: String,
    /// `repaired`, or from when to when it held.
    pub state: String,
    pub text: Vec<String>,
    pub now: Option<String>,
    pub next_start: Option<String>,
    pub is_repaired: bool,
}

/// The series of the charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Timeline {
    pub end_s: f64,
    pub pace: Vec<PacePart>,
    pub shares: Vec<SharePart>,
    /// What the cells of the ranks are shares of.
    pub quantity: &'static str,
    pub ranks: Vec<RankRow>,
    /// Rows that found no room.
    pub ranks_omitted: usize,
    pub marks: Vec<TimelineMark>,
}

/// Iterations of one part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct PacePart {
    pub from_s: f64,
    pub until_s: f64,
    pub count: u64,
    /// Mean time of one iteration, in seconds.
    pub mean_s: f64,
}

/// How the processes spent a part of the run, the mean over those that were measured in it. The rest of the
/// time they were asleep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct SharePart {
    pub from_s: f64,
    pub until_s: f64,
    pub cpu: f64,
    pub waiting: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct RankRow {
    pub name: String,
    /// Shares of equal parts of the run; `None` where it was not measured.
    pub cells: Vec<Option<f64>>,
}

/// Something that happened, with its number on the charts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct TimelineMark {
    pub number: usize,
    pub at_s: f64,
    pub text: String,
}

/// Bytes that ranks sent to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct MessageMatrix {
    /// Number of rows, and of columns.
    pub side: u32,
    /// A cell is that of so many ranks, if there are more than rows.
    pub ranks_per_cell: u32,
    pub most_bytes: u64,
    /// The same as text for people.
    pub most: String,
    /// The cells in which something was sent.
    pub cells: Vec<MatrixCell>,
    /// What the picture does not contain, in words.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct MatrixCell {
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
}

/// A factor of the parallel efficiency.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Efficiency {
    pub name: &'static str,
    /// Depth in the tree: a node is the product of those directly below it.
    pub depth: usize,
    pub value: f64,
    pub definition: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Table {
    /// The address in the page.
    pub id: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Rows that found no room.
    pub omitted: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Column {
    pub title: &'static str,
    pub is_number: bool,
}

/// A cell, and by what it is sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Cell {
    pub text: String,
    /// The number in base units; none of a text and of what was not measured.
    pub number: Option<f64>,
    /// A share to draw as a bar, 0 to 1.
    pub bar: Option<f64>,
}
