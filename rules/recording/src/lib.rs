//! Recordings: serializes what a session observed, reads it, and merges several recordings into one.
//!
//! This crate opens no file, reads no clock and evaluates no rule. A [`RecordingWriter`] returns bytes in
//! chunks, a [`Reader`] iterates over bytes that the caller has read, and [`RecordingMerge`] merges readers.
//! `docs/recording.md` describes the format: compressed blocks with checksums, in which the frequent records
//! are stored in columns.
//!
//! Where to read: `format` (version and bounds), `record` (the values), `stored` (records in a block), `block`
//! (checksums, compression), `writer`, `reader`, `merge`.
//!
//! ```
//! use recording::{Header, Reader, Record, RecordingWriter};
//! use rules::{ProcessId, Time};
//!
//! let header = Header { host: "node1".into(), program: "simulate".into(), ..Header::default() };
//! let mut writer = RecordingWriter::new(&header).unwrap();
//! let record = Record::Watermark { process: ProcessId(0), time: Time(1_000) };
//! writer.write(&record).unwrap();
//! let mut bytes = writer.take(); // what may go into the file now
//! bytes.extend(writer.finish());
//!
//! let reader = Reader::new(&bytes).unwrap();
//! assert_eq!(reader.header().host, "node1");
//! let records: Result<Vec<Record>, _> = reader.collect();
//! assert_eq!(records.unwrap(), [record]);
//!
//! // The end is missing: everything up to the last complete block, then an error that says where.
//! let torn: Vec<_> = Reader::new(&bytes[..bytes.len() - 1]).unwrap().collect();
//! assert!(torn[0].as_ref().unwrap_err().to_string().starts_with("the recording breaks off"));
//! ```

#![forbid(unsafe_code)]

mod block;
mod error;
mod format;
mod merge;
mod reader;
mod record;
mod stored;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{DecoderError, ReadError, TooLarge};
pub use format::{
    BLOCK_MAX, BLOCK_TARGET, CAPTURES_MAX, MAJOR, MINOR, NOTES_MAX, OPEN_MAX, PAIRS_MAX, RECORD_MAX, TEXT_MAX,
};
pub use merge::{Broken, Merged, RecordingMerge};
pub use reader::Reader;
pub use record::{
    Captured, CapturedType, Header, MissingReason, ProbeDefinition, ProbeKey, ProbePlace, Record, RecordedHit,
};
pub use writer::RecordingWriter;
