//! The MPI functions that are watched: those that communicate or wait. Local ones (MPI_Wtime, MPI_Comm_rank, MPI_Type_*,
//! MPI_Get_*) are left alone, because a probe would cost more than the call: MPI_Wtime alone cost LAMMPS 2 %.
//!
//! Argument numbers count from 0 and follow the C bindings of the MPI standard, version 4.

/// Which way the bytes of a call go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesKind {
    /// Handed over for sending: count × size as passed.
    Sent,
    /// Room offered for receiving: what arrives may be less.
    Posted,
}

impl BytesKind {
    /// The word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            BytesKind::Sent => "sent",
            BytesKind::Posted => "posted",
        }
    }
}

/// Where a call says how much it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Which way.
    pub kind: BytesKind,
    /// Which argument is the count.
    pub count: u8,
    /// Which argument is the datatype.
    pub datatype: u8,
    /// The buffer whose being MPI_IN_PLACE takes the count its meaning.
    pub buffer: Option<u8>,
}

/// A watched function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name without `MPI_`.
    pub stem: &'static str,
    /// What it carries; `None` where that does not follow from count and datatype alone (vectors, all-to-all, waits).
    pub bytes: Option<Bytes>,
    /// A variant with 64-bit counts exists, named with `_c`.
    pub has_large_count: bool,
}

impl Function {
    /// Whether a call of it hands over nothing for sending, whatever it is called with.
    pub fn sends_nothing(&self) -> bool {
        // Persistent requests and operations on one element send what no count and datatype of theirs tell.
        const UNTOLD: [&str; 4] = ["Start", "Startall", "Fetch_and_op", "Compare_and_swap"];
        match self.bytes {
            Some(bytes) => bytes.kind == BytesKind::Posted,
            None => !self.has_large_count && !UNTOLD.contains(&self.stem),
        }
    }

    /// The name that users know, such as `MPI_Send`.
    pub fn name(&self) -> String {
        format!("MPI_{}", self.stem)
    }
}

const fn sent(stem: &'static str, count: u8, datatype: u8) -> Function {
    carries(stem, BytesKind::Sent, count, datatype, None)
}

const fn posted(stem: &'static str, count: u8, datatype: u8) -> Function {
    carries(stem, BytesKind::Posted, count, datatype, None)
}

/// The count has no meaning when `buffer` is MPI_IN_PLACE.
const fn sent_unless_in_place(stem: &'static str, count: u8, datatype: u8) -> Function {
    carries(stem, BytesKind::Sent, count, datatype, Some(0))
}

const fn posted_unless_in_place(stem: &'static str, count: u8, datatype: u8, buffer: u8) -> Function {
    carries(stem, BytesKind::Posted, count, datatype, Some(buffer))
}

const fn carries(
    stem: &'static str,
    kind: BytesKind,
    count: u8,
    datatype: u8,
    buffer: Option<u8>,
) -> Function {
    Function {
        stem,
        bytes: Some(Bytes {
            kind,
            count,
            datatype,
            buffer,
        }),
        has_large_count: true,
    }
}

const fn plain(stem: &'static str) -> Function {
    Function {
        stem,
        bytes: None,
        has_large_count: false,
    }
}

const fn uncounted(stem: &'static str) -> Function {
    Function {
        stem,
        bytes: None,
        has_large_count: true,
    }
}

/// Every watched function.
pub const FUNCTIONS: &[Function] = &[
    // Point to point.
    sent("Send", 1, 2),
    sent("Bsend", 1, 2),
    sent("Ssend", 1, 2),
    sent("Rsend", 1, 2),
    sent("Isend", 1, 2),
    sent("Ibsend", 1, 2),
    sent("Issend", 1, 2),
    sent("Irsend", 1, 2),
    sent("Sendrecv", 1, 2),
    sent("Sendrecv_replace", 1, 2),
    posted("Recv", 1, 2),
    posted("Irecv", 1, 2),
    posted("Mrecv", 1, 2),
    posted("Imrecv", 1, 2),
    plain("Probe"),
    plain("Iprobe"),
    plain("Mprobe"),
    plain("Improbe"),
    plain("Start"),
    plain("Startall"),
    // Completion.
    plain("Wait"),
    plain("Waitall"),
    plain("Waitany"),
    plain("Waitsome"),
    plain("Test"),
    plain("Testall"),
    plain("Testany"),
    plain("Testsome"),
    // Collectives.
    plain("Barrier"),
    plain("Ibarrier"),
    sent("Bcast", 1, 2),
    sent("Ibcast", 1, 2),
    sent("Reduce", 2, 3),
    sent("Ireduce", 2, 3),
    sent("Allreduce", 2, 3),
    sent("Iallreduce", 2, 3),
    sent("Scan", 2, 3),
    sent("Iscan", 2, 3),
    sent("Exscan", 2, 3),
    sent("Iexscan", 2, 3),
    sent_unless_in_place("Gather", 1, 2),
    sent_unless_in_place("Igather", 1, 2),
    sent_unless_in_place("Gatherv", 1, 2),
    sent_unless_in_place("Igatherv", 1, 2),
    sent_unless_in_place("Allgather", 1, 2),
    sent_unless_in_place("Iallgather", 1, 2),
    sent_unless_in_place("Allgatherv", 1, 2),
    sent_unless_in_place("Iallgatherv", 1, 2),
    posted_unless_in_place("Scatter", 4, 5, 3),
    posted_unless_in_place("Iscatter", 4, 5, 3),
    posted_unless_in_place("Scatterv", 5, 6, 4),
    posted_unless_in_place("Iscatterv", 5, 6, 4),
    uncounted("Alltoall"),
    uncounted("Ialltoall"),
    uncounted("Alltoallv"),
    uncounted("Ialltoallv"),
    uncounted("Alltoallw"),
    uncounted("Ialltoallw"),
    uncounted("Reduce_scatter"),
    uncounted("Ireduce_scatter"),
    uncounted("Reduce_scatter_block"),
    uncounted("Ireduce_scatter_block"),
    uncounted("Neighbor_allgather"),
    uncounted("Neighbor_allgatherv"),
    uncounted("Neighbor_alltoall"),
    uncounted("Neighbor_alltoallv"),
    uncounted("Neighbor_alltoallw"),
    // One-sided.
    sent("Put", 1, 2),
    sent("Rput", 1, 2),
    posted("Get", 1, 2),
    posted("Rget", 1, 2),
    sent("Accumulate", 1, 2),
    sent("Raccumulate", 1, 2),
    sent("Get_accumulate", 1, 2),
    plain("Fetch_and_op"),
    plain("Compare_and_swap"),
    plain("Win_fence"),
    plain("Win_start"),
    plain("Win_complete"),
    plain("Win_post"),
    plain("Win_wait"),
    plain("Win_test"),
    plain("Win_lock"),
    plain("Win_unlock"),
    plain("Win_lock_all"),
    plain("Win_unlock_all"),
    plain("Win_flush"),
    plain("Win_flush_all"),
    plain("Win_flush_local"),
    plain("Win_flush_local_all"),
    // Collective over a communicator, and the end.
    plain("Comm_dup"),
    plain("Comm_split"),
    plain("Comm_split_type"),
    plain("Comm_create"),
    plain("Comm_spawn"),
    plain("Comm_connect"),
    plain("Comm_accept"),
    plain("Cart_create"),
    plain("Intercomm_create"),
    plain("Finalize"),
];

/// The function of this name (`MPI_Send`, `MPI_Send_c`), and whether its counts have 64 bits.
pub fn find(name: &str) -> Option<(&'static Function, bool)> {
    let stem = name.strip_prefix("MPI_")?;
    let by_stem = |stem: &str| FUNCTIONS.iter().find(|function| function.stem == stem);
    if let Some(function) = by_stem(stem) {
        return Some((function, false));
    }
    let function = by_stem(stem.strip_suffix("_c")?)?;
    function.has_large_count.then_some((function, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_stands_once() {
        let mut stems: Vec<_> = FUNCTIONS.iter().map(|function| function.stem).collect();
        stems.sort_unstable();
        stems.dedup();
        assert_eq!(stems.len(), FUNCTIONS.len());
    }

    #[test]
    fn large_count_variants_are_found_where_they_exist() {
        assert_eq!(
            find("MPI_Send").map(|(f, large)| (f.stem, large)),
            Some(("Send", false))
        );
        assert_eq!(
            find("MPI_Send_c").map(|(f, large)| (f.stem, large)),
            Some(("Send", true))
        );
        assert_eq!(find("MPI_Barrier_c"), None);
        assert_eq!(find("MPI_Wtime"), None);
    }

    #[test]
    fn what_sends_nothing_is_told_from_what_is_not_known() {
        let nothing = |name| find(name).map(|(function, _)| function.sends_nothing());
        for name in ["MPI_Recv", "MPI_Barrier", "MPI_Waitall", "MPI_Scatter"] {
            assert_eq!(nothing(name), Some(true), "{name}");
        }
        for name in ["MPI_Send", "MPI_Alltoall", "MPI_Start", "MPI_Compare_and_swap"] {
            assert_eq!(nothing(name), Some(false), "{name}");
        }
    }

    #[test]
    fn captured_arguments_fit_the_records() {
        for function in FUNCTIONS {
            if let Some(bytes) = function.bytes {
                assert!(
                    bytes.count < 8 && bytes.datatype == bytes.count + 1,
                    "{}",
                    function.stem
                );
            }
        }
    }
}
