//! Offsets of fields in the kernel's structures, from its BTF (/sys/kernel/btf/vmlinux). aya-obj reads BTF
//! too, but only to relocate programs, and ours are loaded by hand.

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The offsets that the kernel side needs to maintain a family, in bytes, each with the name of its constant
/// there. `None` if the kernel has no BTF.
pub(super) fn of_family() -> Option<[(&'static str, u32); 8]> {
    found([
        ("TASK_TGID", "task_struct", "tgid"),
        ("TASK_SIGNAL", "task_struct", "signal"),
        ("SIGNAL_LIVE", "signal_struct", "live"),
        ("TASK_CRED", "task_struct", "cred"),
        ("CRED_GID", "cred", "gid"),
        ("CRED_EGID", "cred", "egid"),
        ("CRED_EUID", "cred", "euid"),
        ("CRED_PERMITTED", "cred", "cap_permitted"),
    ])
}

/// The offsets with which the kernel side determines whether a user may inspect a process, as in
/// [`of_family`].
pub(super) fn of_access() -> Option<[(&'static str, u32); 7]> {
    found([
        ("TASK_CRED", "task_struct", "cred"),
        ("CRED_GID", "cred", "gid"),
        ("CRED_EGID", "cred", "egid"),
        ("CRED_EUID", "cred", "euid"),
        ("CRED_PERMITTED", "cred", "cap_permitted"),
        ("TASK_MM", "task_struct", "mm"),
        ("MM_FLAGS", "mm_struct", "flags"),
    ])
}

/// The constants with their offsets: each is given with its structure and the member there.
fn found<const N: usize>(fields: [(&'static str, &str, &str); N]) -> Option<[(&'static str, u32); N]> {
    let types = std::fs::read(TYPES).ok()?;
    let places = offsets(&types, fields.map(|(_, of, member)| (of, member)))?;
    let mut found = fields.map(|(constant, ..)| (constant, 0));
    for ((_, found), place) in found.iter_mut().zip(places) {
        *found = place?;
    }
    Some(found)
}

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;

/// Offset of a thread's run-queue time in `task_struct`, in bytes; `None` if there is no BTF or no such
/// field.
pub(super) fn waited_offset() -> Option<u32> {
    let types = std::fs::read(TYPES).ok()?;
    let [outer, inner] = offsets(
        &types,
        [("task_struct", "sched_info"), ("sched_info", "run_delay")],
    )?;
    outer?.checked_add(inner?)
}

/// Offsets of struct members in bytes; the first struct of each name counts. One pass for all: the types of a
/// kernel are megabytes.
fn offsets<const N: usize>(types: &[u8], wanted: [(&str, &str); N]) -> Option<[Option<u32>; N]> {
    let table = TypeTable::of(types)?;
    let mut found = [None; N];
    for structure in table.types().filter(|of| of.kind == STRUCT) {
        for (found, (of, member)) in found.iter_mut().zip(wanted) {
            if found.is_none() && table.is_called(structure.name, of) {
                *found = table.offset_of(&structure, member);
            }
        }
        if !found.contains(&None) {
            break;
        }
    }
    Some(found)
}

/// The types of BTF.
struct TypeTable<'a> {
    bytes: &'a [u8],
    /// Where the first type begins, and where the last one ends.
    types: (usize, usize),
    strings: usize,
}

/// The head of a type.
struct Type {
    name: u32,
    kind: u32,
    count: usize,
    /// Offsets of its members are accompanied by sizes in bits.
    has_bits: bool,
    /// Where its members begin.
    place: usize,
}

impl<'a> TypeTable<'a> {
    fn of(bytes: &'a [u8]) -> Option<TypeTable<'a>> {
        let (magic, header) = (half(bytes, 0)?, word(bytes, 4)?);
        let section = |place: usize| {
            let begin = header.checked_add(word(bytes, place)?)? as usize;
            Some((begin, begin.checked_add(word(bytes, place + 4)? as usize)?))
        };
        let (types, (strings, _)) = (section(8)?, section(16)?);
        (magic == MAGIC).then_some(TypeTable {
            bytes,
            types,
            strings,
        })
    }

    /// All types, up to the first of an unknown kind. The first one has the number 1.
    fn types(&self) -> impl Iterator<Item = Type> {
        let (mut place, end) = self.types;
        std::iter::from_fn(move || {
            let (name, info) = (word(self.bytes, place)?, word(self.bytes, place + 4)?);
            let (kind, count) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
            let (begin, has_bits) = (place + 12, info >> 31 == 1);
            place = begin.checked_add(behind(kind, count)?)?;
            (begin <= end).then_some(Type {
                name,
                kind,
                count,
                has_bits,
                place: begin,
            })
        })
    }

    fn is_called(&self, name: u32, wanted: &str) -> bool {
        let begin = self.strings.checked_add(name as usize);
        let text = begin.and_then(|begin| self.bytes.get(begin..));
        text.and_then(|text| text.strip_prefix(wanted.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Offset of a member in bytes. All members of some structures are in one without a name (`mm_struct`).
    fn offset_of(&self, structure: &Type, member: &str) -> Option<u32> {
        self.member(structure, member)
            .map(|(_, offset)| offset)
            .or_else(|| {
                let (number, offset) = self.member(structure, "")?;
                let inner = self.types().nth((number as usize).checked_sub(1)?)?;
                let (_, inner) = self.member(&inner, member).filter(|_| inner.kind == STRUCT)?;
                offset.checked_add(inner)
            })
    }

    /// Type and offset of the first member of this name.
    fn member(&self, structure: &Type, wanted: &str) -> Option<(u32, u32)> {
        let mut places = (0..structure.count).map(|number| structure.place + 12 * number);
        let is_wanted =
            |place: &usize| word(self.bytes, *place).is_some_and(|name| self.is_called(name, wanted));
        let place = places.find(is_wanted)?;
        let bits = word(self.bytes, place + 8)?;
        let bits = if structure.has_bits {
            bits & 0x00ff_ffff
        } else {
            bits
        };
        (bits % 8 == 0).then_some((word(self.bytes, place + 4)?, bits / 8))
    }
}

/// Bytes that follow the header of a type; `None` for an unknown kind, after which nothing can be located.
fn behind(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, names of types, qualifiers, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structs and unions, sections, enums of 64 bits.
        4 | 5 | 15 | 19 => 12 * count,
        // Enums, parameters.
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    let four = bytes.get(place..place.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn half(bytes: &[u8], place: usize) -> Option<u16> {
    let two = bytes.get(place..place.checked_add(2)?)?;
    Some(u16::from_le_bytes(two.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, and a struct `a` with the members `b` at 0 and `c` at 8 bytes.
    fn types() -> Vec<u8> {
        table(&[1, 1 << 24, 4, 32, 5, 4 << 24 | 2, 16, 7, 1, 0, 9, 1, 64])
    }

    fn table(words: &[u32]) -> Vec<u8> {
        let strings = b"\0int\0a\0b\0c\0";
        let (length, strings_length) = (4 * words.len() as u32, strings.len() as u32);
        let mut bytes = [&MAGIC.to_le_bytes()[..], &[1, 0]].concat();
        let header = [24, 0, length, length, strings_length];
        bytes.extend(header.iter().chain(words).flat_map(|word| word.to_le_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_member_is_found_where_it_is_and_what_is_not_there_is_none() {
        let types = types();
        let wanted = [("a", "c"), ("a", "b"), ("a", "d"), ("int", "b")];
        assert_eq!(offsets(&types, wanted), Some([Some(8), Some(0), None, None]));
    }

    #[test]
    fn a_member_inside_a_structure_without_a_name_is_found() {
        let words = [
            1,
            1 << 24,
            4,
            32,
            5,
            4 << 24 | 1,
            16,
            0,
            3,
            16,
            0,
            4 << 24 | 2,
            16,
            7,
            1,
            0,
            9,
            1,
            64,
        ];
        let types = table(&words);
        let wanted = [("a", "c"), ("a", "b"), ("a", "d")];
        assert_eq!(offsets(&types, wanted), Some([Some(10), Some(2), None]));
    }

    #[test]
    fn the_kernel_has_what_decides_on_access() {
        assert!(std::fs::exists(TYPES).is_ok_and(|is_there| !is_there || of_access().is_some()));
    }

    #[test]
    fn damaged_types_yield_nothing_and_end() {
        let types = types();
        for length in 0..types.len() - 1 {
            offsets(&types[..length], [("a", "c")]);
            let mut damaged = types.clone();
            damaged[length] ^= 0xff;
            offsets(&damaged, [("a", "c")]);
        }
    }
}
