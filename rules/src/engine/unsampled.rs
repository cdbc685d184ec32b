//! Why samples give no value in a window, as a text that follows the name of what was sampled.

/// Why there is no value of samples: `cpu.time of rank 0 was not observed in the window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsampled {
    #[error("was not observed in the window")]
    Unobserved,
    #[error("was not observed up to there")]
    UnobservedUpTo,
    #[error("was observed once in the window, a change needs two")]
    Once,
    #[error("was observed over less than half of the window")]
    TooShort,
    #[error("ran backwards in the window")]
    Backwards,
    #[error("is not known: no iteration of the detected loop with its teams was measured")]
    NoIteration,
    /// The agent reports no smaller amount.
    #[error("is below 64 MiB, or was not read in the window")]
    TooLittleFreed,
    #[error("delivered {delivered} of its {counted} hits")]
    Undelivered { delivered: usize, counted: u64 },
}
