//! The loaded BPF object, as its user sees it: the maps are read and written, and functions are attached.

use std::{
    io,
    mem::offset_of,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
};

use abi::{
    Alarm, Call, Capture, CaptureKind, FamilyState, Loss, LossEffect, Pair, ProbeSpec, Row, SpecFlags,
    SumCell, Thread, Totals, World,
};
use aya::maps::{Array, HashMap, Map, MapData, MapError};

use super::partial_sums::SumId;
use super::{
    calls::{Rings, ring_size},
    cells::Cells,
    error::KernelError,
    family::{Family, FamilyRoot},
    links::{Link, LinkKind, LinkRequest},
    loading::{LoadOptions, LoadedObject, Programs, Purpose},
    maps::Maps,
    program::{data, missing},
    ring::Ring,
    service::Service,
};

/// What attaches the links.
enum Attacher {
    Own(Programs),
    Service(Service),
}

/// The loaded kernel side. Dropping it (after its links) leaves nothing in the kernel.
pub struct Kernel {
    maps: Maps,
    cells: Cells<Totals>,
    rings: Rings,
    rows: Cells<Row>,
    partial_sums: Cells<SumCell>,
    looked: Cells<u64>,
    changes: Cells<u64>,
    alarm: Cells<Alarm>,
    losses: Cells<u64>,
    /// The run-queue time of threads inside calls is reported.
    pub reports_waits: bool,
    attacher: Attacher,
    options: LoadOptions,
    /// Present in a session of a command, whose processes the kernel side finds by itself.
    family: Option<Family>,
}

impl Kernel {
    /// Loads the object and determines how this kernel attaches probes.
    pub fn load(options: LoadOptions) -> Result<Kernel, KernelError> {
        Kernel::of(LoadedObject::load(&options, &Purpose::Session)?, options)
    }

    /// As [`Kernel::load`]; the kernel side itself finds the processes of a command that will be executed.
    pub fn load_for(options: LoadOptions, root: FamilyRoot) -> Result<Kernel, KernelError> {
        Kernel::of(LoadedObject::load(&options, &Purpose::Command(root))?, options)
    }

    /// Has the node's service load the object: it keeps the programs, and this process gets the maps.
    pub fn load_by(service: Service, options: LoadOptions) -> Result<Kernel, KernelError> {
        let served = service.load(&options)?;
        let attacher = Attacher::Service(service);
        Kernel::with(served.maps, attacher, None, served.reports_waits, options)
    }

    fn of(loaded: LoadedObject, options: LoadOptions) -> Result<Kernel, KernelError> {
        let attacher = Attacher::Own(loaded.programs);
        Kernel::with(
            loaded.maps,
            attacher,
            loaded.family,
            loaded.reports_waits,
            options,
        )
    }

    fn with(
        maps: Maps,
        attacher: Attacher,
        family: Option<Family>,
        reports_waits: bool,
        options: LoadOptions,
    ) -> Result<Kernel, KernelError> {
        Ok(Kernel {
            cells: shared(&maps, "TOTALS", options.cells(), Cells::map)?,
            rings: Rings {
                calls: shared(&maps, "CALLS", options.calls(), Cells::map)?,
                heads: shared(&maps, "HEADS", options.slots(), Cells::map_writable)?,
                size: ring_size(options.processes),
            },
            rows: shared(&maps, "HISTOGRAMS", options.all_rows(), Cells::map)?,
            partial_sums: shared(&maps, "PARTIAL_SUMS", options.sums(), Cells::map)?,
            looked: shared(&maps, "LOOKED", 1, Cells::map_writable)?,
            changes: shared(&maps, "CHANGES", 1, Cells::map_writable)?,
            alarm: shared(&maps, "ALARM", 1, Cells::map_writable)?,
            losses: shared(&maps, "LOSSES", Loss::COUNT, Cells::map)?,
            reports_waits,
            family,
            maps,
            attacher,
            options,
        })
    }

    /// Number of probes for which there is room.
    pub fn room(&self) -> usize {
        self.options.probes as usize
    }

    pub fn link_kind(&self) -> LinkKind {
        match &self.attacher {
            Attacher::Own(programs) => programs.kind(),
            Attacher::Service(_) => LinkKind::UprobeMulti { by_process: true },
        }
    }

    /// The node's service, if it attaches. Each link must then be limited to one process.
    pub fn service(&self) -> Option<&Service> {
        match &self.attacher {
            Attacher::Own(_) => None,
            Attacher::Service(service) => Some(service),
        }
    }

    /// Number of instructions that the verifier followed in each program that this process has loaded, if the
    /// kernel reports it (since 5.16).
    pub fn verified(&self) -> Vec<(&'static str, Option<u64>)> {
        let of_probes = match &self.attacher {
            Attacher::Own(programs) => programs.verified().to_vec(),
            Attacher::Service(_) => Vec::new(),
        };
        let of_family = self.family.as_ref().map_or(&[][..], Family::verified);
        [&of_probes[..], of_family].concat()
    }

    pub fn attach(&self, request: &LinkRequest) -> Result<Link, KernelError> {
        let attached = match &self.attacher {
            Attacher::Own(programs) => programs.attach(request),
            Attacher::Service(service) => service.attach(request),
        };
        attached.map_err(|source| KernelError::Attach {
            path: request.path.display().to_string(),
            count: request.sites.len(),
            source,
        })
    }

    /// Sets what a probe does from now on. Must precede attaching it.
    pub fn set_spec(&mut self, probe: u32, spec: ProbeSpec) -> Result<(), KernelError> {
        let spec = ProbeSpec {
            flags: spec.flags | capture_flags(&spec.captures),
            ..spec
        };
        Ok(self.array::<Spec>("PROBES")?.set(probe, Spec(spec), 0)?)
    }

    /// Sets the address of a probe in a process, for links without cookies.
    pub fn set_address(&mut self, pid: u32, address: u64, probe: u32) -> Result<(), KernelError> {
        let mut sites: HashMap<_, [u64; 2], u32> = HashMap::try_from(self.map_mut("SITES")?)?;
        Ok(sites.insert([u64::from(pid), address], probe, 0)?)
    }

    /// Sets the address of a captured variable in a process.
    pub fn set_variable(
        &mut self,
        slot: u32,
        probe: u32,
        capture: u32,
        address: u64,
    ) -> Result<(), KernelError> {
        let cell = slot * self.options.probes + probe;
        let index = cell * abi::CAPTURES_MAX as u32 + capture;
        Ok(self.array::<u64>("ADDRESSES")?.set(index, address, 0)?)
    }

    /// Hits of this process count from now on, in this slot.
    pub fn watch(&mut self, pid: u32, slot: u32) -> Result<(), KernelError> {
        let mut processes: HashMap<_, u32, u32> = HashMap::try_from(self.map_mut("PROCESSES")?)?;
        let watched = processes.insert(pid, slot, 0);
        self.processes_changed();
        Ok(watched?)
    }

    /// Hits of this process no longer count.
    pub fn forget(&mut self, pid: u32) -> Result<(), KernelError> {
        let mut processes: HashMap<_, u32, u32> = HashMap::try_from(self.map_mut("PROCESSES")?)?;
        let forgotten = processes.remove(&pid);
        self.processes_changed();
        removed(forgotten)
    }

    /// Invalidates the processes that threads have cached.
    fn processes_changed(&self) {
        if let Some(changes) = self.changes.word(0, 0) {
            changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Gives a process of the family a slot, or returns the one it has; `None` if no slot is free.
    pub fn admit(&mut self, pid: u32) -> Result<Option<u32>, KernelError> {
        const BPF_NOEXIST: u64 = 1;
        let map = self.maps.map_mut("PROCESSES");
        let map = map.ok_or_else(|| missing("PROCESSES"))?;
        let mut processes: HashMap<_, u32, u32> = HashMap::try_from(map)?;
        if let Ok(slot) = processes.get(&pid, 0) {
            return Ok(Some(slot));
        }
        let Some(slot) = self.family.as_ref().and_then(Family::next_slot) else {
            return Ok(None);
        };
        match processes.insert(pid, slot, BPF_NOEXIST) {
            Ok(()) => {
                self.processes_changed();
                Ok(Some(slot))
            }
            // The process has hit a probe meanwhile: that slot counts, this one stays empty.
            Err(_) => Ok(processes.get(&pid, 0).ok()),
        }
    }

    /// The counters of the family; `None` without one.
    pub fn family_state(&self) -> Option<FamilyState> {
        self.family.as_ref().map(Family::state)
    }

    /// The ring buffer of processes that got a slot or ended. Can be taken once.
    pub fn take_family_events(&mut self) -> Result<Ring, KernelError> {
        take_ring(&mut self.maps, "FAMILY_EVENTS", abi::FAMILY_EVENTS_BYTES)
    }

    /// Totals of a process, in the order of the probes.
    pub fn totals(&self, slot: u32) -> Result<Vec<Totals>, KernelError> {
        let probes = self.options.probes as usize;
        let totals = self.cells.row(slot as usize * probes, probes);
        totals.ok_or_else(|| not_seen("TOTALS", self.cells.refusal()))
    }

    /// As [`Kernel::totals`]; `None` if they equal `before`.
    pub fn totals_unless(&self, slot: u32, before: &[Totals]) -> Result<Option<Vec<Totals>>, KernelError> {
        let probes = self.options.probes as usize;
        let is_as_before =
            before.len() == probes && self.cells.are(slot as usize * probes, before) == Some(true);
        let totals = (!is_as_before).then(|| self.totals(slot));
        totals.transpose()
    }

    pub fn calls_of(&self, slot: u32, probe: u32) -> u64 {
        let cell = slot as usize * self.options.probes as usize + probe as usize;
        self.cells.get(cell).map_or(0, |totals| totals.calls)
    }

    /// Number of calls that the ring of a process has received.
    pub fn calls_so_far(&self, slot: u32) -> Option<u64> {
        self.rings.so_far(slot)
    }

    /// The newest calls of a process from number `from` on, in order; `None` for each call that was
    /// overwritten while it was read. The first number returned counts calls that had been overwritten
    /// before.
    pub fn calls(&self, slot: u32, from: u64) -> Result<(u64, Vec<Option<Call>>), KernelError> {
        let newest = self.rings.newest(slot, from);
        newest.ok_or_else(|| not_seen("HEADS", self.rings.heads.refusal()))
    }

    /// Attributes calls that return to this site, inside a language binding, to the binding's caller, whose
    /// return address is `to_caller` bytes further up the stack.
    pub fn see_through(&mut self, slot: u32, site: u64, to_caller: u64) -> Result<(), KernelError> {
        let mut bindings: HashMap<_, [u64; 2], u64> = HashMap::try_from(self.map_mut("BINDINGS")?)?;
        bindings.insert([u64::from(slot), site], to_caller, 0)?;
        self.rings.set_has_bindings(slot);
        Ok(())
    }

    /// Marks calls of a process before this number as read.
    pub fn pass_calls(&self, slot: u32, next: u64) {
        self.rings.pass(slot, next);
    }

    /// Marks the reader of the rings of calls as asleep: once one of them is half full of unread calls, a
    /// record in the ring of hits reports it ([`super::is_filling`]).
    pub fn sleep_until_half_full(&self) {
        self.rings.sleep();
    }

    /// Data that exists but could not be read, as text, so that it is not mistaken for no data or no room.
    pub fn not_seen(&self) -> Vec<String> {
        let all = [
            ("TOTALS", self.cells.refusal()),
            ("HISTOGRAMS", self.rows.refusal()),
            ("PARTIAL_SUMS", self.partial_sums.refusal()),
        ];
        let all = all.into_iter().chain(self.rings.refusals());
        all.filter_map(|(name, refusal)| Some(not_seen(name, Some(refusal?)).to_string()))
            .collect()
    }

    /// The next record of the ring of hits; `None` if all were read. The caller may sleep then: a hit at
    /// which a decision may be due wakes it, even if it was woken meanwhile by a hit that it has read.
    pub fn take_hit<'ring>(&self, ring: &'ring mut Ring) -> Option<&'ring [u8]> {
        ring.take_until(|| !self.mark_asleep())
    }

    /// Marks the reader of the hit ring as asleep: the next hit at which a decision may be due wakes it.
    /// Returns true if it was not marked before; hits may then have arrived without a wake-up, so the caller
    /// must check the ring once more.
    pub fn mark_asleep(&self) -> bool {
        let state = self.alarm.word(0, offset_of!(Alarm, state) / size_of::<u64>());
        // A record that caused no wake-up, because the reader was awake, was reserved before this swap: the
        // next check of the ring finds it.
        state.is_some_and(|state| state.swap(Alarm::ASLEEP, Ordering::SeqCst) != Alarm::ASLEEP)
    }

    /// Until then, other hits do not wake the reader. Call it before the last check of the ring.
    pub fn look_at(&self, until_ns: u64) {
        if let Some(looks) = self.alarm.word(0, offset_of!(Alarm, looks_ns) / size_of::<u64>()) {
            looks.swap(until_ns, Ordering::SeqCst);
        }
    }

    /// Sets where a process stores its world communicator. Must precede watching it.
    pub fn set_world(&mut self, slot: u32, world: World) -> Result<(), KernelError> {
        Ok(self
            .array::<WorldRecord>("WORLDS")?
            .set(slot, WorldRecord(world), 0)?)
    }

    /// The histogram in these rows of a process, by bucket; `None` if there is no room for it.
    pub fn histogram(&self, slot: u32, rows: Range<u32>) -> Option<Vec<u64>> {
        if rows.end > self.options.rows {
            return None;
        }
        let first = slot * self.options.rows;
        let rows = rows.map(|row| self.rows.get((first + row) as usize));
        let rows: Vec<Row> = rows.collect::<Option<_>>()?;
        Some(rows.iter().flat_map(|row| row.counts).collect())
    }

    /// No hit that is aggregated after this has an earlier time. Must precede reading partial sums.
    pub(super) fn note_look(&self, now_ns: u64) {
        if let Some(looked) = self.looked.word(0, 0) {
            looked.store(now_ns, Ordering::Relaxed);
        }
        // Before any cell is read: a hit has either updated its cell by then, or finds this time.
        fence(Ordering::SeqCst);
    }

    /// Index and version of the cell of an aggregate; `None` if there is no room for it.
    pub(super) fn sum_cell(&self, of: SumId) -> Option<(usize, u64)> {
        let number = u32::from(of.number).checked_sub(1)?;
        let index = ((of.slot * self.options.partial_sums + number) * 2 + u32::from(of.is_odd)) as usize;
        let version = self.partial_sums.first_word(index)?;
        (number < self.options.partial_sums).then_some((index, version))
    }

    /// The content of a cell; `None` while it is being written.
    pub(super) fn partial_sum(&self, index: usize) -> Option<SumCell> {
        let partial_sum = self.partial_sums.get_complete(index)?;
        (partial_sum.version & 1 == 0).then_some(partial_sum)
    }

    /// Number of hits that should have been aggregated and were sent.
    pub fn sent_alone(&self) -> u64 {
        self.lost(Loss::SentAlone)
    }

    /// Messages by pair, with their keys ([`Pair::key`]).
    pub fn pairs(&self) -> Result<Vec<(u64, Pair)>, KernelError> {
        let pairs: HashMap<_, u64, PairRecord> = HashMap::try_from(self.map("PAIRS")?)?;
        Ok(pairs.iter().flatten().map(|(key, pair)| (key, pair.0)).collect())
    }

    /// Every thread that was inside a probed function, with its kernel key (`pid << 32 | tid`).
    pub fn threads(&self) -> Result<Vec<(u64, Thread)>, KernelError> {
        let threads: HashMap<_, u64, ThreadRecord> = HashMap::try_from(self.map("THREADS")?)?;
        // An entry may be removed between the walk and the read; it is then not reported.
        Ok(threads
            .iter()
            .flatten()
            .map(|(key, record)| (key, record.0))
            .collect())
    }

    /// Losses so far, by kind.
    pub fn losses(&self) -> Vec<(&'static str, u64)> {
        self.counted(LossEffect::Hits)
    }

    /// Losses that affect only the matrix, by kind.
    pub fn losses_of_matrix(&self) -> Vec<(&'static str, u64)> {
        self.counted(LossEffect::Matrix)
    }

    fn counted(&self, effect: LossEffect) -> Vec<(&'static str, u64)> {
        let kinds = Loss::ALL.iter().filter(|loss| loss.effect() == effect);
        kinds.map(|loss| (loss.name(), self.lost(*loss))).collect()
    }

    fn lost(&self, what: Loss) -> u64 {
        self.losses.first_word(what as usize).unwrap_or_default()
    }

    /// Calls that were in progress when the probes were armed and have returned since.
    pub fn under_way(&self) -> u64 {
        self.lost(Loss::UnderWay)
    }

    /// Removes the record of a thread that has ended.
    pub fn forget_thread(&mut self, key: u64) -> Result<(), KernelError> {
        let mut threads: HashMap<_, u64, ThreadRecord> = HashMap::try_from(self.map_mut("THREADS")?)?;
        removed(threads.remove(&key))
    }

    /// Hits of our own count from now on, in a slot that no process gets.
    pub(super) fn watch_calibrated(&mut self) -> Result<(), KernelError> {
        let slot = self.options.processes;
        let cells = self.options.probes.saturating_mul(slot + 1);
        if cells > abi::TOTALS_MAX {
            return Err(KernelError::Calibration(
                "there is no room for hits of our own".to_owned(),
            ));
        }
        self.watch(std::process::id(), slot)
    }

    /// Whether hits of our own can be aggregated.
    pub(super) fn adds_calibrated(&self) -> bool {
        let (slot, number, is_odd) = (self.options.processes, 1, false);
        self.sum_cell(SumId { slot, number, is_odd }).is_some()
    }

    /// Ends the calibration and removes its data. Returns this thread's calls at the first probes.
    pub(super) fn end_calibration(&mut self, probes: u32) -> Result<Vec<u64>, KernelError> {
        let (pid, thread) = (std::process::id(), rustix::thread::gettid());
        self.forget(pid)?;
        self.forget_thread(u64::from(pid) << 32 | thread.as_raw_nonzero().get() as u64)?;
        let mut hits = ring_of(self.map("HITS")?, "HITS", abi::RING_BYTES)?;
        while hits.take().is_some() {}
        for probe in 0..probes {
            self.set_spec(probe, ProbeSpec::default())?;
        }
        let slot = self.options.processes;
        Ok((0..probes).map(|probe| self.calls_of(slot, probe)).collect())
    }

    /// The ring buffer of hits. Can be taken once.
    pub fn take_hits(&mut self) -> Result<Ring, KernelError> {
        take_ring(&mut self.maps, "HITS", abi::RING_BYTES)
    }

    /// Duplicates the descriptor of a map for a program of another object.
    pub(super) fn share(&self, name: &'static str) -> Result<OwnedFd, KernelError> {
        self.maps.share(name)
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

/// Flags of captures: the kernel side reads captures only if a flag is set.
fn capture_flags(captures: &[Capture]) -> u32 {
    let of = |capture: &Capture| {
        const RETURN: u8 = CaptureKind::Return as u8;
        const VARIABLE_AT_RETURN: u8 = CaptureKind::VariableAtReturn as u8;
        const NONE: u8 = CaptureKind::None as u8;
        match capture.kind {
            NONE => 0,
            RETURN | VARIABLE_AT_RETURN => SpecFlags::CAPTURES_AT_RETURN,
            _ => SpecFlags::CAPTURES_AT_ENTRY,
        }
    };
    captures.iter().map(of).fold(0, |flags, flag| flags | flag)
}

/// The error for a record that does not exist or cannot be mapped.
fn not_seen(name: &'static str, refusal: Option<&Arc<io::Error>>) -> KernelError {
    refusal.map_or_else(
        || missing(name),
        |error| KernelError::NotMapped {
            name,
            source: Arc::clone(error),
        },
    )
}

/// Maps a map of the object as shared memory.
fn shared<T: bytemuck::Pod>(
    maps: &Maps,
    name: &'static str,
    entries: u32,
    how: impl FnOnce(BorrowedFd<'_>, u32) -> io::Result<Cells<T>>,
) -> Result<Cells<T>, KernelError> {
    let map = maps.map(name).and_then(data).ok_or_else(|| missing(name))?;
    how(map.fd().as_fd(), entries).map_err(KernelError::part(format!("its map {name} cannot be mapped")))
}

/// Takes the ring of a map, for its only reader.
pub(super) fn take_ring(maps: &mut Maps, name: &'static str, bytes: u32) -> Result<Ring, KernelError> {
    let map = maps.take_map(name).ok_or_else(|| missing(name))?;
    ring_of(&map, name, bytes)
}

fn ring_of(map: &Map, name: &'static str, bytes: u32) -> Result<Ring, KernelError> {
    let map = data(map).ok_or_else(|| missing(name))?;
    Ring::of(map.fd().as_fd(), bytes).map_err(KernelError::part(format!("its ring {name} cannot be mapped")))
}

/// An entry that no longer exists need not be removed.
fn removed(result: Result<(), MapError>) -> Result<(), KernelError> {
    match result {
        Ok(()) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wraps the records for aya, which requires its own marker trait on them.
macro_rules! record {
    ($name:ident, $of:ty) => {
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct $name($of);
        #[allow(unsafe_code, reason = "a marker trait")]
        // SAFETY: the record is repr(C) without padding, and any bytes are a value of it (it is a
        // bytemuck::Pod).
        unsafe impl aya::Pod for $name {}
    };
}
record!(Spec, ProbeSpec);
record!(ThreadRecord, Thread);
record!(WorldRecord, World);
record!(PairRecord, Pair);
