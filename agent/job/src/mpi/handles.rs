//! Locates the objects that MPICH's handles stand for. Its handles are integers, and no symbol gives the
//! addresses of the objects. So the library's writable data is searched for the object pools, whose objects
//! contain their handles; and the objects of MPI_COMM_WORLD and MPI_COMM_SELF are searched for the rank and
//! size that the launcher states. What is not found exactly once is unknown. Objects are read at calls by the
//! kernel side only.

use abi::{Objects, RankMap, World};
use tuner::{Address, AddressSpace, Module, Segment};

use super::implementation::is_mpich;

pub(super) const WORLD: u32 = 0x4400_0000;
pub(super) const OWN: u32 = 0x4400_0001;

/// Most bytes of a library's writable data that are searched; Debian's has 0.3 MiB. A program that MPICH is
/// linked into may have arrays of its own there.
const SEARCHED_MAX: u64 = 4 << 20;

/// Kinds of objects, as encoded in handles.
const COMM: u32 = 1;
const DATATYPE: u32 = 3;

/// Possible sizes of the objects in pools, in bytes.
const STEP: std::ops::RangeInclusive<u32> = 64..=1 << 16;
/// Most adjacent objects of a pool; every release has had 8.
const DIRECT_MAX: u32 = 4096;
/// The halves of a word.
const LOWER: std::ops::Range<usize> = 0..4;
const UPPER: std::ops::Range<usize> = 4..8;
/// Rank and size are within this many first bytes of a communicator.
const HEAD: usize = 256;
/// The map of the local ranks follows that of the remote ranks.
const MAP_BYTES: usize = size_of::<RankMap>();

/// Pair types whose sizes occur nowhere else in their objects: (index in the pool, size).
const PAIR_TYPES: [(usize, u64); 3] = [(0, 8), (1, 12), (3, 6)];

/// The process in its world, completed with what its communicators and datatypes show.
pub(super) fn calibrated(known: World, space: &AddressSpace, has_rank: bool) -> World {
    if !has_rank {
        return known;
    }
    let modules = space.modules.iter().filter(|module| is_mpich(&module.image));
    let mut found = modules.filter_map(|module| Data::read(module, space));
    found.next().map_or(known, |data| data.world(known))
}

/// The writable data of a module, read once.
struct Data {
    start: u64,
    bytes: Vec<u8>,
}

impl Data {
    fn read(module: &Module, space: &AddressSpace) -> Option<Data> {
        let written = module.image.segments.iter().filter(|segment| segment.writable);
        let largest: &Segment = written.max_by_key(|segment| segment.memory_size)?;
        let length = largest.memory_size.min(SEARCHED_MAX);
        let start = module.address(largest.address);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        space.memory().read(start, &mut bytes).ok()?;
        Some(Data::at(start, bytes))
    }

    /// Objects begin at multiples of eight.
    fn at(start: Address, mut bytes: Vec<u8>) -> Data {
        let first = start.0.next_multiple_of(8);
        bytes.drain(..bytes.len().min((first - start.0) as usize));
        Data { start: first, bytes }
    }

    fn half(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Index of an address in the data, if `length` bytes follow it.
    fn place(&self, address: u64, length: u64) -> Option<usize> {
        let at = address.checked_sub(self.start)?;
        let end = at.checked_add(length)?;
        (address.is_multiple_of(8) && end <= self.bytes.len() as u64).then_some(at as usize)
    }

    fn world(&self, known: World) -> World {
        let mut world = known;
        if let Some((types, size)) = self.datatypes() {
            world.types = types;
            world.type_size = size;
        }
        let Some(comms) = self.pool(COMM) else {
            return world;
        };
        let found = self.communicators(comms, &known);
        found.map_or(world, |found| World {
            comms,
            types: world.types,
            type_size: world.type_size,
            ..found
        })
    }

    /// Indices of words with this value in the given half.
    fn words(&self, half: std::ops::Range<usize>, value: u32) -> impl Iterator<Item = usize> {
        let value = value.to_le_bytes();
        let words = self.bytes.chunks_exact(8).enumerate();
        words.filter_map(move |(number, word)| (word[half.clone()] == value).then_some(8 * number))
    }

    /// The pool of a kind, once an object was taken from it: its first objects contain their handles.
    fn pool(&self, kind: u32) -> Option<Objects> {
        let words = self.words(UPPER, kind);
        only(words.filter_map(|at| self.pool_at(kind, at + 16)))
    }

    /// The pool at an index. A pool stores the kind and the size of its objects, the address of the first
    /// ones (at the index), and their number.
    fn pool_at(&self, kind: u32, at: usize) -> Option<Objects> {
        let step = self.half(at.checked_sub(8)?)?;
        let is_kind = self.half(at.checked_sub(12)?)? == kind;
        let direct_count = self.half(at + 8)?;
        if !is_kind
            || !STEP.contains(&step)
            || !step.is_multiple_of(8)
            || !(2..=DIRECT_MAX).contains(&direct_count)
        {
            return None;
        }
        let direct = self.word(at)?;
        let first = self.place(direct, u64::from(step) * u64::from(direct_count))?;
        let handle = 2 << 30 | kind << 26;
        let bears = |index: u32| self.half(first + (index * step) as usize) == Some(handle | index);
        let objects = Objects {
            direct,
            blocks: self.start + self.blocks_before(at)? as u64,
            direct_count,
            step,
        };
        (bears(0) && bears(1) && bears(direct_count - 1)).then_some(objects)
    }

    /// The index of the pointer to the table of blocks. Before the kind, a pool stores the number of blocks,
    /// in newer releases two more counts, the table of blocks, a flag that it was used (1), the next free
    /// object.
    fn blocks_before(&self, at: usize) -> Option<usize> {
        const TAKEN_FROM: u64 = 1;
        let is_blocks = |place: &usize| {
            self.word(place - 8)
                .is_some_and(|word| word & 0xffff_ffff == TAKEN_FROM)
        };
        let places = [at.checked_sub(24)?, at.checked_sub(32)?];
        only(places.into_iter().filter(|place| *place >= 8).filter(is_blocks))
    }

    /// The datatypes, and the offset of the size in them.
    fn datatypes(&self) -> Option<(Objects, u16)> {
        let types = self.pool(DATATYPE)?;
        let first = self.place(types.direct, 0)?;
        let step = types.step as usize;
        let shows = |offset: &usize| {
            let size = |index: usize| self.word(first + index * step + offset);
            PAIR_TYPES
                .iter()
                .all(|(index, bytes)| size(*index) == Some(*bytes))
        };
        let offset = only((8..step).step_by(8).filter(shows))?;
        Some((types, u16::try_from(offset).ok()?))
    }

    /// Offsets of the number of other ends, of the caller's rank and of the map in a communicator, as
    /// MPI_COMM_WORLD and MPI_COMM_SELF show them. Some launchers state the rank only; then the size is read
    /// from the world's communicator.
    fn communicators(&self, comms: Objects, known: &World) -> Option<World> {
        let step = comms.step as usize;
        let pairs = self.words(LOWER, WORLD);
        let all = only(pairs.filter(|at| self.half(at + step) == Some(OWN)))?;
        let own = all + step;
        let numbered = |comm: usize, offset: usize, size: u32, rank: u32| {
            // After them, and an address, comes the size of the local group.
            let local = (offset + 8).next_multiple_of(8) + 8;
            self.half(comm + offset) == Some(size)
                && self.half(comm + offset + 4) == Some(rank)
                && self.half(comm + local) == Some(size)
        };
        let stated = Some(known.size).filter(|size| *size != 0);
        let shown = |offset: usize| {
            let size = stated.or_else(|| self.half(all + offset))?;
            let fits = size > known.rank && numbered(all, offset, size, known.rank);
            (fits && numbered(own, offset, 1, 0)).then_some((offset, size))
        };
        let (offset, size) = only((8..HEAD.min(step)).step_by(4).filter_map(shown))?;
        let mapped = |comm: usize, offset: usize, map: [u32; 3]| {
            let behind = self.half(comm + offset + MAP_BYTES) == Some(RankMap::NONE);
            let mut halves = (0..3).map(|half| self.half(comm + offset + 4 * half));
            behind && map.iter().all(|expected| halves.next() == Some(Some(*expected)))
        };
        let is_map = |offset: &usize| {
            let direct = [RankMap::DIRECT | RankMap::OF_WORLD, 0, size];
            let shifted = [RankMap::OFFSET | RankMap::OF_WORLD, 0, 1];
            mapped(all, *offset, direct)
                && mapped(own, *offset, shifted)
                && self.half(own + offset + 12) == Some(known.rank)
        };
        let last = step.saturating_sub(MAP_BYTES + 4);
        let map = only((HEAD.min(last)..last).step_by(8).filter(is_map))?;
        let short = |offset: usize| u16::try_from(offset).ok();
        Some(World {
            size,
            comm_size: short(offset)?,
            comm_rank: short(offset + 4)?,
            comm_map: short(map)?,
            ..*known
        })
    }
}

/// The only item; `None` if there are several, which is ambiguous.
fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let one = found.next()?;
    found.next().is_none().then_some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7000_0000;
    const STEP: usize = 1024;
    const POOL_OF_TYPES: usize = 64;
    const POOL_OF_COMMS: usize = 256;
    const TYPES: usize = 1024;
    const BUILT_IN: usize = 16 << 10;
    const COMMS: usize = 32 << 10;
    const MAP: usize = 512;

    /// A library as in release 4.0, of rank 2 of 5.
    struct Library(Vec<u8>);

    impl Library {
        fn new() -> Library {
            let mut library = Library(vec![0; 64 << 10]);
            library.pool(POOL_OF_TYPES, DATATYPE, TYPES);
            library.pool(POOL_OF_COMMS, COMM, COMMS);
            for (index, size) in [8, 12, 12, 6, 20].into_iter().enumerate() {
                library.word(TYPES + index * STEP + 8, size);
                library.word(TYPES + index * STEP + 16, size.next_multiple_of(8));
            }
            library.communicator(BUILT_IN, WORLD, 5, 2, [1, 0, 5, 0]);
            library.communicator(BUILT_IN + STEP, OWN, 1, 0, [3, 0, 1, 2]);
            library
        }

        fn half(&mut self, at: usize, value: u32) {
            self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }

        fn word(&mut self, at: usize, value: u64) {
            self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }

        fn pool(&mut self, at: usize, kind: u32, first: usize) {
            self.word(at, START + first as u64);
            self.half(at + 8, 1);
            self.half(at + 36, kind);
            self.half(at + 40, STEP as u32);
            self.word(at + 48, START + first as u64);
            self.half(at + 56, 8);
            for index in 0..8 {
                self.half(first + index * STEP, 0x8000_0000 | kind << 26 | index as u32);
            }
        }

        fn communicator(&mut self, at: usize, handle: u32, size: u32, rank: u32, map: [u32; 4]) {
            self.half(at, handle);
            self.half(at + 60, size);
            self.half(at + 64, rank);
            self.half(at + 80, size);
            for (index, value) in map.into_iter().enumerate() {
                self.half(at + MAP + 4 * index, value);
            }
            self.half(at + MAP + MAP_BYTES, 11);
        }

        fn world(&self) -> World {
            self.world_of(5)
        }

        /// `size` is 0 if the launcher does not state it.
        fn world_of(&self, size: u32) -> World {
            let known = World {
                rank: 2,
                size,
                ..World::default()
            };
            Data::at(Address(START), self.0.clone()).world(known)
        }
    }

    #[test]
    fn objects_are_found_by_the_handles_that_they_bear() {
        let world = Library::new().world();
        assert_eq!(
            (world.comm_size, world.comm_rank, world.comm_map, world.type_size),
            (60, 64, MAP as u16, 8)
        );
        let comms = Objects {
            direct: START + COMMS as u64,
            blocks: START + POOL_OF_COMMS as u64 + 16,
            direct_count: 8,
            step: STEP as u32,
        };
        assert_eq!(world.comms, comms);
        assert_eq!(world.types.direct, START + TYPES as u64);
    }

    #[test]
    fn a_size_that_no_launcher_states_is_that_of_the_worlds_communicator() {
        let library = Library::new();
        assert_eq!(library.world_of(0), library.world());
        assert_eq!(library.world_of(4).comms, Objects::default());
        let mut other = Library::new();
        other.half(BUILT_IN + 64, 3);
        assert_eq!(other.world_of(0).size, 0);
    }

    #[test]
    fn handles_without_the_launchers_rank_are_unknown() {
        let mut other = Library::new();
        other.half(BUILT_IN + 64, 3);
        assert_eq!(other.world().comms, Objects::default());
        let mut moved = Library::new();
        moved.half(BUILT_IN + STEP + MAP + 12, 1);
        assert_eq!(moved.world().comms, Objects::default());
        assert_ne!(moved.world().types, Objects::default());
    }

    #[test]
    fn handles_found_twice_are_unknown() {
        let mut twice = Library::new();
        twice.pool(400, COMM, COMMS);
        assert_eq!(twice.world().comms, Objects::default());
        let mut again = Library::new();
        for (index, size) in [8, 12, 12, 6, 20].into_iter().enumerate() {
            again.word(TYPES + index * STEP + 40, size);
        }
        assert_eq!(again.world().types, Objects::default());
    }

    #[test]
    fn a_pool_that_was_not_taken_from_yet_is_looked_at_again() {
        let mut early = Library::new();
        early.half(POOL_OF_COMMS + 8, 0);
        for index in 0..8 {
            early.half(COMMS + index * STEP, 0);
        }
        assert_eq!(early.world().comms, Objects::default());
    }
}
