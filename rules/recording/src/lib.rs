//! Recordings: serializes what a session observed, reads it, and merges several recordings into one.
//!
//! This crate opens no file, reads no clock and evaluates no rule. A [`RecordingWriter`] returns bytes in
//! chunks, a [`Reader`] iterates over bytes that the caller has read, and [`RecordingMerge`] merges readers.
//! `docs/recording.md` describes the format: compressed blocks with checksums, in which the frequent records
//! are stored in columns.
//!
//! Where to read: `record` (the values), `stored` (records in a block), `block` (checksums, compression),
//! `writer`, `reader`, `merge`.
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
mod merge;
mod reader;
mod record;
mod stored;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{ReadError, TooLarge};
pub use merge::{Broken, Merged, RecordingMerge};
pub use reader::Reader;
pub use record::{
    Captured, CapturedType, Header, MissingReason, ProbeDefinition, ProbeKey, ProbePlace, Record, RecordedHit,
};
pub use writer::RecordingWriter;

/// The format's major version; files of another major version cannot be read.
pub const MAJOR: u16 = 2;
/// The format's minor version; newer files can be read, their unknown records are left out and counted.
pub const MINOR: u16 = 1;

/// Bytes of one text; the limit of paths in Linux.
pub const TEXT_MAX: usize = 4096;
/// Values captured at one hit: four times the present limit of the kernel side.
pub const CAPTURES_MAX: usize = 16;
/// Free-text pairs in a header.
pub const NOTES_MAX: usize = 64;
/// Pairs of ranks in one record.
pub const PAIRS_MAX: usize = 2000;
/// Bytes of one record; suffices for the facts of a process with some thousand libraries.
pub const RECORD_MAX: usize = 256 << 10;
/// Bytes of one block, compressed or not.
pub const BLOCK_MAX: usize = 384 << 10;
/// Bytes of memory for the records of one block, for any input.
pub const OPEN_MAX: usize = 64 << 20;
/// Uncompressed bytes at which a block is closed: enough for the compression, and little is lost if the block
/// is torn.
pub const BLOCK_TARGET: usize = 64 << 10;
