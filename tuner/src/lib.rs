//! Looks into a live process and changes it. Synchronous; decides nothing; knows nothing of rules.
//!
//! The way from a number to a changed value, each step a type that only the one before can make:
//!
//! [`process::Process`] (a pid with its start time) → [`space::AddressSpace`] (what is mapped and loaded) →
//! [`variable::Location`] (which bytes a name means: a claim) → [`slot::Slot`] (validated) →
//! [`writer::Writer`] (the lock and the journal) → [`writer::Receipt`].
//!
//! Only [`mod@write`] writes into another process. [`actuator`] is all of it behind a stream, in a process of
//! its own.
//!
//! Not here: rules, probes, the decision to write. Unsafe code is in `sys` alone.
#![deny(unsafe_code)]
pub mod actuator;
pub mod address;
pub mod catalog;
pub mod clock;
pub mod code;
pub mod dwarf;
pub mod function;
pub mod image;
pub mod journal;
mod link_map;
pub mod lock;
pub mod maps;
pub mod memory;
pub mod module;
pub mod path;
pub mod process;
pub mod slot;
pub mod space;
pub mod spelling;
pub mod symbol;
mod sys;
pub mod value;
pub mod variable;
pub mod who;
pub mod write;
pub mod writer;
