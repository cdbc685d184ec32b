//! Access to words of maps, which other threads and the user side change at the same time. Shared by all
//! objects. The target has these instructions, but not the compare-and-swap that `core::sync::atomic` needs.

use abi::SharedWord;

/// Reads in one piece.
pub fn read(word: &SharedWord) -> u64 {
    // SAFETY: the reference is to an aligned word.
    unsafe { word.as_ptr().read_volatile() }
}

/// Writes in one piece, after all words that were written before by this function.
pub fn write(word: &SharedWord, value: u64) {
    // SAFETY: the reference is to an aligned word, which may be written while others refer to it.
    unsafe { word.as_ptr().write_volatile(value) }
}

/// Adds to a counter to which other threads may be adding.
pub fn add(counter: &SharedWord, amount: u64) {
    let place = counter.as_ptr();
    // SAFETY: the reference is to an aligned word, and the instruction is atomic.
    unsafe { core::arch::asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) place, in(reg) amount) }
}

/// Adds to a counter and returns its previous value.
pub fn fetch_and_add(counter: &SharedWord, amount: u64) -> u64 {
    let place = counter.as_ptr();
    let mut before = amount;
    // SAFETY: the reference is to an aligned word, and the instruction is atomic.
    unsafe {
        core::arch::asm!("{1} = atomic_fetch_add((u64 *)({0} + 0), {1})", in(reg) place, inout(reg) before)
    }
    before
}

/// Sets `word` to `to` if it is `from`; returns whether it did.
pub fn compare_and_swap(word: &SharedWord, from: u64, to: u64) -> bool {
    let place = word.as_ptr();
    let found: u64;
    // SAFETY: the reference is to an aligned word. The atomic instruction compares it with r0 and leaves there
    // what it found.
    unsafe {
        core::arch::asm!(
            "r0 = cmpxchg_64({0} + 0, r0, {1})",
            in(reg) place, in(reg) to, inout("r0") from => found,
        );
    }
    found == from
}
