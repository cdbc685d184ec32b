//! A snapshot of a process's memory: its mappings and its modules, in the order of the dynamic linker.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::address::Address;
use crate::image::Image;
use crate::link_map;
use crate::maps::{self, Mapping, MapsError};
use crate::memory::{Memory, MemoryError};
use crate::module::{self, Images, Module, ModuleError};
use crate::process::{Pid, Process, ProcessError, auxiliary, read_proc};
use crate::symbol::Function;

/// Attempts, and the pause between them, to read a process that has no program during an exec: it may lose its CPU
/// there.
const EXEC_TRIES: usize = 500;
const EXEC_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Error)]
pub enum SpaceError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("process {pid}: {error}")]
    Maps { pid: Pid, error: MapsError },
    #[error("the program of process {pid} cannot be read{}", because(.reasons))]
    NoProgram { pid: Pid, reasons: Vec<ModuleError> },
}

fn because(reasons: &[ModuleError]) -> String {
    reasons
        .first()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

/// A snapshot of mappings and modules. It may be outdated at once; a place is checked again before a write
/// (`writable_place`).
#[derive(Debug, Clone)]
pub struct AddressSpace {
    pub process: Process,
    /// All mappings, by address.
    pub maps: Arc<Vec<Mapping>>,
    /// The modules: the program first, then in the dynamic linker's order, then the rest by address.
    pub modules: Vec<Module>,
    /// Modules whose file could not be read: their symbols are not found.
    pub unreadable: Arc<[ModuleError]>,
    pub(crate) memory: Arc<Memory>,
}

impl AddressSpace {
    pub fn read(process: &Process, images: &Images) -> Result<AddressSpace, SpaceError> {
        // During an execve the process has neither the old program nor the new one.
        for _ in 1..EXEC_TRIES {
            match AddressSpace::read_once(process, images) {
                Err(SpaceError::NoProgram { reasons, .. }) if reasons.is_empty() && process.is_alive() => {
                    std::thread::sleep(EXEC_PAUSE);
                }
                read => return read,
            }
        }
        AddressSpace::read_once(process, images)
    }

    fn read_once(process: &Process, images: &Images) -> Result<AddressSpace, SpaceError> {
        let memory = Memory::open(process)?;
        let maps = Arc::new(read_maps(process.pid)?);
        AddressSpace::of(process, images, memory, maps)
    }

    /// The modules that a process will have of these files, the program first, before it has mapped any: at
    /// link addresses, and without memory.
    pub fn of_files(process: Process, files: Vec<(String, Arc<Image>)>) -> io::Result<AddressSpace> {
        let memory = Arc::new(Memory::none(process.pid)?);
        let pid = process.pid;
        let modules = files.into_iter().enumerate();
        let modules = modules.map(|(order, (path, image))| Module::of_file(pid, path, image, order));
        Ok(AddressSpace {
            modules: modules.collect::<io::Result<Vec<Module>>>()?,
            process,
            maps: Arc::default(),
            unreadable: Arc::default(),
            memory,
        })
    }

    /// From mappings that were read after the memory was opened.
    pub(crate) fn of(
        process: &Process,
        images: &Images,
        memory: Memory,
        maps: Arc<Vec<Mapping>>,
    ) -> Result<AddressSpace, SpaceError> {
        let pid = process.pid;
        let (mut modules, failed) = module::find(pid, &maps, &memory, images);
        let Some(program) = entry_module(pid, &modules) else {
            return Err(SpaceError::NoProgram { pid, reasons: failed });
        };
        modules[program].is_executable = true;
        modules[program].order = Some(0);
        if let Some(order) = link_map::read(&modules[program], &memory)? {
            for module in modules.iter_mut().filter(|module| !module.is_executable) {
                module.order = order.iter().position(|dynamic| module.contains(*dynamic));
            }
        }
        modules.sort_by_key(|module| module.order.unwrap_or(usize::MAX));
        let (process, unreadable, memory) = (process.clone(), failed.into(), Arc::new(memory));
        Ok(AddressSpace {
            process,
            maps,
            modules,
            unreadable,
            memory,
        })
    }

    pub fn executable(&self) -> Option<&Module> {
        self.modules.iter().find(|module| module.is_executable)
    }

    /// Whether its dynamic linker has finished: not while a process starts or loads a library, nor for files
    /// that are not mapped. Until then modules may be missing, and the binding of names is unknown. A program
    /// without a dynamic linker counts as linked.
    pub fn is_linked(&self) -> bool {
        let is_in_list = |module: &Module| !module.is_executable && module.order.is_some();
        let has_linker = |program: &Module| program.image.interpreter.is_some();
        let has_list = || self.modules.iter().any(is_in_list);
        !self.maps.is_empty() && (!self.executable().is_some_and(has_linker) || has_list())
    }

    /// The modules that `name` denotes.
    pub fn modules_called<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Module> + 'a {
        self.modules.iter().filter(move |module| module.is_called(name))
    }

    /// The functions called `names` in all modules, in the order of the modules. Does not decide which of
    /// several is called; every one can be probed.
    pub fn functions(&self, names: &[&str]) -> Result<Vec<(&Module, Function)>, ModuleError> {
        let mut found = Vec::new();
        for module in &self.modules {
            let functions = module.image.functions(names);
            let functions = functions.map_err(|error| ModuleError::Image {
                path: module.path.clone(),
                error,
            })?;
            found.extend(functions.into_iter().map(|function| (module, function)));
        }
        Ok(found)
    }

    /// Whether the process has executed another program since the snapshot, or has ended.
    pub fn is_gone(&self) -> bool {
        let first = self.maps.first().map_or(Address(0), |mapping| mapping.start);
        matches!(self.memory.word(first), Err(MemoryError::Gone { .. }))
    }

    /// Reads memory of the process of the snapshot, and of no other.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Indices of the modules that were loaded at start: the program, its direct and indirect dependencies,
    /// and those that the environment preloads. Every module sees their definitions. Those of a later dlopen
    /// may be seen only by the library itself (RTLD_LOCAL, the default), and no documented structure of the
    /// dynamic linker says which.
    pub(crate) fn loaded_at_start(&self) -> HashSet<usize> {
        let listed = |name: &str| {
            let is_it = |module: &Module| {
                let soname = module.image.dynamic.soname.as_deref();
                module.order.is_some()
                    && (soname == Some(name) || module.file_name() == name || module.path == name)
            };
            self.modules.iter().position(is_it)
        };
        let program = self.modules.iter().position(|module| module.is_executable);
        let environment = self.process.environment().unwrap_or_default();
        let preloaded = environment
            .iter()
            .find_map(|line| line.strip_prefix("LD_PRELOAD="))
            .unwrap_or_default();
        let preloaded = preloaded
            .split([':', ' '])
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        let mut waiting: VecDeque<usize> = program.into_iter().chain(preloaded.filter_map(listed)).collect();
        let mut reached = HashSet::new();
        while let Some(index) = waiting.pop_front() {
            if reached.insert(index) {
                waiting.extend(
                    self.modules[index]
                        .image
                        .dynamic
                        .needed
                        .iter()
                        .filter_map(|name| listed(name)),
                );
            }
        }
        reached
    }
}

/// The current mappings of a process.
pub(crate) fn read_maps(pid: Pid) -> Result<Vec<Mapping>, SpaceError> {
    let path = pid.proc_path("maps");
    let text = read_proc(&path).map_err(|error| pid.io_error(&path, error))?;
    maps::parse(&String::from_utf8_lossy(&text)).map_err(|error| SpaceError::Maps { pid, error })
}

/// The module that the kernel started: the one with the program headers named in the auxiliary vector.
/// Without AT_PHDR (since Linux 2.2), the first module by address.
fn entry_module(pid: Pid, modules: &[Module]) -> Option<usize> {
    let vector = read_proc(pid.proc_path("auxv")).unwrap_or_default();
    let headers = auxiliary(&vector, libc::AT_PHDR).map(Address);
    let by_headers = headers.and_then(|headers| modules.iter().position(|module| module.contains(headers)));
    by_headers.or_else(|| (!modules.is_empty()).then_some(0))
}
