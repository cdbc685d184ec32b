//! Translates ranks of communicators to world ranks, by reading the MPI library's own structures. A rank that
//! cannot be read is unresolved, never guessed.
//!
//! Exported functions take numbers only: the kernel's verifier then checks each of them once, and not once
//! for each path that leads to it.

use abi::{Objects, Pair, RankMap, UNKNOWN_BYTES, World};
use aya_ebpf::{helpers::bpf_probe_read_user, macros::map, maps::Array};

/// The MPI world of each process, by slot. The user side sets the size at load.
#[map]
pub static WORLDS: Array<World> = Array::with_max_entries(1, 0);

pub fn of(process: u32) -> Option<&'static World> {
    WORLDS.get(process)
}

/// The world rank of a rank in a communicator; [`Pair::UNRESOLVED`] if it is unknown.
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
    let found = if world.handles != 0 {
        mapped(world, comm, rank)
    } else {
        resolved(world, comm, rank)
    };
    found.unwrap_or(Pair::UNRESOLVED)
}

/// Number of ranks at the other end of a communicator; 0 if unknown.
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
    let size = if world.handles != 0 {
        object(&world.comms, comm).and_then(|comm| word(comm, world.comm_size))
    } else {
        group(world, comm).and_then(|group| word(group, world.group_size))
    };
    size.unwrap_or_default()
}

/// The caller's rank in a communicator; `u32::MAX` if unknown.
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
    let rank = if world.handles != 0 {
        object(&world.comms, comm).and_then(|comm| word(comm, world.comm_rank))
    } else {
        group(world, comm).and_then(|group| word(group, world.group_rank))
    };
    rank.unwrap_or(u32::MAX)
}

/// Removes the bits that a register may contain above a small handle.
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

/// For a process that it has not communicated with yet, Open MPI stores the name instead of an address.
fn from_sentinel(world: &World, record: u64) -> Option<u32> {
    const FULL_NAME: u16 = 32;
    if world.sentinel_shift == 0 {
        return None;
    }
    let job = ((record >> 16) & 0xffff) << 16 | ((record >> 1) & 0x7fff);
    if world.sentinel_shift == FULL_NAME && job != u64::from(world.job) {
        return None;
    }
    Some((record >> (world.sentinel_shift & 63)) as u32)
}

/// The size of a datatype that is not built in, if handles are integers; [`UNKNOWN_BYTES`] if unknown.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn world_type_size(process: u32, datatype: u64) -> u64 {
    let Some(world) = of(process) else {
        return UNKNOWN_BYTES;
    };
    let Some(object) = object(&world.types, datatype & 0xffff_ffff) else {
        return UNKNOWN_BYTES;
    };
    let place = object.wrapping_add(u64::from(world.type_size)) as *const u64;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_user(place) }.unwrap_or(UNKNOWN_BYTES)
}

/// The world rank of a rank, by the map in the communicator's object.
#[inline(always)]
fn mapped(world: &World, comm: u64, rank: u32) -> Option<u32> {
    let comm = object(&world.comms, comm)?;
    if rank >= word(comm, world.comm_size)? {
        return None;
    }
    let place = comm.wrapping_add(u64::from(world.comm_map)) as *const RankMap;
    // SAFETY: the helper checks the address, and any bytes are a map.
    let map: RankMap = unsafe { bpf_probe_read_user(place) }.ok()?;
    let is_of_world = map.mode & RankMap::OF_WORLD != 0;
    let mode = map.mode & !RankMap::OF_WORLD;
    if map.mode >= RankMap::NONE || (mode != RankMap::LIST_OF_BOTH && !is_of_world && map.table != 0) {
        return None;
    }
    let found = if mode == RankMap::DIRECT {
        rank
    } else if mode == RankMap::OFFSET {
        rank.wrapping_add(map.offset)
    } else if mode == RankMap::STRIDE {
        rank.wrapping_mul(map.stride).wrapping_add(map.offset)
    } else if mode == RankMap::BLOCKS {
        let blocks = rank.checked_div(map.block)?;
        let skipped = blocks.wrapping_mul(map.stride.wrapping_sub(map.block));
        skipped.wrapping_add(rank).wrapping_add(map.offset)
    } else if mode == RankMap::LIST {
        word(map.list.wrapping_add(4 * u64::from(rank)), 0)?
    } else {
        let entry = map.list.wrapping_add(8 * u64::from(rank));
        if word(entry, 0)? != 0 {
            return None;
        }
        word(entry, 4)?
    };
    (found < world.size).then_some(found)
}

/// The object that a handle refers to; checked by the handle that the object contains.
#[inline(always)]
fn object(objects: &Objects, handle: u64) -> Option<u64> {
    const DIRECT: u64 = 2;
    const IN_BLOCKS: u64 = 3;
    if objects.step == 0 {
        return None;
    }
    let step = u64::from(objects.step);
    let kind = handle >> 30;
    let place = if kind == DIRECT {
        let index = handle & 0x03ff_ffff;
        if index >= u64::from(objects.direct_count) {
            return None;
        }
        objects.direct.wrapping_add(index * step)
    } else if kind == IN_BLOCKS {
        let table = pointer(objects.blocks, 0)?;
        let block = pointer(table.wrapping_add(8 * (handle >> 12 & 0x3fff)), 0)?;
        block.wrapping_add((handle & 0xfff) * step)
    } else {
        return None;
    };
    (u64::from(word(place, 0)?) == handle).then_some(place)
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
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_user(place) }
        .ok()
        .filter(|pointer| *pointer != 0)
}
