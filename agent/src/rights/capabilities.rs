//! The table of capabilities that watching and changing need; drops all others.
//!
//! Their source decides how they may be used. Those of root, and those that the parent process passed on
//! (ambient), belong to the caller. Those of the *file* (`setcap`) are lent: every user who may execute the
//! file has them, so they are used only for the caller's own processes, and those that bypass the read
//! permissions of files are given up at once.

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
    /// Processes of other users cannot be inspected without it (and with Yama, not even one's own).
    Others,
    /// Changing works without it, but not everywhere or not as well.
    Changing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    /// Its name as in capabilities(7).
    pub name: &'static str,
    pub purpose: &'static str,
    /// What fails without it.
    pub need: Need,
    set: CapabilitySet,
}

/// A row: the capability, what needs it, and its purpose.
macro_rules! table {
    ($($set:ident $need:ident $purpose:literal;)+) => { [$(Capability {
        name: concat!("CAP_", stringify!($set)),
        purpose: $purpose,
        need: Need::$need,
        set: CapabilitySet::$set,
    }),+] };
}

const TABLE: [Capability; 6] = table! {
    BPF Probing "load the BPF programs";
    PERFMON Probing "attach them to functions";
    SYS_PTRACE Others "inspect processes of other users";
    DAC_READ_SEARCH Others "read the memory and the files of other users";
    SYS_NICE Changing "not be starved by busy ranks";
    CHECKPOINT_RESTORE Changing "read programs and libraries whose files were deleted";
};

/// The table, in the order of the documentation.
pub(crate) fn capabilities() -> &'static [Capability] {
    &TABLE
}

/// A part of tuneagent, by its task after start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramPart {
    /// A session: reads probes and /proc.
    Watcher,
    Writer,
    /// The actuator if changes wait for sync points: it also needs a probe there, and the priority of the
    /// threads that answer.
    WriterAtPlaces,
    /// Writes a report into its file.
    ReportWriter,
    /// Closes probes that another process has attached.
    Closer,
    /// Passes messages between the machines of a job.
    Carrier,
    /// The node's service: loads and attaches for users.
    NodeService,
}

impl ProgramPart {
    fn keeps(self) -> CapabilitySet {
        let looking = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
        let probing = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let writing = CapabilitySet::SYS_NICE | CapabilitySet::CHECKPOINT_RESTORE;
        match self {
            // The image of a program whose file was deleted or replaced is read through its mappings.
            ProgramPart::Watcher => looking | probing | CapabilitySet::CHECKPOINT_RESTORE,
            // Without CAP_DAC_OVERRIDE: writing through a held thread replaces writing through the process's
            // files.
            ProgramPart::Writer => looking | writing,
            ProgramPart::WriterAtPlaces => looking | writing | probing,
            ProgramPart::NodeService => probing,
            ProgramPart::ReportWriter | ProgramPart::Closer | ProgramPart::Carrier => CapabilitySet::empty(),
        }
    }

    /// Capabilities that it may put in force for an instant. The actuator reads the seccomp filters of
    /// programs (PTRACE_SECCOMP_GET_FILTER), if root started us.
    fn reserves(self) -> CapabilitySet {
        match self {
            ProgramPart::Watcher
            | ProgramPart::ReportWriter
            | ProgramPart::Closer
            | ProgramPart::Carrier
            | ProgramPart::NodeService => CapabilitySet::empty(),
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

/// Whether this process has the capability, possibly as a part of CAP_SYS_ADMIN.
pub(crate) fn held(capability: &Capability) -> bool {
    let held = sets().effective;
    let of_admin = matches!(capability.need, Need::Probing) || capability.name == "CAP_CHECKPOINT_RESTORE";
    held.contains(capability.set) || (of_admin && held.contains(CapabilitySet::SYS_ADMIN))
}

/// Names of the missing capabilities that probing requires.
pub(crate) fn missing_to_probe() -> Vec<&'static str> {
    let missing = |row: &&Capability| row.need == Need::Probing && !held(row);
    TABLE.iter().filter(missing).map(|row| row.name).collect()
}

/// The command that permanently gives the file the capabilities for probing one's own processes.
pub(crate) fn give_command() -> String {
    job::as_root(&give_command_of_root())
}

/// The command of [`give_command`], as root types it.
pub(crate) fn give_command_of_root() -> String {
    let program =
        std::env::current_exe().map_or_else(|_| "tuneagent".into(), |path| path.display().to_string());
    let names: Vec<String> = TABLE.iter().map(|row| row.name.to_lowercase()).collect();
    format!("setcap {}=ep {program}", names.join(","))
}

/// Whether the capabilities of this process are lent by its file: they are neither root's nor ambient.
pub(crate) fn is_lent() -> bool {
    let permitted = sets().permitted;
    let is_own = |set: CapabilitySet| capability_is_in_ambient_set(set).unwrap_or(false);
    !getuid().is_root() && permitted.iter().any(|set| !is_own(set))
}

/// At the start of every command: refuses to run set-uid. Gives up lent capabilities that are not in the
/// table, and those that bypass the read permissions of files, so that files that users name (rules,
/// recordings) are read with the users' own permissions.
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

/// Irrevocably drops, for this thread and all that it starts, every capability that `part` does not need, and
/// every way to get one. Capabilities that it needs for an instant stay permitted but not in force. Must be
/// called before other threads are started.
pub(crate) fn keep_only(part: ProgramPart) -> Result<(), RightsError> {
    let keep = part.keeps();
    // Fails without CAP_SETPCAP, which is harmless: because of no_new_privs, exec cannot gain capabilities.
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

/// For the process that starts ssh and srun: the rights of its user, and no capability that this program was lent. What
/// it executes may get rights as usual, as the helper of ssh for keys of the host does. Root stays root.
pub(crate) fn only_start_programs() -> Result<(), RightsError> {
    clear_ambient_capability_set()?;
    if geteuid().is_root() {
        return Ok(());
    }
    Ok(set_capabilities(
        None,
        CapabilitySets {
            permitted: CapabilitySet::empty(),
            effective: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        },
    )?)
}

/// The capabilities that a process passes to every program that it executes (ambient), as a mask.
pub(crate) fn handed_on_by(pid: i32) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapAmb:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// The user behind this process: the one who called sudo, or else its own.
pub(crate) fn caller() -> u32 {
    let by_sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let own = getuid().as_raw();
    if own == 0 { by_sudo.unwrap_or(own) } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capabilities_of_each_process_are_in_the_table() {
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
