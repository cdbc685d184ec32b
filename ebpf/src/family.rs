//! The family of a command: itself and every process that it starts, kept here as they come and go, so that
//! what one does is counted from its first instruction on, however short it lives. A member gets its slot
//! when it first hits a probe.
//!
//! A program that runs with more rights than the command had (set-uid, file capabilities) is no member: its
//! affairs are not the user's. Without a command (`FAMILY_ROOT` is 0) none of this runs.

use abi::{Coming, ComingKind, FamilyState, Loss};
use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_ns,
        bpf_probe_read_kernel,
    },
    macros::map,
    maps::{Array, HashMap, RingBuf},
    programs::RawTracePointContext,
};

use crate::{
    maps::{self, PROCESSES},
    namespace::{self, constant},
};

/// The members: the kernel's own number of the process → [`OPEN`], or [`NO_SLOT`].
#[map]
pub static FAMILY: HashMap<u32, u32> =
    HashMap::with_max_entries(abi::FAMILY_MAX, 1 /* BPF_F_NO_PREALLOC */);

/// Its counters, which the user side sees as shared memory.
#[map]
pub static FAMILY_STATE: Array<FamilyState> = Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// Who came and went.
#[map]
pub static COMINGS: RingBuf = RingBuf::with_byte_size(abi::COMINGS_BYTES, 0);

/// A member may get a slot, or has one.
const OPEN: u32 = 0;
/// There was none left for it.
const NO_SLOT: u32 = 1;
const NONE: u64 = u64::MAX;

const BPF_NOEXIST: u64 = 1;

/// The command's number, as the agent's pid namespace counts; its family begins when it executes its program.
/// All set at load.
#[unsafe(no_mangle)]
static FAMILY_ROOT: u32 = 0;
/// How many slots there are.
#[unsafe(no_mangle)]
static FAMILY_ROOM: u32 = 0;
/// The command's user; of root's command everything is a member.
#[unsafe(no_mangle)]
static FAMILY_USER: u32 = 0;
/// The capabilities that the command may hand on.
#[unsafe(no_mangle)]
static FAMILY_RIGHTS: u64 = 0;

/// Where the kernel keeps these in its own records, in bytes.
#[unsafe(no_mangle)]
static TASK_TGID: u32 = 0;
#[unsafe(no_mangle)]
static TASK_SIGNAL: u32 = 0;
#[unsafe(no_mangle)]
static SIGNAL_LIVE: u32 = 0;
#[unsafe(no_mangle)]
static TASK_CRED: u32 = 0;
#[unsafe(no_mangle)]
static CRED_GID: u32 = 0;
#[unsafe(no_mangle)]
static CRED_EGID: u32 = 0;
#[unsafe(no_mangle)]
static CRED_EUID: u32 = 0;
#[unsafe(no_mangle)]
static CRED_PERMITTED: u32 = 0;

/// The slot of a member that hits a probe for the first time; none for everybody else, and when there is none
/// left.
pub fn slot(key: u64) -> Option<u32> {
    if constant(&FAMILY_ROOT) == 0 {
        return None;
    }
    u32::try_from(family_slot(key)).ok()
}

/// The same, [`NONE`] for none.
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
    let slot = maps::fetch_and_add(&state.next_slot, 1);
    if slot >= u64::from(constant(&FAMILY_ROOM)) {
        maps::add(&state.without_slot, 1);
        // A member that is replaced is there already: this cannot fail for want of room.
        let _ = FAMILY.insert(member, NO_SLOT, 0);
        return None;
    }
    let (pid, slot) = ((key >> 32) as u32, slot as u32);
    if PROCESSES.insert(pid, slot, BPF_NOEXIST).is_err() {
        // Another thread of the process, or the agent, was faster: this slot stays empty.
        // SAFETY: as for every value of this map, see `Task::current`.
        return unsafe { PROCESSES.get(pid) }.copied();
    }
    maps::changed();
    report(ComingKind::Came, pid, slot);
    Some(slot)
}

/// A member has started a process, which is one too. It does not run yet.
pub fn forked(ctx: &RawTracePointContext) -> Option<()> {
    let parent = number();
    standing(parent)?;
    // SAFETY: the tracepoint passes two words, the threads' records: of the one that starts, and of the one
    // that was started.
    let child = unsafe { *ctx.as_ptr().cast::<u64>().add(1) };
    let child: u32 = field(child, &TASK_TGID)?;
    // A thread has its process's number.
    if child != parent && FAMILY.insert(child, OPEN, 0).is_err() {
        maps::lost(Loss::FamilyTable);
    }
    Some(())
}

/// A process has begun another program: the command, whose family begins so, or a member.
pub fn executed() -> Option<()> {
    let key = namespace::current()?;
    let (pid, member) = ((key >> 32) as u32, number());
    let is_member = standing(member).is_some();
    if !is_member && pid != constant(&FAMILY_ROOT) {
        return None;
    }
    let state = FAMILY_STATE.get(0)?;
    if has_more_rights() {
        maps::add(&state.privileged, 1);
        leave(member, pid);
        return None;
    }
    if !is_member && FAMILY.insert(member, OPEN, 0).is_err() {
        maps::lost(Loss::FamilyTable);
    }
    maps::add(&state.execs, 1);
    // What was open belongs to the program that was.
    let thread = maps::thread(key)?;
    thread.depth = 0;
    thread.inside = 0;
    thread.overflow = 0;
    thread.open_since_ns = 0;
    Some(())
}

/// A thread of a member ends; with the last one the process does.
pub fn exited() -> Option<()> {
    let member = number();
    standing(member)?;
    // SAFETY: the helper has no preconditions.
    let signal: u64 = field(unsafe { bpf_get_current_task() }, &TASK_SIGNAL)?;
    let live: u32 = field(signal, &SIGNAL_LIVE)?;
    if live == 0 {
        leave(member, (namespace::current()? >> 32) as u32);
    }
    Some(())
}

/// It is no member any more, and what its number hits from now on is somebody else's.
fn leave(member: u32, pid: u32) -> Option<()> {
    // Who is not there any more need not be removed.
    let _ = FAMILY.remove(member);
    // SAFETY: as for every value of this map, see `Task::current`.
    let slot = *unsafe { PROCESSES.get(pid) }?;
    let _ = PROCESSES.remove(pid);
    maps::changed();
    report(ComingKind::Went, pid, slot);
    Some(())
}

/// Whether the current process may do what the command may not.
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
    // A process that cannot be checked is left alone.
    has().unwrap_or(true)
}

/// Whether a process is a member, and how it stands.
fn standing(member: u32) -> Option<u32> {
    // SAFETY: a u32 is read in one piece.
    unsafe { FAMILY.get(member) }.copied()
}

/// The kernel's own number of the current process.
fn number() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// What a record of the kernel has at a place.
fn field<T>(record: u64, place: &'static u32) -> Option<T> {
    let address = record.wrapping_add(u64::from(constant(place))) as *const T;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_kernel(address) }.ok()
}

fn report(kind: ComingKind, pid: u32, slot: u32) {
    let Some(mut entry) = COMINGS.reserve::<Coming>(0) else {
        maps::lost(Loss::RingFull);
        return;
    };
    // SAFETY: the helper has no preconditions.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    entry.write(Coming {
        time_ns,
        pid,
        slot,
        kind: kind as u32,
        zero: 0,
        name: bpf_get_current_comm().unwrap_or_default(),
    });
    entry.submit(0);
}
