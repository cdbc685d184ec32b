//! What a recording consists of, as plain values. How they look as bytes is not known here.

use std::collections::BTreeMap;

use bitcode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::facts::ProcessFacts;
use crate::measure::Measure;
use crate::value::{ProcessId, Time};

/// What a recording says of itself before the first record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub host: String,
    /// Name of the program that was watched.
    pub program: String,
    /// The wall clock at the start, nanoseconds since 1970 (UTC).
    pub wall_start_ns: u64,
    /// The clock of all the records' times, read at the same moment as `wall_start_ns`.
    pub origin: Time,
    /// Whatever else is worth knowing, at most [`super::NOTES_MAX`] pairs.
    pub notes: BTreeMap<String, String>,
}

/// A probe, by the number it has in its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeKey(pub u32);

/// One thing that was recorded. Times are nanoseconds of the clock of [`Header::origin`].
///
/// Those that serde skips are stored in columns. A new kind is not skipped: older programs leave it out and
/// count it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A process of the job is there.
    ProcessJoined {
        process: ProcessId,
        time: Time,
        facts: ProcessFacts,
    },
    /// More is known of a process: these facts take the place of those before.
    ProcessLearned {
        process: ProcessId,
        time: Time,
        /// All that is known of it.
        facts: ProcessFacts,
    },
    /// A process has ended or is watched no longer.
    ProcessLeft { process: ProcessId, time: Time },
    /// What a probe's number stands for, from here on.
    ProbeDefined {
        probe: ProbeKey,
        definition: ProbeDefinition,
    },
    #[serde(skip)]
    Hit(Hit),
    /// A running total since any moment.
    #[serde(skip)]
    Counter {
        /// None for a measure of the machine that the recording is of.
        process: Option<ProcessId>,
        measure: Measure,
        time: Time,
        /// Nanoseconds, bytes, or a count.
        total: u64,
    },
    #[serde(skip)]
    Gauge {
        /// None for a measure of the machine that the recording is of.
        process: Option<ProcessId>,
        measure: Measure,
        time: Time,
        /// Seconds, bytes, or a plain number.
        value: f64,
    },
    /// Running totals of a probe in one process.
    #[serde(skip)]
    ProbeTotals {
        probe: ProbeKey,
        process: ProcessId,
        time: Time,
        /// Hits since any moment.
        count: u64,
        duration_sum_ns: u64,
    },
    /// No hit of this process with a time up to `time` comes after this record.
    #[serde(skip)]
    Watermark { process: ProcessId, time: Time },
    /// Hits of a process were lost: where they would have counted, nothing is complete.
    HitsLost {
        process: ProcessId,
        /// The earliest that may be lost.
        from: Time,
        /// The latest; it counts as the record's time.
        to: Time,
    },
    /// The rules were evaluated: windows that are over by then were closed. It is recorded because a timed
    /// window lasts until the evaluation that closes it.
    #[serde(skip)]
    Tick { time: Time },
    /// From here on a rule may do this.
    RuleSet {
        time: Time,
        rule: String,
        /// `off`, `advising`, `applying`; `added` before the first of these for a rule that was not there at
        /// the start; `removed`.
        mode: String,
    },
    /// What the whole iterations of the loop that a process was found to run in came to.
    Iterations {
        process: ProcessId,
        time: Time,
        /// Iterations that were seen from their begin to their end.
        count: u64,
        /// Their time together, nanoseconds.
        sum_ns: u64,
        /// From the first begin to the last, nanoseconds; more than theirs where calls were not seen in
        /// between.
        elapsed_ns: u64,
        /// How much of that was inside MPI, nanoseconds.
        mpi_ns: u64,
        /// MPI calls in a thousand of them.
        calls_per_1000: u64,
    },
    /// What a variable holds that a rule would write.
    Variable {
        process: ProcessId,
        time: Time,
        /// The variable, or the way to a part of it, as the rule has it.
        name: String,
        /// What it holds; a boolean is 0 or 1.
        #[serde(with = "bits")]
        value: f64,
    },
    /// A function was watched in windows: the totals of its entries so far are estimated, and this is known
    /// of them.
    Estimated {
        process: ProcessId,
        probe: ProbeKey,
        time: Time,
        counted: u64,
        counted_bytes: u64,
        /// The fewest calls that there were.
        from: u64,
        /// The most; none where that is not known.
        to: Option<u64>,
        /// The part of the time in which they were counted.
        #[serde(with = "bits")]
        watched: f64,
    },
    /// The session found, changed or judged something, as it reported it to its user then.
    Marked {
        time: Time,
        /// What: `finding`, `change`, `kept`, `undone`.
        kind: String,
        rule: String,
        text: String,
    },
    /// Something was lost, of no process in particular.
    Loss {
        time: Time,
        /// What: `ring_full`.
        kind: String,
        /// How many since the recording began.
        count: u64,
    },
}

/// A probe as it was armed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeDefinition {
    pub name: String,
    pub function: String,
    /// Where it sits in the function.
    pub place: ProbePlace,
    /// Name and type of what is captured, in the order of [`Hit::captures`]; at most [`super::CAPTURES_MAX`].
    pub captures: Vec<(String, CapturedType)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbePlace {
    Entry,
    Return,
    /// At both: its hits have durations.
    Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub probe: ProbeKey,
    pub process: ProcessId,
    /// The thread, as the recording agent numbers them.
    pub thread: u32,
    /// When; of a span, when it ended.
    pub time: Time,
    /// How long it took, nanoseconds; none for an entry, or where the entry was not seen.
    pub duration_ns: Option<u64>,
    /// What was captured, at most [`super::CAPTURES_MAX`].
    pub captures: Vec<Captured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturedType {
    Signed,
    Unsigned,
    Float,
    Boolean,
    Text,
}

/// A captured value, or why there is none.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Captured {
    /// There is no value.
    None(MissingReason),
    Signed(i64),
    Unsigned(u64),
    /// A floating-point number, every bit of which is kept.
    Float(f64),
    Boolean(bool),
    /// A text of at most [`super::TEXT_MAX`] bytes.
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum MissingReason {
    /// A reason of a newer version of the format.
    Unknown,
    /// It was not requested.
    NotMeasured,
    Unreadable,
    Lost,
    /// What it belongs to is not complete.
    Incomplete,
    InsideCall,
}

impl Record {
    /// Its time; none for a definition.
    pub fn time(&self) -> Option<Time> {
        match self {
            Record::ProbeDefined { .. } => None,
            Record::Hit(hit) => Some(hit.time),
            Record::ProcessJoined { time, .. }
            | Record::ProcessLearned { time, .. }
            | Record::ProcessLeft { time, .. }
            | Record::Counter { time, .. }
            | Record::Gauge { time, .. }
            | Record::ProbeTotals { time, .. }
            | Record::Watermark { time, .. }
            | Record::HitsLost { to: time, .. }
            | Record::Tick { time }
            | Record::RuleSet { time, .. }
            | Record::Iterations { time, .. }
            | Record::Variable { time, .. }
            | Record::Estimated { time, .. }
            | Record::Marked { time, .. }
            | Record::Loss { time, .. } => Some(*time),
        }
    }

    /// What a merge changes: the time, the process and the probe.
    pub(super) fn parts(&mut self) -> (Option<&mut Time>, Option<&mut ProcessId>, Option<&mut ProbeKey>) {
        match self {
            Record::ProbeDefined { probe, .. } => (None, None, Some(probe)),
            Record::Hit(hit) => (Some(&mut hit.time), Some(&mut hit.process), Some(&mut hit.probe)),
            Record::ProbeTotals {
                probe, process, time, ..
            }
            | Record::Estimated {
                probe, process, time, ..
            } => (Some(time), Some(process), Some(probe)),
            Record::ProcessJoined { process, time, .. }
            | Record::ProcessLearned { process, time, .. }
            | Record::ProcessLeft { process, time }
            | Record::Watermark { process, time }
            | Record::Iterations { process, time, .. }
            | Record::Variable { process, time, .. }
            | Record::HitsLost {
                process, to: time, ..
            } => (Some(time), Some(process), None),
            Record::Counter { process, time, .. } | Record::Gauge { process, time, .. } => {
                (Some(time), process.as_mut(), None)
            }
            Record::Tick { time }
            | Record::RuleSet { time, .. }
            | Record::Marked { time, .. }
            | Record::Loss { time, .. } => (Some(time), None, None),
        }
    }
}

/// A float as its bits, each of which is kept.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}
