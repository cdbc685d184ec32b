//! Ranks of the world, read out of the library's own structures: who is meant by a rank in a communicator. What cannot be read is
//! said to be unresolved, never guessed.
//!
//! Functions that take numbers alone are exported: the kernel's verifier then looks at them once, and not once for each way that leads to
//! them.

use abi::{Pair, World};
use aya_ebpf::{helpers::bpf_probe_read_user, macros::map, maps::Array};

/// Each process in its world, by slot. The user side sets the size at load.
#[map]
pub static WORLDS: Array<World> = Array::with_max_entries(1, 0);

/// The process in its world.
pub fn of(process: u32) -> Option<&'static World> {
    WORLDS.get(process)
}

/// The world's rank of a rank in a communicator; [`Pair::UNRESOLVED`] when it cannot be told.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn world_rank(process: u32, comm: u64, rank: u32) -> u32 {
    let Some(world) = of(process) else {
        return Pair::UNRESOLVED;
    };
    let comm = handle(world, comm);
    if comm == world.comm {
        let is_known = world.size == 0 || rank < world.size;
        return if is_known { rank } else { Pair::UNRESOLVED };
    }
    if world.own != 0 && comm == world.own {
        return world.rank;
    }
    resolved(world, comm, rank).unwrap_or(Pair::UNRESOLVED)
}

/// Ranks at the other ends of a communicator; 0 when that is not known.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn world_ranks(process: u32, comm: u64) -> u32 {
    let Some(world) = of(process) else { return 0 };
    let comm = handle(world, comm);
    if comm == world.comm && world.size != 0 {
        return world.size;
    }
    if world.own != 0 && comm == world.own {
        return 1;
    }
    let size = group(world, comm).and_then(|group| word(group, world.group_size));
    size.unwrap_or_default()
}

/// The caller's rank in a communicator; `u32::MAX` when that is not known.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn world_own_rank(process: u32, comm: u64) -> u32 {
    let Some(world) = of(process) else { return u32::MAX };
    let comm = handle(world, comm);
    if comm == world.comm {
        return world.rank;
    }
    if world.own != 0 && comm == world.own {
        return 0;
    }
    let rank = group(world, comm).and_then(|group| word(group, world.group_rank));
    rank.unwrap_or(u32::MAX)
}

/// A handle without what a register may hold above it.
pub fn handle(world: &World, raw: u64) -> u64 {
    if world.handles != 0 {
        raw & 0xffff_ffff
    } else {
        raw
    }
}

#[inline(always)]
fn resolved(world: &World, comm: u64, rank: u32) -> Option<u32> {
    let group = group(world, comm)?;
    if rank >= word(group, world.group_size)? {
        return None;
    }
    let records = pointer(group, world.group_procs)?;
    let record = pointer(records.wrapping_add(8 * u64::from(rank)), 0)?;
    if record & 1 == 1 {
        return from_sentinel(world, record);
    }
    let is_ours = word(record, world.proc_job)? == world.job;
    if is_ours {
        word(record, world.proc_rank)
    } else {
        None
    }
}

/// Of a process that it has not talked to yet, Open MPI keeps the name in the place of the address.
fn from_sentinel(world: &World, record: u64) -> Option<u32> {
    const WHOLE_NAME: u16 = 32;
    if world.sentinel_shift == 0 {
        return None;
    }
    let job = ((record >> 16) & 0xffff) << 16 | ((record >> 1) & 0x7fff);
    if world.sentinel_shift == WHOLE_NAME && job != u64::from(world.job) {
        return None;
    }
    Some((record >> (world.sentinel_shift & 63)) as u32)
}

#[inline(always)]
fn group(world: &World, comm: u64) -> Option<u64> {
    if world.comm_group == 0 {
        return None;
    }
    pointer(comm, world.comm_group)
}

#[inline(always)]
fn word(of: u64, offset: u16) -> Option<u32> {
    let place = of.wrapping_add(u64::from(offset)) as *const u32;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_user(place) }.ok()
}

#[inline(always)]
fn pointer(of: u64, offset: u16) -> Option<u64> {
    let place = of.wrapping_add(u64::from(offset)) as *const u64;
    // SAFETY: as for `word`.
    unsafe { bpf_probe_read_user(place) }
        .ok()
        .filter(|pointer| *pointer != 0)
}
