//! What this process may do, and what it gives away of that: `capabilities` is the table of the capabilities that each part
//! needs and drops all others, `filter` takes the right to write away from the agent for good.

mod capabilities;
mod filter;

pub use capabilities::{
    Capability, Need, Part, as_root, begin, caller, capabilities, give_command, handed_on_by, held, is_lent,
    keep_only, missing_to_probe,
};
pub use filter::drop_right_to_write;

/// For whoever only looks, from now on: the watcher's capabilities, and no right to write.
pub fn only_look() -> Result<(), RightsError> {
    keep_only(Part::Watcher)?;
    drop_right_to_write()
}

/// Why a right could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The filter was refused.
    #[error("the right to write could not be dropped: {0}")]
    Filter(#[from] seccompiler::Error),
    /// The filter cannot be built for this machine.
    #[error("the right to write could not be dropped: {0}")]
    Backend(#[from] seccompiler::BackendError),
    /// The kernel kept capabilities.
    #[error("the capabilities that are not needed could not be dropped: {0}")]
    Capabilities(#[from] rustix::io::Errno),
    /// Started as a set-uid program.
    #[error(
        "tuneagent must not be a set-uid program: that would hand root's rights to whoever starts it; give the file \
         capabilities instead: {0}"
    )]
    SetUid(String),
}
