//! What this process may do, and the right that it gives away: from [`drop_right_to_write`] on it can open nothing for
//! writing and reach into no other process, whatever happens to it. What it writes later (the report, the terminal) it opened
//! before; what changes a program is done by the actuator, which is another process.

use std::collections::BTreeMap;

use rustix::thread::{CapabilitySet, capabilities};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, TargetArch,
};

/// Why the right could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The filter was refused.
    #[error("the right to write could not be dropped: {0}")]
    Filter(#[from] seccompiler::Error),
    /// The filter cannot be built for this machine.
    #[error("the right to write could not be dropped: {0}")]
    Backend(#[from] seccompiler::BackendError),
}

/// Gives up, for all threads of this process and all it starts, to open files for writing and to write into or trace other
/// processes. It cannot be taken back.
pub fn drop_right_to_write() -> Result<(), RightsError> {
    let program = filter()?;
    Ok(seccompiler::apply_filter_all_threads(&program)?)
}

fn filter() -> Result<BpfProgram, RightsError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut rules: BTreeMap<i64, Vec<Rule>> = BTreeMap::new();
    // Calls that are refused whatever their arguments. openat2 takes its flags in memory, which a filter cannot read.
    let refused = [
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_pidfd_getfd,
        libc::SYS_openat2,
        libc::SYS_open_by_handle_at,
        libc::SYS_io_uring_setup,
        libc::SYS_truncate,
    ];
    rules.extend(refused.map(|call| (call, Vec::new())));
    // The flags are the third argument of openat.
    rules.insert(libc::SYS_openat, writes(2)?);
    #[cfg(target_arch = "x86_64")]
    {
        rules.insert(libc::SYS_open, writes(1)?);
        rules.insert(libc::SYS_creat, Vec::new());
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
}

/// Matches open flags that ask for more than reading.
fn writes(argument: u8) -> Result<Vec<Rule>, RightsError> {
    let mode = |mode: libc::c_int| {
        let mask = Compare::MaskedEq(libc::O_ACCMODE as u64);
        Ok(Rule::new(vec![Condition::new(
            argument,
            Width::Dword,
            mask,
            mode as u64,
        )?])?)
    };
    [libc::O_WRONLY, libc::O_RDWR, libc::O_ACCMODE]
        .into_iter()
        .map(mode)
        .collect()
}

/// A capability that something needs, and whether this process has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// Its name, as capabilities(7) has it.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Held now.
    pub held: bool,
}

/// The capabilities that watching and changing need.
pub fn rights() -> Vec<Right> {
    let held = capabilities(None)
        .map(|sets| sets.effective)
        .unwrap_or(CapabilitySet::empty());
    let admin = held.contains(CapabilitySet::SYS_ADMIN);
    let right = |name, purpose, capability| Right {
        name,
        purpose,
        held: admin || held.contains(capability),
    };
    vec![
        right("CAP_BPF", "load the BPF programs", CapabilitySet::BPF),
        right("CAP_PERFMON", "attach them to functions", CapabilitySet::PERFMON),
        Right {
            name: "CAP_SYS_PTRACE",
            purpose: "look into processes of other users",
            held: held.contains(CapabilitySet::SYS_PTRACE),
        },
        Right {
            name: "CAP_SYS_NICE",
            purpose: "not be starved by busy ranks",
            held: held.contains(CapabilitySet::SYS_NICE),
        },
    ]
}

/// Names of the capabilities without which nothing can be probed.
pub fn missing_to_probe() -> Vec<&'static str> {
    rights()
        .iter()
        .filter(|right| !right.held && right.name != "CAP_SYS_NICE")
        .map(|right| right.name)
        .collect()
}

/// The user behind this process: whoever called sudo, else its own. `None` when root logged in as such.
pub fn caller() -> u32 {
    let by_sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let own = rustix::process::getuid().as_raw();
    if own == 0 { by_sudo.unwrap_or(own) } else { own }
}
