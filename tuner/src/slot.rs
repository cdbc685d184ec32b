//! From a claimed [`Location`] to a validated [`Slot`]: the only thing that [`crate::write`] accepts.
//!
//! The compiler does not guard the write itself: /proc/PID/mem is safe Rust and the kernel lets it overwrite
//! read-only pages, code among them. So everything that must hold is checked here, immediately before.

use std::fs::{File, OpenOptions};

use plan::{Bytes, ValueType};
use thiserror::Error;

use crate::address::Address;
use crate::clock;
use crate::dwarf::VariableType;
use crate::live_maps::LiveMaps;
use crate::maps::{Backing, Mapping};
use crate::memory::{self, MemoryError};
use crate::module::Module;
use crate::process::{Pid, ProcessError};
use crate::space::SpaceError;
use crate::variable::{FollowError, Location};

/// That no debugger was attached, seen when a write was expected, holds for this long, in nanoseconds:
/// checking takes as long as writing, and a debugger that attaches in between could as well do so between the
/// check and the write.
const UNTRACED_NS: u64 = 4_000_000;

#[derive(Debug, Error)]
pub enum SlotError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The pointers on the way to it lead nowhere.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Neither the user nor the debug information says what it holds.
    #[error("the type of `{symbol}` ({size} bytes) is not known: state it, one of {}", candidates(*.size))]
    TypeUnknown { symbol: String, size: u64 },
    #[error("`{symbol}` is {found}, not {stated}")]
    WrongType {
        symbol: String,
        found: VariableType,
        stated: ValueType,
    },
    /// It is larger or smaller than the value.
    #[error("`{symbol}` takes {size} bytes, {stated} takes {}", .stated.size())]
    WrongSize {
        symbol: String,
        size: u64,
        stated: ValueType,
    },
    #[error("`{symbol}` at {address} is not aligned for {stated}: a write could be seen half done")]
    Misaligned {
        symbol: String,
        address: Address,
        stated: ValueType,
    },
    #[error("`{symbol}` in {path} is read-only ({why}): it is a constant of the program")]
    ReadOnly {
        symbol: String,
        path: String,
        /// How that is known.
        why: String,
    },
    #[error(
        "process {pid} is being debugged by process {tracer}: two who change it would not know of each other"
    )]
    Traced { pid: Pid, tracer: i32 },
    #[error("{path} is no longer loaded at {address} in process {pid}")]
    ModuleGone {
        pid: Pid,
        path: String,
        address: Address,
    },
}

/// What was validated is not there any more.
#[derive(Debug, Error)]
#[error("`{symbol}` in {path} is no longer where it was: nothing was written")]
pub struct UnloadedError {
    symbol: String,
    path: String,
}

fn candidates(size: u64) -> String {
    let fitting = ValueType::ALL
        .iter()
        .filter(|value_type| value_type.size() as u64 == size);
    let names: Vec<&str> = fitting.map(|value_type| value_type.name()).collect();
    if names.is_empty() {
        "(none has this size)".to_owned()
    } else {
        names.join(", ")
    }
}

/// A place that may be written: the right process and file, writable data, the size and alignment of its
/// type. Holds the handles to write and to check through, which stay with the address space that was checked:
/// after an exec they write and find nothing.
#[derive(Debug)]
pub struct Slot {
    location: Location,
    value_type: ValueType,
    handle: File,
    may_override: bool,
    /// Stays with the address space as the handle does.
    maps: LiveMaps,
    /// Shows which process debugs it.
    status: File,
    /// When no debugger was attached, by CLOCK_MONOTONIC, shortly before a write was expected.
    untraced_ns: Option<u64>,
}

impl Slot {
    /// Checks everything. `stated` is the type to write; without it the debug information has to know.
    pub fn validate(location: &Location, stated: Option<ValueType>) -> Result<Slot, SlotError> {
        let mut location = location.clone();
        // First the handle, then the mappings: an exec in between makes the handle useless, never the check.
        let (handle, may_override) = open(location.pid())?;
        let pid = location.pid();
        // If the number was reused since, the handle is useless.
        let status = pid.open_status()?;
        check_tracer(pid, &status)?;
        let live = LiveMaps::open(pid)?;
        let maps = live.all()?;
        location.address = followed(&location, &handle)?;
        let value_type = check_type(&location, stated)?;
        match location.chain {
            None => {
                check_file(&location)?;
                check_mapping(&location, &maps)?;
            }
            Some(_) => check_reached(&location, &maps)?,
        }
        let slot = Slot {
            location,
            value_type,
            handle,
            may_override,
            maps: live,
            status,
            untraced_ns: None,
        };
        slot.check_build_id()?;
        Ok(slot)
    }

    pub fn pid(&self) -> Pid {
        self.location.pid()
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The type of the values it takes.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// What it holds now.
    pub fn read(&self) -> Result<Bytes, MemoryError> {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..self.value_type.size()];
        memory::read(&self.handle, self.pid(), self.location.address, bytes)?;
        Ok(Bytes::new(bytes).unwrap_or_else(|| unreachable!("no type is larger than Bytes::MAX")))
    }

    /// True while the pointers that lead to it still lead there.
    pub(crate) fn is_still_there(&self) -> Result<bool, FollowError> {
        Ok(followed(&self.location, &self.handle)? == self.location.address)
    }

    /// Immediately before a store, and behind it: a library may have been unloaded since it was validated, or
    /// memory given back, and something else mapped in its place; or the program has made the page read-only.
    /// The program itself is there as long as the handle is good for anything.
    pub(crate) fn check_again(&self) -> Result<(), SlotError> {
        let (location, module) = (&self.location, &self.location.module);
        let page = self.maps.at(location.address)?;
        if self.stays() {
            return check_page(location, page.as_ref());
        }
        let maps: Vec<Mapping> = self.maps.at(module.start())?.into_iter().chain(page).collect();
        match location.chain {
            Some(_) => check_reached(location, &maps)?,
            None => check_mapping(location, &maps)?,
        }
        self.check_build_id()
    }

    /// Why nothing was written to a place that is not what it was.
    pub(crate) fn unloaded(&self) -> UnloadedError {
        UnloadedError {
            symbol: self.location.symbol.clone(),
            path: self.location.module.path.clone(),
        }
    }

    /// For one more write to a place that [stays](Slot::stays): the handle itself shows if the program has
    /// gone or was replaced, but not if a debugger is attached now. What was seen so shortly before holds.
    pub(crate) fn check_untraced(&self) -> Result<(), SlotError> {
        let is_fresh = |seen_ns: u64| clock::monotonic_ns().saturating_sub(seen_ns) < UNTRACED_NS;
        match self.untraced_ns.is_some_and(is_fresh) {
            true => Ok(()),
            false => check_tracer(self.pid(), &self.status),
        }
    }

    /// Reads what a write will read, so that it is in the caches then.
    pub(crate) fn look(&mut self) {
        let seen_ns = clock::monotonic_ns();
        self.untraced_ns = check_tracer(self.pid(), &self.status).ok().map(|()| seen_ns);
        let _ = self.maps.at(self.location.address);
        let _ = self.read();
    }

    /// It is a variable of the program itself, reached through no pointer.
    pub(crate) fn stays(&self) -> bool {
        self.location.module.is_executable && self.location.chain.is_none()
    }

    pub(crate) fn handle(&self) -> &File {
        &self.handle
    }

    /// Whether the handle may be written through, which overrides page protection.
    pub(crate) fn may_override(&self) -> bool {
        self.may_override
    }

    /// The file's identity must also be what is in memory: the inode says that the file is the same, this
    /// that its content is the one that was loaded.
    fn check_build_id(&self) -> Result<(), SlotError> {
        let module = &self.location.module;
        let Some((place, length)) = module.image.build_id_place() else {
            return Ok(());
        };
        let mut loaded = vec![0; length];
        memory::read(&self.handle, self.pid(), module.address(place), &mut loaded)?;
        let loaded: String = loaded.iter().map(|byte| format!("{byte:02x}")).collect();
        match module.build_id() {
            Some(id) if id.to_string() == loaded => Ok(()),
            _ => Err(module_gone(module)),
        }
    }
}

/// For writing where that is permitted (one's own processes; others with CAP_DAC_OVERRIDE), else for reading:
/// data is then stored without the handle.
fn open(pid: Pid) -> Result<(File, bool), ProcessError> {
    match memory::open(pid, OpenOptions::new().read(true).write(true)) {
        Err(ProcessError::NotPermitted { .. }) => {
            memory::open(pid, OpenOptions::new().read(true)).map(|handle| (handle, false))
        }
        result => result.map(|handle| (handle, true)),
    }
}

/// For the actions on code. With [`open`] the one place where the memory of another process is opened for
/// writing.
pub(crate) fn open_for_code(pid: Pid) -> Result<(File, bool), ProcessError> {
    open(pid)
}

/// No other process may be debugging the process.
fn check_tracer(pid: Pid, status: &File) -> Result<(), SlotError> {
    match pid.tracer_in(status)? {
        Some(tracer) if tracer.unsigned_abs() != std::process::id() => Err(SlotError::Traced { pid, tracer }),
        _ => Ok(()),
    }
}

fn module_gone(module: &Module) -> SlotError {
    SlotError::ModuleGone {
        pid: module.pid,
        path: module.path.clone(),
        address: Address(module.bias.0),
    }
}

fn check_type(location: &Location, stated: Option<ValueType>) -> Result<ValueType, SlotError> {
    let symbol = || location.symbol.clone();
    let Some(stated) = stated.or(location.value_type()) else {
        return Err(SlotError::TypeUnknown {
            symbol: symbol(),
            size: location.size,
        });
    };
    if location.size != stated.size() as u64 {
        return Err(SlotError::WrongSize {
            symbol: symbol(),
            size: location.size,
            stated,
        });
    }
    if let Some(found) = location.variable_type().filter(|found| !found.accepts(stated)) {
        return Err(SlotError::WrongType {
            symbol: symbol(),
            found,
            stated,
        });
    }
    if !location.address.is_aligned(stated.size()) {
        return Err(SlotError::Misaligned {
            symbol: symbol(),
            address: location.address,
            stated,
        });
    }
    Ok(stated)
}

/// What the file says about the bytes: data that the program writes, and not only until relocation is done.
fn check_file(location: &Location) -> Result<(), SlotError> {
    let (image, link, size) = (&location.module.image, location.link_address, location.size);
    let read_only = |why: String| {
        Err(SlotError::ReadOnly {
            symbol: location.symbol.clone(),
            path: location.module.path.clone(),
            why,
        })
    };
    match image.section_at(link, size) {
        Some(section) if !section.writable || section.executable => {
            read_only(format!("section {}", section.name))
        }
        _ if image.is_read_only_after_relocation(link, size) => {
            read_only("made so after relocation".to_owned())
        }
        Some(_) => Ok(()),
        None => match image.segment_at(link, size) {
            Some(segment) if segment.writable && !segment.executable && image.sections.is_empty() => Ok(()),
            _ => read_only("in no section of writable data".to_owned()),
        },
    }
}

/// What the process has there now: the module still, and a private page that the program itself may write.
fn check_mapping(location: &Location, maps: &[Mapping]) -> Result<(), SlotError> {
    if !location.module.is_still_in(maps) {
        return Err(module_gone(&location.module));
    }
    let holds_it = |map: &&Mapping| map.contains(location.address, location.size);
    check_page(location, maps.iter().find(holds_it))
}

/// Its page, the mapping that was found for its address.
fn check_page(location: &Location, mapping: Option<&Mapping>) -> Result<(), SlotError> {
    let module = &location.module;
    let Some(mapping) = mapping.filter(|map| map.contains(location.address, location.size)) else {
        return Err(module_gone(module));
    };
    let may = mapping.permissions;
    if !may.write || may.execute || may.shared {
        let why = format!("its page is mapped {may}");
        return Err(SlotError::ReadOnly {
            symbol: location.symbol.clone(),
            path: module.path.clone(),
            why,
        });
    }
    // Behind the file's last page the loader maps bss as anonymous memory; the kernel calls it the heap where
    // they touch.
    let is_bss = match &mapping.backing {
        Backing::Anonymous => true,
        Backing::Special(name) => name == "[heap]" || name.starts_with("[anon:"),
        Backing::File { .. } => false,
    };
    if is_bss || mapping.shows(module.device, module.inode) {
        Ok(())
    } else {
        Err(module_gone(module))
    }
}

/// Where the bytes are now, read through the handle that they will be written through.
fn followed(location: &Location, handle: &File) -> Result<Address, FollowError> {
    location.follow(|address| {
        let mut word = [0; 8];
        memory::read(handle, location.pid(), address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    })
}

/// What pointers lead to: data that the program itself may write and no other process sees, its heap, a stack
/// or a module's. Where a block of the heap ends is not known; that the type fits it is the program's own
/// promise.
fn check_reached(location: &Location, maps: &[Mapping]) -> Result<(), SlotError> {
    if !location.module.is_still_in(maps) {
        return Err(module_gone(&location.module));
    }
    let read_only = |why: String| SlotError::ReadOnly {
        symbol: location.symbol.clone(),
        path: location.module.path.clone(),
        why,
    };
    let mapping = maps
        .iter()
        .find(|map| map.contains(location.address, location.size));
    let Some(mapping) = mapping else {
        return Err(read_only(format!("nothing is mapped at {}", location.address)));
    };
    let may = mapping.permissions;
    let is_kernels = matches!(&mapping.backing, Backing::Special(name) if name.starts_with("[v"));
    match may.write && !may.execute && !may.shared && !is_kernels {
        true => Ok(()),
        false => Err(read_only(format!(
            "what points there leads to a page that is mapped {may}"
        ))),
    }
}
