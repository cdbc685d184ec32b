//! Errors of recordings and of what is written to them. The messages say what to do.

use std::fmt::Display;

use thiserror::Error;

use super::MAJOR;

/// Why the rest of a recording cannot be read. What was returned before the error is correct.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The file does not begin as a recording.
    #[error("this is not a recording of tuneagent; give a file made by --record")]
    NotARecording,
    /// The version of the format is unknown to this program.
    #[error(
        "the recording has format {found}, this program reads format {MAJOR}; use the tuneagent that made it, or a newer one"
    )]
    UnknownVersion {
        /// The major version of the file.
        found: u16,
    },
    /// The file ends without an end marker: the program that wrote it was stopped, or the copy is incomplete.
    #[error("the recording {}", torn(*.at))]
    Torn {
        /// Offset in bytes at which the first incomplete block begins, or would have begun.
        at: usize,
    },
    /// The contents differ from what was written.
    #[error(
        "the recording is damaged at byte {at} ({what}); the data before is good; copy it again for the rest"
    )]
    Corrupt {
        /// Offset in bytes of the block whose checksums are wrong, or of the record that cannot be decoded.
        at: usize,
        what: &'static str,
        /// What the decoder says, if the checksums are right: then not a copy is damaged, but what was written.
        #[source]
        cause: Option<DecoderError>,
    },
}

/// The error of a decoder, as text: the errors of decoders can be neither cloned nor compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DecoderError(String);

/// What is wrong with the bytes of a block; the reader knows where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    what: &'static str,
    cause: Option<DecoderError>,
}

impl Damage {
    /// For `map_err` of a decoder.
    pub(super) fn because<E: Display>(what: &'static str) -> impl FnOnce(E) -> Damage {
        move |cause| Damage {
            what,
            cause: Some(DecoderError(cause.to_string())),
        }
    }

    pub(super) fn at(self, at: usize) -> ReadError {
        ReadError::Corrupt {
            at,
            what: self.what,
            cause: self.cause,
        }
    }
}

impl From<&'static str> for Damage {
    fn from(what: &'static str) -> Damage {
        Damage { what, cause: None }
    }
}

fn torn(at: usize) -> String {
    match at {
        0 => "is empty: the session that wrote it was stopped at once, or the copy is incomplete".to_owned(),
        at => format!(
            "breaks off at byte {at}: the session that wrote it was stopped, or the copy is incomplete; the data before is good"
        ),
    }
}

/// Something is too large for a recording. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} of {size} does not fit into a recording, {limit} is the most; shorten it")]
pub struct TooLarge {
    pub what: &'static str,
    /// Its size, in bytes or elements.
    pub size: usize,
    pub limit: usize,
}
