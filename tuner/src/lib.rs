//! Looks into a live process and changes it. Synchronous; decides nothing; knows nothing of rules.

pub mod address;
pub mod clock;
pub mod dwarf;
pub mod image;
pub mod journal;
mod link_map;
pub mod lock;
pub mod maps;
pub mod memory;
pub mod module;
pub mod process;
pub mod slot;
pub mod space;
pub mod symbol;
pub mod value;
pub mod variable;
pub mod who;
pub mod write;
pub mod writer;
