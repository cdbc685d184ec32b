//! The capabilities that watching and changing need, one table, and the dropping of all others.
//!
//! Their source decides what they are used for. Root's, and those that the parent process passed on
//! (ambient), are the caller's own. Those that the *file* carries (`setcap`) are lent: every user who may
//! execute it has them, so they are used for the caller's own processes alone, and the ones that read over
//! file permissions are given up at once.

use rustix::{
    process::{geteuid, getuid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities as read, capability_is_in_ambient_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};

use super::RightsError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing can be probed without it.
    Probing,
    /// Processes of other users cannot be looked into without it (under Yama's scopes, one's own neither).
    Others,
    /// Changing works without it, but not everywhere or not as well.
    Changing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    /// Its name, as capabilities(7) has it.
    pub name: &'static str,
    pub purpose: &'static str,
    /// What fails without it.
    pub need: Need,
    set: CapabilitySet,
}

const TABLE: [Capability; 6] = [
    row(
        "CAP_BPF",
        "load the BPF programs",
        Need::Probing,
        CapabilitySet::BPF,
    ),
    row(
        "CAP_PERFMON",
        "attach them to functions",
        Need::Probing,
        CapabilitySet::PERFMON,
    ),
    row(
        "CAP_SYS_PTRACE",
        "inspect processes of other users",
        Need::Others,
        CapabilitySet::SYS_PTRACE,
    ),
    row(
        "CAP_DAC_READ_SEARCH",
        "read the memory and the files of other users",
        Need::Others,
        CapabilitySet::DAC_READ_SEARCH,
    ),
    row(
        "CAP_SYS_NICE",
        "not be starved by busy ranks",
        Need::Changing,
        CapabilitySet::SYS_NICE,
    ),
    row(
        "CAP_CHECKPOINT_RESTORE",
        "read programs and libraries whose files were deleted",
        Need::Changing,
        CapabilitySet::CHECKPOINT_RESTORE,
    ),
];

const fn row(name: &'static str, purpose: &'static str, need: Need, set: CapabilitySet) -> Capability {
    Capability {
        name,
        purpose,
        need,
        set,
    }
}

/// The table, in the order in which it is documented.
pub(crate) fn capabilities() -> &'static [Capability] {
    &TABLE
}

/// A part of tuneagent, by what it does once it has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramPart {
    /// A session: probes and /proc.
    Watcher,
    Writer,
    /// The actuator if changes wait for places in the program: the probe there, and the priority of the
    /// answering threads, too.
    WriterAtPlaces,
    /// What writes a report into its file.
    ReportWriter,
    /// The closer: what it closes was attached by somebody else.
    Closer,
}

impl ProgramPart {
    fn keeps(self) -> CapabilitySet {
        let looking = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
        let probing = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let writing = CapabilitySet::SYS_NICE | CapabilitySet::CHECKPOINT_RESTORE;
        match self {
            // A program whose file was deleted or replaced while we watch is read by what it has mapped.
            ProgramPart::Watcher => looking | probing | CapabilitySet::CHECKPOINT_RESTORE,
            // Not CAP_DAC_OVERRIDE: what its files would let be written, a thread that is held lets be
            // written too.
            ProgramPart::Writer => looking | writing,
            ProgramPart::WriterAtPlaces => looking | writing | probing,
            ProgramPart::ReportWriter | ProgramPart::Closer => CapabilitySet::empty(),
        }
    }

    /// What it may put in force for an instant. The actuator reads the seccomp filters of programs that have
    /// some (PTRACE_SECCOMP_GET_FILTER), if root started us.
    fn reserves(self) -> CapabilitySet {
        match self {
            ProgramPart::Watcher | ProgramPart::ReportWriter | ProgramPart::Closer => CapabilitySet::empty(),
            ProgramPart::Writer | ProgramPart::WriterAtPlaces => CapabilitySet::SYS_ADMIN,
        }
    }
}

fn sets() -> CapabilitySets {
    read(None).unwrap_or(CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    })
}

/// Whether this process has it. What CAP_SYS_ADMIN includes counts.
pub(crate) fn held(capability: &Capability) -> bool {
    let held = sets().effective;
    let of_admin = matches!(capability.need, Need::Probing) || capability.name == "CAP_CHECKPOINT_RESTORE";
    held.contains(capability.set) || (of_admin && held.contains(CapabilitySet::SYS_ADMIN))
}

/// Names of the capabilities without which nothing can be probed, as far as they are missing.
pub(crate) fn missing_to_probe() -> Vec<&'static str> {
    let missing = |row: &&Capability| row.need == Need::Probing && !held(row);
    TABLE.iter().filter(missing).map(|row| row.name).collect()
}

/// The command that gives the file what probing one's own processes needs, once.
pub(crate) fn give_command() -> String {
    job::as_root(&give_command_of_root())
}

/// The same, as root types it.
pub(crate) fn give_command_of_root() -> String {
    let program =
        std::env::current_exe().map_or_else(|_| "tuneagent".into(), |path| path.display().to_string());
    let names: Vec<String> = TABLE.iter().map(|row| row.name.to_lowercase()).collect();
    format!("setcap {}=ep {program}", names.join(","))
}

/// Whether the capabilities of this process are lent by its file: they are neither root's nor handed on.
pub(crate) fn is_lent() -> bool {
    let permitted = sets().permitted;
    let is_own = |set: CapabilitySet| capability_is_in_ambient_set(set).unwrap_or(false);
    !getuid().is_root() && permitted.iter().any(|set| !is_own(set))
}

/// At the start of every command: refuses to run set-uid, and gives up what is lent beyond the table, and of
/// the table what reads over file permissions: the files that users name (rules, recordings) are read as they
/// may read them.
pub(crate) fn begin() -> Result<(), RightsError> {
    if getuid() != geteuid() {
        return Err(RightsError::SetUid(give_command()));
    }
    if is_lent() {
        let table = TABLE
            .iter()
            .fold(CapabilitySet::empty(), |all, row| all | row.set);
        let now = sets();
        let keep = now.permitted & (table - CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(
            None,
            CapabilitySets {
                permitted: keep,
                effective: keep,
                inheritable: now.inheritable & keep,
            },
        )?;
    }
    Ok(())
}

/// Drops, for this thread and all that it starts, every capability that `part` does not need, and every way
/// to get one; what it needs for an instant only stays permitted and is not in force. Before other threads
/// are started; it cannot be revoked.
pub(crate) fn keep_only(part: ProgramPart) -> Result<(), RightsError> {
    let keep = part.keeps();
    // Needs CAP_SETPCAP; without it nothing can be added to what is dropped either, for no_new_privs says so.
    for capability in CapabilitySet::all().iter().filter(|set| !keep.contains(*set)) {
        let _ = remove_capability_from_bounding_set(capability);
    }
    clear_ambient_capability_set()?;
    let permitted = sets().permitted & (keep | part.reserves());
    set_capabilities(
        None,
        CapabilitySets {
            permitted,
            effective: permitted & keep,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(set_no_new_privs(true)?)
}

/// The capabilities that a process passes to every program that it executes (ambient), as a mask.
pub(crate) fn handed_on_by(pid: i32) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapAmb:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// The user behind this process: the one who called sudo, else its own.
pub(crate) fn caller() -> u32 {
    let by_sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let own = getuid().as_raw();
    if own == 0 { by_sudo.unwrap_or(own) } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_keeps_is_in_the_table() {
        let table = TABLE
            .iter()
            .fold(CapabilitySet::empty(), |all, row| all | row.set);
        for part in [ProgramPart::Watcher, ProgramPart::Writer] {
            assert!(table.contains(part.keeps()), "{part:?}");
        }
        assert_eq!(ProgramPart::Watcher.keeps() | ProgramPart::Writer.keeps(), table);
    }

    #[test]
    fn the_command_that_gives_them_names_all_of_them() {
        let command = give_command();
        assert!(
            command.contains("setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,"),
            "{command}"
        );
    }
}
