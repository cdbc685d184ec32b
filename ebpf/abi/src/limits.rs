//! The bounds of everything that the kernel side keeps, each with its reason.

/// Probe specs that can be armed at once. A wide MPI profile has about 400; eight times that is a 300 KiB
/// array.
pub const PROBES_MAX: u32 = 3072;

/// Processes of the job on this node. The largest nodes of today run 512 ranks; four times that costs 48 KiB.
pub const PROCESSES_MAX: u32 = 2048;

/// Cells of [`crate::Totals`] (processes times probes). The user side sizes the map for the job; this is its
/// cap: 1 Mi cells are 64 MiB.
pub const TOTALS_MAX: u32 = 1 << 20;

/// Threads that may have been inside a probed function; the user side takes out those that have ended. 4.6
/// MiB.
pub const THREADS_MAX: u32 = 4096;

/// Open calls that are kept per thread; deeper ones are counted but not timed. A power of two: the kernel
/// side masks the index with it.
pub const FRAMES_MAX: usize = 16;

/// Values that one probe can capture, over all rules that share it.
pub const CAPTURES_MAX: usize = 6;

/// Reads of memory that lead to one captured value: over at most four pointers, and the value.
pub const READS_MAX: usize = 5;

/// Values that are added up of a probe's hits.
pub const SUMMED_MAX: usize = 4;

/// Cells of [`crate::SumCell`], two for each process and probe that is added up: 64 MiB. What finds no cell
/// is sent.
pub const SUMS_MAX: u32 = 1 << 18;

/// Longest text that is captured, in bytes.
pub const TEXT_MAX: usize = 64;

/// Where one probed instruction may be mapped by different processes, for kernels that give a probe its
/// address instead of a cookie.
pub const SITES_MAX: u32 = 65_536;

/// Call sites within language bindings, over all processes: 32 for each rank of the largest nodes of today.
/// Room is taken as it is needed.
pub const BINDING_SITES_MAX: u32 = 1 << 14;

/// Language bindings that one call goes through: `mpi_barrier_f08_` calls `mpi_barrier_`, which calls
/// `MPI_Barrier`.
pub const BINDINGS_MAX: usize = 3;

/// Size of the ring buffer for hits that are sent on their own: 60 ms of 5 million a second, for a host may
/// take the agent's CPU away so long. What of it hits have come to counts as the agent's memory.
pub const RING_BYTES: u32 = 16 << 20;

/// Processes of a command that run at the same time, those without a slot included: shells and compilers come
/// by the hundred.
pub const FAMILY_MAX: u32 = 65_536;

/// Size of the ring buffer of comings: room for every slot's coming and going, without a reader.
pub const COMINGS_BYTES: u32 = 256 << 10;

/// Actions that can wait for their sync points at once: one each for the ranks of the largest nodes of today.
pub const HOLDS_MAX: u32 = 512;

/// Size of each ring buffer that wakes an answering thread; a page. One hold at a time is on, so two records
/// would do.
pub const WAKE_RING_BYTES: u32 = 4096;

/// The longest hold that can be requested, both bounds together.
pub const HOLD_NS_MAX: u64 = 100_000_000;

/// Calls that all rings of processes have room for together: 12 MiB.
pub const CALLS_MAX: u32 = 1 << 18;

/// Most calls that the ring of one process has room for: at 20 000 calls a second those of a fifth of a
/// second. A power of two, as every smaller size: the kernel side masks the number with it.
pub const RING_CALLS: u32 = 4096;

/// Steps of a hold, beside its bounds in time: what ends it should the clock stand still. As many as the
/// kernel lets one loop have; at 12 ns a step (40 were seen) they are as long as [`HOLD_NS_MAX`].
pub const HOLD_STEPS_MAX: u32 = 1 << 23;

/// A record in a ring buffer has a head of 8 bytes.
const _: () =
    assert!(COMINGS_BYTES as usize >= 2 * PROCESSES_MAX as usize * (size_of::<crate::Coming>() + 8));
/// Pairs of a process and a rank that messages are counted for: 512 ranks with 128 partners each. Room is
/// taken as it is needed, at most 5 MiB.
pub const PAIRS_MAX: u32 = 1 << 16;

/// Persistent requests that are known at once: 32 for each rank of the largest nodes of today. Room is taken
/// as it is needed.
pub const REQUESTS_MAX: u32 = 1 << 14;

/// Rows of histograms that a process can have: one for each function that carries bytes, of which MPI has
/// about 150, with those of large counts; two for each whose calls are counted by their durations, and so for
/// some 400 of them.
pub const ROWS_MAX: u32 = 1024;

/// Cells of [`crate::Row`] (processes times rows): 64 MiB.
pub const HISTOGRAM_ROWS_MAX: u32 = 1 << 18;

/// Counts of one call that are added up, or requests that one call starts; of more the bytes are unknown.
/// 4096 reads take about 0.1 ms.
pub const COUNTS_MAX: u32 = 4096;

const _: () = assert!(RING_CALLS.is_power_of_two() && CALLS_MAX >= RING_CALLS);
