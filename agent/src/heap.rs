//! The allocator, and how it returns unused memory to the system. Reading the symbols of the program's files at
//! the start of a session takes tens of MiB in small pieces. Without this the allocator would keep them, although
//! the session never needs as much again.
#![allow(unsafe_code, reason = "the allocators have no safe functions for this")]

/// With musl's allocator a decision takes twice as long, and with one in Rust (dlmalloc) half as long again.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes the allocator return free memory to the system.
pub(crate) fn give_back() {
    #[cfg(target_env = "musl")]
    {
        // SAFETY: takes no pointer, and frees only what is unused; any thread may call it at any time.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer, touches only what is free, and holds the allocator's own locks; any
        // thread may call it at any time.
        unsafe { libc::malloc_trim(0) };
    }
}
