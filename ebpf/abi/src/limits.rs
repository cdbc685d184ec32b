//! The bounds of everything that the kernel side keeps, each with its reason.

/// Probe specs that can be armed at once: eight times the 400 of a wide MPI profile, an array of 300 KiB.
pub const PROBES_MAX: u32 = 3072;

/// Processes of the job on this node. The largest current nodes run 512 ranks; four times that costs 48 KiB.
pub const PROCESSES_MAX: u32 = 2048;

/// Cells of [`crate::Totals`] (processes × probes). The user side sizes the map for the job; this is its
/// upper bound: 1 Mi cells are 64 MiB.
pub const TOTALS_MAX: u32 = 1 << 20;

/// Threads that may be inside a probed function; the user side removes those that have ended. 4.6 MiB.
pub const THREADS_MAX: u32 = 4096;

/// Open calls kept per thread; deeper ones are counted but not timed. A power of two: the kernel side masks
/// the index with it.
pub const FRAMES_MAX: usize = 16;

/// Values that one probe can capture, over all rules that share it.
pub const CAPTURES_MAX: usize = 6;

/// Memory reads that lead to one captured value: at most four pointers, then the value.
pub const READS_MAX: usize = 5;

/// Values of a probe's hits that are summed in the kernel.
pub const SUMMED_MAX: usize = 4;

/// Cells of [`crate::SumCell`], two for each aggregating probe of a process: 64 MiB. Other hits are sent.
pub const SUMS_MAX: u32 = 1 << 18;

/// Longest captured text, in bytes.
pub const TEXT_MAX: usize = 64;

/// Mapped addresses of probed instructions over all processes, for kernels that give links no cookies.
pub const SITES_MAX: u32 = 65_536;

/// Call sites inside language bindings, over all processes: 32 for each rank of the largest current nodes.
/// Memory is allocated on demand.
pub const BINDING_SITES_MAX: u32 = 1 << 14;

/// Language bindings of one call: `mpi_barrier_f08_` calls `mpi_barrier_`, which calls `MPI_Barrier`.
pub const BINDINGS_MAX: usize = 3;

/// Size of the ring buffer for individually sent hits: 60 ms at 5 million hits a second, because a host may
/// take the agent's CPU away for that long. Pages that hits have reached count as the agent's memory.
pub const RING_BYTES: u32 = 16 << 20;

/// Concurrent processes of a command, with or without a slot: builds start hundreds of shells and compilers.
pub const FAMILY_MAX: u32 = 65_536;

/// Size of the ring buffer of [`crate::FamilyEvent`]: room for start and end of every slot without a reader.
pub const FAMILY_EVENTS_BYTES: u32 = 256 << 10;

/// Actions that can be pending at sync points at once: one for each rank of the largest current nodes.
pub const HOLDS_MAX: u32 = 512;

/// Size of each ring buffer that wakes an answering thread; a page. There is one hold at a time, so two
/// records would suffice.
pub const WAKE_RING_BYTES: u32 = 4096;

/// The longest hold that can be requested: the sum of both bounds.
pub const HOLD_NS_MAX: u64 = 100_000_000;

/// Calls in all rings of processes together: 12 MiB.
pub const CALLS_MAX: u32 = 1 << 18;

/// Largest ring of one process, in calls: at 20 000 calls a second it lasts a fifth of a second. A power of
/// two, as every smaller size: the kernel side masks the number with it.
pub const RING_CALLS: u32 = 4096;

/// Steps of a hold, in addition to its bounds in time: they end it if the clock stands still. As many as the
/// kernel permits in one loop; at 12 ns a step (40 were seen) they last as long as [`HOLD_NS_MAX`].
pub const HOLD_STEPS_MAX: u32 = 1 << 23;

/// A record in a ring buffer has a header of 8 bytes.
const _: () = assert!(
    FAMILY_EVENTS_BYTES as usize >= 2 * PROCESSES_MAX as usize * (size_of::<crate::FamilyEvent>() + 8)
);
/// Pairs of a process and a rank for which messages are counted: 512 ranks with 128 partners each. Memory is
/// allocated on demand, at most 5 MiB.
pub const PAIRS_MAX: u32 = 1 << 16;

/// Persistent requests that are tracked at once: 32 for each rank of the largest current nodes. Memory is
/// allocated on demand.
pub const REQUESTS_MAX: u32 = 1 << 14;

/// Histogram rows of a process: one for each function that carries bytes (MPI has about 150, including the
/// large-count ones), and two for each function whose durations are counted: enough for some 400 of them.
pub const ROWS_MAX: u32 = 1024;

/// Cells of [`crate::Row`] (processes × rows): 64 MiB.
pub const HISTOGRAM_ROWS_MAX: u32 = 1 << 18;

/// Most counts of one call that are summed, or requests that one call starts; beyond that the bytes are
/// unknown. 4096 reads take about 0.1 ms.
pub const COUNTS_MAX: u32 = 4096;

const _: () = assert!(RING_CALLS.is_power_of_two() && CALLS_MAX >= RING_CALLS);
