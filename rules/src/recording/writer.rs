//! Records to bytes. Where the bytes go is not known here; what is too large is refused, not cut.

use super::record::{Header, Record};
use super::stored::{self, Block, Stored};
use super::{BLOCK_MAX, BLOCK_TARGET, TooLarge, block};

/// Makes a recording. Hand what [`RecordingWriter::take`] gives to the file, in order, and
/// [`RecordingWriter::finish`]'s at the end.
///
/// Records may come in any order; it is kept. Times that go up slowly and probes that are hit again and again
/// cost least.
#[derive(Clone, Debug)]
pub struct RecordingWriter {
    ready: Vec<u8>,
    open: Block,
    /// What the open block's records weigh.
    weight: usize,
    /// Sum of the last whole block.
    sum: u32,
    /// Time of the last record in columns.
    time: u64,
    count: u64,
}

impl RecordingWriter {
    /// Begins a recording. The header is in the first chunk.
    ///
    /// # Errors
    /// When a text or the notes of the header are too large.
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
    /// When a text, a list or all of it together is too large; then the recording goes on without it.
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

    /// Appends a block of any bytes as if they were records: made up by a test, handed on unseen.
    ///
    /// # Errors
    /// When they are more than [`BLOCK_MAX`].
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

    /// The next bytes of the recording: all blocks closed since the last call. Empty when there are none.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Bytes of records that are in no block yet, before they are compressed: at most about [`BLOCK_TARGET`].
    pub fn unflushed(&self) -> usize {
        self.weight
    }

    /// The last bytes of the recording, with its end marker: without them it counts as torn.
    pub fn finish(mut self) -> Vec<u8> {
        self.push(Stored::End(self.count));
        self.flush();
        self.ready
    }
}
