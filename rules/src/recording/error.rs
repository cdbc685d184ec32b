//! What can be wrong with a recording, or with what is to become one. What to do about it is said; it is not
//! done.

use std::fmt;

use super::MAJOR;

/// Why the rest of a recording cannot be read. What was returned before the error is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It does not begin as a recording does.
    NotARecording,
    /// It was made by a version of the format that this program does not know.
    UnknownVersion {
        /// The major version it was made by.
        found: u16,
    },
    /// It breaks off without an end marker: the program that wrote it was stopped, or the copy is not whole.
    Torn {
        /// Where the first block that is not whole begins, or would have begun; bytes from the start.
        at: usize,
    },
    /// Something in it is not what was written.
    Corrupt {
        /// Where the block begins whose sums are wrong, or the record that makes no sense; bytes from the
        /// start.
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
    /// How large it is, in bytes or in pieces.
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
