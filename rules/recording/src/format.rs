//! The version of the format, and its bounds.

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
