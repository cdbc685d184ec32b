//! Gives memory back that is no longer used. Symbols of the program's files are read while a session arms,
//! which takes tens of MiB of small pieces; the allocator keeps them for a session that will never need as
//! much again. Frees nothing itself.
#![allow(unsafe_code, reason = "the allocator is set by a call of the C library")]

/// Has the allocator give back to the system what is free.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer, touches only what is free, and holds the allocator's own locks; any
        // thread may call it at any time.
        unsafe { libc::malloc_trim(0) };
    }
}
