//! The user side of sync points: the object whose programs hold a thread at a sync point, its records as
//! shared memory, and the rings that wake the answering threads. It decides nothing and does not interpret
//! actions.

use std::{
    mem::offset_of,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use abi::{Hold, HoldState};
use aya::{EbpfLoader, VerifierLogLevel};

use super::{
    KernelError,
    cells::Cells,
    links::{self, Link, LinkChoice, LinkKind, LinkRequest},
    maps::Maps,
    object::take_ring,
    program::{self, ProgramText, data, load_error, missing, pid_namespace},
    ring::Ring,
    sys,
};

/// Built by `cargo xtask ebpf` and committed.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt/sync.bpf.o"));

/// The loaded object. Dropping it (after its links) leaves nothing in the kernel; a held thread then
/// continues at its bound.
pub struct Holds {
    maps: Maps,
    records: Arc<Records>,
    hold: OwnedFd,
    store: Result<OwnedFd, KernelError>,
    kind: LinkKind,
}

impl Holds {
    /// Loads the object. The first answering thread runs on `first_cpu`, the second on another CPU.
    pub fn load(first_cpu: u32, choice: LinkChoice) -> Result<Holds, KernelError> {
        let (device, inode) = pid_namespace();
        let maps = EbpfLoader::new()
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .override_global("FIRST_CPU", &first_cpu, true)
            .override_global("NAMESPACE_DEVICE", &device, true)
            .override_global("NAMESPACE_INODE", &inode, true)
            .load(OBJECT)
            .map(Maps::of)
            .map_err(load_error)?;
        let text = ProgramText::parse(OBJECT, &maps)?.with_types()?;
        let kind = links::kind(choice);
        let attach_type = links::attach_type(kind);
        let hold = text.load("hold", attach_type)?;
        let store = text.load("store", attach_type).map_err(|error| match error {
            KernelError::Verifier { error, reason, .. } => KernelError::NoStore { error, reason },
            error => error,
        });
        let array = maps.map("HOLDS").and_then(data).ok_or_else(|| missing("HOLDS"))?;
        let cells = Cells::map_writable(array.fd().as_fd(), abi::HOLDS_MAX)
            .map_err(KernelError::part("its map HOLDS cannot be mapped"))?;
        Ok(Holds {
            maps,
            records: Arc::new(Records { cells }),
            hold,
            store,
            kind,
        })
    }

    pub fn link_kind(&self) -> LinkKind {
        self.kind
    }

    /// Number of instructions that the verifier followed in each accepted program, if the kernel reports it.
    pub fn verified(&self) -> Vec<(&'static str, Option<u64>)> {
        let hold = ("hold", program::verified(self.hold.as_fd()));
        let store = self.store.as_ref().ok();
        let store = store.map(|store| ("store", program::verified(store.as_fd())));
        [Some(hold), store].into_iter().flatten().collect()
    }

    /// Why the kernel does not let a probe write; `None` if it does.
    pub fn store_refusal(&self) -> Option<&KernelError> {
        self.store.as_ref().err()
    }

    /// The records, shared with the answering threads.
    pub fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// The rings that wake the first and the second answering thread. Can be taken once.
    pub(crate) fn take_wakers(&mut self) -> Result<[Ring; 2], KernelError> {
        let mut take = |name| take_ring(&mut self.maps, name, abi::WAKE_RING_BYTES);
        Ok([take("WAKE_FIRST")?, take("WAKE_SECOND")?])
    }

    /// Attaches the probe of a sync point. All sites belong to one record; with `stores` the probe writes.
    pub fn attach(&self, request: &LinkRequest, stores: bool) -> Result<Link, KernelError> {
        let program = match (&self.store, stores) {
            (Ok(store), true) => store,
            _ => &self.hold,
        };
        links::attach_one(self.kind, program.as_fd(), request).map_err(|source| KernelError::Attach {
            path: request.path.display().to_string(),
            count: request.sites.len(),
            source,
        })
    }
}

/// The pending actions, shared by both sides.
#[derive(Debug)]
pub struct Records {
    cells: Cells<Hold>,
}

impl Records {
    /// A copy of a record.
    pub fn get(&self, index: u32) -> Option<Hold> {
        self.cells.get(index as usize)
    }

    pub fn state(&self, index: u32) -> Option<HoldState> {
        HoldState::from_word(self.word(index)?.load(Ordering::Acquire))
    }

    /// Moves from one state to another, unless the other side was faster.
    pub fn step(&self, index: u32, from: HoldState, to: HoldState) -> bool {
        let exchange = |word: &AtomicU64| {
            word.compare_exchange(from as u64, to as u64, Ordering::AcqRel, Ordering::Acquire)
        };
        self.word(index).is_some_and(|word| exchange(word).is_ok())
    }

    /// Fills in a free record and arms it. False if there is no such record.
    pub fn arm(&self, index: u32, hold: &Hold) -> bool {
        let words: &[u64] = bytemuck::cast_slice(std::slice::from_ref(hold));
        for (place, value) in words.iter().enumerate().skip(1) {
            let Some(word) = self.cells.word(index as usize, place) else {
                return false;
            };
            word.store(*value, Ordering::Relaxed);
        }
        let armed = |word: &AtomicU64| word.store(HoldState::Armed as u64, Ordering::Release);
        self.word(index).map(armed).is_some()
    }

    /// From now on the hit with this number is held.
    pub fn want(&self, index: u32, number: i64) {
        const WANTED: usize = offset_of!(Hold, key_wanted) / size_of::<u64>();
        if let Some(word) = self.cells.word(index as usize, WANTED) {
            word.store(number.cast_unsigned(), Ordering::Release);
        }
    }

    pub fn clear(&self, index: u32) {
        if let Some(word) = self.word(index) {
            word.store(HoldState::Idle as u64, Ordering::Release);
        }
    }

    fn word(&self, index: u32) -> Option<&AtomicU64> {
        const STATE: usize = offset_of!(Hold, state) / size_of::<u64>();
        self.cells.word(index as usize, STATE)
    }
}

/// Gives one of our threads the lowest real-time priority, or removes it.
pub fn set_real_time(thread: rustix::thread::Pid, real_time: bool) -> std::io::Result<()> {
    sys::set_real_time(thread, real_time)
}
