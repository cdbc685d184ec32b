//! Symbols of one ELF file, by name or all of them. Does not know where the file is mapped.

use std::sync::{Arc, OnceLock};

use object::LittleEndian as LE;
use object::elf;

use crate::address::{FileOffset, LinkAddress};
use crate::elf::ImageError;
use crate::printable::printable_bytes;
use crate::spelling::{MatchQuality, Spelling};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    Function,
    /// Code that selects, once, the function that callers use (IFUNC): a probe on it sees the selection, not
    /// the calls.
    IndirectFunction,
    Variable,
    /// Data of which every thread has its own copy.
    ThreadLocal,
    /// Anything else, such as labels of assembler code.
    Other,
}

/// The scope and strength of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Only in its source file.
    Local,
    Global,
    /// Global, unless another file defines it at link time; the dynamic linker treats it as global.
    Weak,
    /// Global, and unique in the process even across dlopen.
    Unique,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its linker name (mangled for C++).
    pub name: String,
    pub kind: SymbolKind,
    pub binding: Binding,
    /// The file uses its own definition although others see it (protected visibility).
    pub protected: bool,
    /// The dynamic linker sees it: it is in .dynsym.
    pub exported: bool,
    /// This file defines it; otherwise it only uses it.
    pub defined: bool,
    pub address: LinkAddress,
    /// Size in bytes; 0 if the file does not state it.
    pub size: u64,
    /// The source file of a local symbol, as it was passed to the link editor.
    pub source: Option<Arc<str>>,
}

/// Bound on the names of a table in all: a multiple of the length of its string table, plus a number of
/// bytes.
const NAMES_SHARED: usize = 8;
const NAMES_BYTES: usize = 64 << 20;

/// A table of symbols with its names.
#[derive(Debug, Default)]
pub struct SymbolTable {
    entries: Vec<elf::Sym64<LE>>,
    strings: Vec<u8>,
    exported: bool,
    /// Built at the first look-up by name.
    by_name: OnceLock<Vec<Hashed>>,
}

/// The hash of a name, and the index of its entry: 8 bytes per symbol, sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hashed {
    hash: u32,
    entry: u32,
}

impl SymbolTable {
    /// An error if the names together are far longer than their string table, as when many symbols share one
    /// long name: link editors share only the ends of a few.
    pub(crate) fn new(
        entries: Vec<elf::Sym64<LE>>,
        strings: Vec<u8>,
        exported: bool,
    ) -> Result<SymbolTable, ImageError> {
        let table = SymbolTable {
            entries,
            strings,
            exported,
            by_name: OnceLock::new(),
        };
        let mut left = table
            .strings
            .len()
            .saturating_mul(NAMES_SHARED)
            .saturating_add(NAMES_BYTES);
        for entry in &table.entries {
            let what = "the end of a symbol's name";
            let length = table.raw_name(entry).len();
            left = left.checked_sub(length).ok_or(ImageError::Damaged { what })?;
        }
        Ok(table)
    }

    /// All symbols that have a name.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> + '_ {
        let mut source: Option<Arc<str>> = None;
        self.entries.iter().filter_map(move |entry| {
            if entry.st_type() == elf::STT_FILE {
                let raw = self.raw_name(entry);
                source = (!raw.is_empty()).then(|| printable_bytes(raw).into());
                return None;
            }
            (entry.st_name.get(LE) != 0).then(|| self.symbol(entry, source.clone()))
        })
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Symbol> + 'a {
        let indices = self.indices_of(name);
        indices.map(|index| self.symbol(&self.entries[index as usize], self.source(index as usize)))
    }

    /// The source file of a local entry: a FILE entry with its name precedes the entries of a source file.
    fn source(&self, index: usize) -> Option<Arc<str>> {
        let before = self.entries.get(..index)?;
        if self.entries[index].st_bind() != elf::STB_LOCAL {
            return None;
        }
        let file = before
            .iter()
            .rev()
            .find(|entry| entry.st_type() == elf::STT_FILE)?;
        let raw = self.raw_name(file);
        (!raw.is_empty()).then(|| printable_bytes(raw).into())
    }

    /// The names of the wanted symbols that match the user's spelling, each with the quality of the match.
    pub(crate) fn spelled(
        &self,
        spelling: &Spelling,
        is_wanted: impl Fn(SymbolKind) -> bool,
    ) -> impl Iterator<Item = (MatchQuality, Symbol)> {
        let entries = self.entries.iter().filter_map(move |entry| {
            let is_defined = entry.st_shndx.get(LE) != elf::SHN_UNDEF;
            let fit = spelling.fit(self.raw_name(entry))?;
            (is_defined && is_wanted(kind(entry))).then_some((fit, entry))
        });
        entries.map(|(fit, entry)| (fit, self.symbol(entry, None)))
    }

    /// The entries called `name`, in the order of the table, without FILE entries.
    pub(crate) fn indices_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let hash = hash(name.as_bytes());
        let by_name = self.by_name.get_or_init(|| self.hashed());
        let first = by_name.partition_point(|known| known.hash < hash);
        let same = by_name[first..]
            .iter()
            .take_while(move |known| known.hash == hash);
        same.map(|known| known.entry).filter(move |index| {
            let entry = self.entries.get(*index as usize);
            entry.is_some_and(|entry| self.raw_name(entry) == name.as_bytes())
        })
    }

    /// The addresses of the symbols that this file defines.
    pub(crate) fn places(&self) -> impl Iterator<Item = LinkAddress> + '_ {
        let is_defined = |entry: &&elf::Sym64<LE>| {
            entry.st_name.get(LE) != 0
                && entry.st_type() != elf::STT_FILE
                && entry.st_shndx.get(LE) != elf::SHN_UNDEF
        };
        let defined = self.entries.iter().filter(is_defined);
        defined.map(|entry| LinkAddress(entry.st_value.get(LE)))
    }

    /// The lowest address at or behind `address` of a symbol that this file defines.
    pub(crate) fn next(&self, address: LinkAddress) -> Option<LinkAddress> {
        self.places().filter(|place| *place >= address).min()
    }

    fn hashed(&self) -> Vec<Hashed> {
        let entries = (0u32..).zip(&self.entries);
        let mut hashed: Vec<Hashed> = entries
            .filter(|(_, entry)| entry.st_type() != elf::STT_FILE)
            .map(|(index, entry)| Hashed {
                hash: hash(self.raw_name(entry)),
                entry: index,
            })
            .collect();
        hashed.sort_unstable();
        hashed
    }

    /// The name without the version that some link editors append in .symtab (`memcpy@GLIBC_2.14`).
    fn raw_name(&self, entry: &elf::Sym64<LE>) -> &[u8] {
        let rest = self
            .strings
            .get(entry.st_name.get(LE) as usize..)
            .unwrap_or_default();
        let end = memchr::memchr2(0, b'@', rest).unwrap_or(rest.len());
        &rest[..end]
    }

    /// The symbol with this index, as relocations refer to it.
    pub(crate) fn at(&self, index: u32) -> Option<Symbol> {
        Some(self.symbol(self.entries.get(index as usize)?, None))
    }

    fn symbol(&self, entry: &elf::Sym64<LE>, source: Option<Arc<str>>) -> Symbol {
        Symbol {
            name: printable_bytes(self.raw_name(entry)),
            kind: kind(entry),
            binding: match entry.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_WEAK => Binding::Weak,
                elf::STB_GNU_UNIQUE => Binding::Unique,
                _ => Binding::Global,
            },
            protected: entry.st_visibility() == elf::STV_PROTECTED,
            exported: self.exported && entry.st_bind() != elf::STB_LOCAL,
            defined: entry.st_shndx.get(LE) != elf::SHN_UNDEF,
            address: LinkAddress(entry.st_value.get(LE)),
            size: entry.st_size.get(LE),
            source: source.filter(|_| entry.st_bind() == elf::STB_LOCAL),
        }
    }
}

/// FNV-1a. Names with the same hash are compared in full.
fn hash(name: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    name.iter().fold(2_166_136_261, step)
}

fn kind(entry: &elf::Sym64<LE>) -> SymbolKind {
    match entry.st_type() {
        elf::STT_FUNC => SymbolKind::Function,
        elf::STT_GNU_IFUNC => SymbolKind::IndirectFunction,
        elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Variable,
        elf::STT_TLS => SymbolKind::ThreadLocal,
        _ => SymbolKind::Other,
    }
}

/// A function to which a probe can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// All requested names of these bytes: aliases share one probe, or every call would count twice.
    pub names: Vec<String>,
    /// Where it begins in the file.
    pub offset: FileOffset,
    /// Where the linker placed it.
    pub address: LinkAddress,
    /// Size in bytes; 0 if the file does not state it.
    pub size: u64,
    pub binding: Binding,
    /// It selects the function that callers use; see [`SymbolKind::IndirectFunction`].
    pub indirect: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use std::fs::File;

    fn libc() -> Image {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .find_map(|line| line.split_once('/').filter(|(_, p)| p.contains("libc.so")));
        Image::read(File::open(format!("/{}", path.unwrap().1)).unwrap()).unwrap()
    }

    #[test]
    fn many_symbols_that_share_one_long_name_are_refused() {
        let entry = |name| elf::Sym64 {
            st_name: object::U32::new(LE, name),
            st_info: elf::SymbolInfo(0),
            st_other: elf::SymbolOther(0),
            st_shndx: object::U16::new(LE, elf::SymbolSection(1)),
            st_value: object::U64::new(LE, 0),
            st_size: object::U64::new(LE, 0),
        };
        let long = vec![b'a'; 1 << 20];
        let table = |count| SymbolTable::new((1..count).map(entry).collect(), long.clone(), false);
        assert!(table(9).is_ok());
        assert!(matches!(table(10_000), Err(ImageError::Damaged { .. })));
    }

    #[test]
    fn aliases_of_one_function_are_reported_once_with_all_names() {
        let functions = libc()
            .functions(&["write", "__write", "no_such_function"])
            .unwrap();
        assert_eq!(functions.len(), 1, "{functions:?}");
        assert_eq!(functions[0].names.len(), 2);
        assert!(functions[0].size > 0 && functions[0].offset.0 > 0);
    }

    #[test]
    fn a_search_by_name_finds_the_same_as_a_search_of_all() {
        let own = Image::read(File::open("/proc/self/exe").unwrap()).unwrap();
        let libc = libc();
        let has_source = |symbol: Symbol| symbol.source.is_some();
        assert!(own.static_symbols().unwrap().iter().any(has_source));
        for table in [libc.dynamic_symbols().unwrap(), own.static_symbols().unwrap()] {
            let all: Vec<Symbol> = table.iter().collect();
            for symbol in all.iter().step_by(97) {
                let same: Vec<&Symbol> = all.iter().filter(|other| other.name == symbol.name).collect();
                assert_eq!(
                    table
                        .named(&symbol.name)
                        .collect::<Vec<_>>()
                        .iter()
                        .collect::<Vec<_>>(),
                    same
                );
            }
            assert_eq!(table.named("no_such_symbol").count(), 0);
        }
    }

    #[test]
    fn an_indirect_function_is_reported_as_such() {
        let functions = libc().functions(&["memcpy"]).unwrap();
        assert!(
            functions.iter().any(|function| function.indirect),
            "{functions:?}"
        );
    }
}
