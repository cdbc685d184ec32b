//! The records of a mappable array of the kernel side, read and written as shared memory. It is mapped in
//! pieces, each at its first access: arrays have room for far more processes than there usually are, and the
//! kernel attributes mapped memory to us whether it is touched or not. This module does not interpret
//! records.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use super::sys::{Access, Mapping};

/// The size of one mapping: a multiple of every machine's page size, and larger than any record.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_WORDS: usize = PIECE_BYTES / size_of::<u64>();

/// The records. Pieces are never unmapped.
#[derive(Debug)]
pub(super) struct Cells<T> {
    array: OwnedFd,
    /// Offset of the first record in the mappable file, in bytes.
    offset: u64,
    pieces: Box<[OnceLock<Mapping>]>,
    words: usize,
    access: Access,
    /// Why the first piece that failed could not be mapped. Records in it exist all the same.
    refusal: OnceLock<Arc<io::Error>>,
    _record: PhantomData<T>,
}

impl<T: bytemuck::Pod> Cells<T> {
    const WORDS_PER_CELL: usize = size_of::<T>() / size_of::<u64>();

    pub(super) fn map(array: BorrowedFd<'_>, cells: u32) -> io::Result<Cells<T>> {
        Cells::map_for(array, (0, cells), Access::Read)
    }

    /// Maps records, for reading, that follow other data.
    pub(super) fn map_behind(array: BorrowedFd<'_>, offset: u64, cells: u32) -> io::Result<Cells<T>> {
        Cells::map_for(array, (offset, cells), Access::Read)
    }

    pub(super) fn map_writable(array: BorrowedFd<'_>, cells: u32) -> io::Result<Cells<T>> {
        Cells::map_for(array, (0, cells), Access::Write)
    }

    fn map_for(array: BorrowedFd<'_>, (offset, cells): (u64, u32), access: Access) -> io::Result<Cells<T>> {
        const {
            assert!(size_of::<T>().is_multiple_of(size_of::<u64>()) && align_of::<T>() <= 8);
            assert!(size_of::<T>() <= PIECE_BYTES);
        };
        let words = cells as usize * Self::WORDS_PER_CELL;
        let pieces = (0..words.div_ceil(PIECE_WORDS)).map(|_| OnceLock::new());
        let cells = Cells {
            array: array.try_clone_to_owned()?,
            offset,
            pieces: pieces.collect(),
            words,
            access,
            refusal: OnceLock::new(),
            _record: PhantomData,
        };
        // The first piece shows whether the array can be mapped at all.
        match cells.pieces.first() {
            Some(first) => drop(first.set(cells.mapping(0)?)),
            None => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(cells)
    }

    fn mapping(&self, piece: usize) -> io::Result<Mapping> {
        let first = piece * PIECE_WORDS;
        let words = PIECE_WORDS.min(self.words - first);
        let offset = self.offset + (first * size_of::<u64>()) as u64;
        Mapping::of(self.array.as_fd(), offset, words, self.access)
    }

    /// A piece, mapped at its first use; `None` after the last one, and if it cannot be mapped:
    /// [`Cells::refusal`] has the reason.
    fn piece(&self, piece: usize) -> Option<&Mapping> {
        let place = self.pieces.get(piece)?;
        if let Some(mapping) = place.get() {
            return Some(mapping);
        }
        match self.mapping(piece) {
            // A concurrent caller has mapped the same piece.
            Ok(mapping) => Some(place.get_or_init(|| mapping)),
            Err(error) => {
                self.refusal.get_or_init(|| Arc::new(error));
                None
            }
        }
    }

    #[cfg(test)]
    pub(super) fn mapped(&self) -> Vec<bool> {
        let pieces = self.pieces.iter();
        pieces.map(|piece| piece.get().is_some()).collect()
    }

    /// Why existing records could not be read; `None` if all requested ones could.
    pub(super) fn refusal(&self) -> Option<&Arc<io::Error>> {
        self.refusal.get()
    }

    /// Copies a record, word by word.
    pub(super) fn get(&self, index: usize) -> Option<T> {
        let mut record = T::zeroed();
        self.copy(index, std::slice::from_mut(&mut record))?;
        Some(record)
    }

    /// Copies `count` consecutive records, word by word.
    pub(super) fn row(&self, first: usize, count: usize) -> Option<Vec<T>> {
        let mut records = vec![T::zeroed(); count];
        self.copy(first, &mut records)?;
        Some(records)
    }

    /// Whether the records from `first` on equal these, word by word; `None` if there are fewer.
    pub(super) fn are(&self, first: usize, records: &[T]) -> Option<bool> {
        let mut place = first.checked_mul(Self::WORDS_PER_CELL)?;
        let mut rest: &[u64] = bytemuck::cast_slice(records);
        while !rest.is_empty() {
            let within = place % PIECE_WORDS;
            let (words, behind) = rest.split_at(rest.len().min(PIECE_WORDS - within));
            if !self.piece(place / PIECE_WORDS)?.has(within, words)? {
                return Some(false);
            }
            (place, rest) = (place + words.len(), behind);
        }
        Some(true)
    }

    /// Copies as many records as `records` has room for, word by word.
    pub(super) fn copy(&self, first: usize, records: &mut [T]) -> Option<()> {
        let mut place = first.checked_mul(Self::WORDS_PER_CELL)?;
        let mut rest: &mut [u64] = bytemuck::cast_slice_mut(records);
        while !rest.is_empty() {
            let within = place % PIECE_WORDS;
            let here = rest.len().min(PIECE_WORDS - within);
            let (words, behind) = rest.split_at_mut(here);
            self.piece(place / PIECE_WORDS)?.copy(within, words)?;
            (place, rest) = (place + here, behind);
        }
        Some(())
    }

    /// The first word of a record.
    pub(super) fn first_word(&self, index: usize) -> Option<u64> {
        let place = index.checked_mul(Self::WORDS_PER_CELL)?;
        let piece = self.piece(place / PIECE_WORDS)?;
        piece.load(place % PIECE_WORDS, Ordering::Acquire)
    }

    /// A record that the other side may be writing. Its first word changes before and after a write: `None`
    /// if it changed during the read.
    pub(super) fn get_complete(&self, index: usize) -> Option<T> {
        let before = self.first_word(index)?;
        let record = self.get(index)?;
        fence(Ordering::Acquire);
        (self.first_word(index)? == before).then_some(record)
    }

    /// One word of a record, for changing; `None` if the mapping is read-only.
    pub(super) fn word(&self, index: usize, word: usize) -> Option<&AtomicU64> {
        let place = index.checked_mul(Self::WORDS_PER_CELL)?.checked_add(word)?;
        if word >= Self::WORDS_PER_CELL {
            return None;
        }
        self.piece(place / PIECE_WORDS)?.word(place % PIECE_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::*;

    /// Longer than a word, and the size of a piece is not a multiple of it.
    type Record = [u64; 3];
    const RECORDS: u32 = 3 * PIECE_WORDS as u32 / 4;

    /// A file stands for the array: each word contains its own index.
    fn array() -> OwnedFd {
        let file = memfd_create("records", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        let numbers = 0..3 * u64::from(RECORDS);
        let bytes: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
        let mut file = std::fs::File::from(file);
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        file.into()
    }

    #[test]
    fn a_piece_that_is_not_read_is_not_mapped() {
        let array = array();
        let cells = Cells::<Record>::map(array.as_fd(), RECORDS).unwrap();
        assert_eq!(cells.mapped(), [true, false, false]);
        let last = RECORDS as usize - 1;
        assert_eq!(cells.first_word(last), Some(3 * last as u64));
        assert_eq!(cells.mapped(), [true, false, true]);
        assert_eq!(cells.get(last + 1), None);
        assert_eq!(cells.first_word(usize::MAX), None);
    }

    #[test]
    fn a_piece_that_cannot_be_mapped_is_distinguished_from_one_that_is_not_there() {
        let array = array();
        let cells = Cells::<Record>::map_writable(array.as_fd(), RECORDS).unwrap();
        // From here on it cannot be mapped for writing; existing mappings stay.
        fcntl_add_seals(&array, SealFlags::FUTURE_WRITE).unwrap();
        let last = RECORDS as usize - 1;
        assert_eq!(cells.get(2 * last), None);
        assert!(cells.refusal().is_none(), "there is none");
        assert_eq!(cells.get(last), None);
        let refusal = cells.refusal().map(|error| error.kind());
        assert_eq!(refusal, Some(io::ErrorKind::PermissionDenied));
        assert_eq!(cells.get(0), Some([0, 1, 2]), "what is mapped is read as ever");
    }

    #[test]
    fn a_record_that_lies_in_two_pieces_is_complete() {
        let array = array();
        let cells = Cells::<Record>::map(array.as_fd(), RECORDS).unwrap();
        for index in 0..RECORDS as usize {
            let first = 3 * index as u64;
            assert_eq!(cells.get_complete(index), Some([first, first + 1, first + 2]));
        }
        assert_eq!(cells.mapped(), [true; 3]);
        let all = cells.row(0, RECORDS as usize).unwrap();
        assert!(all.concat().into_iter().eq(0..3 * u64::from(RECORDS)));
        assert_eq!(cells.row(1, RECORDS as usize), None, "one too many");
    }

    #[test]
    fn records_that_are_as_they_were_are_distinguished_from_those_of_which_one_word_is_not() {
        let array = array();
        let cells = Cells::<Record>::map_writable(array.as_fd(), RECORDS).unwrap();
        let all = cells.row(0, RECORDS as usize).unwrap();
        assert_eq!(cells.are(0, &all), Some(true));
        assert_eq!(cells.are(7, &all[7..9]), Some(true));
        assert_eq!(cells.are(7, &all[6..9]), Some(false));
        assert_eq!(cells.are(RECORDS as usize, &all[..1]), None, "there is none");
        let last = RECORDS as usize - 1;
        cells.word(last, 2).unwrap().fetch_add(1, Ordering::Relaxed);
        assert_eq!(cells.are(0, &all), Some(false));
        assert_eq!(cells.are(0, &all[..last]), Some(true));
    }

    #[test]
    fn records_behind_something_else_are_counted_from_their_own_begin() {
        let array = array();
        let page = procfs::page_size();
        let behind = Cells::<u64>::map_behind(array.as_fd(), page, 2 * PIECE_WORDS as u32).unwrap();
        let before = page / size_of::<u64>() as u64;
        for index in [0, 5, PIECE_WORDS as u64] {
            assert_eq!(behind.get(index as usize), Some(before + index));
        }
    }

    #[test]
    fn a_word_that_is_changed_is_found_changed_through_every_mapping() {
        let array = array();
        let cells = Cells::<Record>::map_writable(array.as_fd(), RECORDS).unwrap();
        let others = Cells::<Record>::map(array.as_fd(), RECORDS).unwrap();
        cells.word(4000, 2).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(others.get(4000), Some([12_000, 12_001, 7]));
        assert!(others.word(4000, 2).is_none(), "they may only be read");
        assert!(cells.word(4000, 3).is_none(), "the next record's");
    }
}
