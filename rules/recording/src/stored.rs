//! The inner format: records in a block. Frequent records are stored in columns, the others as JSON, of which
//! an older program leaves out what it does not know.

use bitcode::{Decode, Encode};
use serde::Serialize;
use serde_json::Value;

use super::error::Damage;
use super::record::{Captured, Header, ProbeKey, Record, RecordedHit};
use super::{CAPTURES_MAX, NOTES_MAX, RECORD_MAX, TEXT_MAX, TooLarge};
use rules::{Measure, ProcessId, Time};

/// The records of a block.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(super) struct Block {
    /// The time from which the first difference counts.
    pub start: u64,
    pub records: Vec<Stored>,
}

/// A record in a block. `after_ns` is the difference to the preceding record in columns, modulo 2^64.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) enum Stored {
    Hit {
        after_ns: i64,
        probe: u32,
        process: u32,
        thread: u32,
        duration_ns: Option<u64>,
        captures: Vec<Captured>,
    },
    Counter {
        after_ns: i64,
        process: Option<u32>,
        measure: String,
        total: u64,
    },
    Gauge {
        after_ns: i64,
        process: Option<u32>,
        measure: String,
        value: f64,
    },
    ProbeTotals {
        after_ns: i64,
        process: u32,
        probe: u32,
        count: u64,
        duration_sum_ns: u64,
    },
    Watermark {
        after_ns: i64,
        process: u32,
    },
    Tick {
        after_ns: i64,
    },
    Json(String),
    /// The end of the recording, with the number of records before it.
    End(u64),
}

impl Stored {
    /// `before` is the time of the last record in columns; updated if this one is stored in columns.
    pub(super) fn new(record: &Record, before: &mut u64) -> Result<Stored, TooLarge> {
        let after_ns = match record.time() {
            Some(time) => time.0.wrapping_sub(*before).cast_signed(),
            None => 0,
        };
        let stored = match record {
            Record::Hit(hit) => stored_hit(hit, after_ns)?,
            Record::Counter {
                process,
                measure,
                total,
                ..
            } => Stored::Counter {
                after_ns,
                process: process.map(|process| process.0),
                measure: measure.name().to_owned(),
                total: *total,
            },
            Record::Gauge {
                process,
                measure,
                value,
                ..
            } => Stored::Gauge {
                after_ns,
                process: process.map(|process| process.0),
                measure: measure.name().to_owned(),
                value: *value,
            },
            Record::ProbeTotals {
                probe,
                process,
                count,
                duration_sum_ns,
                ..
            } => Stored::ProbeTotals {
                after_ns,
                process: process.0,
                probe: probe.0,
                count: *count,
                duration_sum_ns: *duration_sum_ns,
            },
            Record::Watermark { process, .. } => Stored::Watermark {
                after_ns,
                process: process.0,
            },
            Record::Tick { .. } => Stored::Tick { after_ns },
            Record::ProbeDefined { definition, .. } => {
                within(
                    "the list of a probe's captures",
                    definition.captures.len(),
                    CAPTURES_MAX,
                )?;
                return json(record).map(Stored::Json);
            }
            _ => return json(record).map(Stored::Json),
        };
        *before = before.wrapping_add_signed(after_ns);
        Ok(stored)
    }

    /// The record; `None` if this version does not know it.
    pub(super) fn record(self, before: &mut u64) -> Result<Option<Record>, Damage> {
        let mut at = |after_ns| advance(before, after_ns);
        Ok(match self {
            Stored::Hit {
                after_ns,
                probe,
                process,
                thread,
                duration_ns,
                captures,
            } => Some(Record::Hit(RecordedHit {
                probe: ProbeKey(probe),
                process: ProcessId(process),
                thread,
                time: at(after_ns),
                duration_ns,
                captures: checked_captures(captures)?,
            })),
            Stored::Counter {
                after_ns,
                process,
                measure,
                total,
            } => {
                let (process, time) = (process.map(ProcessId), at(after_ns));
                Measure::named(&measure).map(|measure| Record::Counter {
                    process,
                    measure,
                    time,
                    total,
                })
            }
            Stored::Gauge {
                after_ns,
                process,
                measure,
                value,
            } => {
                let (process, time) = (process.map(ProcessId), at(after_ns));
                Measure::named(&measure).map(|measure| Record::Gauge {
                    process,
                    measure,
                    time,
                    value,
                })
            }
            Stored::ProbeTotals {
                after_ns,
                process,
                probe,
                count,
                duration_sum_ns,
            } => Some(Record::ProbeTotals {
                probe: ProbeKey(probe),
                process: ProcessId(process),
                time: at(after_ns),
                count,
                duration_sum_ns,
            }),
            Stored::Watermark { after_ns, process } => Some(Record::Watermark {
                process: ProcessId(process),
                time: at(after_ns),
            }),
            Stored::Tick { after_ns } => Some(Record::Tick { time: at(after_ns) }),
            Stored::Json(json) => parsed(&json)?,
            Stored::End(_) => return Err("the end stands among the records".into()),
        })
    }

    /// Approximate size in bytes before compression, never too small.
    pub(super) fn weight(&self) -> usize {
        const NUMBERS: usize = 48;
        const CAPTURE: usize = 16;
        NUMBERS
            + match self {
                Stored::Hit { captures, .. } => captures.iter().map(|value| CAPTURE + text_size(value)).sum(),
                Stored::Json(json) => json.len(),
                _ => 0,
            }
    }
}

fn advance(before: &mut u64, after_ns: i64) -> Time {
    *before = before.wrapping_add_signed(after_ns);
    Time(*before)
}

fn text_size(value: &Captured) -> usize {
    match value {
        Captured::Text(text) => text.len(),
        _ => 0,
    }
}

fn stored_hit(hit: &RecordedHit, after_ns: i64) -> Result<Stored, TooLarge> {
    within("the list of a hit's captures", hit.captures.len(), CAPTURES_MAX)?;
    for value in &hit.captures {
        within("a captured text", text_size(value), TEXT_MAX)?;
    }
    Ok(Stored::Hit {
        after_ns,
        probe: hit.probe.0,
        process: hit.process.0,
        thread: hit.thread,
        duration_ns: hit.duration_ns,
        captures: hit.captures.clone(),
    })
}

fn checked_captures(mut captures: Vec<Captured>) -> Result<Vec<Captured>, Damage> {
    if captures.len() > CAPTURES_MAX {
        return Err("a hit has more captures than hits may have".into());
    }
    for value in &mut captures {
        if let Captured::Text(text) = value {
            *text = printable(text).map_err(too_long)?;
        }
    }
    Ok(captures)
}

/// The record; `None` for an unknown kind or an unknown field.
fn parsed(json: &str) -> Result<Option<Record>, Damage> {
    if json.len() > RECORD_MAX {
        return Err("a record is longer than records may be".into());
    }
    let value = serde_json::from_str(json).map_err(Damage::because("a record is not JSON"))?;
    let record = serde_json::from_value(clean(value).map_err(too_long)?).ok();
    match &record {
        Some(Record::ProbeDefined { definition, .. }) if definition.captures.len() > CAPTURES_MAX => {
            Err("a probe has more captures than probes may have".into())
        }
        _ => Ok(record),
    }
}

pub(super) fn put_header(header: &Header) -> Result<String, TooLarge> {
    within("the list of notes", header.notes.len(), NOTES_MAX)?;
    json(header)
}

pub(super) fn header(bytes: &[u8]) -> Result<Header, Damage> {
    let value = serde_json::from_slice(bytes).map_err(Damage::because("the first block is not a header"))?;
    let header: Header = serde_json::from_value(clean(value).map_err(too_long)?)
        .map_err(Damage::because("the first block is not a header"))?;
    match header.notes.len() {
        0..=NOTES_MAX => Ok(header),
        _ => Err("there are more notes than there may be".into()),
    }
}

fn json(value: &impl Serialize) -> Result<String, TooLarge> {
    // Texts, numbers and lists of them always become JSON.
    let mut value = clean(serde_json::to_value(value).unwrap_or_default())?;
    // Sorted, so that a record has the same bytes for any order of declared fields.
    value.sort_all_objects();
    let json = value.to_string();
    within("a record", json.len(), RECORD_MAX)?;
    Ok(json)
}

/// Makes all texts printable: a recording is untrusted.
fn clean(value: Value) -> Result<Value, TooLarge> {
    Ok(match value {
        Value::String(text) => Value::String(printable(&text)?),
        Value::Array(values) => Value::Array(values.into_iter().map(clean).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| Ok((printable(&name)?, clean(value)?)));
            Value::Object(fields.collect::<Result<_, _>>()?)
        }
        other => other,
    })
}

/// A text in one line, in which characters that a terminal would act on are replaced.
fn printable(text: &str) -> Result<String, TooLarge> {
    let text = text.replace(is_active, "\u{fffd}");
    within("a text", text.len(), TEXT_MAX)?;
    Ok(text)
}

fn too_long(_: TooLarge) -> Damage {
    "a text is longer than texts may be".into()
}

fn within(what: &'static str, size: usize, limit: usize) -> Result<(), TooLarge> {
    if size <= limit {
        Ok(())
    } else {
        Err(TooLarge { what, size, limit })
    }
}

/// Control characters, and characters that change the writing direction or end a line.
pub(super) fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}
