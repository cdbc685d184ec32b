//! A synthetic producer: puts hits that no probe saw into the ring of a session as fast as a CPU can, for
//! benchmarks and tests of its reader. No session uses it, and the shipped program does not contain it.

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use aya::maps::MapInfo;

use super::{
    KernelError,
    object::Kernel,
    program::{ProgramText, missing},
    sys,
};

/// Built by `cargo xtask ebpf` and committed.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt/bench.bpf.o"));

/// The maps of a session that it uses: the ring, the state that decides whom to wake, and the loss counters.
const MAPS: [&str; 3] = ["HITS", "ALARM", "LOSSES"];

/// Puts hits into a ring. Threads may share it.
pub struct Producer {
    produce: OwnedFd,
    position: OwnedFd,
}

impl Producer {
    /// Uses the ring of a kernel side in this process, before that is taken.
    pub fn of(kernel: &Kernel) -> Result<Producer, KernelError> {
        Producer::load(|name| kernel.share(name))
    }

    /// Uses the ring of a session: the agent with this pid.
    pub fn of_session(pid: u32) -> Result<Producer, KernelError> {
        let mut maps = maps_of(pid).map_err(KernelError::part(format!(
            "the maps of process {pid} cannot be opened"
        )))?;
        Producer::load(|name| maps.remove(name).ok_or_else(|| missing(name)))
    }

    fn load(
        mut map: impl FnMut(&'static str) -> Result<OwnedFd, KernelError>,
    ) -> Result<Producer, KernelError> {
        let maps = MAPS.map(|name| map(name).map(|map| (name, map)));
        let maps: BTreeMap<&str, OwnedFd> = maps.into_iter().collect::<Result<_, _>>()?;
        let text = ProgramText::bound(OBJECT, |name| maps.get(name).map(AsRawFd::as_raw_fd))?.with_types()?;
        Ok(Producer {
            produce: text.load_for_tracepoint("produce")?,
            position: text.load_for_tracepoint("position")?,
        })
    }

    /// Puts hits into the ring, numbered from `first` on and attributed to `thread`; those without room count
    /// as lost.
    pub fn produce(&self, first: u64, count: u32, thread: u32) -> io::Result<()> {
        self.put(first, count, u64::from(thread))
    }

    /// As [`Producer::produce`], with hits at which a decision may be due.
    pub fn produce_deciding(&self, first: u64, count: u32, thread: u32) -> io::Result<()> {
        self.put(first, count, 1 << 32 | u64::from(thread))
    }

    fn put(&self, first: u64, count: u32, thread: u64) -> io::Result<()> {
        let arguments = [first, u64::from(count), thread];
        match sys::run_raw_tracepoint(self.produce.as_fd(), &arguments)? {
            made if made == count => Ok(()),
            made => Err(io::Error::other(format!("{made} of {count} hits were made"))),
        }
    }

    /// Number of bytes put into the ring so far by all producers, the lowest 32 bits.
    pub fn position(&self) -> io::Result<u32> {
        sys::run_raw_tracepoint(self.position.as_fd(), &[])
    }
}

/// The BPF maps that a process has open, by name.
fn maps_of(pid: u32) -> io::Result<BTreeMap<String, OwnedFd>> {
    let mut maps = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor may be closed meanwhile; those of a session's maps are not.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:"));
        let Some(id) = id.and_then(|id| id.trim().parse().ok()) else {
            continue;
        };
        let info = MapInfo::from_id(id).map_err(io::Error::other)?;
        if let Some(name) = info.name_as_str() {
            let map = info.fd().map_err(io::Error::other)?;
            maps.insert(name.to_owned(), map.as_fd().try_clone_to_owned()?);
        }
    }
    Ok(maps)
}
