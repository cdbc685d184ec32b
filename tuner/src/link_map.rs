//! The dynamic linker's own list of modules, read from the target's memory: the order in which it searches
//! for symbols.
//!
//! The DT_DEBUG entry of the program's dynamic section points to a structure that the dynamic linker
//! maintains for debuggers (`r_debug`, link.h of glibc and musl). Nothing in it is trusted: lengths are
//! bounded, and addresses may be unreadable.

use std::collections::HashSet;

use object::elf::{DT_DEBUG, DT_NULL};

use crate::address::Address;
use crate::memory::{Memory, MemoryError};
use crate::module::Module;

/// More modules than any program has; a longer list is a loop or garbage.
const MODULES_MAX: usize = 16_384;
/// More entries than any dynamic section has.
const DYNAMIC_MAX: u64 = 4_096;

// Offsets into `struct r_debug` and `struct link_map` on 64-bit machines.
const R_MAP: u64 = 8;
const R_STATE: u64 = 24;
const L_LD: u64 = 16;
const L_NEXT: u64 = 24;

/// The addresses of the dynamic sections of all modules, in search order; `None` for a static program, or
/// while the dynamic linker is changing its list.
pub(crate) fn read(executable: &Module, memory: &Memory) -> Result<Option<Vec<Address>>, MemoryError> {
    let Some(debug) = debug_structure(executable, memory)? else {
        return Ok(None);
    };
    let state = memory.word(debug_field(debug, R_STATE))? as u32;
    let mut entry = memory.word(debug_field(debug, R_MAP))?;
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    while entry != 0 && seen.insert(entry) && found.len() < MODULES_MAX {
        found.push(Address(memory.word(debug_field(entry, L_LD))?));
        entry = memory.word(debug_field(entry, L_NEXT))?;
    }
    // r_state 0 is RT_CONSISTENT. A list that was cut by the bound is invalid.
    Ok((state == 0 && entry == 0 && !found.is_empty()).then_some(found))
}

fn debug_structure(executable: &Module, memory: &Memory) -> Result<Option<u64>, MemoryError> {
    let Some(dynamic) = &executable.image.dynamic_segment else {
        return Ok(None);
    };
    let start = executable.address(dynamic.address);
    for at in 0..(dynamic.memory_size / 16).min(DYNAMIC_MAX) {
        let entry = Address(start.0.wrapping_add(at * 16));
        let tag = memory.word(entry)? as i64;
        if tag == DT_NULL.0 {
            break;
        }
        if tag == DT_DEBUG.0 {
            let debug = memory.word(Address(entry.0.wrapping_add(8)))?;
            return Ok((debug != 0).then_some(debug));
        }
    }
    Ok(None)
}

fn debug_field(structure: u64, offset: u64) -> Address {
    Address(structure.wrapping_add(offset))
}
