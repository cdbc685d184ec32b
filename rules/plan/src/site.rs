//! Properties of probe sites that determine the cost of a hit.

crate::words! {
    /// How the kernel executes the instruction under a probe, which determines the cost of a hit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Cost {
        /// A five-byte nop that is replaced by a call: no exception.
        Optimised = "optimised nop",
        /// The kernel emulates the instruction: one exception.
        Emulated = "emulated",
        /// The processor executes a copy of the instruction: two exceptions or more.
        Stepped = "single-stepped",
        /// No code was found there.
        Unknown = "unknown",
    }
}
