//! Bytes to records. The bytes are untrusted; the caller supplies them.

use super::ReadError;
use super::block::Blocks;
use super::error::Damage;
use super::record::{Header, Record};
use super::stored::{self, Block, Stored};

/// Iterates over the records of a recording, in the order in which they were written.
///
/// If the recording is complete, the iterator just ends. Otherwise its last item is the error, after
/// everything up to the last good block. Memory: the records of one block, at most [`super::OPEN_MAX`] bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    blocks: Blocks<'a>,
    /// Offset of the open block.
    at: usize,
    /// The unread records of the open block.
    open: std::vec::IntoIter<Stored>,
    header: Header,
    time: u64,
    count: u64,
    skipped: u64,
    is_over: bool,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of a recording.
    ///
    /// # Errors
    /// If this is no recording, its version is unknown, or the header is torn or damaged.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>, ReadError> {
        let mut blocks = Blocks::new(bytes)?;
        let at = blocks.at();
        let header = stored::header(&blocks.next()?).map_err(|damage| damage.at(at))?;
        Ok(Reader {
            blocks,
            at,
            open: Vec::new().into_iter(),
            header,
            time: 0,
            count: 0,
            skipped: 0,
            is_over: false,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of records left out so far because this version does not know them.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn step(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let Some(stored) = self.open.next() else {
                self.next_block()?;
                continue;
            };
            let at = self.at;
            if let Stored::End(count) = stored {
                return self.end(count);
            }
            self.count += 1;
            match stored.record(&mut self.time).map_err(|damage| damage.at(at))? {
                Some(record) => return Ok(Some(record)),
                None => self.skipped += 1,
            }
        }
    }

    fn next_block(&mut self) -> Result<(), ReadError> {
        let at = self.blocks.at();
        if self.blocks.is_over() {
            return Err(ReadError::Torn { at });
        }
        let block = bitcode::decode(&self.blocks.next()?);
        let block: Block = block.map_err(|error| Damage::because("a block makes no sense")(error).at(at))?;
        (self.at, self.time, self.open) = (at, block.start, block.records.into_iter());
        Ok(())
    }

    fn end(&mut self, count: u64) -> Result<Option<Record>, ReadError> {
        let (at, what) = if count != self.count {
            (self.at, "the end counts other records than there are")
        } else if self.open.len() > 0 {
            (self.at, "something follows the end")
        } else if !self.blocks.is_over() {
            (self.blocks.at(), "something follows the end")
        } else {
            return Ok(None);
        };
        Err(Damage::from(what).at(at))
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step().transpose();
        self.is_over = !matches!(step, Some(Ok(_)));
        step
    }
}

impl std::iter::FusedIterator for Reader<'_> {}
