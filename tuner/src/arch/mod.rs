//! What depends on the machine: registers, how a system call is made and resumed, machine code. Nobody else knows an
//! instruction set.
//!
//! x86-64 is complete. AArch64 has only what needs no machine code (looking, `set`, `get`, `affinity`, stopping threads);
//! there the actions that need it are refused by name ([`Unsupported`]).
use thiserror::Error;

mod cost;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

pub use cost::{Emulation, Obstacle};
pub use plan::Cost;

/// The registers of a thread, as the kernel gives them.
pub(crate) type RawRegisters = libc::user_regs_struct;

/// Bytes below the stack pointer that belong to the function that runs.
#[cfg(target_arch = "x86_64")]
pub(crate) const RED_ZONE: u64 = 128;
/// Bytes below the stack pointer that belong to the function that runs: none by the procedure call standard.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const RED_ZONE: u64 = 0;

/// An action that this machine's part does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{action} needs machine code for {}, which is not there yet: it works on x86-64 only",
    std::env::consts::ARCH
)]
pub struct Unsupported {
    /// What was asked for.
    pub action: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_machine_cannot_do_is_named_with_the_machine_that_can() {
        let said = Unsupported { action: "a call" }.to_string();
        assert!(said.starts_with("a call needs machine code for "), "{said}");
        assert!(said.ends_with("it works on x86-64 only"), "{said}");
    }
}
