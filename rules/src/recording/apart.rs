//! Records that came after version 1.0. Their time is a number, no difference to the record before: a reader that does not know one goes on
//! with the clock as it was, and so does everyone.

use super::TooLarge;
use super::body::kind;
use super::record::{ProbeKey, Record};
use super::wire::{Cursor, Wrong, put_number, put_text};
use crate::value::{ProcessId, Time};

/// Writes the body of such a record and says its kind; none for any other.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) -> Result<Option<u64>, TooLarge> {
    Ok(Some(match record {
        Record::RuleSet { time, rule, mode } => {
            put_number(out, time.0);
            put_text(out, "the name of a rule", rule)?;
            put_text(out, "the mode of a rule", mode)?;
            kind::RULE
        }
        Record::Iterations {
            process,
            time,
            count,
            whole_ns,
            elapsed_ns,
            mpi_ns,
            calls_per_1000,
        } => {
            put_number(out, u64::from(process.0));
            for number in [time.0, *count, *whole_ns, *elapsed_ns, *mpi_ns, *calls_per_1000] {
                put_number(out, number);
            }
            kind::ITERATIONS
        }
        Record::Variable {
            process,
            time,
            name,
            value,
        } => {
            put_number(out, u64::from(process.0));
            put_number(out, time.0);
            put_text(out, "the name of a variable", name)?;
            put_number(out, value.to_bits());
            kind::VARIABLE
        }
        Record::Estimated {
            process,
            probe,
            time,
            counted,
            counted_bytes,
            from,
            to,
            watched,
        } => {
            put_number(out, u64::from(process.0));
            put_number(out, u64::from(probe.0));
            let to = to.map_or(0, |to| to.saturating_add(1));
            for number in [time.0, *counted, *counted_bytes, *from, to, watched.to_bits()] {
                put_number(out, number);
            }
            kind::ESTIMATED
        }
        Record::Marked {
            time,
            kind,
            rule,
            text,
        } => {
            put_number(out, time.0);
            put_text(out, "the kind of a mark", kind)?;
            put_text(out, "the name of a rule", rule)?;
            put_text(out, "the text of a mark", text)?;
            kind::MARKED
        }
        _ => return Ok(None),
    }))
}

/// Reads the body of such a record; none for a kind that is not known.
pub(super) fn read(kind: u64, body: &mut Cursor<'_>) -> Result<Option<Record>, Wrong> {
    Ok(Some(match kind {
        kind::RULE => Record::RuleSet {
            time: Time(body.number()?),
            rule: body.text()?,
            mode: body.text()?,
        },
        kind::ITERATIONS => Record::Iterations {
            process: ProcessId(body.small()?),
            time: Time(body.number()?),
            count: body.number()?,
            whole_ns: body.number()?,
            elapsed_ns: body.number()?,
            mpi_ns: body.number()?,
            calls_per_1000: body.number()?,
        },
        kind::VARIABLE => Record::Variable {
            process: ProcessId(body.small()?),
            time: Time(body.number()?),
            name: body.text()?,
            value: f64::from_bits(body.number()?),
        },
        kind::ESTIMATED => Record::Estimated {
            process: ProcessId(body.small()?),
            probe: ProbeKey(body.small()?),
            time: Time(body.number()?),
            counted: body.number()?,
            counted_bytes: body.number()?,
            from: body.number()?,
            to: body.number()?.checked_sub(1),
            watched: f64::from_bits(body.number()?),
        },
        kind::MARKED => Record::Marked {
            time: Time(body.number()?),
            kind: body.text()?,
            rule: body.text()?,
            text: body.text()?,
        },
        _ => return Ok(None),
    }))
}
