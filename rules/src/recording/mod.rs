//! Recordings: what a session observed, as bytes, and back; several of them joined into one.
//!
//! Nothing here opens a file, reads a clock or evaluates a rule. Bytes go out of a [`RecordingWriter`] in
//! chunks, a [`Reader`] goes over bytes that somebody else has read, and [`RecordingMerge`] joins readers.
//! The form is described in `docs/recording.md`: compressed blocks with check sums, in which the records that
//! come often are stored in columns.
//!
//! Where to read: `record` (the values), `stored` (records in a block), `block` (check sums, compression),
//! `writer`, `reader`, `merge`.
//!
//! ```
//! use rules::recording::{Header, Reader, Record, RecordingWriter};
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
//! // The end is missing: everything up to the last whole block, then an error that says where.
//! let torn: Vec<_> = Reader::new(&bytes[..bytes.len() - 1]).unwrap().collect();
//! assert!(torn[0].as_ref().unwrap_err().to_string().starts_with("the recording breaks off"));
//! ```

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
    Captured, CapturedType, Header, Hit, MissingReason, ProbeDefinition, ProbeKey, ProbePlace, Record,
};
pub use writer::RecordingWriter;

/// The format's major version: another one cannot be read.
pub const MAJOR: u16 = 2;
/// The format's minor version: a newer one can be read, what is new in it is left out and counted.
pub const MINOR: u16 = 0;

/// Bytes of one text: a path of Linux is not longer.
pub const TEXT_MAX: usize = 4096;
/// Values captured at one hit: four times what the kernel side can read today.
pub const CAPTURES_MAX: usize = 16;
/// Pairs of free text in a header.
pub const NOTES_MAX: usize = 64;
/// Bytes of one record: the facts of a process with some thousand libraries.
pub const RECORD_MAX: usize = 256 << 10;
/// Bytes of one block, compressed or not.
pub const BLOCK_MAX: usize = 384 << 10;
/// Bytes that the records of one block take in memory, whatever the bytes of the file are.
pub const OPEN_MAX: usize = 64 << 20;
/// A block is closed when its records have this many bytes: enough for the compression, and little is lost
/// where it is torn.
pub const BLOCK_TARGET: usize = 64 << 10;
