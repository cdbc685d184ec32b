//! The bodies of parallel regions in a file whose symbols were stripped. GCC and Clang make each body a function of its
//! own, and pass its address to the OpenMP library where the region begins. So the calls of these functions of the
//! library are searched, and before each the instruction that loads the address. It counts if the file's unwind tables
//! have a function there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memchr::memchr3_iter;
use object::LittleEndian as LE;
use object::elf;

use super::Image;
use super::got::Stored;
use crate::address::{Address, LinkAddress};
use crate::arch::x86_64::code;
use crate::elf::ImageError;
use crate::frames::Tables;
use crate::symbol::SymbolTable;

/// Bytes before a call in which the address is loaded: the variables that a body uses are stored in between.
const LOAD_WITHIN: usize = 1024;

/// More bodies than any file has; further ones are not found.
const BODIES_MAX: usize = 1 << 14;

/// Bytes of a PLT entry; those of .plt.got have half of them.
const LINKAGE_BYTES: usize = 16;

/// The instructions that load the address of a body: relative to the instruction pointer, and as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BodyLoad {
    relative: [u8; 3],
    absolute: u8,
}

/// Into rdi, the first argument of `GOMP_parallel`.
const FIRST: BodyLoad = BodyLoad {
    relative: [0x48, 0x8d, 0x3d],
    absolute: 0xbf,
};

/// Into rdx, the third argument of `__kmpc_fork_call`.
const THIRD: BodyLoad = BodyLoad {
    relative: [0x48, 0x8d, 0x15],
    absolute: 0xba,
};

impl BodyLoad {
    /// How this function of an OpenMP library gets the address of a body.
    fn of(name: &str) -> Option<BodyLoad> {
        let is_gcc = name.starts_with("GOMP_parallel") && !name.ends_with("_end");
        let is_llvm = matches!(name, "__kmpc_fork_call" | "__kmpc_fork_call_if");
        match (is_gcc, is_llvm) {
            (true, _) => Some(FIRST),
            (_, true) => Some(THIRD),
            _ => None,
        }
    }

    /// The addresses that seem to be loaded in this code, which runs at `start`, the last one first. Other bytes look
    /// like such instructions, too.
    fn loads_in(self, code: &[u8], start: u64) -> impl Iterator<Item = LinkAddress> + '_ {
        let number = move |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
        let relative = move |at: usize| {
            let next = place(start, at + self.relative.len() + 4);
            Some(next.wrapping_add_signed(i64::from(number(at + self.relative.len())?.cast_signed())))
        };
        let found =
            (0..code.len())
                .rev()
                .filter_map(move |at| match code[at..].starts_with(&self.relative) {
                    true => relative(at),
                    false if code[at] == self.absolute => number(at + 1).map(u64::from),
                    false => None,
                });
        found.map(LinkAddress)
    }
}

/// A symbol for each body, as GCC would name it, with its address in place of a number.
pub(super) fn symbols(image: &Image) -> Result<SymbolTable, ImageError> {
    let mut strings = vec![0];
    let mut entries = Vec::new();
    for body in bodies(image)? {
        entries.push(elf::Sym64 {
            st_name: object::U32::new(LE, u32::try_from(strings.len()).unwrap_or_default()),
            st_info: elf::SymbolInfo::new(elf::STB_LOCAL, elf::STT_FUNC),
            st_other: elf::SymbolOther(0),
            // Any section: it is defined.
            st_shndx: object::U16::new(LE, elf::SymbolSection(1)),
            st_value: object::U64::new(LE, body.start.0),
            st_size: object::U64::new(LE, body.end.0 - body.start.0),
        });
        strings.extend(format!("._omp_fn.{:#x}\0", body.start.0).bytes());
    }
    SymbolTable::new(entries, strings, false)
}

/// The bodies, by address.
fn bodies(image: &Image) -> Result<Vec<Range<LinkAddress>>, ImageError> {
    let mut found = BTreeSet::new();
    let words = words(image)?;
    let Some(tables) = Some(&words)
        .filter(|words| !words.is_empty())
        .and_then(|_| Tables::read(image))
    else {
        return Ok(Vec::new());
    };
    let texts = image.segments.iter().filter(|segment| segment.executable);
    let texts: Vec<(u64, Vec<u8>)> = texts
        .map(|text| Ok((text.address.0, image.bytes_at(text.offset, text.file_size)?)))
        .collect::<Result<_, ImageError>>()?;
    let linkages = linkages(image, &texts, &words);
    for (start, bytes) in &texts {
        for at in memchr3_iter(0xe8, 0xe9, 0xff, bytes) {
            let Some(load) = called(&bytes[at..], place(*start, at), &words, &linkages) else {
                continue;
            };
            let from = at.saturating_sub(LOAD_WITHIN);
            let mut loads = load.loads_in(&bytes[from..at], place(*start, from));
            let piece = loads.find_map(|body| tables.piece_at(body).filter(|piece| piece.start == body));
            found.extend(piece.map(|piece| (piece.start, piece.end)));
        }
    }
    Ok(found
        .into_iter()
        .take(BODIES_MAX)
        .map(|(start, end)| start..end)
        .collect())
}

/// How a body gets to the function that this code, which runs at `at`, calls or jumps to; `None` if that is another one.
fn called(
    code: &[u8],
    at: u64,
    words: &BTreeMap<u64, BodyLoad>,
    linkages: &BTreeMap<u64, BodyLoad>,
) -> Option<BodyLoad> {
    let target = |opcode: usize| {
        let distance = i32::from_le_bytes(*code.get(opcode..)?.first_chunk()?);
        Some(place(at, opcode + 4).wrapping_add_signed(i64::from(distance)))
    };
    match code {
        [0xe8 | 0xe9, ..] => linkages.get(&target(1)?).copied(),
        [0xff, 0x15 | 0x25, ..] => words.get(&target(2)?).copied(),
        _ => None,
    }
}

/// The words through which the file calls functions that start a team.
fn words(image: &Image) -> Result<BTreeMap<u64, BodyLoad>, ImageError> {
    let mut words = BTreeMap::new();
    let symbols = image.dynamic_symbols()?;
    let used = symbols.iter().filter(|symbol| !symbol.defined);
    for (load, name) in used.filter_map(|symbol| Some((BodyLoad::of(&symbol.name)?, symbol.name))) {
        words.extend(
            image
                .stored(&name)?
                .into_iter()
                .filter_map(|stored| match stored {
                    Stored::Call(place) | Stored::Table(place) => Some((place.0, load)),
                    Stored::Data => None,
                }),
        );
    }
    Ok(words)
}

/// A damaged file may state any address.
fn place(start: u64, at: usize) -> u64 {
    start.wrapping_add(at as u64)
}

/// The PLT entries that lead to one of these words.
fn linkages(
    image: &Image,
    texts: &[(u64, Vec<u8>)],
    words: &BTreeMap<u64, BodyLoad>,
) -> BTreeMap<u64, BodyLoad> {
    let mut found = BTreeMap::new();
    for section in image
        .sections
        .iter()
        .filter(|section| section.name.starts_with(".plt"))
    {
        for (start, bytes) in texts {
            let Some(from) = section
                .address
                .0
                .checked_sub(*start)
                .and_then(|from| usize::try_from(from).ok())
            else {
                continue;
            };
            let to = from.saturating_add(usize::try_from(section.size).unwrap_or(usize::MAX));
            for at in (from..to.min(bytes.len())).step_by(LINKAGE_BYTES / 2) {
                let code = &bytes[at..bytes.len().min(at + LINKAGE_BYTES)];
                let word = code::linkage(Address(place(*start, at)), code);
                let load = word.and_then(|word| words.get(&word.0));
                found.extend(load.map(|load| (place(*start, at), *load)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_loaded_are_found_from_the_last_one_on() {
        let code = [
            &[0x48, 0x8d, 0x3d, 0x10, 0x00, 0x00, 0x00][..], // 1000: lea rdi, [rip + 10]
            &[0x48, 0x8d, 0x15, 0x20, 0x00, 0x00, 0x00],     // 1007: lea rdx, [rip + 20]
            &[0x31, 0xc9],                                   // 100e: xor ecx, ecx
        ]
        .concat();
        let loads = |load: BodyLoad, code: &[u8]| load.loads_in(code, 0x1000).collect::<Vec<_>>();
        assert_eq!(loads(FIRST, &code), [LinkAddress(0x1017)]);
        assert_eq!(loads(THIRD, &code), [LinkAddress(0x102e)]);
        let absolute = [&code[..], &[0xbf, 0x40, 0x11, 0x40, 0x00]].concat();
        assert_eq!(
            loads(FIRST, &absolute),
            [LinkAddress(0x0040_1140), LinkAddress(0x1017)]
        );
        assert_eq!(loads(FIRST, &code[7..]), []);
    }

    #[test]
    fn functions_that_start_teams_get_the_body_in_their_own_argument() {
        let of = [
            "GOMP_parallel",
            "GOMP_parallel_sections",
            "GOMP_parallel_end",
            "__kmpc_fork_call",
            "GOMP_barrier",
        ];
        assert_eq!(
            of.map(BodyLoad::of),
            [Some(FIRST), Some(FIRST), None, Some(THIRD), None]
        );
    }
}
