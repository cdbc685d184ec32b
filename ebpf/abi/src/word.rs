//! The words of shared records that one side changes while the other one reads them.

/// A word of 8 bytes in a map. The kernel side changes it through shared references, with the instructions in
/// `ebpf/src/atomic.rs`.
#[cfg(target_arch = "bpf")]
pub use core::sync::atomic::AtomicU64 as SharedWord;

/// A word of 8 bytes. The user side has copies of the records; it accesses the shared memory itself by place.
#[cfg(not(target_arch = "bpf"))]
pub type SharedWord = u64;
