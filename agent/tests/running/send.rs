//! The message of MPI_Send, for the benchmark of hits and the tests of the kernel side.

use abi::{MessageSpec, SizeLayout};
use job::Implementation;
use profile::mpi;

/// The rule of MPI_Send, which accepts any register contents.
pub(crate) fn send() -> MessageSpec {
    let library = Implementation {
        name: "MPICH",
        version: None,
        layout: SizeLayout::InHandle,
        size_offset: 0,
    };
    MessageSpec {
        row: 0,
        ..job::mpi_spec(mpi::find("MPI_Send").unwrap(), &library)
    }
}
