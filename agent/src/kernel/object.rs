//! The loaded BPF object: its maps (through aya) and its two programs (through bpf(2), because aya cannot load a
//! program for a `uprobe_multi` link yet).

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use abi::{Hit, Loss, ProbeSpec, Text, Thread, Totals};
use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
};

use super::{
    links::{self, At, Link, LinkKind, LinkRequest},
    program::{ProgramText, data, load_error, missing, pid_namespace},
    sys,
};

/// The kernel side, built by `cargo xtask ebpf` and committed.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ebpf/prebuilt/tuneagent.bpf.o"
));

/// What the kernel refused, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The object, or one of its maps, was refused.
    #[error("the kernel refused the BPF object: {0}")]
    Object(String),
    /// The verifier refused a program: a defect of ours on this kernel.
    #[error("the kernel's verifier refused the program `{program}`: {source}\n{log}")]
    Verifier {
        /// Name of the program.
        program: &'static str,
        /// The errno.
        source: io::Error,
        /// The verifier's words.
        log: String,
    },
    /// Not permitted.
    #[error("loading BPF programs is not permitted: {0}")]
    Permission(io::Error),
    /// A link was refused.
    #[error("could not attach {count} probes to {path}: {source}")]
    Attach {
        /// The file.
        path: String,
        /// Number of sites asked for.
        count: usize,
        /// The errno.
        source: io::Error,
    },
    /// A map could not be read or written.
    #[error("a map of the kernel side failed: {0}")]
    Map(#[from] MapError),
}

/// What must be known before loading.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Number of probes.
    pub probes: u32,
    /// Number of processes that there is room for.
    pub processes: u32,
    /// Attach with tracefs even when the kernel has better.
    pub force_tracefs: bool,
}

/// The loaded programs.
struct Programs {
    entry: OwnedFd,
    returns: OwnedFd,
    leaves: OwnedFd,
}

/// The loaded kernel side. Dropping it (after its links) leaves nothing behind.
pub struct Kernel {
    maps: Ebpf,
    cells: sys::Cells<Totals>,
    programs: Programs,
    kind: LinkKind,
    options: LoadOptions,
}

impl Kernel {
    /// Loads the object and finds out how this kernel attaches probes.
    pub fn load(options: LoadOptions) -> Result<Kernel, KernelError> {
        let cells = (options.probes * options.processes).clamp(1, abi::MAX_TOTALS);
        let (device, inode) = pid_namespace();
        let maps = EbpfLoader::new()
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .map_max_entries("TOTALS", cells)
            .map_max_entries("ADDRESSES", cells.saturating_mul(abi::MAX_CAPTURES as u32))
            .override_global("PROBE_COUNT", &options.probes, true)
            .override_global("NAMESPACE_DEVICE", &device, true)
            .override_global("NAMESPACE_INODE", &inode, true)
            .load(OBJECT)
            .map_err(load_error)?;
        let (programs, kind) = programs(&maps, options.force_tracefs)?;
        let totals = maps
            .map("TOTALS")
            .and_then(data)
            .ok_or_else(|| missing("TOTALS"))?;
        let cells = sys::Cells::map(totals.fd().as_fd(), cells)
            .map_err(|error| KernelError::Object(format!("its totals cannot be mapped: {error}")))?;
        Ok(Kernel {
            maps,
            cells,
            programs,
            kind,
            options,
        })
    }

    /// How many probes there is room for.
    pub fn room(&self) -> usize {
        self.options.probes as usize
    }

    /// How probes are attached on this kernel.
    pub fn link_kind(&self) -> LinkKind {
        self.kind
    }

    /// Attaches.
    pub fn attach(&self, request: &LinkRequest) -> Result<Link, KernelError> {
        let program = match request.at {
            At::Entry => &self.programs.entry,
            At::Return => &self.programs.returns,
            At::ReturnInstruction => &self.programs.leaves,
        };
        links::attach(self.kind, program.as_fd(), request).map_err(|source| KernelError::Attach {
            path: request.path.display().to_string(),
            count: request.sites.len(),
            source,
        })
    }

    /// Says what a probe does from now on. Must precede attaching it.
    pub fn set_spec(&mut self, probe: u32, spec: ProbeSpec) -> Result<(), KernelError> {
        Ok(self.array::<Spec>("PROBES")?.set(probe, Spec(spec), 0)?)
    }

    /// Says where a probe stands in a process, for links without cookies.
    pub fn set_address(&mut self, pid: u32, address: u64, probe: u32) -> Result<(), KernelError> {
        let mut sites: HashMap<_, [u64; 2], u32> = HashMap::try_from(self.map_mut("SITES")?)?;
        Ok(sites.insert([u64::from(pid), address], probe, 0)?)
    }

    /// Says where a process has a variable that a probe captures.
    pub fn set_variable(
        &mut self,
        slot: u32,
        probe: u32,
        capture: u32,
        address: u64,
    ) -> Result<(), KernelError> {
        let cell = slot * self.options.probes + probe;
        let place = cell * abi::MAX_CAPTURES as u32 + capture;
        Ok(self.array::<u64>("ADDRESSES")?.set(place, address, 0)?)
    }

    /// From now on the hits of this process count, in this slot.
    pub fn watch(&mut self, pid: u32, slot: u32) -> Result<(), KernelError> {
        let mut processes: HashMap<_, u32, u32> = HashMap::try_from(self.map_mut("PROCESSES")?)?;
        Ok(processes.insert(pid, slot, 0)?)
    }

    /// The hits of this process no longer count.
    pub fn forget(&mut self, pid: u32) -> Result<(), KernelError> {
        let mut processes: HashMap<_, u32, u32> = HashMap::try_from(self.map_mut("PROCESSES")?)?;
        removed(processes.remove(&pid))
    }

    /// What a process did in each probed function, in the order of the probes.
    pub fn totals(&self, slot: u32) -> Result<Vec<Totals>, KernelError> {
        let first = slot as usize * self.options.probes as usize;
        (first..first + self.options.probes as usize)
            .map(|index| self.cells.get(index).ok_or_else(|| missing("TOTALS")))
            .collect()
    }

    /// Every thread that was inside a probed function, with its kernel key (`pid << 32 | tid`).
    pub fn threads(&self) -> Result<Vec<(u64, Thread)>, KernelError> {
        let threads: HashMap<_, u64, ThreadRecord> = HashMap::try_from(self.map("THREADS")?)?;
        // A key may be evicted between the walk and the read; it is then no longer there to be reported.
        Ok(threads
            .iter()
            .flatten()
            .map(|(key, record)| (key, record.0))
            .collect())
    }

    /// What was lost so far, by kind.
    pub fn losses(&self) -> Result<Vec<(&'static str, u64)>, KernelError> {
        let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(self.map("LOSSES")?)?;
        Loss::REPORTED
            .iter()
            .map(|(loss, name)| Ok((*name, counters.get(&(*loss as u32), 0)?.iter().sum())))
            .collect()
    }

    /// Calls that were under way when the probes were armed and have returned since.
    pub fn under_way(&self) -> Result<u64, KernelError> {
        let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(self.map("LOSSES")?)?;
        Ok(counters.get(&(Loss::UnderWay as u32), 0)?.iter().sum())
    }

    /// Makes room: takes out the record of a thread that has ended.
    pub fn forget_thread(&mut self, key: u64) -> Result<(), KernelError> {
        let mut threads: HashMap<_, u64, ThreadRecord> = HashMap::try_from(self.map_mut("THREADS")?)?;
        removed(threads.remove(&key))
    }

    /// The ring buffer of hits. It can be taken once.
    pub fn take_hits(&mut self) -> Result<RingBuf<MapData>, KernelError> {
        let map = self.maps.take_map("HITS").ok_or_else(|| missing("HITS"))?;
        Ok(RingBuf::try_from(map)?)
    }

    fn map(&self, name: &'static str) -> Result<&Map, KernelError> {
        self.maps.map(name).ok_or_else(|| missing(name))
    }

    fn map_mut(&mut self, name: &'static str) -> Result<&mut Map, KernelError> {
        self.maps.map_mut(name).ok_or_else(|| missing(name))
    }

    fn array<T: aya::Pod>(&mut self, name: &'static str) -> Result<Array<&mut MapData, T>, KernelError> {
        Ok(Array::try_from(self.map_mut(name)?)?)
    }
}

/// Reads one hit out of what the ring buffer holds; `None` when its size is not a hit's.
pub fn read_hit(bytes: &[u8]) -> Option<Hit> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Reads a captured text out of what the ring buffer holds; `None` when its size is not a text's.
pub fn read_text(bytes: &[u8]) -> Option<Text> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// What is not there any more need not be removed.
fn removed(result: Result<(), MapError>) -> Result<(), KernelError> {
    match result {
        Err(MapError::KeyNotFound) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The programs, loaded for the kind of links that this kernel has. One without `uprobe_multi` may refuse its attach
/// type, or take it and refuse the link.
fn programs(maps: &Ebpf, force_tracefs: bool) -> Result<(Programs, LinkKind), KernelError> {
    if !force_tracefs && let Ok(programs) = load_programs(maps, sys::BPF_TRACE_UPROBE_MULTI) {
        let kind = links::probe_kind(programs.entry.as_fd());
        if kind != LinkKind::Tracefs {
            return Ok((programs, kind));
        }
    }
    Ok((load_programs(maps, 0)?, LinkKind::Tracefs))
}

fn load_programs(maps: &Ebpf, attach_type: u32) -> Result<Programs, KernelError> {
    let text = ProgramText::parse(OBJECT, maps)?;
    let load = |name| text.load(name, attach_type);
    Ok(Programs {
        entry: load("entry")?,
        returns: load("returns")?,
        leaves: load("leaves")?,
    })
}

/// The records as aya wants them: it asks for a marker trait of its own, on types of ours.
macro_rules! record {
    ($name:ident, $of:ty) => {
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct $name($of);
        #[allow(unsafe_code, reason = "a marker trait")]
        // SAFETY: the record is repr(C) without padding, and any bytes are a value of it (it is a bytemuck::Pod).
        unsafe impl aya::Pod for $name {}
    };
}
record!(Spec, ProbeSpec);
record!(ThreadRecord, Thread);
