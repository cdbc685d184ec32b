//! Finds what the kernel side needs to translate a rank of any communicator to a world rank. Relies only on
//! what the process shows: Open MPI's structures change between releases and builds, so they are searched for
//! the launcher's values of rank and size. Those of MPICH are found in `handles`.

use abi::World;
use tuner::{Address, AddressSpace, Memory};

use super::{Implementation, handles, implementation::variable};
use crate::mpi::Rank;

const COMM_WORLD: &str = "ompi_mpi_comm_world";

/// Bytes of a communicator and of a process's record that are searched; in all releases the fields are within
/// the first 300 and 100.
const COMM_BYTES_MAX: u16 = 512;
const RECORD_BYTES_MAX: usize = 128;
/// Within its first bytes a group has its size, then the caller's rank, and soon after them the address of
/// the records.
const GROUP_BYTES_MAX: u16 = 64;
const RECORDS_OFFSET_MAX: u16 = 40;
/// Records that are compared; that this many match by chance is practically impossible.
const COMPARED_MAX: usize = 64;
/// Larger worlds are not searched.
const SIZE_MAX: u32 = 1 << 20;
/// Offset of the name of a process in its record, in every release since 2.0.
const USUAL_NAME: u16 = 40;

/// The process in its world, as far as it can be found now: Open MPI's structures exist after MPI_Init.
pub fn world(implementation: &Implementation, space: &AddressSpace, rank: Option<Rank>) -> World {
    let number = rank.map_or(0, |rank| rank.number);
    let size = rank.and_then(|rank| rank.size);
    let known = World {
        rank: number,
        size: size.unwrap_or_default(),
        ..World::default()
    };
    match implementation.name {
        "Open MPI" => open_mpi(known, space, rank.is_some()),
        "MPICH" | "Intel MPI" => {
            let known = World {
                comm: handles::WORLD.into(),
                own: if rank.is_some() { handles::OWN.into() } else { 0 },
                handles: 1,
                proc_null: -1,
                any_source: -2,
                status_source: 8,
                ..known
            };
            handles::calibrated(known, space, rank.is_some())
        }
        _ => known,
    }
}

/// Whether more may be found later: the MPI of the process has not created its structures yet, or they were
/// not found.
pub fn may_settle(implementation: &Implementation, world: &World, rank: Option<Rank>) -> bool {
    rank.is_some()
        && match implementation.name {
            "Open MPI" => world.comm_group == 0,
            "MPICH" | "Intel MPI" => world.comms.step == 0 || world.types.step == 0,
            _ => false,
        }
}

/// Ranks of the world; `None` if the process's communicator was not found.
pub fn size(world: &World) -> Option<u32> {
    (world.comm_group != 0 || world.comms.step != 0).then_some(world.size)
}

/// Whether a process is alone in its world although its launcher states several ranks: the launcher is not that of its
/// MPI. False where it cannot be known: before MPI_Init, and with other implementations than Open MPI.
pub(crate) fn is_alone(implementation: &Implementation, space: &AddressSpace, rank: Rank) -> bool {
    let is_found = |rank, size| {
        let stated = World {
            rank,
            size,
            ..World::default()
        };
        open_mpi(stated, space, true).comm_group != 0
    };
    let stated = rank
        .size
        .filter(|size| *size > 1 && implementation.name == "Open MPI");
    stated.is_some_and(|size| !is_found(rank.number, size) && is_found(0, 1))
}

fn open_mpi(known: World, space: &AddressSpace, has_rank: bool) -> World {
    let known = World {
        proc_null: -2,
        any_source: -1,
        ..known
    };
    // A program may have a copy of the library's variable, which is then the one in use; programs come first.
    let places: Vec<Address> = space
        .modules
        .iter()
        .filter_map(|module| Some(module.address(variable(&module.image, COMM_WORLD)?.address)))
        .collect();
    let mut searched = places.iter().filter(|_| has_rank);
    let found = searched.find_map(|place| calibrated(&known, space.memory(), *place));
    found.unwrap_or(World {
        comm: places.first().map_or(0, |place| place.0),
        ..known
    })
}

/// Checks for the world's communicator at an address: it has two equal adjacent pointers to its group, and
/// that contains the size and the rank stated by the launcher.
fn calibrated(known: &World, memory: &Memory, comm: Address) -> Option<World> {
    let words = read::<8>(memory, comm.0, usize::from(COMM_BYTES_MAX / 8))?;
    let words: Vec<u64> = words.into_iter().map(u64::from_le_bytes).collect();
    let twice = words.windows(2).zip((0..COMM_BYTES_MAX).step_by(8));
    let groups = twice.filter(|(pair, _)| pair[0] == pair[1] && pair[0] != 0 && pair[0] % 8 == 0);
    let mut found = groups.filter_map(|(pair, offset)| {
        let world = World {
            comm: comm.0,
            // The second is the group of the other ends.
            comm_group: offset + 8,
            ..*known
        };
        group(&world, memory, pair[0])
    });
    let only = found.next()?;
    found.next().is_none().then_some(only)
}

fn group(known: &World, memory: &Memory, address: u64) -> Option<World> {
    let halves = read::<4>(memory, address, usize::from(GROUP_BYTES_MAX / 4))?;
    let halves: Vec<u32> = halves.into_iter().map(u32::from_le_bytes).collect();
    let pairs = halves.windows(2).zip((0..GROUP_BYTES_MAX).step_by(4));
    // Some launchers state the rank only.
    let may_be = |size: u32| (known.size == 0 || size == known.size) && size > known.rank && size <= SIZE_MAX;
    let sizes = pairs.filter(|(pair, _)| may_be(pair[0]) && pair[1] == known.rank);
    let worlds = sizes.filter_map(|(pair, offset)| {
        let first = (offset + 8).next_multiple_of(8);
        let places = (first..first + RECORDS_OFFSET_MAX).step_by(8);
        places
            .filter_map(|place| {
                let world = World {
                    size: pair[0],
                    group_size: offset,
                    group_rank: offset + 4,
                    group_procs: place,
                    ..*known
                };
                let [records] = read::<8>(memory, address + u64::from(place), 1)?[..] else {
                    return None;
                };
                records_at(&world, memory, u64::from_le_bytes(records))
            })
            .next()
    });
    // A reference count may look like the size of a part of the ranks, whose records match as well.
    worlds.min_by_key(|world| std::cmp::Reverse(world.size))
}

/// The records of the world's processes, in the order of their ranks; each contains its own.
fn records_at(known: &World, memory: &Memory, address: u64) -> Option<World> {
    if address == 0 || !address.is_multiple_of(8) {
        return None;
    }
    let places = read::<8>(memory, address, known.size as usize)?;
    let places: Vec<u64> = places.into_iter().map(u64::from_le_bytes).collect();
    let own = places.get(known.rank as usize)?;
    if *own % 8 != 0 || places.contains(&0) {
        return None;
    }
    let real = (0u32..).zip(&places).filter(|(_, place)| **place % 2 == 0);
    let mut records: Vec<(u32, Vec<u32>)> = Vec::new();
    for (rank, place) in real.take(COMPARED_MAX) {
        let halves = read::<4>(memory, *place, RECORD_BYTES_MAX / 4)?;
        records.push((rank, halves.into_iter().map(u32::from_le_bytes).collect()));
    }
    let job = |at: usize| records.first().map_or(0, |(_, halves)| halves[at]);
    let names = |at: &usize| {
        let is_name = |(rank, halves): &(u32, Vec<u32>)| halves[*at] == job(*at) && halves[at + 1] == *rank;
        job(*at) != 0 && records.iter().all(is_name)
    };
    let fitting: Vec<usize> = (0..RECORD_BYTES_MAX / 4 - 1).filter(names).collect();
    let usual = usize::from(USUAL_NAME / 4);
    let at = match fitting[..] {
        [only] => only,
        _ => *fitting.iter().find(|at| **at == usual)?,
    };
    let world = World {
        job: job(at),
        proc_job: 4 * at as u16,
        proc_rank: 4 * at as u16 + 4,
        ..*known
    };
    Some(World {
        sentinel_shift: sentinel_shift(&world, &places),
        ..world
    })
}

/// The shift of the rank in pointers that are sentinels instead of addresses; 0 if there is none, or no
/// sentinel from which to derive it.
fn sentinel_shift(world: &World, places: &[u64]) -> u16 {
    let sentinels: Vec<(u64, u64)> = (0u64..)
        .zip(places.iter().copied())
        .filter(|(_, place)| place % 2 == 1)
        .collect();
    let job = |name: u64| ((name >> 16) & 0xffff) << 16 | ((name >> 1) & 0x7fff);
    let is_complete = |(rank, name): &(u64, u64)| name >> 32 == *rank && job(*name) == u64::from(world.job);
    let is_bare = |(rank, name): &(u64, u64)| name >> 1 == *rank;
    match sentinels.len() {
        0 => 0,
        _ if sentinels.iter().all(is_complete) => 32,
        _ if sentinels.iter().all(is_bare) => 1,
        _ => 0,
    }
}

fn read<const WIDTH: usize>(memory: &Memory, address: u64, count: usize) -> Option<Vec<[u8; WIDTH]>> {
    let mut bytes = vec![0; WIDTH * count];
    memory.read(Address(address), &mut bytes).ok()?;
    let (words, _) = bytes.as_chunks::<WIDTH>();
    Some(words.to_vec())
}
