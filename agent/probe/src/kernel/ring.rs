//! A ring of records that the kernel side fills and we drain (BPF_MAP_TYPE_RINGBUF). Reading never blocks,
//! and this module does not interpret records.
//!
//! The kernel offers the data twice in a row, so that no record is split where the ring wraps. It attributes
//! mapped memory to us; here the data is mapped once, each piece when the first record arrives there, and a
//! record that is split is joined.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{Ordering, fence},
};

use super::{
    cells::Cells,
    sys::{Access, Mapping},
};

const WORD: usize = size_of::<u64>();
/// Size of a record's header: its length with two flags, and a word of the kernel's own.
const HEAD_BYTES: u64 = 8;
/// The record is still being written.
const IS_BUSY: u32 = 1 << 31;
/// The record was discarded.
const IS_DISCARDED: u32 = 1 << 30;

/// The reader's side. Parts that no record has reached are not mapped.
#[derive(Debug)]
pub struct Ring {
    map: OwnedFd,
    /// Our read position, for the kernel.
    consumer: Mapping,
    /// The kernel's write position.
    producer: Mapping,
    data: Cells<u64>,
    /// Size of the data in words: a power of two.
    words: usize,
    read: u64,
    /// The write position when it was last read.
    written: u64,
    /// Records were taken since the last fence that made our position visible to the kernel.
    has_taken: bool,
    record: Vec<u64>,
}

impl Ring {
    pub(super) fn of(map: BorrowedFd<'_>, bytes: u32) -> io::Result<Ring> {
        let page = procfs::page_size();
        // As at load: no ring is smaller than a page.
        let words = u64::from(bytes).max(page) as usize / WORD;
        let consumer = Mapping::of(map, 0, 1, Access::Write)?;
        let producer = Mapping::of(map, page, 1, Access::Read)?;
        let data = Cells::map_behind(map, 2 * page, words as u32)?;
        let read = consumer.load(0, Ordering::Acquire).unwrap_or_default();
        Ok(Ring {
            map: map.try_clone_to_owned()?,
            consumer,
            producer,
            data,
            words,
            read,
            written: read,
            has_taken: false,
            record: Vec::new(),
        })
    }

    /// The next record; `None` if there is none, or if the next one is still being written: the kernel then
    /// makes the descriptor readable once it is complete.
    pub fn take(&mut self) -> Option<&[u8]> {
        self.take_until(|| true)
    }

    /// As [`Ring::take`]; without a record it checks again until `is_enough` returns true.
    pub(super) fn take_until(&mut self, mut is_enough: impl FnMut() -> bool) -> Option<&[u8]> {
        let length = loop {
            match self.copy_next() {
                Some(length) => break length,
                None if is_enough() => return None,
                None => {}
            }
        };
        bytemuck::cast_slice::<u64, u8>(&self.record).get(..length)
    }

    /// Copies the next record and frees its place. Returns its length in bytes.
    fn copy_next(&mut self) -> Option<usize> {
        while self.has_more() {
            let head = self.data.first_word(self.place(self.read))? as u32;
            if head & IS_BUSY != 0 {
                if !self.report_position() {
                    return None;
                }
                continue;
            }
            let length = (head & !IS_DISCARDED) as usize;
            let is_complete = head & IS_DISCARDED == 0;
            if is_complete {
                self.copy(self.read + HEAD_BYTES, length)?;
            }
            self.read += (HEAD_BYTES + length as u64).next_multiple_of(WORD as u64);
            // The kernel reuses the place once it sees this.
            self.consumer.word(0)?.store(self.read, Ordering::Release);
            self.has_taken = true;
            if is_complete {
                return Some(length);
            }
        }
        None
    }

    fn has_more(&mut self) -> bool {
        if self.read == self.written {
            self.report_position();
            self.written = self.producer.load(0, Ordering::Acquire).unwrap_or(self.read);
        }
        self.read != self.written
    }

    /// The kernel wakes us for a record only if it sees that we have read all records before it. After the
    /// fence either it sees our position, or we see what it has written. False if our position has not
    /// changed.
    fn report_position(&mut self) -> bool {
        let has_taken = std::mem::take(&mut self.has_taken);
        if has_taken {
            fence(Ordering::SeqCst);
        }
        has_taken
    }

    /// Index of the word at a position.
    fn place(&self, position: u64) -> usize {
        (position as usize / WORD) & (self.words - 1)
    }

    /// Whether records exist that cannot be mapped: no others will ever be read.
    pub fn is_out_of_reach(&self) -> bool {
        self.data.refusal().is_some()
    }

    /// The same as text, so that it is not mistaken for an empty ring.
    pub fn not_seen(&self) -> Option<String> {
        let refusal = self.data.refusal()?;
        Some(format!(
            "hits are no longer read: their ring cannot be mapped: {refusal}"
        ))
    }

    /// Copies bytes from a position on into one piece.
    fn copy(&mut self, from: u64, length: usize) -> Option<()> {
        let place = self.place(from);
        self.record.resize(length.div_ceil(WORD), 0);
        let words = self.record.len().min(self.words - place);
        let (here, at_begin) = self.record.split_at_mut(words);
        self.data.copy(place, here)?;
        self.data.copy(0, at_begin)
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const BYTES: u32 = 4096;

    /// A file stands for the map, and this for the kernel.
    struct Kernel {
        file: OwnedFd,
        data: Mapping,
        words: usize,
        written: u64,
    }

    impl Kernel {
        fn new() -> (Kernel, Ring) {
            Kernel::of(BYTES)
        }

        fn of(bytes: u32) -> (Kernel, Ring) {
            let page = procfs::page_size() as usize;
            let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, 2 * page as u64 + u64::from(bytes)).unwrap();
            let words = bytes as usize / WORD;
            let data = Mapping::of(file.as_fd(), page as u64, page / WORD + words, Access::Write).unwrap();
            let ring = Ring::of(file.as_fd(), bytes).unwrap();
            let kernel = Kernel {
                file,
                data,
                words,
                written: 0,
            };
            (kernel, ring)
        }

        fn put(&mut self, at: u64, word: u64) {
            let first = procfs::page_size() as usize / WORD;
            let place = first + (at as usize / WORD) % self.words;
            self.data.word(place).unwrap().store(word, Ordering::Release);
        }

        /// Writes a record of `words` equal words; returns the position of its header.
        fn write(&mut self, flags: u32, word: u64, words: u64) -> u64 {
            let at = self.written;
            self.put(at, u64::from(flags | (8 * words) as u32));
            (1..=words).for_each(|number| self.put(at + 8 * number, word));
            self.written += 8 * (1 + words);
            self.data.word(0).unwrap().store(self.written, Ordering::Release);
            at
        }
    }

    fn word(bytes: Option<&[u8]>) -> Option<(u64, usize)> {
        let bytes = bytes?;
        let words: Vec<u64> = bytes
            .chunks(WORD)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
        Some((words[0], bytes.len()))
    }

    #[test]
    fn records_are_complete_wherever_the_ring_begins_anew() {
        let (mut kernel, mut ring) = Kernel::new();
        // The lengths do not divide the ring's size, so records are split at each of their words.
        for round in 0..4000 {
            let words = 1 + round % 11;
            kernel.write(0, round, words);
            kernel.write(0, !round, 13 - words);
            assert_eq!(word(ring.take()), Some((round, 8 * words as usize)));
            assert_eq!(word(ring.take()), Some((!round, 8 * (13 - words) as usize)));
            assert_eq!(ring.take(), None);
        }
        let read = Mapping::of(kernel.file.as_fd(), 0, 1, Access::Read).unwrap();
        assert_eq!(read.load(0, Ordering::Relaxed), Some(kernel.written));
    }

    #[test]
    fn one_that_is_being_written_is_waited_for_and_one_that_was_given_up_is_passed() {
        let (mut kernel, mut ring) = Kernel::new();
        kernel.write(0, 1, 2);
        kernel.write(IS_DISCARDED, 2, 5);
        let busy = kernel.write(IS_BUSY, 3, 4);
        kernel.write(0, 4, 1);
        assert_eq!(word(ring.take()), Some((1, 16)));
        assert_eq!(ring.take(), None);
        assert_eq!(ring.take(), None);
        kernel.put(busy, 32);
        assert_eq!(word(ring.take()), Some((3, 32)));
        assert_eq!(word(ring.take()), Some((4, 8)));
        assert_eq!(ring.take(), None);
    }

    #[test]
    fn pages_of_the_ring_without_records_are_not_mapped() {
        let (mut kernel, mut ring) = Kernel::of(256 << 10);
        for round in 0..100 {
            kernel.write(0, round, 7);
            assert_eq!(word(ring.take()), Some((round, 56)));
        }
        assert_eq!(ring.data.mapped(), [true, false, false, false]);
        for round in 100..9000 {
            kernel.write(0, round, 7);
            assert_eq!(word(ring.take()), Some((round, 56)));
        }
        assert_eq!(ring.data.mapped(), [true; 4]);
        assert!(!ring.is_out_of_reach() && ring.not_seen().is_none());
    }

    #[test]
    fn a_reader_that_comes_later_goes_on_where_the_one_before_stopped() {
        let (mut kernel, mut ring) = Kernel::new();
        kernel.write(0, 1, 2);
        kernel.write(0, 2, 2);
        assert_eq!(word(ring.take()), Some((1, 16)));
        let mut later = Ring::of(kernel.file.as_fd(), BYTES).unwrap();
        assert_eq!(word(later.take()), Some((2, 16)));
        assert_eq!(later.take(), None);
    }
}
