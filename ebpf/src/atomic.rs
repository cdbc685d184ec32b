//! Atomic instructions of the kernel side. Shared by both objects.

/// Sets `word` to `to` if it is `from`; returns whether it did.
pub fn compare_and_swap(word: *mut u64, from: u64, to: u64) -> bool {
    let found: u64;
    // SAFETY: the pointer is to an aligned u64 of a map. The instruction compares with r0 and leaves there
    // what it found.
    unsafe {
        core::arch::asm!(
            "r0 = cmpxchg_64({0} + 0, r0, {1})",
            in(reg) word, in(reg) to, inout("r0") from => found,
        );
    }
    found == from
}
