//! The MPI functions that are watched: those that communicate, wait, or read and write files. Local ones
//! (MPI_Wtime, MPI_Comm_rank, MPI_Type_*, MPI_Get_*) are excluded, because a probe would cost more than the
//! call: MPI_Wtime alone cost LAMMPS 2 %.
//!
//! Argument numbers count from 0 and follow the C bindings of the MPI standard, version 4. The bytes of a
//! call are those in its own buffer: count × size of the datatype; for a vector or an all-to-all the sum over
//! all ranks. With MPI_IN_PLACE they are those that the standard takes from the other buffer; with
//! MPI_PROC_NULL there are none.

use abi::AmountForm;

plan::words! {
    /// Direction of the bytes of a call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BytesKind {
        /// Passed for sending: count × size as passed.
        Sent = "sent",
        /// Room posted for receiving: fewer bytes may arrive.
        Posted = "posted",
        /// Passed for writing to a file.
        Written = "written",
        /// Room posted for reading a file: fewer bytes may be read.
        Read = "read",
    }
}

/// The arguments that give the amount of data of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountSource {
    /// How to compute it from the arguments.
    pub form: AmountForm,
    /// Argument number of the count, or of the array of counts.
    pub count: u8,
    /// Argument number of the datatype, or of the array of datatypes.
    pub datatype: u8,
    /// Argument number of the peer's rank.
    pub peer: Option<u8>,
}

impl AmountSource {
    const fn new(form: AmountForm, count: u8, datatype: u8) -> AmountSource {
        AmountSource {
            form,
            count,
            datatype,
            peer: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// Direction of the bytes.
    pub kind: BytesKind,
    pub amount: AmountSource,
    /// The receive side of a call that both sends and receives.
    pub received: Option<AmountSource>,
    /// The argument that may be MPI_IN_PLACE, and the amount in that case.
    pub in_place: Option<(u8, AmountSource)>,
    /// Argument number of the communicator.
    pub comm: Option<u8>,
    /// Argument number of the pointer to the status.
    pub status: Option<u8>,
    /// Argument number of the pointer to the persistent request or matched message that the call creates. The
    /// data moves only when that request is started or that message is received.
    pub template: Option<u8>,
    /// Argument number of the pointer to a message that was matched before.
    pub found: Option<u8>,
    pub is_message: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiFunction {
    /// The name without `MPI_`.
    pub stem: &'static str,
    /// The data that it carries, if any.
    pub carries: Option<Carries>,
    /// A variant with 64-bit counts exists, named with `_c`.
    pub has_large_count: bool,
}

impl MpiFunction {
    /// Whether no call of it sends data, whatever its arguments.
    pub fn sends_nothing(&self) -> bool {
        self.carries.is_none_or(|carries| {
            carries.kind != BytesKind::Sent
                || carries.template.is_some()
                || carries.amount.form == AmountForm::Free
        })
    }

    /// Whether the number of bytes of a call can be determined.
    pub fn has_bytes(&self) -> bool {
        self.carries.is_some_and(|carries| {
            carries.template.is_none()
                && !matches!(carries.amount.form, AmountForm::Free | AmountForm::Unstated)
        })
    }

    /// Whether programs call it repeatedly while they wait. The number of such calls says nothing about the
    /// program.
    pub fn is_polling(&self) -> bool {
        const POLLING: [&str; 7] = [
            "Test", "Testall", "Testany", "Testsome", "Iprobe", "Improbe", "Win_test",
        ];
        POLLING.contains(&self.stem)
    }

    /// Whether it is called once, before all other MPI functions.
    pub fn is_first(&self) -> bool {
        matches!(self.stem, "Init" | "Init_thread")
    }

    /// Whether it is a collective that no rank leaves before all ranks have entered, because each rank needs
    /// data of all others. (Implementations need not wait for a rank that passes no data.)
    pub fn keeps_all_together(&self) -> bool {
        const KEEPING: [&str; 9] = [
            "Barrier",
            "Allreduce",
            "Allgather",
            "Allgatherv",
            "Alltoall",
            "Alltoallv",
            "Alltoallw",
            "Reduce_scatter",
            "Reduce_scatter_block",
        ];
        KEEPING.contains(&self.stem)
    }

    /// The name for users, such as `MPI_Send`.
    pub fn name(&self) -> String {
        format!("MPI_{}", self.stem)
    }

    const fn carrying(stem: &'static str, kind: BytesKind, amount: AmountSource) -> MpiFunction {
        MpiFunction {
            stem,
            carries: Some(Carries {
                kind,
                amount,
                received: None,
                in_place: None,
                comm: None,
                status: None,
                template: None,
                found: None,
                is_message: false,
            }),
            has_large_count: true,
        }
    }

    const fn with(self, change: Carries) -> MpiFunction {
        MpiFunction {
            carries: Some(change),
            ..self
        }
    }

    /// The carried data; panics for a function that carries none (at compile time).
    const fn carried(&self) -> Carries {
        match self.carries {
            Some(carries) => carries,
            None => panic!("it carries nothing"),
        }
    }

    /// Sets the arguments of the peer's rank and of the communicator.
    const fn between(self, peer: u8, comm: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.amount.peer = Some(peer);
        carries.comm = Some(comm);
        carries.is_message = true;
        self.with(carries)
    }

    /// A message that an earlier call has matched: that call recorded the source.
    const fn of_found(self, message: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.is_message = true;
        carries.found = Some(message);
        self.with(carries)
    }

    const fn over(self, comm: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.comm = Some(comm);
        self.with(carries)
    }

    const fn status(self, status: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.status = Some(status);
        self.with(carries)
    }

    const fn template(self, request: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.template = Some(request);
        self.with(carries)
    }

    const fn receiving(self, count: u8, datatype: u8, peer: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.received = Some(AmountSource {
            peer: Some(peer),
            ..AmountSource::new(AmountForm::One, count, datatype)
        });
        self.with(carries)
    }

    const fn in_place(self, buffer: u8, form: AmountForm, count: u8, datatype: u8) -> MpiFunction {
        let mut carries = self.carried();
        carries.in_place = Some((buffer, AmountSource::new(form, count, datatype)));
        self.with(carries)
    }

    /// Marks a function without a variant for large counts.
    const fn small(self) -> MpiFunction {
        MpiFunction {
            has_large_count: false,
            ..self
        }
    }
}

const fn sent(stem: &'static str, count: u8, datatype: u8) -> MpiFunction {
    MpiFunction::carrying(
        stem,
        BytesKind::Sent,
        AmountSource::new(AmountForm::One, count, datatype),
    )
}

const fn posted(stem: &'static str, count: u8, datatype: u8) -> MpiFunction {
    MpiFunction::carrying(
        stem,
        BytesKind::Posted,
        AmountSource::new(AmountForm::One, count, datatype),
    )
}

/// Matches a message that another call will receive. The status is the argument after the message.
const fn finding(stem: &'static str, message: u8) -> MpiFunction {
    MpiFunction::carrying(stem, BytesKind::Posted, AmountSource::new(AmountForm::None, 0, 0))
        .between(0, 2)
        .template(message)
        .status(message + 1)
        .small()
}

const fn written(stem: &'static str, count: u8) -> MpiFunction {
    MpiFunction::carrying(
        stem,
        BytesKind::Written,
        AmountSource::new(AmountForm::One, count, count + 1),
    )
}

const fn read(stem: &'static str, count: u8) -> MpiFunction {
    MpiFunction::carrying(
        stem,
        BytesKind::Read,
        AmountSource::new(AmountForm::One, count, count + 1),
    )
}

const fn sent_as(stem: &'static str, form: AmountForm, count: u8, datatype: u8) -> MpiFunction {
    MpiFunction::carrying(stem, BytesKind::Sent, AmountSource::new(form, count, datatype))
}

/// With MPI_IN_PLACE the root passes no data.
const fn gathered(stem: &'static str) -> MpiFunction {
    sent(stem, 1, 2).in_place(0, AmountForm::None, 1, 2)
}

/// With MPI_IN_PLACE the root needs no room.
const fn scattered(stem: &'static str, count: u8) -> MpiFunction {
    posted(stem, count, count + 1).in_place(count - 1, AmountForm::None, count, count + 1)
}

/// With MPI_IN_PLACE each rank's part lies in the receive buffer.
const fn allgathered(stem: &'static str) -> MpiFunction {
    sent(stem, 1, 2).in_place(0, AmountForm::One, 4, 5).over(6)
}

const fn allgathered_vectors(stem: &'static str) -> MpiFunction {
    sent(stem, 1, 2).in_place(0, AmountForm::OwnCount, 4, 6).over(7)
}

const fn all_to_all(stem: &'static str) -> MpiFunction {
    sent_as(stem, AmountForm::PerRank, 1, 2)
        .in_place(0, AmountForm::PerRank, 4, 5)
        .over(6)
}

const fn all_to_all_vectors(stem: &'static str) -> MpiFunction {
    sent_as(stem, AmountForm::Counts, 1, 3)
        .in_place(0, AmountForm::Counts, 5, 7)
        .over(8)
}

const fn all_to_all_types(stem: &'static str) -> MpiFunction {
    sent_as(stem, AmountForm::CountsAndTypes, 1, 3)
        .in_place(0, AmountForm::CountsAndTypes, 5, 7)
        .over(8)
}

/// Only the library knows the number of neighbours.
const fn unstated(stem: &'static str) -> MpiFunction {
    sent_as(stem, AmountForm::Unstated, 1, 2)
}

const fn plain(stem: &'static str) -> MpiFunction {
    MpiFunction {
        stem,
        carries: None,
        has_large_count: false,
    }
}

/// A row: the constructor of functions that carry the same, then their names.
macro_rules! functions {
    ([$make:ident($($argument:expr),*) $($more:tt)*] $name:ident) => {
        $make(stringify!($name), $($argument),*) $($more)*
    };
    ($($make:tt $($name:ident)+;)+) => { &[$($(functions!($make $name)),+),+] };
}

pub const FUNCTIONS: &[MpiFunction] = functions! {
    // Point to point.
    [sent(1, 2).between(3, 5)] Send Bsend Ssend Rsend Isend Ibsend Issend Irsend;
    [sent(1, 2).between(3, 10).receiving(6, 7, 8).status(11)] Sendrecv;
    [sent(1, 2).between(3, 7).receiving(1, 2, 5).status(8)] Sendrecv_replace;
    [sent(1, 2).between(3, 10).receiving(6, 7, 8)] Isendrecv;
    [sent(1, 2).between(3, 7).receiving(1, 2, 5)] Isendrecv_replace;
    [posted(1, 2).between(3, 5).status(6)] Recv;
    [posted(1, 2).between(3, 5)] Irecv;
    [posted(1, 2).of_found(3)] Mrecv Imrecv;
    [plain()] Probe Iprobe;
    [finding(3)] Mprobe;
    [finding(4)] Improbe;
    // Persistent requests.
    [sent(1, 2).between(3, 5).template(6)] Send_init Bsend_init Ssend_init Rsend_init;
    [posted(1, 2).between(3, 5).template(6)] Recv_init;
    [sent_as(AmountForm::Start, 0, 0).small()] Start;
    [sent_as(AmountForm::Startall, 0, 1).small()] Startall;
    [sent_as(AmountForm::Free, 0, 0).small()] Request_free;
    // Completion.
    [plain()] Wait Waitall Waitany Waitsome Test Testall Testany Testsome;
    // Collectives.
    [plain()] Barrier Ibarrier;
    [sent(1, 2)] Bcast Ibcast;
    [sent(2, 3)] Reduce Ireduce Allreduce Iallreduce Scan Iscan Exscan Iexscan;
    [gathered()] Gather Igather Gatherv Igatherv;
    [allgathered()] Allgather Iallgather;
    [allgathered_vectors()] Allgatherv Iallgatherv;
    [scattered(4)] Scatter Iscatter;
    [scattered(5)] Scatterv Iscatterv;
    [all_to_all()] Alltoall Ialltoall;
    [all_to_all_vectors()] Alltoallv Ialltoallv;
    [all_to_all_types()] Alltoallw Ialltoallw;
    [sent_as(AmountForm::Counts, 2, 3).over(5)] Reduce_scatter Ireduce_scatter;
    [sent_as(AmountForm::PerRank, 2, 3).over(5)] Reduce_scatter_block Ireduce_scatter_block;
    [sent(1, 2)] Neighbor_allgather Neighbor_allgatherv;
    [unstated()] Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw;
    [sent(1, 2)] Ineighbor_allgather Ineighbor_allgatherv;
    [unstated()] Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw;
    // One-sided. The target is a rank of the window's group.
    [sent(1, 2)] Put Rput;
    [posted(1, 2)] Get Rget;
    [sent(1, 2)] Accumulate Raccumulate Get_accumulate Rget_accumulate;
    [sent_as(AmountForm::Element, 2, 2).small()] Fetch_and_op;
    [sent_as(AmountForm::Element, 3, 3).small()] Compare_and_swap;
    [plain()] Win_fence Win_start Win_complete Win_post Win_wait Win_test Win_lock Win_unlock Win_lock_all
        Win_unlock_all Win_flush Win_flush_all Win_flush_local Win_flush_local_all;
    // Files.
    [plain()] File_open File_close File_sync File_set_view File_set_size;
    [read(2)] File_read File_read_all File_read_shared File_read_ordered;
    [read(3)] File_read_at File_read_at_all;
    [read(2)] File_iread File_iread_all File_iread_shared;
    [read(3)] File_iread_at File_iread_at_all;
    [read(2)] File_read_all_begin File_read_ordered_begin;
    [read(3)] File_read_at_all_begin;
    [plain()] File_read_all_end File_read_ordered_end File_read_at_all_end;
    [written(2)] File_write File_write_all File_write_shared File_write_ordered;
    [written(3)] File_write_at File_write_at_all;
    [written(2)] File_iwrite File_iwrite_all File_iwrite_shared;
    [written(3)] File_iwrite_at File_iwrite_at_all;
    [written(2)] File_write_all_begin File_write_ordered_begin;
    [written(3)] File_write_at_all_begin;
    [plain()] File_write_all_end File_write_ordered_end File_write_at_all_end;
    // Collective over a communicator, and the end.
    [plain()] Comm_dup Comm_split Comm_split_type Comm_create Comm_create_group Comm_spawn Comm_connect
        Comm_accept Cart_create Cart_sub Graph_create Dist_graph_create Dist_graph_create_adjacent
        Intercomm_create Intercomm_merge Init Init_thread Finalize;
};

/// The number of functions whose calls have a known number of bytes.
pub fn with_bytes() -> u32 {
    FUNCTIONS.iter().filter(|function| function.has_bytes()).count() as u32
}

/// A function in the variant that a program calls.
#[derive(Clone, Copy, Debug)]
pub struct CalledFunction {
    pub function: &'static MpiFunction,
    /// Counts have 64 bits.
    pub is_large: bool,
}

/// Finds a function by name: `MPI_Send`, `MPI_Send_c`.
pub fn find(name: &str) -> Option<CalledFunction> {
    let stem = name.strip_prefix("MPI_")?;
    let by_stem = |stem: &str| FUNCTIONS.iter().find(|function| function.stem == stem);
    if let Some(function) = by_stem(stem) {
        return Some(CalledFunction {
            function,
            is_large: false,
        });
    }
    let function = by_stem(stem.strip_suffix("_c")?)?;
    function.has_large_count.then_some(CalledFunction {
        function,
        is_large: true,
    })
}

#[cfg(test)]
mod tests;
