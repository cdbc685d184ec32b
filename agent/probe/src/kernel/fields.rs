//! Offsets of fields in the kernel's structures, from its BTF (/sys/kernel/btf/vmlinux). aya-obj reads BTF
//! too, but only to relocate programs, and ours are loaded by hand.

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The offsets that the kernel side needs to maintain a family, in bytes, each with the name of its constant
/// there. `None` if the kernel has no BTF.
pub(super) fn of_family() -> Option<[(&'static str, u32); 8]> {
    const FIELDS: [(&str, &str, &str); 8] = [
        ("TASK_TGID", "task_struct", "tgid"),
        ("TASK_SIGNAL", "task_struct", "signal"),
        ("SIGNAL_LIVE", "signal_struct", "live"),
        ("TASK_CRED", "task_struct", "cred"),
        ("CRED_GID", "cred", "gid"),
        ("CRED_EGID", "cred", "egid"),
        ("CRED_EUID", "cred", "euid"),
        ("CRED_PERMITTED", "cred", "cap_permitted"),
    ];
    let types = std::fs::read(TYPES).ok()?;
    let places = offsets(&types, FIELDS.map(|(_, of, member)| (of, member)))?;
    let mut found = FIELDS.map(|(constant, ..)| (constant, 0));
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
    let (magic, header) = (half(types, 0)?, word(types, 4)?);
    if magic != MAGIC {
        return None;
    }
    let section = |place: usize| {
        Some((
            header.checked_add(word(types, place)?)? as usize,
            word(types, place + 4)? as usize,
        ))
    };
    let ((begin, length), (strings, _)) = (section(8)?, section(16)?);
    let is_called = |name: u32, wanted: &str| {
        let text = strings
            .checked_add(name as usize)
            .and_then(|begin| types.get(begin..));
        text.and_then(|text| text.strip_prefix(wanted.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut found = [None; N];
    let (mut place, end) = (begin, begin.checked_add(length)?);
    while place < end && found.contains(&None) {
        let (name, info) = (word(types, place)?, word(types, place + 4)?);
        let (kind, count, has_bits) = ((info >> 24) & 0x1f, (info & 0xffff) as usize, info >> 31 == 1);
        place += 12;
        for (found, (of, member)) in found.iter_mut().zip(wanted) {
            if found.is_some() || kind != STRUCT || !is_called(name, of) {
                continue;
            }
            let mut members = (0..count).map(|number| place + 12 * number);
            let member =
                members.find(|place| word(types, *place).is_some_and(|name| is_called(name, member)));
            let bits = member.and_then(|place| word(types, place + 8));
            let bits = bits.map(|bits| if has_bits { bits & 0x00ff_ffff } else { bits });
            *found = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
        }
        place += behind(kind, count)?;
    }
    Some(found)
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
        let strings = b"\0int\0a\0b\0c\0";
        let words: [u32; 13] = [1, 1 << 24, 4, 32, 5, 4 << 24 | 2, 16, 7, 1, 0, 9, 1, 64];
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend([1, 0]);
        for word in [
            24,
            0,
            4 * words.len() as u32,
            4 * words.len() as u32,
            strings.len() as u32,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
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
