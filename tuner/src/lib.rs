//! Looks into a live process and changes it. Synchronous; decides nothing; knows nothing of rules.

pub mod address;
pub mod clock;
pub mod maps;
pub mod process;
pub mod value;
pub mod who;
