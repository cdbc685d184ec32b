//! Errors of recordings and of what is written to them. The messages say what to do.

use std::fmt;

use super::MAJOR;

/// Why the rest of a recording cannot be read. What was returned before the error is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The file does not begin as a recording.
    NotARecording,
    /// The version of the format is unknown to this program.
    UnknownVersion {
        /// The major version of the file.
        found: u16,
    },
    /// The file ends without an end marker: the program that wrote it was stopped, or the copy is incomplete.
    Torn {
        /// Offset in bytes at which the first incomplete block begins, or would have begun.
        at: usize,
    },
    /// The contents differ from what was written.
    Corrupt {
        /// Offset in bytes of the block whose checksums are wrong, or of the record that cannot be decoded.
        at: usize,
        what: &'static str,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotARecording => {
                f.write_str("this is not a recording of tuneagent; give a file made by --record")
            }
            ReadError::UnknownVersion { found } => write!(
                f,
                "the recording has format {found}, this program reads format {MAJOR}; \
                 use the tuneagent that made it, or a newer one"
            ),
            ReadError::Torn { at: 0 } => f.write_str("the recording is empty: the session that wrote it was stopped at once, or the copy is incomplete"),
            ReadError::Torn { at } => write!(
                f,
                "the recording breaks off at byte {at}: the session that wrote it was stopped, or the copy is incomplete; \
                 the data before is good"
            ),
            ReadError::Corrupt { at, what } => write!(
                f,
                "the recording is damaged at byte {at} ({what}); the data before is good; copy it again for the rest"
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Something is too large for a recording. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    pub what: &'static str,
    /// Its size, in bytes or elements.
    pub size: usize,
    pub limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { what, size, limit } = self;
        write!(
            f,
            "{what} of {size} does not fit into a recording, {limit} is the most; shorten it"
        )
    }
}

impl std::error::Error for TooLarge {}
