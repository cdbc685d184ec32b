//! Records to bytes. The caller stores the bytes; what is too large is refused, not truncated.

use super::record::{Header, Record};
use super::stored::{self, Block, Stored};
use super::{BLOCK_MAX, BLOCK_TARGET, TooLarge, block};

/// Encodes a recording. Write the bytes of [`RecordingWriter::take`] to the file in order, and those of
/// [`RecordingWriter::finish`] at the end.
///
/// Records may come in any order, which is kept. Slowly increasing times and recurring probes compress best.
#[derive(Clone, Debug)]
pub struct RecordingWriter {
    ready: Vec<u8>,
    open: Block,
    /// Total weight of the records in the open block.
    weight: usize,
    /// Checksum of the last closed block.
    sum: u32,
    /// Time of the last record in columns.
    time: u64,
    count: u64,
}

impl RecordingWriter {
    /// Begins a recording. The header is in the first chunk.
    ///
    /// # Errors
    /// If a text or the notes of the header are too large.
    pub fn new(header: &Header) -> Result<RecordingWriter, TooLarge> {
        let json = stored::put_header(header)?;
        let (mut ready, sum) = block::begin();
        let sum = block::seal(&mut ready, json.as_bytes(), sum);
        Ok(RecordingWriter {
            ready,
            open: Block::default(),
            weight: 0,
            sum,
            time: header.origin.0,
            count: 0,
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If a text, a list or the complete record is too large; the recording then continues without it.
    pub fn write(&mut self, record: &Record) -> Result<(), TooLarge> {
        if self.open.records.is_empty() {
            // The first difference is 0, so that all of the block's differences are small.
            self.time = record.time().map_or(self.time, |time| time.0);
            self.open.start = self.time;
        }
        let stored = Stored::new(record, &mut self.time)?;
        self.push(stored);
        Ok(())
    }

    pub(super) fn push(&mut self, stored: Stored) {
        self.count += 1;
        self.weight += stored.weight();
        self.open.records.push(stored);
        if self.weight >= BLOCK_TARGET {
            self.flush();
        }
    }

    /// Appends a block of arbitrary bytes as if they were records, for tests.
    ///
    /// # Errors
    /// If it has more than [`BLOCK_MAX`] bytes.
    pub fn foreign(&mut self, block: &[u8]) -> Result<(), TooLarge> {
        if block.len() > BLOCK_MAX {
            let (what, size, limit) = ("a block", block.len(), BLOCK_MAX);
            return Err(TooLarge { what, size, limit });
        }
        self.flush();
        self.sum = block::seal(&mut self.ready, block, self.sum);
        Ok(())
    }

    /// Closes the open block, so that everything written so far is in the next chunk. A block costs about 50
    /// bytes.
    pub fn flush(&mut self) {
        if !self.open.records.is_empty() {
            self.sum = block::seal(&mut self.ready, &bitcode::encode(&self.open), self.sum);
            self.open.records.clear();
            self.weight = 0;
        }
    }

    /// The next bytes of the recording: all blocks closed since the last call. Empty if there are none.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Bytes of records that are in no block yet, before compression: at most about [`BLOCK_TARGET`].
    pub fn unflushed(&self) -> usize {
        self.weight
    }

    /// The last bytes of the recording, with the end marker: without them it counts as torn.
    pub fn finish(mut self) -> Vec<u8> {
        self.push(Stored::End(self.count));
        self.flush();
        self.ready
    }
}
