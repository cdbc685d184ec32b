//! Bytes that the code actions change, each validated according to its kind. A place and a
//! [`crate::writable_place::WritablePlace`] are the only arguments that [`crate::write`] accepts.
//!
//! The constructor of a place determines its kind: code of a module, a word of a module's table of addresses,
//! memory that we mapped, the unused part of a stopped thread's stack. No place can be made of other bytes.

use std::fs::File;
use std::sync::Arc;

use thiserror::Error;

use crate::address::{Address, LinkAddress};
use crate::arena::{Arena, PAGE};
use crate::maps::{Backing, Mapping};
use crate::memory::{self, Memory, MemoryError};
use crate::module::{Images, Module};
use crate::process::{Pid, Process, ProcessError};
use crate::space::{AddressSpace, SpaceError, read_maps};
use crate::writable_place;

/// Bytes below a stack's used part that may be written.
const STACK_REACH: u64 = 64 << 10;

/// Why bytes are no such place.
#[derive(Debug, Error)]
pub enum PlaceError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The file is no longer loaded there.
    #[error("{path} is no longer loaded where it was in process {pid}")]
    ModuleGone { pid: Pid, path: String },
    #[error("{what} at {address} of process {pid} cannot be changed: {why}")]
    NotOfThisKind {
        pid: Pid,
        /// What the place was to be.
        what: String,
        address: Address,
        why: &'static str,
    },
}

/// The memory of a process with all that is needed to validate places in it.
#[derive(Debug, Clone)]
pub(crate) struct ProcessMemory {
    pid: Pid,
    handle: Arc<File>,
    may_override: bool,
    maps: Arc<Vec<Mapping>>,
}

/// Bytes that may be changed.
#[derive(Debug)]
pub(crate) struct Place {
    pid: Pid,
    handle: Arc<File>,
    may_override: bool,
    what: String,
    address: Address,
    length: usize,
    is_code: bool,
}

/// Whether code is that of its file, or has bytes of ours. Those are replaced also if the program has made the code
/// writable since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeState {
    Original,
    Changed,
}

impl ProcessMemory {
    /// Opens the memory, then reads the mappings: an exec in between invalidates the handle, never the check.
    pub(crate) fn open(pid: Pid) -> Result<ProcessMemory, PlaceError> {
        let (handle, may_override) = writable_place::open_for_code(pid)?;
        let maps = Arc::new(read_maps(pid)?);
        let handle = Arc::new(handle);
        Ok(ProcessMemory {
            pid,
            handle,
            may_override,
            maps,
        })
    }

    /// As [`ProcessMemory::open`], with the snapshot that has the same mappings.
    pub(crate) fn with_space(
        process: &Process,
        images: &Images,
    ) -> Result<(AddressSpace, ProcessMemory), PlaceError> {
        let memory = ProcessMemory::open(process.pid)?;
        let readable = Memory::through(process.pid, Arc::clone(&memory.handle));
        let space = AddressSpace::of(process, images, readable, Arc::clone(&memory.maps))?;
        Ok((space, memory))
    }

    /// Reads the mappings anew.
    pub(crate) fn refresh(&mut self) -> Result<(), PlaceError> {
        self.maps = Arc::new(read_maps(self.pid)?);
        Ok(())
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// As [`Place::may_override`].
    pub(crate) fn may_override(&self) -> bool {
        self.may_override
    }

    pub(crate) fn maps(&self) -> &[Mapping] {
        &self.maps
    }

    /// The mapping that contains all `length` bytes at `address`.
    pub(crate) fn mapping(&self, address: Address, length: u64) -> Option<&Mapping> {
        self.maps.iter().find(|map| map.contains(address, length))
    }

    pub(crate) fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), MemoryError> {
        memory::read(&self.handle, self.pid, address, bytes)
    }

    pub(crate) fn word(&self, address: Address) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Code of a module: in an executable, read-only segment of its file, within one page. It is mapped accordingly,
    /// unless it is ours to restore.
    pub(crate) fn code(
        &self,
        state: CodeState,
        module: &Module,
        link: LinkAddress,
        length: usize,
        what: &str,
    ) -> Result<Place, PlaceError> {
        let address = module.address(link);
        let segment = module.image.segment_at(link, length as u64);
        let in_file = segment.is_some_and(|segment| segment.executable && !segment.writable);
        let in_memory = |map: &Mapping| {
            let may = map.permissions;
            let is_mapped = state == CodeState::Changed || may.execute && !may.write;
            is_mapped && !may.shared && map.shows(module.device, module.inode)
        };
        let why = match self.mapping(address, length as u64) {
            _ if !in_file => Some("the file has no read-only code there"),
            Some(map) if in_memory(map) => None,
            _ => Some("it is not mapped as code of that file, for this process alone"),
        };
        let why = why.or((address.0 % PAGE + length as u64 > PAGE).then_some("it lies in two pages"));
        let place = self.of_module(module, address, length, what, why)?;
        Ok(Place {
            is_code: true,
            ..place
        })
    }

    /// A word of a module's table of addresses, which the dynamic linker fills.
    pub(crate) fn table(&self, module: &Module, link: LinkAddress, what: &str) -> Result<Place, PlaceError> {
        let address = module.address(link);
        let writable = module
            .image
            .segment_at(link, 8)
            .is_some_and(|segment| segment.writable);
        let in_memory =
            |map: &Mapping| !map.permissions.shared && !map.permissions.execute && map.permissions.read;
        let why = match self.mapping(address, 8) {
            _ if !writable => Some("the file has no data there"),
            _ if !address.is_aligned(8) => Some("it is not aligned"),
            Some(map) if in_memory(map) => None,
            _ => Some("it is not mapped as data"),
        };
        self.of_module(module, address, 8, what, why)
    }

    fn of_module(
        &self,
        module: &Module,
        address: Address,
        length: usize,
        what: &str,
        why: Option<&'static str>,
    ) -> Result<Place, PlaceError> {
        if !module.is_still_in(&self.maps) || !self.has_build_id(module)? {
            return Err(PlaceError::ModuleGone {
                pid: self.pid,
                path: module.path.clone(),
            });
        }
        self.place(address, length, what, why)
    }

    /// Whether the build id in memory is that of the file.
    fn has_build_id(&self, module: &Module) -> Result<bool, MemoryError> {
        let Some((place, length)) = module.image.build_id_place() else {
            return Ok(true);
        };
        let mut loaded = vec![0; length];
        self.read(module.address(place), &mut loaded)?;
        let loaded: String = loaded.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(module.build_id().is_some_and(|id| id.to_string() == loaded))
    }

    /// Memory that we have mapped.
    pub(crate) fn own(&self, arena: &Arena, address: Address, length: usize) -> Result<Place, PlaceError> {
        let inside = arena.contains(address, length as u64);
        let anonymous = |map: &Mapping| map.backing == Backing::Anonymous && !map.permissions.shared;
        let mapped = self.mapping(address, length as u64).is_some_and(anonymous);
        let why = (!inside || !mapped).then_some("it is not mapped as memory of our own");
        self.place(address, length, "memory of our own", why)
    }

    /// The unused part of a held thread's stack: below its stack pointer and the red zone.
    pub(crate) fn stack(
        &self,
        stack_pointer: Address,
        address: Address,
        length: usize,
    ) -> Result<Place, PlaceError> {
        let top = address.0.checked_add(length as u64);
        let dead = top.is_some_and(|top| top <= stack_pointer.0.saturating_sub(crate::arch::RED_ZONE))
            && address.0 >= stack_pointer.0.saturating_sub(STACK_REACH);
        let writable = |map: &Mapping| map.permissions.write && !map.permissions.shared;
        let why = match self.mapping(stack_pointer, 1) {
            _ if !dead => Some("it is in use"),
            Some(map) if writable(map) && (map.contains(address, length as u64) || is_main_stack(map)) => {
                None
            }
            _ => Some("it is not on the stack"),
        };
        self.place(address, length, "the stack", why)
    }

    fn place(
        &self,
        address: Address,
        length: usize,
        what: &str,
        why: Option<&'static str>,
    ) -> Result<Place, PlaceError> {
        match why {
            Some(why) => Err(PlaceError::NotOfThisKind {
                pid: self.pid,
                what: what.to_owned(),
                address,
                why,
            }),
            None => Ok(Place {
                pid: self.pid,
                handle: Arc::clone(&self.handle),
                may_override: self.may_override,
                what: what.to_owned(),
                address,
                length,
                is_code: false,
            }),
        }
    }
}

/// The first thread's stack grows on demand.
pub(crate) fn is_main_stack(map: &Mapping) -> bool {
    map.backing == Backing::Special("[stack]".to_owned())
}

impl Place {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether threads of the program may execute these bytes.
    pub(crate) fn is_code(&self) -> bool {
        self.is_code
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn handle(&self) -> &File {
        &self.handle
    }

    /// Whether the handle may write read-only mappings; otherwise a held thread is needed for that.
    pub(crate) fn may_override(&self) -> bool {
        self.may_override
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, MemoryError> {
        let mut bytes = vec![0; self.length];
        memory::read(&self.handle, self.pid, self.address, &mut bytes)?;
        Ok(bytes)
    }
}
