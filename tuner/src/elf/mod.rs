//! One ELF file for x86-64: segments, sections, tables, dependencies.
//!
//! Reads only the parts that are needed, never the complete file (libraries of a gigabyte exist), and caches
//! nothing: [`crate::image`] keeps symbols and debug information. Independent of processes. `read` reads the
//! tables.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use object::LittleEndian as LE;
use object::elf;
use object::pod::Pod;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::{FileOffset, LinkAddress};

mod read;

pub(crate) use read::notes;
use read::{FileReader, compression, decompress, old_compression, refuse_large, string_at};

/// Bytes of the largest section that is read. Debug information has its own bound.
const SECTION_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a block, the unit in which stat(2) reports the space on disk.
const BLOCK_BYTES: u64 = 512;
const DAMAGED_COMPRESSION: ImageError = ImageError::Damaged {
    what: "the end of a compressed section",
};

#[derive(Debug, Error)]
pub enum ImageError {
    #[error("not an ELF file")]
    NotElf,
    #[error("only programs for x86-64 are supported")]
    Unsupported,
    #[error("damaged: {what} lies outside of the file")]
    Damaged { what: &'static str },
    /// A part is a hole: nothing is stored there, and reading it would only take memory.
    #[error("damaged: {what} is far larger than what is stored of the file")]
    Hollow { what: &'static str },
    #[error("{what} is larger than the {} MiB that are read", .bytes_max >> 20)]
    TooLarge {
        what: &'static str,
        /// The bound in bytes.
        bytes_max: u64,
    },
    #[error("damaged debug information: {0}")]
    Debug(gimli::Error),
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

impl From<gimli::Error> for ImageError {
    fn from(error: gimli::Error) -> ImageError {
        ImageError::Debug(error)
    }
}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> ImageError {
        ImageError::Io(error)
    }
}

/// The identity that the linker gave a file: the same for every copy, different after every rebuild.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BuildId(String);

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// A part of the file that the loader maps (a PT_LOAD program header), or another range of link addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub address: LinkAddress,
    /// Bytes in memory; those beyond `file_size` are zero at the start (bss).
    pub memory_size: u64,
    /// Where it begins in the file.
    pub offset: FileOffset,
    pub file_size: u64,
    pub writable: bool,
    pub executable: bool,
}

impl Segment {
    fn holds(&self, address: LinkAddress, length: u64) -> bool {
        address
            .0
            .checked_sub(self.address.0)
            .and_then(|at| at.checked_add(length))
            .is_some_and(|end| end <= self.memory_size)
    }
}

/// The properties of a section that decide whether it may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub address: LinkAddress,
    pub size: u64,
    /// Its flags permit the program to write it.
    pub writable: bool,
    /// It is the template of a thread-local block, not the place of a variable.
    pub thread_local: bool,
    pub executable: bool,
    allocated: bool,
    compressed: bool,
    pub(crate) kind: elf::SectionType,
    offset: u64,
    link: usize,
}

/// What the dynamic linker reads of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The name under which other files need it.
    pub soname: Option<String>,
    /// The names of the libraries that it needs.
    pub needed: Vec<String>,
    /// DT_RPATH: the folders, separated by colons, in which its libraries and their libraries are searched.
    pub rpath: Option<String>,
    /// DT_RUNPATH: the same for its own libraries only.
    pub(crate) runpath: Option<String>,
    /// Linked with -Bsymbolic: it uses its own definitions before those of other files.
    pub(crate) symbolic: bool,
}

/// A relocation that stores the address of a dynamic symbol, or copies its initial value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolRelocation {
    pub place: LinkAddress,
    /// Added to the symbol's address.
    pub(crate) addend: i64,
    /// A copy relocation: the executable's own copy of a library's variable is here.
    pub copy: bool,
}

#[derive(Debug)]
pub struct Elf {
    file: File,
    file_size: u64,
    stored: Option<u64>,
    /// Time of the last modification when it was read: seconds and nanoseconds.
    written: (i64, i64),
    pub segments: Vec<Segment>,
    /// The range that the loader makes read-only after relocation (RELRO).
    pub(crate) read_only_after_relocation: Option<Segment>,
    /// The dynamic linker that the program names; `None` for a library or a static program.
    pub interpreter: Option<String>,
    pub(crate) dynamic_segment: Option<Segment>,
    /// All sections; empty if the file was stripped of them.
    pub sections: Vec<Section>,
    pub dynamic: Dynamic,
    build_id: Option<(BuildId, Option<LinkAddress>)>,
}

impl Elf {
    pub fn read(file: File) -> Result<Elf, ImageError> {
        let meta = file.metadata()?;
        let file_size = meta.len();
        // Some file systems report no blocks at all.
        let stored = Some(meta.blocks().saturating_mul(BLOCK_BYTES)).filter(|bytes| *bytes > 0);
        let reader = FileReader {
            file: &file,
            file_size,
            stored,
        };
        let header = reader.header()?;
        let programs = reader.table::<elf::ProgramHeader64<LE>>(
            header.e_phoff.get(LE),
            usize::from(header.e_phnum.get(LE)),
            "the program headers",
        )?;
        let segments_of = |kind| {
            programs
                .iter()
                .filter(move |program| program.p_type.get(LE) == kind)
                .map(segment)
        };
        let sections = reader.sections(&header)?;
        let mut read = Elf {
            segments: segments_of(elf::PT_LOAD).collect(),
            read_only_after_relocation: segments_of(elf::PT_GNU_RELRO).next(),
            interpreter: segments_of(elf::PT_INTERP)
                .next()
                .map(|segment| reader.interpreter(&segment))
                .transpose()?,
            dynamic_segment: segments_of(elf::PT_DYNAMIC).next(),
            build_id: reader.build_id(segments_of(elf::PT_NOTE))?,
            sections,
            dynamic: Dynamic::default(),
            file_size,
            stored,
            written: (meta.mtime(), meta.mtime_nsec()),
            file,
        };
        read.dynamic = read.read_dynamic()?;
        Ok(read)
    }

    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref().map(|(id, _)| id)
    }

    /// Address and length in bytes of the build id in memory.
    pub(crate) fn build_id_place(&self) -> Option<(LinkAddress, usize)> {
        let (id, place) = self.build_id.as_ref()?;
        Some(((*place)?, id.0.len() / 2))
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// True if the file was not modified since it was read.
    pub(crate) fn is_as_read(&self) -> bool {
        let as_read = (self.file_size, self.written.0, self.written.1);
        let meta = self.file.metadata();
        meta.is_ok_and(|meta| (meta.len(), meta.mtime(), meta.mtime_nsec()) == as_read)
    }

    /// Whether the first `bytes_max` bytes of the file contain these bytes; false if it cannot be read.
    pub fn holds(&self, wanted: &[u8], bytes_max: u64) -> bool {
        self.reader().holds(wanted, bytes_max).unwrap_or_default()
    }

    /// The first result of `found` in the first `bytes_max` bytes of the file. The file is read in pieces,
    /// each of which begins with the last `overlap` bytes of the one before. `None` if the file cannot be
    /// read.
    pub fn find<T>(
        &self,
        (overlap, bytes_max): (usize, u64),
        found: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        self.reader().find((overlap, bytes_max), found).ok()?
    }

    /// The file offset of the byte that the linker placed at `address`; `None` if no mapped part has it. Uses
    /// segments, which the kernel maps; section headers may be wrong or missing.
    pub fn file_offset(&self, address: LinkAddress) -> Option<FileOffset> {
        self.segments.iter().find_map(|segment| {
            let into = address.0.checked_sub(segment.address.0)?;
            let offset = segment
                .offset
                .0
                .checked_add(into)
                .filter(|_| into < segment.file_size);
            offset.map(FileOffset)
        })
    }

    /// The word at `address` when the program begins, before relocation; `None` if no mapped part has it.
    pub fn initial_word(&self, address: LinkAddress) -> Option<u64> {
        self.segment_at(address, 8)?;
        let mut word = [0; 8];
        if let Some(offset) = self.file_offset(address) {
            self.file.read_exact_at(&mut word, offset.0).ok()?;
        }
        Some(u64::from_le_bytes(word))
    }

    /// The section that contains all `length` bytes at `address`.
    pub fn section_at(&self, address: LinkAddress, length: u64) -> Option<&Section> {
        let within = |section: &&Section| {
            let into = address.0.checked_sub(section.address.0);
            into.and_then(|into| into.checked_add(length))
                .is_some_and(|end| end <= section.size)
        };
        self.sections
            .iter()
            .filter(|section| section.allocated && !section.thread_local)
            .find(within)
    }

    /// The segment that contains all `length` bytes at `address`.
    pub(crate) fn segment_at(&self, address: LinkAddress, length: u64) -> Option<&Segment> {
        self.segments
            .iter()
            .find(|segment| segment.holds(address, length))
    }

    /// True if the loader makes these bytes read-only after relocation (RELRO).
    pub fn is_read_only_after_relocation(&self, address: LinkAddress, length: u64) -> bool {
        self.read_only_after_relocation
            .as_ref()
            .is_some_and(|segment| segment.holds(address, length))
    }

    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.content(name).is_some()
    }

    /// The content of the section called `name`, decompressed; empty if there is no such section.
    pub(crate) fn section_bytes(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        self.section_bytes_up_to(name, SECTION_BYTES_MAX)
    }

    /// As [`Elf::section_bytes`]; an error if the section is larger than `bytes_max`.
    pub(crate) fn section_bytes_up_to(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, ImageError> {
        let Some(section) = self.content(name) else {
            return Ok(Vec::new());
        };
        let too_large = ImageError::TooLarge {
            what: "a section",
            bytes_max,
        };
        if section.size > bytes_max {
            return Err(too_large);
        }
        let bytes = self.reader().bytes(section.offset, section.size, "a section")?;
        // Before the format had a flag for it, a compressed section had a name of its own.
        let (format, data, size) = match (section.compressed, name.len() < section.name.len()) {
            (true, _) => compression(&bytes),
            (false, true) => old_compression(&bytes),
            (false, false) => return Ok(bytes),
        }
        .ok_or(DAMAGED_COMPRESSION)?;
        if size > bytes_max {
            return Err(too_large);
        }
        decompress(format, data, size).ok_or(DAMAGED_COMPRESSION)
    }

    /// The section called `.name`, or `.zname`, as old compilers call it if it is compressed.
    fn content(&self, name: &str) -> Option<&Section> {
        let is_it = |section: &&Section| {
            let old = section.name.strip_prefix(".z");
            (section.name == name || old.is_some_and(|old| name.strip_prefix('.') == Some(old)))
                && section.kind != elf::SHT_NOBITS
                && section.size > 0
        };
        self.sections.iter().find(is_it)
    }

    fn read_dynamic(&self) -> Result<Dynamic, ImageError> {
        let Some(section) = self
            .sections
            .iter()
            .find(|section| section.kind == elf::SHT_DYNAMIC)
        else {
            return Ok(Dynamic::default());
        };
        let (entries, strings) = self.entries::<elf::Dyn64<LE>>(section, "the dynamic section")?;
        let mut dynamic = Dynamic::default();
        for entry in &entries {
            let value = entry.d_val.get(LE);
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => dynamic.needed.extend(string_at(&strings, value)),
                elf::DT_SONAME => dynamic.soname = string_at(&strings, value),
                elf::DT_RPATH => dynamic.rpath = string_at(&strings, value),
                elf::DT_RUNPATH => dynamic.runpath = string_at(&strings, value),
                elf::DT_SYMBOLIC => dynamic.symbolic = true,
                elf::DT_FLAGS => dynamic.symbolic |= value & elf::DF_SYMBOLIC.0 != 0,
                _ => {}
            }
        }
        Ok(dynamic)
    }

    /// The entries of a section, and the string table that they refer to.
    pub(crate) fn entries<T: Pod>(
        &self,
        section: &Section,
        what: &'static str,
    ) -> Result<(Vec<T>, Vec<u8>), ImageError> {
        let strings = self.sections.get(section.link);
        let strings = strings.ok_or(ImageError::Damaged {
            what: "a string table",
        })?;
        refuse_large([section, strings])?;
        let count = (section.size as usize) / size_of::<T>();
        let entries = self.reader().table(section.offset, count, what)?;
        let what = "a string table";
        let strings = self.reader().bytes(strings.offset, strings.size, what)?;
        Ok((entries, strings))
    }

    /// Checks that its tables together are within the bound of what is read of one file.
    pub(crate) fn check_tables(&self) -> Result<(), ImageError> {
        let kinds = [
            elf::SHT_SYMTAB,
            elf::SHT_DYNSYM,
            elf::SHT_STRTAB,
            elf::SHT_RELA,
            elf::SHT_DYNAMIC,
        ];
        refuse_large(
            self.sections
                .iter()
                .filter(|section| kinds.contains(&section.kind)),
        )
    }

    /// Calls `look` with every dynamic relocation: its type, symbol index, place and addend.
    pub(crate) fn each_relocation(
        &self,
        mut look: impl FnMut(elf::RelocationType, u32, LinkAddress, i64),
    ) -> Result<(), ImageError> {
        self.check_tables()?;
        let tables = self
            .sections
            .iter()
            .filter(|section| section.kind == elf::SHT_RELA && section.allocated);
        for section in tables {
            let count = (section.size as usize) / size_of::<elf::Rela64<LE>>();
            let entries: Vec<elf::Rela64<LE>> =
                self.reader().table(section.offset, count, "a relocation table")?;
            for entry in entries {
                let info = entry.r_info.get(LE);
                let kind = elf::RelocationType(info as u32);
                look(
                    kind,
                    (info >> 32) as u32,
                    LinkAddress(entry.r_offset.get(LE)),
                    entry.r_addend.get(LE),
                );
            }
        }
        Ok(())
    }

    pub(crate) fn bytes_at(&self, offset: FileOffset, length: u64) -> Result<Vec<u8>, ImageError> {
        if length > SECTION_BYTES_MAX {
            return Err(ImageError::TooLarge {
                what: "a segment",
                bytes_max: SECTION_BYTES_MAX,
            });
        }
        self.reader().bytes(offset.0, length, "a segment")
    }

    fn reader(&self) -> FileReader<'_> {
        FileReader {
            file: &self.file,
            file_size: self.file_size,
            stored: self.stored,
        }
    }
}

fn segment(program: &elf::ProgramHeader64<LE>) -> Segment {
    let flags = program.p_flags.get(LE);
    Segment {
        address: LinkAddress(program.p_vaddr.get(LE)),
        memory_size: program.p_memsz.get(LE),
        offset: FileOffset(program.p_offset.get(LE)),
        file_size: program.p_filesz.get(LE),
        writable: flags.0 & elf::PF_W.0 != 0,
        executable: flags.0 & elf::PF_X.0 != 0,
    }
}
