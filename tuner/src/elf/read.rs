//! Reads the tables of an ELF file. A table that would exceed the file is refused before memory is allocated
//! for it: sizes come from the file, which may be damaged or malicious.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memchr::memmem::Finder;
use object::LittleEndian as LE;
use object::elf;
use object::pod::{self, Pod};
use object::read::elf::{Note, NoteIterator};
use object::read::{CompressedData, CompressionFormat};

use super::{BuildId, ImageError, Section, Segment};
use crate::address::LinkAddress;
use crate::printable::printable_bytes;

/// The string from `at` to the next zero, made printable.
pub(super) fn string_at(strings: &[u8], at: u64) -> Option<String> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(printable_bytes(&rest[..end]))
}

/// Names and contents of notes are padded to this number of bytes.
const NOTES_ALIGNMENT: u64 = 4;

/// Bytes of a segment of notes in which the build id is searched.
const NOTES_BYTES_MAX: u64 = 1 << 20;

/// Bytes of the symbol tables, relocation tables and string tables of one file together.
const TABLES_BYTES_MAX: u64 = 1 << 30;

/// An error if these tables together are larger than the bound.
pub(super) fn refuse_large<'a>(tables: impl IntoIterator<Item = &'a Section>) -> Result<(), ImageError> {
    let sizes = tables.into_iter().map(|table| table.size);
    if sizes.fold(0, u64::saturating_add) > TABLES_BYTES_MAX {
        return Err(ImageError::TooLarge {
            what: "the sum of its symbol tables",
            bytes_max: TABLES_BYTES_MAX,
        });
    }
    Ok(())
}

/// A part of at most this size is read of any file.
const SMALL_BYTES: u64 = 64 << 20;

/// A larger part may have at most this multiple of the bytes stored on disk: more than file systems and
/// compressed sections save on tables and debug information, and far less than a hole or a block of zeros
/// does.
const SAVED_MAX: u64 = 64;

/// Whether a part of `size` bytes is plausible if `stored` bytes are on disk. A hole in a file costs its
/// author nothing, but would cost us the memory.
fn is_plausible(size: u64, stored: u64) -> bool {
    size <= SMALL_BYTES || size <= stored.saturating_mul(SAVED_MAX)
}

/// Zeros to read into; an error instead of an abort if memory is short.
fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>, ImageError> {
    let mut zeros = Vec::new();
    let reserved = zeros.try_reserve_exact(count);
    reserved.map_err(|_| ImageError::Io(io::ErrorKind::OutOfMemory.into()))?;
    zeros.resize(count, T::default());
    Ok(zeros)
}

/// A file and its length.
pub(super) struct FileReader<'a> {
    pub(super) file: &'a File,
    pub(super) file_size: u64,
    /// Bytes of its blocks on disk; `None` if the file system does not report them.
    pub(super) stored: Option<u64>,
}

impl FileReader<'_> {
    /// The size of a part, if it may be read.
    fn checked(&self, offset: u64, size: u64, what: &'static str) -> Result<usize, ImageError> {
        if offset.checked_add(size).is_none_or(|end| end > self.file_size) {
            return Err(ImageError::Damaged { what });
        }
        if !self.stored.is_none_or(|stored| is_plausible(size, stored)) {
            return Err(ImageError::Hollow { what });
        }
        usize::try_from(size).map_err(|_| ImageError::Damaged { what })
    }

    pub(super) fn bytes(&self, offset: u64, size: u64, what: &'static str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = zeros(self.checked(offset, size, what)?)?;
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    pub(super) fn table<T: Pod>(
        &self,
        offset: u64,
        count: usize,
        what: &'static str,
    ) -> Result<Vec<T>, ImageError> {
        let damaged = ImageError::Damaged { what };
        let Some(size) = count.checked_mul(size_of::<T>()) else {
            return Err(damaged);
        };
        self.checked(offset, size as u64, what)?;
        // Words, so that the bytes are aligned for every entry type of a 64-bit file.
        let mut words: Vec<u64> = zeros(size.div_ceil(8))?;
        self.file
            .read_exact_at(&mut pod::bytes_of_slice_mut(&mut words)[..size], offset)?;
        match pod::slice_from_bytes(pod::bytes_of_slice(&words), count) {
            Ok((entries, _)) => Ok(entries.to_vec()),
            Err(()) => Err(damaged),
        }
    }

    /// Whether the first `bytes_max` bytes of the file contain these bytes.
    pub(super) fn holds(&self, wanted: &[u8], bytes_max: u64) -> io::Result<bool> {
        let (finder, overlap) = (Finder::new(wanted), wanted.len().saturating_sub(1));
        let found = self.find((overlap, bytes_max), |piece| finder.find(piece));
        Ok(found?.is_some())
    }

    /// The first result of `found` in the first `bytes_max` bytes of the file. The file is read in pieces,
    /// each of which begins with the last `overlap` bytes of the one before, since a match may cross two
    /// pieces.
    pub(super) fn find<T>(
        &self,
        (overlap, bytes_max): (usize, u64),
        mut found: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        const PIECE: usize = 1 << 20;
        let mut piece = vec![0; PIECE + overlap];
        let (mut offset, mut kept) = (0, 0);
        while offset < self.file_size.min(bytes_max) {
            let read = self.file.read_at(&mut piece[kept..], offset)?;
            if read == 0 {
                break;
            }
            let end = kept + read;
            if let Some(found) = found(&piece[..end]) {
                return Ok(Some(found));
            }
            offset += read as u64;
            let from = end.saturating_sub(overlap);
            piece.copy_within(from..end, 0);
            kept = end - from;
        }
        Ok(None)
    }

    pub(super) fn header(&self) -> Result<elf::FileHeader64<LE>, ImageError> {
        let mut ident = [0; 6];
        match self.file.read_exact_at(&mut ident, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ImageError::NotElf),
            result => result?,
        }
        if ident[..4] != elf::ELFMAG {
            return Err(ImageError::NotElf);
        }
        if ident[4] != elf::ELFCLASS64.0 || ident[5] != elf::ELFDATA2LSB.0 {
            return Err(ImageError::Unsupported);
        }
        let header = self.table(0, 1, "the header")?;
        let header: elf::FileHeader64<LE> = header.into_iter().next().ok_or(ImageError::NotElf)?;
        match header.e_machine.get(LE) {
            elf::EM_X86_64 => Ok(header),
            _ => Err(ImageError::Unsupported),
        }
    }

    pub(super) fn sections(&self, header: &elf::FileHeader64<LE>) -> Result<Vec<Section>, ImageError> {
        let offset = header.e_shoff.get(LE);
        if offset == 0 {
            return Ok(Vec::new());
        }
        let count = usize::from(header.e_shnum.get(LE));
        let headers: Vec<elf::SectionHeader64<LE>> = self.table(offset, count, "the section headers")?;
        let names = headers.get(usize::from(header.e_shstrndx.get(LE).0));
        let names = match names {
            Some(names) if names.sh_size.get(LE) > SMALL_BYTES => {
                return Err(ImageError::TooLarge {
                    what: "the table of section names",
                    bytes_max: SMALL_BYTES,
                });
            }
            Some(names) => self.bytes(
                names.sh_offset.get(LE),
                names.sh_size.get(LE),
                "the table of section names",
            )?,
            None => Vec::new(),
        };
        Ok(headers.iter().map(|header| section(header, &names)).collect())
    }

    pub(super) fn interpreter(&self, segment: &Segment) -> Result<String, ImageError> {
        const PATH_MAX: u64 = 4096;
        let size = segment.file_size.min(PATH_MAX);
        let bytes = self.bytes(segment.offset.0, size, "the name of the dynamic linker")?;
        Ok(string_at(&bytes, 0).unwrap_or_default())
    }

    pub(super) fn build_id(
        &self,
        notes: impl Iterator<Item = Segment>,
    ) -> Result<Option<(BuildId, Option<LinkAddress>)>, ImageError> {
        for segment in notes {
            let size = segment.file_size.min(NOTES_BYTES_MAX);
            let bytes = self.bytes(segment.offset.0, size, "a note")?;
            if let Some(range) = find_build_id(&bytes) {
                let place = LinkAddress(segment.address.0.wrapping_add(range.start as u64));
                let id = bytes[range].iter().map(|byte| format!("{byte:02x}")).collect();
                return Ok(Some((BuildId(id), Some(place))));
            }
        }
        Ok(None)
    }
}

fn section(header: &elf::SectionHeader64<LE>, names: &[u8]) -> Section {
    let flags = header.sh_flags.get(LE).0;
    Section {
        name: string_at(names, u64::from(header.sh_name.get(LE))).unwrap_or_default(),
        address: LinkAddress(header.sh_addr.get(LE)),
        size: header.sh_size.get(LE),
        writable: flags & elf::SHF_WRITE.0 != 0,
        thread_local: flags & elf::SHF_TLS.0 != 0,
        executable: flags & elf::SHF_EXECINSTR.0 != 0,
        allocated: flags & elf::SHF_ALLOC.0 != 0,
        compressed: flags & elf::SHF_COMPRESSED.0 != 0,
        kind: header.sh_type.get(LE),
        offset: header.sh_offset.get(LE),
        link: header.sh_link.get(LE) as usize,
    }
}

/// The header of a compressed section (Elf64_Chdr: type, padding, size, alignment).
pub(super) fn compression(section: &[u8]) -> Option<(CompressionFormat, &[u8], u64)> {
    let (header, data) = section.split_at_checked(24)?;
    let format = match elf::CompressionType(u32::from_le_bytes(header[..4].try_into().ok()?)) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    Some((format, data, u64::from_le_bytes(header[8..16].try_into().ok()?)))
}

/// A `.zdebug_…` section: "ZLIB" and the size, most significant byte first.
pub(super) fn old_compression(section: &[u8]) -> Option<(CompressionFormat, &[u8], u64)> {
    let (header, data) = section.split_at_checked(12)?;
    let size = header.strip_prefix(b"ZLIB")?.try_into().ok()?;
    Some((CompressionFormat::Zlib, data, u64::from_be_bytes(size)))
}

pub(super) fn decompress(format: CompressionFormat, data: &[u8], size: u64) -> Option<Vec<u8>> {
    let is_possible = is_plausible(size, data.len() as u64);
    let compressed = CompressedData {
        format,
        data,
        uncompressed_size: size,
    };
    is_possible
        .then(|| compressed.decompress().ok().map(Cow::into_owned))
        .flatten()
}

type ElfNote<'a> = Note<'a, elf::FileHeader64<LE>>;

/// The notes of a section or segment, up to the first damaged one.
pub(crate) fn notes(bytes: &[u8]) -> impl Iterator<Item = ElfNote<'_>> {
    let notes = NoteIterator::new(LE, NOTES_ALIGNMENT, bytes);
    notes.into_iter().flatten().map_while(Result::ok)
}

/// The range of the build id in a block of notes.
fn find_build_id(bytes: &[u8]) -> Option<Range<usize>> {
    let is_it =
        |note: &ElfNote<'_>| note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID;
    let id = notes(bytes).find(is_it)?.desc();
    let start = id.as_ptr().addr() - bytes.as_ptr().addr();
    Some(start..start + id.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_outside_of_its_table_is_no_name() {
        assert_eq!(string_at(b"abc\0", 9), None);
        assert_eq!(string_at(b"abc", 0), None, "it has no end");
    }

    #[test]
    fn a_part_is_plausible_up_to_what_is_saved_by_storing_it_densely() {
        assert!(is_plausible(SMALL_BYTES, 0), "a small one always");
        assert!(!is_plausible(SMALL_BYTES + 1, 24 << 10));
        assert!(is_plausible(1 << 30, 16 << 20));
        assert!(!is_plausible(14 << 30, 24 << 10));
    }

    #[test]
    fn bytes_are_found_where_one_piece_ends_and_the_next_begins() {
        use std::io::Write;
        for before in [0, (1 << 20) - 3, 1 << 20, (1 << 20) + 5] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![b'-'; before]).unwrap();
            file.write_all(b"wanted").unwrap();
            let file_size = file.metadata().unwrap().len();
            let reader = FileReader {
                file: &file,
                file_size,
                stored: None,
            };
            assert!(
                reader.holds(b"wanted", u64::MAX).unwrap(),
                "behind {before} bytes"
            );
            assert!(!reader.holds(b"wanted!", u64::MAX).unwrap());
            assert!(!reader.holds(b"wanted", 0).unwrap());
        }
    }

    proptest! {
        #[test]
        fn no_notes_make_the_search_panic(words in proptest::collection::vec(0u32..40, 0..30)) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let _ = find_build_id(&bytes);
        }
    }
}
