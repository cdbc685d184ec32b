//! The outer format: the prelude of a recording, and compressed blocks with checksums. This module does not
//! interpret the contents of blocks.
//!
//! The checksum of a block continues that of the preceding block, so a missing, duplicated or moved block is
//! detected. Length and checksum have a checksum of their own, which distinguishes a damaged length from a
//! missing rest.

use super::error::Damage;
use super::{BLOCK_MAX, MAJOR, MINOR, ReadError};

const MAGIC: [u8; 8] = *b"\x89tunerec";
/// Magic, major version, minor version.
pub(super) const PRELUDE: usize = 12;
/// Length, checksum, checksum of these two.
pub(super) const FRAME: usize = 12;

/// The first bytes of a recording, and the initial value for the first block's checksum.
pub(super) fn begin() -> (Vec<u8>, u32) {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&MAJOR.to_le_bytes());
    out.extend_from_slice(&MINOR.to_le_bytes());
    let sum = crc32fast::hash(&out);
    (out, sum)
}

/// Compresses and appends a block; returns its checksum. `records` has at most [`BLOCK_MAX`] bytes.
pub(super) fn seal(out: &mut Vec<u8>, records: &[u8], before: u32) -> u32 {
    let packed = lz4_flex::block::compress_prepend_size(records);
    let sum = chained(&packed, before);
    let length = u32::try_from(packed.len()).unwrap_or(u32::MAX);
    let mut frame = [length.to_le_bytes(), sum.to_le_bytes()].concat();
    let check = crc32fast::hash(&frame);
    frame.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&frame);
    out.extend_from_slice(&packed);
    sum
}

fn chained(packed: &[u8], before: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(packed);
    hasher.finalize()
}

/// Iterates over the blocks of a recording.
#[derive(Clone, Debug)]
pub(super) struct Blocks<'a> {
    bytes: &'a [u8],
    /// Offset of the next block.
    at: usize,
    /// Checksum of the last block.
    sum: u32,
}

impl<'a> Blocks<'a> {
    /// Checks the prelude of a recording.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Blocks<'a>, ReadError> {
        let Some((prelude, _)) = bytes.split_first_chunk::<PRELUDE>() else {
            // If bytes of the prelude are missing, the version is not checked.
            let is_the_beginning = bytes.iter().zip(&MAGIC).all(|(a, b)| a == b);
            return Err(if is_the_beginning {
                ReadError::Torn { at: 0 }
            } else {
                ReadError::NotARecording
            });
        };
        let [magic @ .., major_low, major_high, _, _] = prelude;
        if *magic != MAGIC {
            return Err(ReadError::NotARecording);
        }
        let found = u16::from_le_bytes([*major_low, *major_high]);
        if found != MAJOR {
            return Err(ReadError::UnknownVersion { found });
        }
        Ok(Blocks {
            bytes,
            at: PRELUDE,
            sum: crc32fast::hash(prelude),
        })
    }

    /// Whether no block follows.
    pub(super) fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Offset of the next block, which is the end of the last one.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The records of the next block.
    pub(super) fn next(&mut self) -> Result<Vec<u8>, ReadError> {
        let at = self.at;
        let torn = || ReadError::Torn { at };
        let corrupt = |what: &'static str| Damage::from(what).at(at);
        let rest = self.bytes.get(at..).unwrap_or_default();
        let (frame, rest) = rest.split_first_chunk::<FRAME>().ok_or_else(torn)?;
        let [l0, l1, l2, l3, s0, s1, s2, s3, check @ ..] = *frame;
        if crc32fast::hash(&[l0, l1, l2, l3, s0, s1, s2, s3]) != u32::from_le_bytes(check) {
            return Err(corrupt("the frame of a block has another sum"));
        }
        let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
        let sum = u32::from_le_bytes([s0, s1, s2, s3]);
        if length > BLOCK_MAX {
            return Err(corrupt("a block is longer than blocks may be"));
        }
        let packed = rest.get(..length).ok_or_else(torn)?;
        if chained(packed, self.sum) != sum {
            return Err(corrupt("a block has another sum"));
        }
        self.sum = sum;
        self.at = at + FRAME + length;
        unpacked(packed).map_err(|damage| damage.at(at))
    }
}

/// Checks the size before that much memory is allocated.
fn unpacked(packed: &[u8]) -> Result<Vec<u8>, Damage> {
    let wrong = "a block cannot be decompressed";
    let (size, packed) = lz4_flex::block::uncompressed_size(packed).map_err(Damage::because(wrong))?;
    if size > BLOCK_MAX {
        return Err("a block is longer than blocks may be".into());
    }
    lz4_flex::block::decompress(packed, size).map_err(Damage::because(wrong))
}
