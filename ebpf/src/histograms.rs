//! Counts values in histograms by powers of two: messages by size, calls by duration.

use abi::Row;
use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};

use crate::{atomic::add, namespace::constant};

/// The rows of each process: slot × ROW_COUNT + row. The user side sets the size at load and reads the rows
/// as shared memory.
#[map]
pub static HISTOGRAMS: Array<Row> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Number of rows of one process in HISTOGRAMS; set at load.
#[unsafe(no_mangle)]
static ROW_COUNT: u32 = 0;

/// Increments a bucket of the histogram that begins at row `first`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn histogram_count(process: u32, first: u32, bucket: u32) -> u32 {
    let (rows, row) = (constant(&ROW_COUNT), first + bucket / Row::BUCKETS as u32);
    if row >= rows {
        return 0;
    }
    if let Some(row) = HISTOGRAMS.get(process * rows + row) {
        add(&row.counts[bucket as usize & (Row::BUCKETS - 1)], 1);
    }
    1
}
