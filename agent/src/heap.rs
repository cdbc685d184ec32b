//! Gives memory back that is no longer used. Symbols of the program's files are read while a session arms, which takes tens of MiB of small
//! pieces; the allocator keeps them for a session that will never need as much again. Nor will it need most of the code that it began with.
//! Frees nothing itself.
#![allow(
    unsafe_code,
    reason = "the allocator is set by a call of the C library, and the kernel where our own file is mapped"
)]

use rustix::mm::{Advice, madvise};

/// Has the allocator give back to the system what is free, and the kernel our code.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer, touches only what is free, and holds the allocator's own locks; any thread may call it at any time.
        unsafe { libc::malloc_trim(0) };
    }
    give_back_code();
}

/// Has the kernel unmap the pages of our own file that are never written: code and constants. Those that are still needed come back when they
/// are touched, out of the page cache; a minor page fault brings 16 of them.
fn give_back_code() {
    for (first, bytes) in constant_segments() {
        // SAFETY: a private mapping of a file that may not be written, and was not, for nothing is relocated in it: a page that is touched
        // again is what it was. A breakpoint that the kernel set there for a probe on ourselves goes with its page; the functions that are
        // probed (`kernel/gauge`) were called for the last time.
        let given = unsafe { madvise(first as *mut _, bytes, Advice::LinuxDontNeed) };
        if let Err(error) = given {
            tracing::debug!(%error, "our code stays in memory");
        }
    }
}

/// Where the parts of our own file are mapped that may not be written, and how many bytes they are, in whole pages.
fn constant_segments() -> Vec<(usize, usize)> {
    // SAFETY: takes no pointer.
    let auxiliary = |kind| unsafe { libc::getauxval(kind) } as usize;
    let (headers, count) = (auxiliary(libc::AT_PHDR), auxiliary(libc::AT_PHNUM));
    if headers == 0 {
        return Vec::new();
    }
    // SAFETY: the kernel has told where it mapped the headers of this program, and how many there are. They are never unmapped.
    let segments = unsafe { std::slice::from_raw_parts(headers as *const libc::Elf64_Phdr, count) };
    let Some(own) = segments.iter().find(|segment| segment.p_type == libc::PT_PHDR) else {
        return Vec::new();
    };
    let base = headers.wrapping_sub(own.p_vaddr as usize);
    let page = procfs::page_size() as usize;
    let constant = segments
        .iter()
        .filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0);
    let place = |segment: &libc::Elf64_Phdr| {
        let first = base.wrapping_add(segment.p_vaddr as usize);
        let end = first + segment.p_memsz as usize;
        let first = first / page * page;
        (first, end.next_multiple_of(page) - first)
    };
    constant.map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, os::unix::fs::FileExt};

    use super::*;

    /// Constants that nobody else looks at, far more than one page fault brings.
    static CONSTANTS: [u8; 256 << 10] = [7; 256 << 10];

    fn sum() -> u64 {
        black_box(&CONSTANTS).iter().map(|byte| u64::from(*byte)).sum()
    }

    fn is_mapped(address: usize) -> bool {
        let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut entry = [0; 8];
        let number = address as u64 / procfs::page_size();
        pages.read_exact_at(&mut entry, number * 8).unwrap();
        u64::from_ne_bytes(entry) >> 63 == 1
    }

    #[test]
    fn constants_leave_our_memory_and_are_the_same_when_they_are_looked_at_again() {
        let (before, middle) = (sum(), &raw const CONSTANTS[CONSTANTS.len() / 2] as usize);
        assert!(is_mapped(middle));
        give_back_code();
        assert!(!is_mapped(middle));
        assert_eq!(sum(), before);
        assert!(is_mapped(middle));
    }

    #[test]
    fn what_is_given_back_has_our_code_and_nothing_that_is_written() {
        let segments = constant_segments();
        let is_given = |address: usize| {
            let mut segments = segments.iter();
            segments.any(|(first, bytes)| (*first..first + bytes).contains(&address))
        };
        static WRITTEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
        // Relocated when the program was loaded.
        static NAMES: [&str; 2] = ["one", "two"];
        let code: fn() = give_back_code;
        assert!(is_given(code as usize) && is_given(CONSTANTS.as_ptr() as usize));
        assert!(!is_given(&raw const WRITTEN as usize) && !is_given(NAMES.as_ptr() as usize));
    }
}
