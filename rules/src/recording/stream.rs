//! Streams: what comes again and again is described once, and what the last one said is remembered on both sides.

use super::record::{Captured, CapturedType};
use super::wire::{Cursor, Wrong, put_number, put_size, put_text};
use super::{MAX_CAPTURES, TooLarge};
use crate::measure::Measure;

/// What tells one stream from another. A copy is cheap: it is built for each hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Hits {
        process: u32,
        probe: u32,
        thread: u32,
        timed: bool,
        shape: Shape,
    },
    Counter(Option<u32>, Measure),
    Gauge(Option<u32>, Measure),
    Totals {
        process: u32,
        probe: u32,
    },
}

/// The types of a hit's captures, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Shape {
    count: u8,
    tags: [u8; MAX_CAPTURES],
}

impl Shape {
    /// None when there are more than [`MAX_CAPTURES`].
    pub(super) fn of(captures: &[Captured]) -> Option<Shape> {
        let mut shape = Shape::default();
        captures.iter().try_for_each(|value| shape.push(tag(value)))?;
        Some(shape)
    }

    fn push(&mut self, tag: u8) -> Option<()> {
        *self.tags.get_mut(usize::from(self.count))? = tag;
        self.count += 1;
        Some(())
    }

    pub(super) fn tags(&self) -> &[u8] {
        self.tags.get(..usize::from(self.count)).unwrap_or_default()
    }
}

pub(super) const NONE: u8 = 0;
pub(super) const SIGNED: u8 = 1;
pub(super) const UNSIGNED: u8 = 2;
pub(super) const FLOAT: u8 = 3;
pub(super) const BOOLEAN: u8 = 4;
pub(super) const TEXT: u8 = 5;

fn tag(value: &Captured) -> u8 {
    match value {
        Captured::None(_) => NONE,
        Captured::Signed(_) => SIGNED,
        Captured::Unsigned(_) => UNSIGNED,
        Captured::Float(_) => FLOAT,
        Captured::Boolean(_) => BOOLEAN,
        Captured::Text(_) => TEXT,
    }
}

pub(super) fn type_tag(of: CapturedType) -> u8 {
    match of {
        CapturedType::Signed => SIGNED,
        CapturedType::Unsigned => UNSIGNED,
        CapturedType::Float => FLOAT,
        CapturedType::Boolean => BOOLEAN,
        CapturedType::Text => TEXT,
    }
}

pub(super) fn tagged_type(tag: u8) -> Option<CapturedType> {
    [
        CapturedType::Signed,
        CapturedType::Unsigned,
        CapturedType::Float,
        CapturedType::Boolean,
        CapturedType::Text,
    ]
    .into_iter()
    .find(|of| type_tag(*of) == tag)
}

/// A stream with the numbers of its last record: captures, a total, a level's bits, or count and sum.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// None for one of a kind, a type or a measure that this version does not know.
    pub(super) key: Option<Key>,
    pub(super) before: Vec<u64>,
}

impl Stream {
    pub(super) fn new(key: Option<Key>) -> Stream {
        let numbers = match &key {
            Some(Key::Hits { shape, .. }) => shape.tags().len(),
            Some(Key::Counter(..) | Key::Gauge(..)) => 1,
            Some(Key::Totals { .. }) => 2,
            None => 0,
        };
        Stream {
            key,
            before: vec![0; numbers],
        }
    }
}

const HITS_TYPE: u8 = 1;
const COUNTER_TYPE: u8 = 2;
const GAUGE_TYPE: u8 = 3;
const TOTALS_TYPE: u8 = 4;

/// The body of a definition.
pub(super) fn put_key(out: &mut Vec<u8>, key: &Key) -> Result<(), TooLarge> {
    match key {
        Key::Hits {
            process,
            probe,
            thread,
            timed,
            shape,
        } => {
            out.push(HITS_TYPE);
            [process, probe, thread]
                .into_iter()
                .for_each(|number| put_number(out, u64::from(*number)));
            out.push(u8::from(*timed));
            put_size(out, shape.tags().len());
            out.extend_from_slice(shape.tags());
        }
        Key::Counter(process, measure) | Key::Gauge(process, measure) => {
            out.push(if matches!(key, Key::Counter(..)) {
                COUNTER_TYPE
            } else {
                GAUGE_TYPE
            });
            // 0 is the node; numbers of processes are counted from 1 here.
            put_number(out, process.map_or(0, |process| u64::from(process) + 1));
            put_text(out, "the name of a measure", measure.name())?;
        }
        Key::Totals { process, probe } => {
            out.push(TOTALS_TYPE);
            put_number(out, u64::from(*process));
            put_number(out, u64::from(*probe));
        }
    }
    Ok(())
}

/// None for what a newer version may mean.
pub(super) fn key(body: &mut Cursor<'_>) -> Result<Option<Key>, Wrong> {
    Ok(match body.byte()? {
        HITS_TYPE => {
            let (process, probe, thread) = (body.small()?, body.small()?, body.small()?);
            let timed = boolean(body.byte()?)?;
            let count = body.size()?;
            let mut shape = Shape::default();
            for tag in body.bytes(count)? {
                shape
                    .push(*tag)
                    .ok_or("a hit has more captures than hits may have")?;
            }
            let known = shape.tags().iter().all(|tag| *tag <= TEXT);
            known.then_some(Key::Hits {
                process,
                probe,
                thread,
                timed,
                shape,
            })
        }
        COUNTER_TYPE => measured(body)?.map(|(process, measure)| Key::Counter(process, measure)),
        GAUGE_TYPE => measured(body)?.map(|(process, measure)| Key::Gauge(process, measure)),
        TOTALS_TYPE => Some(Key::Totals {
            process: body.small()?,
            probe: body.small()?,
        }),
        _ => None,
    })
}

fn measured(body: &mut Cursor<'_>) -> Result<Option<(Option<u32>, Measure)>, Wrong> {
    let process = match body.number()? {
        0 => None,
        more => Some(u32::try_from(more - 1).map_err(|_| "a number has more than 32 bits")?),
    };
    Ok(Measure::named(&body.text()?).map(|measure| (process, measure)))
}

pub(super) fn boolean(byte: u8) -> Result<bool, Wrong> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a truth value is neither"),
    }
}
