//! The rights of this process, and how it drops them: `capabilities` is the table of the capabilities that
//! each part needs and drops all others, `filter` restricts a process to the system calls that reading needs.

mod capabilities;
mod filter;

pub(crate) use capabilities::{
    Need, ProgramPart, begin, caller, capabilities, give_command, give_command_of_root, handed_on_by, held,
    is_lent, keep_only, missing_to_probe, only_start_programs,
};

/// Restricts this process to reading: keeps only the watcher's capabilities, and the system calls that
/// reading needs.
pub(crate) fn only_look() -> Result<(), RightsError> {
    keep_only(ProgramPart::Watcher)?;
    filter::leave_to_all()
}

/// As [`only_look`], for a session that still has to load its programs and maps, until [`have_armed`].
pub(crate) fn only_look_and_arm() -> Result<(), RightsError> {
    keep_only(ProgramPart::Watcher)?;
    filter::leave_to_all_to_arm()
}

/// Gives up the right to load programs and maps, too.
pub(crate) fn have_armed() -> Result<(), RightsError> {
    filter::leave_to_all()
}

/// For the process that writes a report: no capability, and nothing can be opened for writing any more.
pub(crate) fn only_complete_files() -> Result<(), RightsError> {
    keep_only(ProgramPart::ReportWriter)?;
    filter::leave_to_report_writer()
}

/// For the process that closes probes: no capability, and the system calls of a process that only reads.
pub(crate) fn only_close() -> Result<(), RightsError> {
    keep_only(ProgramPart::Closer)?;
    filter::leave_to_all()
}

/// For the node's service: the capabilities for probes, and no way to get others.
pub(crate) fn only_serve_probes() -> Result<(), RightsError> {
    keep_only(ProgramPart::NodeService)
}

/// As [`only_look`], for this thread: the others keep their rights.
pub(crate) fn only_look_in_this_thread() -> Result<(), RightsError> {
    keep_only(ProgramPart::Watcher)?;
    filter::leave_to_this_thread()
}

/// Runs `look` in a separate thread with the rights of [`only_look`]; this thread keeps its rights. Used to
/// read the files and the memory of other programs before all required files are open.
pub(crate) fn looking<T: Send>(look: impl FnOnce() -> T + Send) -> Result<T, RightsError> {
    let confined = || {
        only_look_in_this_thread()?;
        Ok(look())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, confined);
        match thread.map_err(RightsError::Thread)?.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Why a right could not be dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RightsError {
    /// The filter was refused.
    #[error("the seccomp filter that takes the right to write away cannot be installed: {0}")]
    Filter(seccompiler::Error),
    /// The filter cannot be built for this machine.
    #[error("the seccomp filter that takes the right to write away cannot be built for this CPU: {0}")]
    Backend(seccompiler::BackendError),
    /// The kernel kept capabilities.
    #[error("the capabilities that are not needed could not be dropped: {0}")]
    Capabilities(rustix::io::Errno),
    /// No thread can be started.
    #[error(
        "no thread or process can be started here: {0}; look at pids.max of the control group and at ulimit -u"
    )]
    Thread(std::io::Error),
    /// Started as a set-uid program.
    #[error(
        "tuneagent must not be a set-uid program: everybody who starts it would get root's rights; give the file \
         capabilities instead: {0}"
    )]
    SetUid(String),
}

impl From<seccompiler::Error> for RightsError {
    fn from(error: seccompiler::Error) -> RightsError {
        RightsError::Filter(error)
    }
}

impl From<seccompiler::BackendError> for RightsError {
    fn from(error: seccompiler::BackendError) -> RightsError {
        RightsError::Backend(error)
    }
}

impl From<rustix::io::Errno> for RightsError {
    fn from(error: rustix::io::Errno) -> RightsError {
        RightsError::Capabilities(error)
    }
}
