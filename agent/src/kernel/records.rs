//! What lies in the rings, out of its bytes: records are told apart by their size. `ebpf/abi` says what is in them.

use abi::{Filling, Hit, Tally, Text};

/// Reads one hit out of what the ring buffer holds; `None` when its size is not a hit's.
pub fn read_hit(bytes: &[u8]) -> Option<Hit> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Reads a captured text out of what the ring buffer holds; `None` when its size is not a text's.
pub fn read_text(bytes: &[u8]) -> Option<Text> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Reads what was added up out of what the ring buffer holds; `None` when its size is another.
pub fn read_tally(bytes: &[u8]) -> Option<Tally> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Whether what the ring buffer holds tells that a ring of calls is half full.
pub fn is_filling(bytes: &[u8]) -> bool {
    bytes.len() == size_of::<Filling>()
}
