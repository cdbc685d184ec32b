//! Looks into a live process and changes it. Synchronous; decides nothing; knows nothing of rules.
//!
//! The way from a number to a changed value, each step a type that only the one before can make:
//!
//! [`Process`] (a pid with its start time) → [`AddressSpace`] (what is mapped and loaded) →
//! [`Location`] (which bytes a name means: a claim) → [`Slot`] (validated) →
//! [`Writer`] (the lock and the journal) → [`Receipt`].
//!
//! A change may wait for its instant: `sync`. Only `write` writes into another process. [`actuator`]
//! is all of it behind a stream, in a process of its own.
//!
//! Not here: rules, probes, the decision to write. Unsafe code is in `sys` and `ptrace/sys` alone.
#![deny(unsafe_code)]
#[cfg(not(target_arch = "x86_64"))]
compile_error!("registers, system calls and machine code are those of x86-64");

mod action;
// The actuator: its client, its commands, what it answers.
pub mod actuator;
mod address;
mod arch;
mod arena;
// Read as `catalog::entries`, `catalog::describe`.
pub mod catalog;
mod clock;
mod code;
// Read as `dwarf::lines`, `dwarf::parameters`, …
pub mod dwarf;
mod elf;
mod error;
mod exits;

// Read as `foreign::open`.
pub mod foreign;
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
// What a kernel side that holds threads is given, and answers.
pub mod rendezvous;
mod revert;
mod seccomp;
mod site;
mod slot;
mod space;
mod spelling;
mod symbol;
mod sync;
mod sys;
mod unwind;

mod variable;
mod who;
mod write;
mod writer;

// A process, and what is mapped and loaded in it.
pub use address::{Address, FileOffset, LinkAddress};
pub use libraries::Search;
pub use maps::parse as parse_maps;
pub use memory::{Memory, MemoryError};
pub use module::{FileId, Images, Module};
pub use process::{Pid, Process, ProcessError, descendants};
pub use ptrace::{HeldThread, PtraceError, Stopped};
pub use space::{AddressSpace, SpaceError};
pub use who::{Who, user_name};

// A file of code: symbols, marks, places for probes.
pub use code::{CodeError, returns};
pub use exits::{ExitFinder, Exits, LastJump, Places};
pub use image::{Image, ImageError, Segment};
pub use intact::{CodeText, Overwritten, has_probe, needed_at, needed_at_entry};
pub use mark::{Mark, MarkArgument, MarkPlace, NoArgument, arguments as mark_arguments};
pub use site::{Cost, Emulation, EntrySite, EntrySites};
pub use spelling::{Fit, Spelling, demangle};
pub use symbol::{Binding, Function, Symbol, SymbolKind};
pub use unwind::bytes_to_caller;

// From a name to bytes.
pub use path::{PathStep, steps};
pub use slot::{Slot, SlotError};
pub use sync::{KeyPlace, Passage, ResolvedPoint};
pub use variable::{FollowError, Location, VariableError, VariableName};

// The change.
pub use action::{ActionError, ActionOutcome, ActionReceipt};
pub use lock::{LockError, WriterLock, writer_of};
pub use revert::RevertReceipt;
pub use write::{Elsewhere, Hooks, WriteError};
pub use writer::{Receipt, SetRequest, Writer, WriterError};

// Times, and names that are safe to print.
pub use clock::{CpuClock, monotonic_ns, now, rfc3339};
pub use printable::{is_active, printable, printable_bytes, printable_lines};
