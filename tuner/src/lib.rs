//! Inspects and changes a live process. Synchronous; makes no decisions; does not depend on rules.
//!
//! From a process number to a changed value, each step is a type that only the step before can construct:
//!
//! [`Process`] (a pid with its start time) → [`AddressSpace`] (mappings and modules) → [`Location`] (the
//! bytes that a name denotes: a claim) → [`WritablePlace`] (validated) → [`Writer`] (the lock and the journal) →
//! [`Receipt`].
//!
//! A change may have a sync point: `sync`. Only `write` writes into another process. [`actuator`] offers all
//! of this over a stream, in a separate process.
//!
//! Not here: rules, probes, the decision to write. Unsafe code is in `sys` and `ptrace/sys` alone.
#![deny(unsafe_code)]
#[cfg(not(target_arch = "x86_64"))]
compile_error!("registers, system calls and machine code are those of x86-64");

mod action;
// The actuator: its client, its commands, its replies.
pub mod actuator;
mod address;
mod arch;
mod arena;
// Used as `catalog::entries`, `catalog::describe`.
pub mod catalog;
mod clock;
// Used as `dwarf::lines`, `dwarf::parameters`, …
pub mod dwarf;
mod elf;
mod error;
mod exits;

// Used as `foreign::open`.
pub mod foreign;
mod frames;
mod function;
mod image;
mod intact;
// The records of the journal, with short names such as `Change` and `Status`.
pub mod journal;
mod libraries;
mod link_map;
mod live_maps;
mod lock;
mod maps;
mod mark;
mod memory;
mod module;
mod path;
mod place;
mod printable;
mod process;
mod ptrace;
mod remote;
// The interface to the kernel side that holds threads.
pub mod rendezvous;
mod revert;
mod seccomp;
mod site;
mod space;
mod spelling;
mod symbol;
mod sync;
mod sys;
mod unwind;
mod writable_place;

mod author;
mod variable;
mod write;
mod writer;

// A process, its mappings and its modules.
pub use address::{Address, FileOffset, LinkAddress};
pub use author::{Author, user_name};
pub use libraries::Search;
pub use maps::{Mapping, parse as parse_maps};
pub use memory::{Memory, MemoryError};
pub use module::{FileId, Images, Module};
pub use process::{Pid, Process, ProcessError, descendants, read_proc, wait_status};
pub use ptrace::{HeldThread, PtraceError, Stopped};
pub use space::{AddressSpace, SpaceError};

// A file of code: symbols, marks, places for probes.
pub use exits::{CodeError, ExitFinder, Exits, LastJump, Places, returns};
pub use image::{Image, ImageError, Segment};
pub use intact::{CodeText, Overwritten, has_probe, needed_at, needed_at_entry};
pub use mark::{Mark, MarkArgument, MarkPlace, NoArgument, arguments as mark_arguments};
pub use site::{Cost, Emulation, EntrySite, EntrySites};
pub use spelling::{MatchQuality, Spelling, demangle};
pub use symbol::{Binding, Function, Symbol, SymbolKind};
pub use unwind::bytes_to_caller;

// From a name to bytes.
pub use path::{PathStep, steps};
pub use sync::{HoldStatistics, KeyPlace, ResolvedPoint};
pub use variable::{FollowError, Location, VariableError, VariableName};
pub use writable_place::{WritablePlace, WritablePlaceError};

// The change.
pub use action::{ActionError, ActionOutcome, ActionReceipt};
pub use lock::{LockError, WriterLock, writer_of};
pub use revert::RevertReceipt;
pub use write::{Hooks, StrayWrite, WriteError};
pub use writer::{Receipt, SetRequest, Writer, WriterError};

// Times, and names that are safe to print.
pub use clock::{CpuClock, boot_offset_ns, monotonic_ns, now, rfc3339};
pub use printable::{is_active, printable, printable_bytes, printable_lines};
