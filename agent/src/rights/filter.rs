//! The right that the agent gives away: from [`drop_right_to_write`] on it can open nothing for writing and reach into no
//! other process, whatever happens to it. What it writes later (the report, the terminal) it opened before; what changes a
//! program is done by the actuator, which is another process.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, TargetArch,
};

use super::RightsError;

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
