//! Records to bytes. Where the bytes go is not known here; what is too large is refused, not cut.

use std::collections::BTreeMap;

use super::body::{self, kind};
use super::record::{Captured, Header, Hit, Record};
use super::stream::{Key, Shape, Stream, put_key};
use super::wire::{put_difference, put_float, put_number, put_size, put_text, within};
use super::{BLOCK_TARGET, MAX_CAPTURES, MAX_RECORD, MAX_STREAMS, MAX_TEXT, TooLarge, block};
use crate::value::{ProcessId, Time};

/// Makes a recording. Hand what [`Writer::take`] gives to the file, in order, and [`Writer::finish`]'s at the end.
///
/// Records may come in any order; it is kept. Times that go up slowly and probes that are hit again and again cost
/// least.
#[derive(Clone, Debug)]
pub struct Writer {
    ready: Vec<u8>,
    open: Vec<u8>,
    /// Sum of the last whole block.
    sum: u32,
    /// Records written, those of the format's own included.
    count: u64,
    memory: Memory,
}

/// What the reader will remember at this place.
#[derive(Clone, Debug, Default)]
struct Memory {
    time: u64,
    numbers: BTreeMap<Key, usize>,
    streams: Vec<Stream>,
}

impl Writer {
    /// Begins a recording. The header is in the first chunk.
    ///
    /// # Errors
    /// When a text or the notes of the header are too large.
    pub fn new(header: &Header) -> Result<Writer, TooLarge> {
        let (ready, sum) = block::begin();
        let mut writer = Writer {
            ready,
            open: Vec::new(),
            sum,
            count: 0,
            memory: Memory::default(),
        };
        let mut bytes = Vec::new();
        body::put_header(&mut bytes, header)?;
        writer.put(kind::HEADER, &bytes)?;
        writer.flush();
        Ok(writer)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// When a text, a list or all of it together is too large; then the recording goes on without it.
    pub fn write(&mut self, record: &Record) -> Result<(), TooLarge> {
        match record {
            Record::Hit(hit) => self.hit(hit),
            Record::Counter {
                process,
                measure,
                time,
                total,
            } => self.sample(
                Key::Counter(process.map(|p| p.0), *measure),
                *time,
                |out, before| {
                    step(out, before, 0, *total, put_difference);
                },
            ),
            Record::Gauge {
                process,
                measure,
                time,
                value,
            } => self.sample(
                Key::Gauge(process.map(|p| p.0), *measure),
                *time,
                |out, before| {
                    step(out, before, 0, value.to_bits(), put_float);
                },
            ),
            Record::ProbeTotals {
                probe,
                process: ProcessId(process),
                time,
                count,
                duration_sum_ns,
            } => {
                let key = Key::Totals {
                    process: *process,
                    probe: probe.0,
                };
                self.sample(key, *time, |out, before| {
                    step(out, before, 0, *count, put_difference);
                    step(out, before, 1, *duration_sum_ns, put_difference);
                })
            }
            single => {
                let mut bytes = Vec::new();
                if let Some(kind) = body::put_single(&mut bytes, single, self.memory.time)? {
                    self.put(kind, &bytes)?;
                    let time = single.time().filter(|_| !single.is_apart());
                    self.memory.time = time.map_or(self.memory.time, |time| time.0);
                }
                Ok(())
            }
        }
    }

    /// Appends a record as bytes, unseen: one of a kind that is not known here, handed on or made up by a test. Of a
    /// kind that is known, nobody has made sure that it can be read.
    ///
    /// # Errors
    /// When it is larger than [`MAX_RECORD`].
    pub fn foreign(&mut self, kind: u64, body: &[u8]) -> Result<(), TooLarge> {
        self.put(kind, body)
    }

    /// Closes the open block, so that everything written so far is in the next chunk. A block costs 12 bytes.
    pub fn flush(&mut self) {
        if !self.open.is_empty() {
            self.sum = block::seal(&mut self.ready, &self.open, self.sum);
            self.open.clear();
        }
    }

    /// The next bytes of the recording: all blocks closed since the last call. Empty when there are none.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Bytes of records that are in no block yet: at most about [`BLOCK_TARGET`].
    pub fn unflushed(&self) -> usize {
        self.open.len()
    }

    /// The last bytes of the recording, with its end marker: without them it counts as torn.
    pub fn finish(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, self.count);
        // A number is never too large.
        let _ = self.put(kind::END, &bytes);
        self.flush();
        self.ready
    }

    fn put(&mut self, kind: u64, body: &[u8]) -> Result<(), TooLarge> {
        within("a record", body.len(), MAX_RECORD)?;
        put_number(&mut self.open, kind);
        put_size(&mut self.open, body.len());
        self.open.extend_from_slice(body);
        self.count += 1;
        if self.open.len() >= BLOCK_TARGET {
            self.flush();
        }
        Ok(())
    }

    fn hit(&mut self, hit: &Hit) -> Result<(), TooLarge> {
        let count = hit.captures.len();
        let shape = Shape::of(&hit.captures).ok_or(TooLarge {
            what: "the list of a hit's captures",
            size: count,
            limit: MAX_CAPTURES,
        })?;
        for value in &hit.captures {
            if let Captured::Text(text) = value {
                within("a captured text", text.len(), MAX_TEXT)?;
            }
        }
        let key = Key::Hits {
            process: hit.process.0,
            probe: hit.probe.0,
            thread: hit.thread,
            timed: hit.duration_ns.is_some(),
            shape,
        };
        self.sample(key, hit.time, |out, before| {
            hit.duration_ns
                .iter()
                .for_each(|duration| put_number(out, *duration));
            for (place, value) in hit.captures.iter().enumerate() {
                put_captured(out, before, place, value);
            }
        })
    }

    /// A record of a stream, which is described first if it is new. `values` cannot fail: sizes were looked at before.
    fn sample(
        &mut self,
        key: Key,
        time: Time,
        values: impl FnOnce(&mut Vec<u8>, &mut [u64]),
    ) -> Result<(), TooLarge> {
        let number = match self.memory.numbers.get(&key) {
            Some(number) => *number,
            None => self.describe(key)?,
        };
        let mut bytes = Vec::with_capacity(32);
        put_size(&mut bytes, number);
        put_difference(&mut bytes, time.0, self.memory.time);
        self.memory.time = time.0;
        if let Some(stream) = self.memory.streams.get_mut(number) {
            values(&mut bytes, &mut stream.before);
        }
        self.put(kind::SAMPLE, &bytes)
    }

    fn describe(&mut self, key: Key) -> Result<usize, TooLarge> {
        if self.memory.streams.len() >= MAX_STREAMS {
            self.put(kind::FORGET, &[])?;
            self.memory.streams.clear();
            self.memory.numbers.clear();
        }
        let mut bytes = Vec::new();
        put_key(&mut bytes, &key)?;
        self.put(kind::STREAM, &bytes)?;
        let number = self.memory.streams.len();
        self.memory.streams.push(Stream::new(Some(key)));
        self.memory.numbers.insert(key, number);
        Ok(number)
    }
}

fn step(out: &mut Vec<u8>, before: &mut [u64], place: usize, now: u64, put: fn(&mut Vec<u8>, u64, u64)) {
    if let Some(before) = before.get_mut(place) {
        put(out, now, *before);
        *before = now;
    }
}

fn put_captured(out: &mut Vec<u8>, before: &mut [u64], place: usize, value: &Captured) {
    match value {
        Captured::None(reason) => out.push(body::reason_code(*reason)),
        Captured::Signed(number) => step(out, before, place, number.cast_unsigned(), put_difference),
        Captured::Unsigned(number) => step(out, before, place, *number, put_difference),
        Captured::Float(number) => step(out, before, place, number.to_bits(), put_float),
        Captured::Boolean(truth) => out.push(u8::from(*truth)),
        Captured::Text(text) => {
            // Its size was looked at before.
            let _ = put_text(out, "a captured text", text);
        }
    }
}
