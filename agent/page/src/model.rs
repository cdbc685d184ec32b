//! The contents of the page as plain data: formatted numbers, as on the terminal, and the series of the
//! charts. Times are seconds since the probes were armed. The data are at `/api/page` and in the file, for
//! scripts of users. The comments of this module are the descriptions in docs/page.schema.json.

use serde::Serialize;

/// Name and version of the format. A new version may add fields, but never changes the meaning of existing
/// ones.
pub const SCHEMA: &str = "tuneagent.page/1";

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct PageModel {
    pub schema: &'static str,
    /// Version of the tuneagent that made the page.
    pub tuneagent: &'static str,
    /// Program, ranks, MPI, user, machine.
    pub title: String,
    pub program: String,
    /// Wall-clock time of the snapshot (RFC 3339, UTC); null for a recording without one.
    pub taken_at: Option<String>,
    pub elapsed: String,
    /// Whether the session is read-only, may change the program, or has changed it.
    pub access: &'static str,
    /// The lines that the terminal shows above the findings.
    pub summary: Vec<String>,
    pub tiles: Vec<Tile>,
    pub findings: Vec<FindingBlock>,
    /// The reasons why there is no finding; empty if there is one.
    pub without_findings: Vec<String>,
    pub timeline: Timeline,
    pub efficiencies: Vec<Efficiency>,
    /// Bytes that ranks sent to each other; null if no message was seen.
    pub matrix: Option<MessageMatrix>,
    pub tables: Vec<Table>,
    /// Data that were lost, not measured or estimated. Empty if the data are complete.
    pub incomplete: Vec<String>,
}

/// A number at the head of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Tile {
    pub name: &'static str,
    pub value: String,
    /// The value before the change that the guard kept.
    pub before: Option<String>,
    /// A note that explains the value.
    pub note: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct FindingBlock {
    pub rule: String,
    /// `repaired`, or the time for which the finding held.
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
    pub time: TimeChart,
    /// The quantity that the cells of `ranks` show, as a share of the time.
    pub quantity: &'static str,
    pub ranks: Vec<RankRow>,
    /// Number of rows that were omitted.
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
    /// The shortest and the longest of them, in seconds.
    pub least_s: f64,
    pub most_s: f64,
}

/// Where the time of all processes went, in at most 1 024 buckets of the run. It is the time of as many threads as
/// were on a CPU, ready or inside MPI on average, and at least one for each process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(test, serde(bound(deserialize = "'de: 'static")))]
pub struct TimeChart {
    /// Begin of the first bucket; each other one begins where the previous one ends.
    pub from_s: f64,
    /// End of each bucket.
    pub until_s: Vec<f64>,
    /// The parts that occur. In each bucket their shares add up to 1.
    pub bands: Vec<TimeBand>,
}

/// One part of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct TimeBand {
    pub name: String,
    /// `cpu`: on a CPU; `wait`: ready, waiting for a CPU; `rest`: asleep.
    pub state: &'static str,
    /// `in`: inside MPI; `out`: outside MPI; `unknown`: the counters do not tell which.
    pub place: &'static str,
    /// The share in each bucket; null where nothing was measured.
    pub shares: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct RankRow {
    pub name: String,
    /// Shares in equal parts of the run; null for parts without a measurement.
    pub cells: Vec<Option<f64>>,
}

/// A finding or a change, with its number on the charts.
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
    /// Number of rows; the number of columns is the same.
    pub side: u32,
    /// Number of ranks that share a row; more than 1 if the job has more ranks than the picture has rows.
    pub ranks_per_cell: u32,
    pub most_bytes: u64,
    /// `most_bytes` as a formatted text.
    pub most: String,
    /// The cells with messages.
    pub cells: Vec<MatrixCell>,
    /// Notes on messages that the picture does not contain.
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
    /// Depth in the tree of factors: each is the product of those directly below it.
    pub depth: usize,
    pub value: f64,
    pub definition: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Table {
    /// The HTML id of the table's section.
    pub id: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Number of rows that were omitted.
    pub omitted: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Column {
    pub title: &'static str,
    pub is_number: bool,
}

/// A text with the number by which it is sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Cell {
    pub text: String,
    /// The number in base units; null for texts and for values that were not measured.
    pub number: Option<f64>,
    /// A share from 0 to 1, drawn as a bar; else null.
    pub bar: Option<f64>,
}
