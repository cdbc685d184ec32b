//! The ELF files that a process has loaded: their addresses, and the very files they were loaded from.
//!
//! A path is only a name: the file may have been replaced since, or belong to a container. A file counts as a
//! module's only if it has the inode that the kernel shows in the mapping.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::address::{Address, LinkAddress, LoadBias};
use crate::dwarf::Origin;
use crate::foreign;
use crate::image::{BuildId, Image, ImageError, Segment};
use crate::maps::{Backing, Device, Mapping};
use crate::memory::Memory;
use crate::printable::printable;
use crate::process::Pid;

/// Why the file of a module is not available.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// The file is not reachable under any name.
    #[error(
        "cannot open {path} as process {pid} has it loaded (replaced or deleted since, or not permitted): CAP_CHECKPOINT_RESTORE \
         reaches it through /proc/{pid}/map_files"
    )]
    Unreachable {
        pid: Pid,
        /// The name of the file when it was loaded.
        path: String,
    },
    /// The file was modified under its old inode.
    #[error("{path} was written to since it was read: where its functions begin is not known any more")]
    Rewritten {
        /// The name of the file when it was loaded.
        path: String,
    },
    #[error("{path}: {error}")]
    Image { path: String, error: ImageError },
}

/// Parsed files in the cache. It is cleared when full.
const IMAGES_MAX: usize = 1_024;

/// Parsed files, cached by inode: the ranks of a job share their program and its libraries.
#[derive(Debug, Default)]
pub struct Images {
    known: Mutex<ImageCache>,
}

#[derive(Debug, Default)]
struct ImageCache {
    images: HashMap<Identity, Arc<Image>>,
    /// The newest one for each device and inode, as mappings show them.
    newest: HashMap<(Device, u64), (Identity, Arc<Image>)>,
}

/// Device, inode, size and modification time: the same for two handles of one unchanged file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity(u64, u64, u64, i64, i64);

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let meta = file.metadata()?;
        Ok(Identity(
            meta.dev(),
            meta.ino(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec(),
        ))
    }

    fn as_mapped(&self) -> (Device, u64) {
        (device(self.0), self.1)
    }
}

fn device(number: u64) -> Device {
    Device {
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
    }
}

impl Images {
    pub fn new() -> Images {
        Images::default()
    }

    /// The parsed form of `file`.
    pub fn read(&self, file: File, origin: Origin) -> Result<Arc<Image>, ImageError> {
        let key = Identity::of(&file)?;
        if let Some(image) = self.known().images.get(&key) {
            return Ok(Arc::clone(image));
        }
        let image = Arc::new(Image::read(file)?.found_at(origin));
        let mut known = self.known();
        if known.images.len() >= IMAGES_MAX {
            *known = ImageCache::default();
        }
        known
            .newest
            .insert(key.as_mapped(), (key.clone(), Arc::clone(&image)));
        known.images.insert(key, Arc::clone(&image));
        Ok(image)
    }

    /// The file of `mapping`, if it is cached and unchanged. The cached file is still open, so no other file
    /// can have its inode. `None` on file systems whose stat reports another device than their mappings.
    fn mapped(&self, mapping: &Mapping) -> Option<Arc<Image>> {
        let known = self.known();
        let (identity, image) = known.newest.get(&(mapping.device, mapping.inode))?;
        (Identity::of(image.file()).ok()? == *identity).then(|| Arc::clone(image))
    }

    /// Drops the large tables of all files ([`Image::forget`]).
    pub fn forget_tables(&self) {
        self.known().images.values().for_each(|image| image.forget());
    }

    fn known(&self) -> MutexGuard<'_, ImageCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity of a file on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// An ELF file that is loaded in a process.
#[derive(Debug, Clone)]
pub struct Module {
    pub pid: Pid,
    /// The name of the file when it was loaded, as the process saw it, made printable.
    pub path: String,
    /// The file has been unlinked.
    pub deleted: bool,
    /// The device of the file, as the mapping shows it.
    pub device: Device,
    pub inode: u64,
    pub bias: LoadBias,
    pub image: Arc<Image>,
    /// Its position in the dynamic linker's search order; `None` if it is not in the main list (dlmopen, or
    /// the list could not be read).
    pub order: Option<usize>,
    pub is_executable: bool,
    first: Mapping,
}

impl Module {
    /// A file that `pid` has not mapped yet, at its link addresses. `order` 0 is the program.
    pub(crate) fn of_file(pid: Pid, path: String, image: Arc<Image>, order: usize) -> io::Result<Module> {
        let meta = image.file().metadata()?;
        let (device, inode) = (device(meta.dev()), meta.ino());
        let backing = Backing::File {
            path: path.as_str().into(),
            deleted: false,
        };
        Ok(Module {
            pid,
            path: printable(&path).into_owned(),
            deleted: false,
            device,
            inode,
            bias: LoadBias(0),
            image,
            order: Some(order),
            is_executable: order == 0,
            first: Mapping::nowhere(device, inode, backing),
        })
    }

    /// Device and inode of the open file, independent of mappings, which show another device on some file
    /// systems.
    pub fn file_id(&self) -> FileId {
        let meta = self.image.file().metadata();
        let (device, inode) = meta.map_or((0, self.inode), |meta| (meta.dev(), meta.ino()));
        FileId { device, inode }
    }

    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub fn build_id(&self) -> Option<&BuildId> {
        self.image.build_id()
    }

    /// The address in memory of the link address `link`.
    pub fn address(&self, link: LinkAddress) -> Address {
        self.bias.address(link)
    }

    /// The link address of an address in memory.
    pub fn link(&self, address: Address) -> LinkAddress {
        LinkAddress(address.0.wrapping_sub(self.bias.0))
    }

    /// True if `address` is in a segment that the loader mapped.
    pub fn contains(&self, address: Address) -> bool {
        self.image.segment_at(self.link(address), 1).is_some()
    }

    /// The addresses of its code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let segments = self.image.segments.iter().filter(|segment| segment.executable);
        segments.map(|segment| {
            let start = self.address(segment.address).0;
            start..start + segment.memory_size
        })
    }

    /// True if `name` denotes this module: its path, file name, soname, or the file name up to `.so`.
    pub fn is_called(&self, name: &str) -> bool {
        let file_name = self.file_name();
        let up_to_so = file_name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(".so"));
        self.path == name
            || file_name == name
            || up_to_so
            || self.image.dynamic.soname.as_deref() == Some(name)
    }

    /// True while the same file is loaded at the same place, according to `maps`, which must be current.
    pub(crate) fn is_still_in(&self, maps: &[Mapping]) -> bool {
        let first = &self.first;
        let same = |map: &&Mapping| map.start == first.start && map.offset == first.offset;
        maps.iter()
            .find(same)
            .is_some_and(|map| map.shows(self.device, self.inode))
    }

    /// Where its first mapping begins.
    pub(crate) fn start(&self) -> Address {
        self.first.start
    }

    /// A path that names exactly this file for the calling process, as attaching a uprobe requires: the plain
    /// path if it still has the same inode, else one through /proc. An error if the file was modified since
    /// it was read: a probe would be at a wrong place.
    pub fn probe_path(&self) -> Result<PathBuf, ModuleError> {
        if !self.image.is_as_read() {
            return Err(ModuleError::Rewritten {
                path: self.path.clone(),
            });
        }
        let wanted = self
            .image
            .file()
            .metadata()
            .map(|meta| (meta.dev(), meta.ino()))
            .ok();
        let same = |path: &PathBuf| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino())) == wanted;
        let pid = self.pid;
        let mut names = Vec::new();
        if let Backing::File { path, .. } = &self.first.backing {
            names.extend([PathBuf::from(&**path), pid.proc_path(&format!("root{path}"))]);
        }
        names.extend(self.is_executable.then(|| pid.proc_path("exe")));
        names.push(pid.proc_path(&map_file(&self.first)));
        let found = names.into_iter().find(|path| wanted.is_some() && same(path));
        found.ok_or_else(|| ModuleError::Unreachable {
            pid,
            path: self.path.clone(),
        })
    }
}

fn map_file(mapping: &Mapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.start.0, mapping.end.0)
}

/// The modules among `maps`, by address, and the files that cannot be opened. A file that is only mapped as
/// data is no module: every segment of its program headers must be mapped with one common bias.
pub(crate) fn find(
    pid: Pid,
    maps: &[Mapping],
    memory: &Memory,
    images: &Images,
) -> (Vec<Module>, Vec<ModuleError>) {
    let mut modules: Vec<Module> = Vec::new();
    let mut failed = Vec::new();
    let mut opened: HashMap<(Device, u64), Option<Arc<Image>>> = HashMap::new();
    for mapping in maps {
        let Backing::File { path, deleted } = &mapping.backing else {
            continue;
        };
        if modules
            .iter()
            .any(|module| mapping.shows(module.device, module.inode) && module.contains(mapping.start))
        {
            continue;
        }
        let image = opened.entry((mapping.device, mapping.inode)).or_insert_with(|| {
            let loaded = load(pid, mapping, path, maps, memory, images);
            loaded.unwrap_or_else(|error| {
                failed.push(error);
                None
            })
        });
        let Some(image) = image else { continue };
        if let Some(bias) = bias(image, mapping, maps) {
            modules.push(Module {
                pid,
                path: printable(path).into_owned(),
                deleted: *deleted,
                device: mapping.device,
                inode: mapping.inode,
                bias,
                image: Arc::clone(image),
                order: None,
                is_executable: false,
                first: mapping.clone(),
            });
        }
    }
    (modules, failed)
}

/// The load bias if `mapping` is the module's first segment and all other segments are mapped with that bias.
fn bias(image: &Image, mapping: &Mapping, maps: &[Mapping]) -> Option<LoadBias> {
    let first = image.segments.first()?;
    // The kernel maps complete pages: the segment's first byte has the same distance from the mapping's start
    // as in the file.
    let into_page = first.offset.0.checked_sub(mapping.offset.0)?;
    let bias = LoadBias(
        mapping
            .start
            .0
            .wrapping_add(into_page)
            .wrapping_sub(first.address.0),
    );
    let is_mapped = |segment: &Segment| {
        let start = bias.address(segment.address);
        maps.iter().any(|map| {
            let offset = start
                .0
                .checked_sub(map.start.0)
                .map(|into| map.offset.0.wrapping_add(into));
            map.shows(mapping.device, mapping.inode)
                && map.contains(start, 1)
                && offset == Some(segment.offset.0)
        })
    };
    image
        .segments
        .iter()
        .filter(|segment| segment.file_size > 0)
        .all(is_mapped)
        .then_some(bias)
}

/// The file of a mapping, if it can be a module: it must have code. Other mapped files, such as devices, are
/// not opened, since that can block or have effects.
fn load(
    pid: Pid,
    mapping: &Mapping,
    path: &str,
    maps: &[Mapping],
    memory: &Memory,
    images: &Images,
) -> Result<Option<Arc<Image>>, ModuleError> {
    let is_code = |map: &Mapping| map.permissions.execute && map.shows(mapping.device, mapping.inode);
    if !maps.iter().any(is_code) {
        return Ok(None);
    }
    match open(pid, mapping, path, memory, images) {
        Err(ModuleError::Image {
            error: ImageError::NotElf,
            ..
        }) => Ok(None),
        result => result.map(Some),
    }
}

fn open(
    pid: Pid,
    mapping: &Mapping,
    path: &str,
    memory: &Memory,
    images: &Images,
) -> Result<Arc<Image>, ModuleError> {
    if let Some(known) = images.mapped(mapping) {
        return Ok(known);
    }
    let exact = foreign::open(&pid.proc_path(&map_file(mapping)));
    let file = exact.or_else(|_| open_by_name(pid, mapping, path, memory));
    let shown = printable(path).into_owned();
    let file = file.map_err(|_| ModuleError::Unreachable {
        pid,
        path: shown.clone(),
    })?;
    let origin = Origin {
        roots: vec![pid.proc_path("root"), PathBuf::from("/")],
        path: PathBuf::from(path),
    };
    let image = images.read(file, origin);
    image.map_err(|error| ModuleError::Image { path: shown, error })
}

/// Without the right to use map_files: opens the file by its name, or as the program of the process, if that
/// has the mapped inode.
fn open_by_name(pid: Pid, mapping: &Mapping, path: &str, memory: &Memory) -> io::Result<File> {
    let named = foreign::open_in(&pid.proc_path("root"), Path::new(path));
    let program = foreign::open(&pid.proc_path("exe"));
    for file in [named, program].into_iter().flatten() {
        if is_mapped_file(&file, mapping, memory)? {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Same inode and device. On file systems whose stat reports another device than their mappings (btrfs,
/// overlayfs): same inode and same first page, which has the program headers and nearly always the build id.
fn is_mapped_file(file: &File, mapping: &Mapping, memory: &Memory) -> io::Result<bool> {
    let meta = file.metadata()?;
    if meta.ino() != mapping.inode {
        return Ok(false);
    }
    if device(meta.dev()) == mapping.device {
        return Ok(true);
    }
    let (mut on_disk, mut loaded) = ([0; 4096], [0; 4096]);
    let count = file.read_at(&mut on_disk, mapping.offset.0)?;
    let is_read = memory.read(mapping.start, &mut loaded[..count]).is_ok();
    Ok(is_read && count > 0 && on_disk[..count] == loaded[..count])
}
