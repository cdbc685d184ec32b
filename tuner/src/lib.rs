//! Looks into a live process and changes it. Synchronous; decides nothing; knows nothing of rules.
//!
//! The way from a number to a changed value, each step a type that only the one before can make:
//!
//! [`process::Process`] (a pid with its start time) → [`space::AddressSpace`] (what is mapped and loaded) →
//! [`variable::Location`] (which bytes a name means: a claim) → [`slot::Slot`] (validated) →
//! [`writer::Writer`] (the lock and the journal) → [`writer::Receipt`].
//!
//! A change may wait for its instant: [`sync`]. Only [`mod@write`] writes into another process. [`actuator`]
//! is all of it behind a stream, in a process of its own.
//!
//! Not here: rules, probes, the decision to write. Unsafe code is in `sys` and `ptrace/sys` alone.
#![deny(unsafe_code)]
#[cfg(not(target_arch = "x86_64"))]
compile_error!("registers, system calls and machine code are those of x86-64");

pub mod action;
pub mod actuator;
pub mod address;
pub mod arch;
mod arena;
pub mod catalog;
pub mod clock;
pub mod code;
pub mod dwarf;
pub mod elf;
mod error;
pub mod exits;

pub mod foreign;
pub mod function;
pub mod image;
pub mod intact;
pub mod journal;
pub mod libraries;
mod link_map;
mod live_maps;
pub mod lock;
pub mod maps;
pub mod mark;
pub mod memory;
pub mod module;
pub mod path;
mod place;
pub mod printable;
pub mod process;
pub mod ptrace;
mod remote;
pub mod rendezvous;
pub mod revert;
mod seccomp;
pub mod site;
pub mod slot;
pub mod space;
pub mod spelling;
pub mod symbol;
pub mod sync;
mod sys;
pub mod unwind;

pub mod variable;
pub mod who;
pub mod write;
pub mod writer;
