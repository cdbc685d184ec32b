//! Returns unused memory to the system. Reading the symbols of the program's files at the start of a session
//! takes tens of MiB in small pieces. Without this the allocator would keep them, although the session never
//! needs as much again. Frees nothing itself.
#![allow(unsafe_code, reason = "the allocator is set by a call of the C library")]

/// Makes the allocator return free memory to the system.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer, touches only what is free, and holds the allocator's own locks; any
        // thread may call it at any time.
        unsafe { libc::malloc_trim(0) };
    }
}
