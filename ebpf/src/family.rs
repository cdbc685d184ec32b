//! The family of a command: its process and all its descendants. It is maintained here as processes start and
//! end, so that each is counted from its first instruction on, however short it lives. A member gets its slot
//! when it first hits a probe.
//!
//! A program that runs with more rights than the command (set-uid, file capabilities) is not a member: the
//! user has no right to inspect it. Without a command (`FAMILY_ROOT` is 0) none of this runs.

use abi::{FamilyEvent, FamilyEventKind, FamilyState, Loss};
use aya_ebpf::{
    EbpfContext,
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_NOEXIST},
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_ns,
        bpf_probe_read_kernel,
    },
    macros::map,
    maps::{Array, HashMap, RingBuf},
    programs::RawTracePointContext,
};

use crate::{
    Ended,
    atomic::{add, fetch_and_add},
    maps::{self, PROCESSES},
    namespace::{self, constant},
};

/// The members: pid in the kernel's initial namespace → [`OPEN`] or [`NO_SLOT`].
#[map]
pub static FAMILY: HashMap<u32, u32> = HashMap::with_max_entries(abi::FAMILY_MAX, BPF_F_NO_PREALLOC);

/// Counters of the family, in memory shared with the user side.
#[map]
pub static FAMILY_STATE: Array<FamilyState> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Reports of processes that got a slot or ended.
#[map]
pub static FAMILY_EVENTS: RingBuf = RingBuf::with_byte_size(abi::FAMILY_EVENTS_BYTES, 0);

/// The member has a slot, or may get one.
const OPEN: u32 = 0;
/// No slot was left for the member.
const NO_SLOT: u32 = 1;
const NONE: u64 = u64::MAX;

/// Constants that are set at load.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)+) => { $($(#[$doc])* #[unsafe(no_mangle)] static $name: $type = 0;)+ };
}
constants! {
    /// Pid of the command in the agent's pid namespace; the family begins when it executes its program.
    FAMILY_ROOT: u32, FAMILY_ROOM: u32,
    /// The user of the command or of the session. If it is root, all descendants of the command are members.
    FAMILY_USER: u32,
    /// The capabilities that the command can pass on.
    FAMILY_RIGHTS: u64,
    /// 1 if the session is one of the node's service, which observes processes of its user only.
    OWN_PROCESSES: u32,
    // Offsets of fields in the kernel's structures, in bytes.
    TASK_TGID: u32, TASK_SIGNAL: u32, SIGNAL_LIVE: u32, TASK_MM: u32, MM_FLAGS: u32, TASK_CRED: u32,
    CRED_GID: u32, CRED_EGID: u32, CRED_EUID: u32, CRED_PERMITTED: u32,
}

/// Ends the handling of a hit if the session must not observe the process. That is decided at each hit: a
/// process may execute a set-uid program at any instant, and the user can write the maps of the session.
#[inline(always)]
pub fn permitted() -> Result<(), Ended> {
    let is_own = constant(&OWN_PROCESSES) == 0 || is_foreign() == 0;
    is_own.then_some(()).ok_or(Ended::NotOurs)
}

/// Whether the user may not inspect the current process by the rules of the kernel (ptrace(2)).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_foreign() -> u64 {
    // SAFETY: the helper has no preconditions.
    let memory: Option<u64> = field(unsafe { bpf_get_current_task() }, &TASK_MM);
    // 1 in two bits: dumpable. Not of a program that changed its user, cannot be read, or has forbidden it.
    let flags: Option<u64> = memory.and_then(|memory| field(memory, &MM_FLAGS));
    u64::from(flags.is_none_or(|flags| flags & 3 != 1) || has_more_rights())
}

/// Assigns a slot to a member at its first hit; `None` for other processes, and if no slot is left.
pub fn slot(key: u64) -> Option<u32> {
    if constant(&FAMILY_ROOT) == 0 {
        return None;
    }
    u32::try_from(family_slot(key)).ok()
}

/// As [`slot`]; [`NONE`] for `None`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn family_slot(key: u64) -> u64 {
    given(key).map_or(NONE, u64::from)
}

#[inline(always)]
fn given(key: u64) -> Option<u32> {
    let member = number();
    if standing(member)? == NO_SLOT {
        return None;
    }
    let state = FAMILY_STATE.get(0)?;
    let slot = fetch_and_add(&state.next_slot, 1);
    if slot >= u64::from(constant(&FAMILY_ROOM)) {
        add(&state.without_slot, 1);
        // The member's entry already exists, so replacing it cannot fail for lack of room.
        let _ = FAMILY.insert(member, NO_SLOT, 0);
        return None;
    }
    let (pid, slot) = ((key >> 32) as u32, slot as u32);
    if PROCESSES.insert(pid, slot, u64::from(BPF_NOEXIST)).is_err() {
        // Another thread of the process, or the agent, was faster: this slot stays empty.
        // SAFETY: a value of this map is not changed once it is there, and a u32 is read in one piece.
        return unsafe { PROCESSES.get(pid) }.copied();
    }
    maps::changed();
    report(FamilyEventKind::Came, pid, slot);
    Some(slot)
}

/// A member has started a process, which becomes a member before it runs.
pub fn forked(ctx: &RawTracePointContext) -> Result<(), Ended> {
    let parent = number();
    standing(parent).ok_or(Ended::NotOurs)?;
    // SAFETY: the tracepoint passes two words, the `task_struct` addresses of the parent and of the child.
    let child = unsafe { *ctx.as_ptr().cast::<u64>().add(1) };
    let child: u32 = field(child, &TASK_TGID).ok_or(Loss::FamilyTable)?;
    // A new thread has the number of its process.
    match child == parent {
        true => Ok(()),
        false => join(child),
    }
}

/// A process has executed a program: it is the command, whose family begins here, or a member.
pub fn executed() -> Result<(), Ended> {
    let key = namespace::current().ok_or(Ended::NotOurs)?;
    let (pid, member) = ((key >> 32) as u32, number());
    let is_member = standing(member).is_some();
    if !is_member && pid != constant(&FAMILY_ROOT) {
        return Err(Ended::NotOurs);
    }
    let state = FAMILY_STATE.get(0).ok_or(Ended::NotOurs)?;
    if has_more_rights() {
        add(&state.privileged, 1);
        leave(member, pid);
        return Ok(());
    }
    let joined = match is_member {
        true => Ok(()),
        false => join(member),
    };
    add(&state.execs, 1);
    // Open calls belong to the previous program.
    if let Some(thread) = maps::thread(key) {
        thread.depth = 0;
        thread.inside = 0;
        thread.overflow = 0;
        thread.open_since_ns = 0;
    }
    joined
}

/// Adds a member, which has no slot before its first hit.
#[inline(always)]
fn join(member: u32) -> Result<(), Ended> {
    FAMILY
        .insert(member, OPEN, 0)
        .map_err(|_| Loss::FamilyTable.into())
}

/// A thread of a member ends; the process ends with its last thread.
pub fn exited() -> Result<(), Ended> {
    let member = number();
    standing(member).ok_or(Ended::NotOurs)?;
    if has_ended() {
        let key = namespace::current().ok_or(Ended::NotOurs)?;
        leave(member, (key >> 32) as u32);
    }
    Ok(())
}

/// Whether the current thread is the last one of its process; false if that cannot be read.
#[inline(always)]
fn has_ended() -> bool {
    // SAFETY: the helper has no preconditions.
    let signal: Option<u64> = field(unsafe { bpf_get_current_task() }, &TASK_SIGNAL);
    let live: Option<u32> = signal.and_then(|signal| field(signal, &SIGNAL_LIVE));
    live == Some(0)
}

/// Removes a member. Later hits under its pid belong to another process.
fn leave(member: u32, pid: u32) -> Option<()> {
    // Failure means that the entry is already gone.
    let _ = FAMILY.remove(member);
    // SAFETY: a value of this map is not changed once it is there, and a u32 is read in one piece.
    let slot = *unsafe { PROCESSES.get(pid) }?;
    let _ = PROCESSES.remove(pid);
    maps::changed();
    report(FamilyEventKind::Went, pid, slot);
    Some(())
}

/// Whether the current process has rights that the command or the user does not have.
fn has_more_rights() -> bool {
    let user = constant(&FAMILY_USER);
    if user == 0 {
        return false;
    }
    let has = || {
        // SAFETY: the helper has no preconditions.
        let rights: u64 = field(unsafe { bpf_get_current_task() }, &TASK_CRED)?;
        let acts_as: u32 = field(rights, &CRED_EUID)?;
        let (group, acts_for): (u32, u32) = (field(rights, &CRED_GID)?, field(rights, &CRED_EGID)?);
        let permitted: u64 = field(rights, &CRED_PERMITTED)?;
        Some(acts_as != user || acts_for != group || permitted & !constant(&FAMILY_RIGHTS) != 0)
    };
    // A process that cannot be checked is excluded.
    has().unwrap_or(true)
}

/// The state of a member; `None` if the process is not one.
fn standing(member: u32) -> Option<u32> {
    // SAFETY: a u32 is read in one piece.
    unsafe { FAMILY.get(member) }.copied()
}

/// The current process's pid in the kernel's initial namespace.
fn number() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// Reads a field of a kernel structure.
fn field<T>(record: u64, place: &'static u32) -> Option<T> {
    let address = record.wrapping_add(u64::from(constant(place))) as *const T;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_kernel(address) }.ok()
}

fn report(kind: FamilyEventKind, pid: u32, slot: u32) {
    let Some(mut entry) = FAMILY_EVENTS.reserve::<FamilyEvent>(0) else {
        maps::lost(Loss::RingFull);
        return;
    };
    // SAFETY: the helper has no preconditions.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    entry.write(FamilyEvent {
        time_ns,
        pid,
        slot,
        kind: kind as u32,
        zero: 0,
        name: bpf_get_current_comm().unwrap_or_default(),
    });
    entry.submit(0);
}
