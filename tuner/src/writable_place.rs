//! From a claimed [`Location`] to a validated [`WritablePlace`]: the only argument that [`crate::write`] accepts for
//! data.
//!
//! The compiler does not guard the write itself: /proc/PID/mem is safe Rust and the kernel lets it overwrite
//! read-only pages, including code. So every precondition is checked here, immediately before.

use std::fs::{File, OpenOptions};

use plan::{Bytes, ValueType};
use thiserror::Error;

use crate::address::Address;
use crate::clock;
use crate::dwarf::{ValueKind, VariableType};
use crate::live_maps::LiveMaps;
use crate::maps::{Backing, Mapping};
use crate::memory::{self, MemoryError};
use crate::module::Module;
use crate::process::{Pid, ProcessError};
use crate::space::SpaceError;
use crate::variable::{FollowError, Location};

/// Nanoseconds for which an observed absence of a debugger is relied on when a write is expected: checking
/// takes as long as writing, and a debugger could also attach between a check and the write.
const UNTRACED_NS: u64 = 4_000_000;

#[derive(Debug, Error)]
pub enum WritablePlaceError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A pointer that leads to the variable is invalid.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Neither the user nor the debug information states its type.
    #[error("{}", unknown_type(.symbol, *.size, *.is_enum))]
    TypeUnknown {
        symbol: String,
        size: u64,
        is_enum: bool,
    },
    #[error("{}", compound(.symbol, .type_name, .fields))]
    IsCompound {
        symbol: String,
        type_name: String,
        /// Empty for an array.
        fields: Vec<String>,
    },
    #[error("`{symbol}` is a pointer: name the value that it points to, `*{symbol}`")]
    IsPointer { symbol: String },
    #[error("`{symbol}` is {found}, not {stated}")]
    WrongType {
        symbol: String,
        found: VariableType,
        stated: ValueType,
    },
    /// The variable and the value differ in size.
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
    #[error("process {pid} is traced by process {tracer}; detach that debugger first")]
    Traced { pid: Pid, tracer: i32 },
    #[error("{path} is no longer loaded at {address} in process {pid}")]
    ModuleGone {
        pid: Pid,
        path: String,
        address: Address,
    },
}

/// The validated place no longer exists.
#[derive(Debug, Error)]
#[error("`{symbol}` in {path} is no longer where it was: nothing was written")]
pub struct UnloadedError {
    symbol: String,
    path: String,
}

/// What to do where the type is not known: state it, or name a part that has one.
fn unknown_type(symbol: &str, size: u64, is_enum: bool) -> String {
    let fitting = ValueType::ALL
        .iter()
        .filter(|value_type| value_type.size() as u64 == size)
        .filter(|value_type| {
            !is_enum || !matches!(value_type, ValueType::Bool | ValueType::F32 | ValueType::F64)
        });
    let names: Vec<&str> = fitting.map(|value_type| value_type.name()).collect();
    match names.is_empty() {
        true => format!(
            "`{symbol}` has {size} bytes, which no single value has: name an element or a member of it"
        ),
        false => format!(
            "{}: state the type (set --type, in a rule `as`), one of {}",
            match is_enum {
                true => format!("`{symbol}` is an enum, which is written as a number"),
                false => format!("the type of `{symbol}` is not known"),
            },
            names.join(", ")
        ),
    }
}

/// A part that has a value, instead of a struct or an array.
fn compound(symbol: &str, type_name: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        return format!("`{symbol}` is {type_name}: name one of its elements");
    }
    let member = |field: &String| match symbol.strip_prefix('*') {
        Some(pointer) => format!("`{pointer}->{field}`"),
        None => format!("`{symbol}.{field}`"),
    };
    let members: Vec<String> = fields.iter().map(member).collect();
    format!(
        "`{symbol}` is a struct: name one of its members ({})",
        members.join(", ")
    )
}

/// A place that may be written: the right process and file, writable data, the size and alignment of its
/// type. The handles for writing and checking are bound to the address space that was checked: after an exec
/// they access nothing.
#[derive(Debug)]
pub struct WritablePlace {
    location: Location,
    value_type: ValueType,
    handle: File,
    may_override: bool,
    /// Bound to the address space, as the handle is.
    maps: LiveMaps,
    /// /proc/PID/status, which shows the tracer.
    status: File,
    /// When the process was last known to have no debugger, shortly before an expected write, by
    /// CLOCK_MONOTONIC.
    untraced_ns: Option<u64>,
}

impl WritablePlace {
    /// Performs all checks. `stated` is the type to write; without it the debug information must have the
    /// type.
    pub fn validate(
        location: &Location,
        stated: Option<ValueType>,
    ) -> Result<WritablePlace, WritablePlaceError> {
        let mut location = location.clone();
        // First the handle, then the mappings: an exec in between invalidates the handle, never the check.
        let (handle, may_override) = open(location.pid())?;
        let pid = location.pid();
        // If the number was reused since, the handle accesses nothing.
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
        let place = WritablePlace {
            location,
            value_type,
            handle,
            may_override,
            maps: live,
            status,
            untraced_ns: None,
        };
        place.check_build_id()?;
        Ok(place)
    }

    pub fn pid(&self) -> Pid {
        self.location.pid()
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The type of its value.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    pub fn read(&self) -> Result<Bytes, MemoryError> {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..self.value_type.size()];
        memory::read(&self.handle, self.pid(), self.location.address, bytes)?;
        Ok(Bytes::new(bytes).unwrap_or_else(|| unreachable!("no type is larger than Bytes::MAX")))
    }

    /// True while the pointers still lead to this address.
    pub(crate) fn is_still_there(&self) -> Result<bool, FollowError> {
        Ok(followed(&self.location, &self.handle)? == self.location.address)
    }

    /// Runs immediately before and after a store: since the validation a library may have been unloaded or
    /// memory freed, with another mapping in its place, or the page may have been made read-only. The program
    /// itself cannot change as long as the handle is valid.
    pub(crate) fn check_again(&self) -> Result<(), WritablePlaceError> {
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

    /// The error for a place that is no longer what was validated.
    pub(crate) fn unloaded(&self) -> UnloadedError {
        UnloadedError {
            symbol: self.location.symbol.clone(),
            path: self.location.module.path.clone(),
        }
    }

    /// Check for a repeated write to a place that [stays](WritablePlace::stays): the handle itself shows whether the
    /// program has gone or was replaced, but not whether a debugger is attached. A recent result is reused.
    pub(crate) fn check_untraced(&self) -> Result<(), WritablePlaceError> {
        let is_fresh = |seen_ns: u64| clock::monotonic_ns().saturating_sub(seen_ns) < UNTRACED_NS;
        match self.untraced_ns.is_some_and(is_fresh) {
            true => Ok(()),
            false => check_tracer(self.pid(), &self.status),
        }
    }

    /// Reads what a write will read, to warm the caches.
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

    /// Whether the handle permits writing, which overrides page protection.
    pub(crate) fn may_override(&self) -> bool {
        self.may_override
    }

    /// The build id in memory must be that of the file: the inode identifies the file, the build id the
    /// content that was loaded.
    fn check_build_id(&self) -> Result<(), WritablePlaceError> {
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

/// Opens the memory for writing where that is permitted (own processes; others with CAP_DAC_OVERRIDE), else
/// for reading: data is then stored without the handle.
fn open(pid: Pid) -> Result<(File, bool), ProcessError> {
    match memory::open(pid, OpenOptions::new().read(true).write(true)) {
        Err(ProcessError::NotPermitted { .. }) => {
            memory::open(pid, OpenOptions::new().read(true)).map(|handle| (handle, false))
        }
        result => result.map(|handle| (handle, true)),
    }
}

/// For the actions on code. This and [`open`] are the only functions that open the memory of another process
/// for writing.
pub(crate) fn open_for_code(pid: Pid) -> Result<(File, bool), ProcessError> {
    open(pid)
}

/// Checks that no other process debugs the process.
fn check_tracer(pid: Pid, status: &File) -> Result<(), WritablePlaceError> {
    match pid.tracer_in(status)? {
        Some(tracer) if tracer.unsigned_abs() != std::process::id() => {
            Err(WritablePlaceError::Traced { pid, tracer })
        }
        _ => Ok(()),
    }
}

fn module_gone(module: &Module) -> WritablePlaceError {
    WritablePlaceError::ModuleGone {
        pid: module.pid,
        path: module.path.clone(),
        address: Address(module.bias.0),
    }
}

fn check_type(location: &Location, stated: Option<ValueType>) -> Result<ValueType, WritablePlaceError> {
    let symbol = || location.symbol.clone();
    if let Some(leaf) = (location.leaf.as_ref()).filter(|leaf| leaf.of.kind == ValueKind::Compound) {
        return Err(WritablePlaceError::IsCompound {
            symbol: symbol(),
            type_name: leaf.type_name.clone(),
            fields: leaf.fields.clone(),
        });
    }
    let Some(stated) = stated.or(location.value_type()) else {
        let found = location.variable_type();
        if found.is_some_and(|found| found.kind == ValueKind::Pointer) {
            return Err(WritablePlaceError::IsPointer { symbol: symbol() });
        }
        return Err(WritablePlaceError::TypeUnknown {
            symbol: symbol(),
            size: location.size,
            is_enum: found.is_some_and(|found| found.kind == ValueKind::Enum),
        });
    };
    if location.size != stated.size() as u64 {
        return Err(WritablePlaceError::WrongSize {
            symbol: symbol(),
            size: location.size,
            stated,
        });
    }
    if let Some(found) = location.variable_type().filter(|found| !found.accepts(stated)) {
        return Err(WritablePlaceError::WrongType {
            symbol: symbol(),
            found,
            stated,
        });
    }
    if !location.address.is_aligned(stated.size()) {
        return Err(WritablePlaceError::Misaligned {
            symbol: symbol(),
            address: location.address,
            stated,
        });
    }
    Ok(stated)
}

/// Checks by the file that the bytes are data that stays writable after relocation.
fn check_file(location: &Location) -> Result<(), WritablePlaceError> {
    let (image, link, size) = (&location.module.image, location.link_address, location.size);
    let read_only = |why: String| {
        Err(WritablePlaceError::ReadOnly {
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

/// Checks by the mappings that the module is still loaded, and the page private and writable by the program.
fn check_mapping(location: &Location, maps: &[Mapping]) -> Result<(), WritablePlaceError> {
    if !location.module.is_still_in(maps) {
        return Err(module_gone(&location.module));
    }
    let holds_it = |map: &&Mapping| map.contains(location.address, location.size);
    check_page(location, maps.iter().find(holds_it))
}

/// Checks `mapping`, the current mapping of the address.
fn check_page(location: &Location, mapping: Option<&Mapping>) -> Result<(), WritablePlaceError> {
    let module = &location.module;
    let Some(mapping) = mapping.filter(|map| map.contains(location.address, location.size)) else {
        return Err(module_gone(module));
    };
    let may = mapping.permissions;
    if !may.write || may.execute || may.shared {
        let why = format!("its page is mapped {may}");
        return Err(WritablePlaceError::ReadOnly {
            symbol: location.symbol.clone(),
            path: module.path.clone(),
            why,
        });
    }
    // The loader maps bss behind the file's last page as anonymous memory; the kernel calls it the heap if
    // both are adjacent.
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

/// The current address, read through the handle that is also used for writing.
fn followed(location: &Location, handle: &File) -> Result<Address, FollowError> {
    location.follow(|address| {
        let mut word = [0; 8];
        memory::read(handle, location.pid(), address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    })
}

/// Checks a place reached through pointers: data that the program may write and no other process sees, in its
/// heap, a stack or a module. The end of a heap block is unknown; that it has the stated type is the
/// program's own promise.
fn check_reached(location: &Location, maps: &[Mapping]) -> Result<(), WritablePlaceError> {
    if !location.module.is_still_in(maps) {
        return Err(module_gone(&location.module));
    }
    let read_only = |why: String| WritablePlaceError::ReadOnly {
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
