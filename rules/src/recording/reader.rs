//! Bytes to records. Where the bytes come from is not known here; they are not trusted.

use super::block::Blocks;
use super::body::{self, kind};
use super::record::{Captured, Header, Hit, ProbeKey, Record};
use super::stream::{self, Key, Stream, boolean};
use super::wire::{Cursor, Wrong};
use super::{MAX_RECORD, MAX_STREAMS, ReadError};
use crate::value::{ProcessId, Time};

/// Goes over the records of a recording, in the order they were written.
///
/// When the recording is complete the iterator just ends. Otherwise its last item is the error: everything up to the
/// last good block has been returned by then. Memory: one record and what is remembered of the streams; a length in the
/// bytes never makes it more than some dozen times the bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    blocks: Blocks<'a>,
    /// The open block's records not read yet.
    open: Cursor<'a>,
    header: Header,
    time: u64,
    streams: Vec<Stream>,
    /// Records read, those of the format's own included.
    count: u64,
    skipped: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Over,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of a recording.
    ///
    /// # Errors
    /// When it is no recording, one of an unknown version, or the header is torn or damaged.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>, ReadError> {
        let mut blocks = Blocks::new(bytes)?;
        let at = blocks.at();
        let mut open = Cursor::new(blocks.next()?);
        let wrong = |what| ReadError::Corrupt { at, what };
        let (kind, mut body) = record(&mut open).map_err(wrong)?;
        if kind != kind::HEADER {
            return Err(wrong("the first record is not a header"));
        }
        let header = body::header(&mut body).map_err(wrong)?;
        Ok(Reader {
            blocks,
            open,
            header,
            time: 0,
            streams: Vec::new(),
            count: 1,
            skipped: 0,
            state: State::Open,
        })
    }

    /// What the recording says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many records were left out so far, because a newer version wrote what this one does not know.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Where in the bytes the next record begins.
    fn at(&self) -> usize {
        self.blocks.at() - self.open.left()
    }

    fn step(&mut self) -> Result<Option<Record>, ReadError> {
        while self.state == State::Open {
            if self.open.left() == 0 {
                if self.blocks.is_over() {
                    return Err(ReadError::Torn { at: self.blocks.at() });
                }
                self.open = Cursor::new(self.blocks.next()?);
                continue;
            }
            let at = self.at();
            let read = self.record().map_err(|what| ReadError::Corrupt { at, what })?;
            if read.is_some() {
                return Ok(read);
            }
        }
        if self.state == State::Ended && !(self.open.left() == 0 && self.blocks.is_over()) {
            let what = "something follows the end";
            return Err(ReadError::Corrupt { at: self.at(), what });
        }
        Ok(None)
    }

    /// None for a record that is of the format's own, or not known.
    fn record(&mut self) -> Result<Option<Record>, Wrong> {
        let (kind, mut body) = record(&mut self.open)?;
        match kind {
            kind::END => {
                if body.number()? != self.count {
                    return Err("the end counts other records than there are");
                }
                self.state = State::Ended;
                return Ok(None);
            }
            0 | kind::HEADER => return Err("there is no such record here"),
            _ => self.count += 1,
        }
        match kind {
            kind::STREAM => {
                if self.streams.len() >= MAX_STREAMS {
                    return Err("there are more streams than there may be");
                }
                self.streams.push(Stream::new(stream::key(&mut body)?));
                Ok(None)
            }
            kind::FORGET => {
                self.streams.clear();
                Ok(None)
            }
            _ => {
                let read = match kind {
                    kind::SAMPLE => self.sample(&mut body)?,
                    _ => body::single(kind, &mut body, &mut self.time)?,
                };
                self.skipped += u64::from(read.is_none());
                Ok(read)
            }
        }
    }

    fn sample(&mut self, body: &mut Cursor<'_>) -> Result<Option<Record>, Wrong> {
        let number = body.size()?;
        self.time = body.difference(self.time)?;
        let time = Time(self.time);
        let stream = self.streams.get_mut(number).ok_or("a stream was not described")?;
        let before = &mut stream.before;
        Ok(Some(match stream.key {
            None => return Ok(None),
            Some(Key::Hits {
                process,
                probe,
                thread,
                timed,
                shape,
            }) => Record::Hit(Hit {
                probe: ProbeKey(probe),
                process: ProcessId(process),
                thread,
                time,
                duration_ns: if timed { Some(body.number()?) } else { None },
                captures: {
                    let values = shape.tags().iter().zip(before);
                    values
                        .map(|(tag, before)| captured(body, *tag, before))
                        .collect::<Result<Vec<Captured>, Wrong>>()?
                },
            }),
            Some(Key::Counter(process, measure)) => Record::Counter {
                process: process.map(ProcessId),
                measure,
                time,
                total: step(before, 0, |before| body.difference(before))?,
            },
            Some(Key::Gauge(process, measure)) => Record::Gauge {
                process: process.map(ProcessId),
                measure,
                time,
                value: f64::from_bits(step(before, 0, |before| body.float(before))?),
            },
            Some(Key::Totals { process, probe }) => Record::ProbeTotals {
                probe: ProbeKey(probe),
                process: ProcessId(process),
                time,
                count: step(before, 0, |before| body.difference(before))?,
                duration_sum_ns: step(before, 1, |before| body.difference(before))?,
            },
        }))
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Over {
            return None;
        }
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.state = State::Over;
        }
        step
    }
}

impl std::iter::FusedIterator for Reader<'_> {}

/// Kind and body of the next record.
fn record<'a>(open: &mut Cursor<'a>) -> Result<(u64, Cursor<'a>), Wrong> {
    let kind = open.number()?;
    let size = open.size()?;
    if size > MAX_RECORD {
        return Err("a record is longer than records may be");
    }
    Ok((kind, Cursor::new(open.bytes(size)?)))
}

fn step(before: &mut [u64], place: usize, now: impl FnOnce(u64) -> Result<u64, Wrong>) -> Result<u64, Wrong> {
    let before = before.get_mut(place).ok_or("a stream was not described")?;
    *before = now(*before)?;
    Ok(*before)
}

fn captured(body: &mut Cursor<'_>, tag: u8, before: &mut u64) -> Result<Captured, Wrong> {
    Ok(match tag {
        stream::SIGNED => {
            *before = body.difference(*before)?;
            Captured::Signed(before.cast_signed())
        }
        stream::UNSIGNED => {
            *before = body.difference(*before)?;
            Captured::Unsigned(*before)
        }
        stream::FLOAT => {
            *before = body.float(*before)?;
            Captured::Float(f64::from_bits(*before))
        }
        stream::BOOLEAN => Captured::Boolean(boolean(body.byte()?)?),
        stream::TEXT => Captured::Text(body.text()?),
        // The reader keeps no stream with tags beyond these.
        _ => Captured::None(body::reason(body.byte()?)),
    })
}
