//! The contents of a recording as plain values. Their encoding is in `stored`.

use std::collections::BTreeMap;

use bitcode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use rules::{
    IterationTeams, LoopIteration, LoopNumber, Machine, Measure, Observation, ProcessFacts, ProcessId,
    Scalar, Subject, Time,
};

/// Describes a recording, before the first record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub host: String,
    /// Name of the observed program.
    pub program: String,
    /// The wall clock at the start, nanoseconds since 1970 (UTC).
    pub wall_start_ns: u64,
    /// The clock of all record times, read at the same moment as `wall_start_ns`.
    pub origin: Time,
    /// Further notes, at most [`super::NOTES_MAX`] pairs.
    pub notes: BTreeMap<String, String>,
}

/// The number of a probe in its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeKey(pub u32);

/// A recorded event. Times are nanoseconds of the clock of [`Header::origin`].
///
/// Variants that serde skips are stored in columns. A new variant is not skipped: older programs leave it out
/// and count it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A process of the job appeared.
    ProcessJoined {
        process: ProcessId,
        time: Time,
        facts: ProcessFacts,
    },
    /// New facts of a process, which replace the previous ones.
    ProcessLearned {
        process: ProcessId,
        time: Time,
        /// All known facts of the process.
        facts: ProcessFacts,
    },
    /// A process has ended or is no longer watched.
    ProcessLeft { process: ProcessId, time: Time },
    /// Defines the number of a probe, from here on.
    ProbeDefined {
        probe: ProbeKey,
        definition: ProbeDefinition,
    },
    #[serde(skip)]
    Hit(RecordedHit),
    /// A running total since an arbitrary moment.
    #[serde(skip)]
    Counter {
        /// `None` for a measure of the machine of the recording.
        process: Option<ProcessId>,
        measure: Measure,
        time: Time,
        /// Nanoseconds, bytes, or a count.
        total: u64,
    },
    #[serde(skip)]
    Gauge {
        /// `None` for a measure of the machine of the recording.
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
        /// Hits since an arbitrary moment.
        count: u64,
        duration_sum_ns: u64,
    },
    /// No hit of this process with a time up to `time` comes after this record.
    #[serde(skip)]
    Watermark { process: ProcessId, time: Time },
    /// Hits of a process were lost: the windows to which they would have belonged are incomplete.
    HitsLost {
        process: ProcessId,
        /// The earliest time of a lost hit.
        from: Time,
        /// The latest time of a lost hit; the record's time.
        to: Time,
    },
    /// The rules were evaluated: windows that had ended by then were closed. It is recorded because a timed
    /// window lasts until the evaluation that closes it.
    #[serde(skip)]
    Tick { time: Time },
    /// From here on the rule has this mode.
    RuleSet {
        time: Time,
        rule: String,
        /// `off`, `advising`, `applying`; `added` before the first of these for a rule that did not exist at
        /// the start; `removed`.
        mode: String,
    },
    /// Totals of the complete iterations of the loop that was detected in a process.
    Iterations {
        process: ProcessId,
        time: Time,
        /// Iterations observed from begin to end.
        count: u64,
        /// Sum of their durations, nanoseconds.
        sum_ns: u64,
        /// From the first begin to the last, nanoseconds; more than `sum_ns` if calls in between were not
        /// observed.
        elapsed_ns: u64,
        /// The part of that time inside MPI, nanoseconds.
        mpi_ns: u64,
        /// MPI calls in a thousand iterations.
        calls_per_1000: u64,
    },
    /// The parallel regions of a process, over all the time for which they were probed; written at the end.
    Regions {
        process: ProcessId,
        time: Time,
        count: u64,
        /// Time inside them, nanoseconds; `None` if the probes are too great a part of it.
        inside_ns: Option<u64>,
        /// Time for which they were probed, nanoseconds.
        watched_ns: u64,
        /// From the first reading to the end of the probing, nanoseconds; `None` if it lasted.
        until_ns: Option<u64>,
    },
    /// An iteration of the detected loop of a process has begun.
    IterationBegan {
        process: ProcessId,
        time: Time,
        thread: u32,
        number: LoopNumber,
    },
    /// An iteration of the detected loop of a process has ended.
    IterationEnded {
        process: ProcessId,
        /// The time of its end.
        time: Time,
        duration_ns: u64,
        thread: u32,
        number: LoopNumber,
        /// What its parallel regions do, or why that is not known.
        teams: Result<IterationTeams, String>,
    },
    /// All begins and ends of iterations of a process up to `time` have been recorded.
    LoopWatermark { process: ProcessId, time: Time },
    /// The current value of a variable that a rule would write.
    Variable {
        process: ProcessId,
        time: Time,
        /// The variable, or the path to a part of it, as the rule names it.
        name: String,
        /// Its value; a boolean is 0 or 1.
        #[serde(with = "bits")]
        value: f64,
    },
    /// The totals of a function that was watched in sampling windows, with the bounds of the estimate.
    Estimated {
        process: ProcessId,
        probe: ProbeKey,
        time: Time,
        counted: u64,
        counted_bytes: u64,
        /// Lower bound of the number of calls.
        from: u64,
        /// Upper bound; `None` if unknown.
        to: Option<u64>,
        /// The fraction of the time in which calls were counted.
        #[serde(with = "bits")]
        watched: f64,
    },
    /// How long the calls of a function have lasted that have not returned yet; they are in no total. Holds until the
    /// next record of the same.
    OpenCalls {
        probe: ProbeKey,
        process: ProcessId,
        time: Time,
        open_ns: u64,
    },
    /// What ranks have sent to each other since the begin of the session, for pairs that have sent more since the last
    /// record.
    Sent {
        time: Time,
        /// Ranks of sender and receiver, messages, and bytes; at most [`super::PAIRS_MAX`].
        pairs: Vec<(u32, u32, u64, u64)>,
        /// Pairs that are not recorded.
        cut: u64,
    },
    /// A finding, change or verdict of the session, as it was reported to the user.
    Marked {
        time: Time,
        /// One of `finding`, `change`, `kept`, `reverted`; `undone` for `reverted` in files of earlier versions.
        kind: String,
        rule: String,
        text: String,
    },
    /// Something was lost, of no process in particular.
    Loss {
        time: Time,
        /// The kind of loss: `ring_full`.
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
    /// Where the probe sits in the function.
    pub place: ProbePlace,
    /// Name and type of each capture, in the order of [`RecordedHit::captures`]; at most [`super::CAPTURES_MAX`].
    pub captures: Vec<(String, CapturedType)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbePlace {
    Entry,
    Return,
    /// At entry and return: its hits have durations.
    Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordedHit {
    pub probe: ProbeKey,
    pub process: ProcessId,
    /// The thread, as the recording agent numbers them.
    pub thread: u32,
    /// Time of the hit; for a span, time of its end.
    pub time: Time,
    /// Duration in nanoseconds; `None` for an entry, or if the entry was not observed.
    pub duration_ns: Option<u64>,
    /// The captured values, at most [`super::CAPTURES_MAX`].
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
    /// A floating-point number; every bit is kept.
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
    /// The window or call to which it belongs is incomplete.
    Incomplete,
    InsideCall,
}

impl Record {
    /// Its time; `None` for a definition.
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
            | Record::Regions { time, .. }
            | Record::IterationBegan { time, .. }
            | Record::IterationEnded { time, .. }
            | Record::LoopWatermark { time, .. }
            | Record::Variable { time, .. }
            | Record::Estimated { time, .. }
            | Record::OpenCalls { time, .. }
            | Record::Sent { time, .. }
            | Record::Marked { time, .. }
            | Record::Loss { time, .. } => Some(*time),
        }
    }

    /// The observation of a measurement, a watermark, or a boundary of an iteration, recorded on this machine;
    /// `None` for other records.
    pub fn observation(self, machine: Machine) -> Option<Observation> {
        Some(match self {
            Record::Counter {
                process,
                measure,
                time,
                total,
            } => Observation::counter(Subject::of(process, machine), measure, time, total),
            Record::Gauge {
                process,
                measure,
                time,
                value,
            } => Observation::gauge(Subject::of(process, machine), measure, time, value),
            Record::Watermark { process, time } => Observation::Watermark { process, time },
            Record::LoopWatermark { process, time } => Observation::LoopWatermark { process, time },
            Record::IterationBegan {
                process,
                time,
                thread,
                number,
            } => Observation::IterationBegan {
                process,
                thread,
                number,
                time,
            },
            Record::IterationEnded {
                process,
                time,
                duration_ns,
                thread,
                number,
                teams,
            } => Observation::IterationEnded(LoopIteration {
                process,
                thread,
                number,
                begin: Time(time.0.saturating_sub(duration_ns)),
                end: time,
                teams,
            }),
            Record::Variable {
                process,
                time,
                name,
                value,
            } => Observation::Variable {
                process,
                name,
                time,
                value: Scalar::Number(value),
            },
            _ => return None,
        })
    }

    /// The parts that a merge changes: time, process and probe.
    pub(super) fn parts(&mut self) -> (Option<&mut Time>, Option<&mut ProcessId>, Option<&mut ProbeKey>) {
        match self {
            Record::ProbeDefined { probe, .. } => (None, None, Some(probe)),
            Record::Hit(hit) => (Some(&mut hit.time), Some(&mut hit.process), Some(&mut hit.probe)),
            Record::ProbeTotals {
                probe, process, time, ..
            }
            | Record::OpenCalls {
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
            | Record::Regions { process, time, .. }
            | Record::IterationBegan { process, time, .. }
            | Record::IterationEnded { process, time, .. }
            | Record::LoopWatermark { process, time }
            | Record::Variable { process, time, .. }
            | Record::HitsLost {
                process, to: time, ..
            } => (Some(time), Some(process), None),
            Record::Counter { process, time, .. } | Record::Gauge { process, time, .. } => {
                (Some(time), process.as_mut(), None)
            }
            Record::Tick { time }
            | Record::Sent { time, .. }
            | Record::RuleSet { time, .. }
            | Record::Marked { time, .. }
            | Record::Loss { time, .. } => (Some(time), None, None),
        }
    }
}

/// Stores a float as its bits, so that every bit is kept.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}
