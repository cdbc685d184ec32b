//! Loads the debug information of one file as raw sections, wherever these are. Knows their order and size,
//! not their content; `view` parses it.
//!
//! Sections are cached for the next query, up to a bound over all files; beyond, they are read again.
//! Sections that are not needed (macros, places of local variables) are not read at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gimli::{DwarfPackageSections, DwarfSections, EndianSlice, LittleEndian, SectionId};

use super::file::DebugFile;
use super::files;
use crate::elf::ImageError;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Sections = DwarfSections<Vec<u8>>;

/// Bytes of debug information in the cache, over all files.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// Bytes of debug information that are read from one file.
const BYTES_MAX: u64 = 4 << 30;
/// More units than any program has.
const UNITS_MAX: usize = 1 << 20;

const DEBUG_INFO: &str = ".debug_info";

static KEPT_BYTES: AtomicU64 = AtomicU64::new(0);

/// The debug information of one file and of the files that belong to it.
pub(crate) struct DebugInfo {
    pub(super) main: Sections,
    /// The part that several files share (dwz).
    pub(super) supplementary: Option<Sections>,
    /// All split units in one file.
    pub(super) package: Option<DwarfPackageSections<Vec<u8>>>,
    /// Each split unit, by the number of its skeleton in `main`, once it was needed.
    pub(super) split: Vec<OnceLock<Option<Sections>>>,
    bytes: u64,
    kept: bool,
}

/// The debug information of an image, once it was needed.
#[derive(Default)]
pub(crate) struct DebugInfoCache(Mutex<DebugInfoState>);

impl std::fmt::Debug for DebugInfoCache {
    /// Without the megabytes of content.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept")
    }
}

#[derive(Default)]
enum DebugInfoState {
    #[default]
    Unread,
    Nothing,
    Read(Arc<DebugInfo>),
}

impl DebugInfoCache {
    /// The debug information of `image`; `None` if none is found.
    pub(crate) fn get(&self, image: &DebugFile) -> Result<Option<Arc<DebugInfo>>, ImageError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            DebugInfoState::Nothing => return Ok(None),
            DebugInfoState::Read(info) => return Ok(Some(Arc::clone(info))),
            DebugInfoState::Unread => {}
        }
        let Some(mut info) = DebugInfo::load(image)? else {
            *known = DebugInfoState::Nothing;
            return Ok(None);
        };
        let before = KEPT_BYTES.fetch_add(info.bytes, Ordering::Relaxed);
        info.kept = true;
        let is_kept = before.saturating_add(info.bytes) <= KEPT_BYTES_MAX;
        let info = Arc::new(info);
        if is_kept {
            *known = DebugInfoState::Read(Arc::clone(&info));
        }
        Ok(Some(info))
    }
}

impl DebugInfoCache {
    /// Frees the memory once it is not in use. A negative result stays cached.
    pub(crate) fn forget(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let DebugInfoState::Read(_) = &*known {
            *known = DebugInfoState::Unread;
        }
    }
}

impl Drop for DebugInfo {
    fn drop(&mut self) {
        if self.kept {
            KEPT_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl DebugInfo {
    fn load(image: &DebugFile) -> Result<Option<DebugInfo>, ImageError> {
        let Some(from) = image.described_in().filter(|from| from.has_section(DEBUG_INFO)) else {
            return Ok(None);
        };
        let mut bytes = 0;
        let main = sections(from, &mut bytes, |id| Some(id.name()))?;
        let supplementary = files::supplementary(from);
        let supplementary = supplementary.map(|other| sections(&other, &mut bytes, |id| Some(id.name())));
        let package = files::package(from).or_else(|| files::package(image));
        let package = package
            .map(|file| DwarfPackageSections::load(|id| section(&file, id.dwo_name(), &mut bytes)))
            .transpose()?;
        let mut units = main.debug_info.borrow(|bytes| slice(bytes)).units();
        let mut count = 0;
        while units.next()?.is_some() {
            count += 1;
            if count > UNITS_MAX {
                return Err(ImageError::Damaged {
                    what: "the list of units",
                });
            }
        }
        Ok(Some(DebugInfo {
            supplementary: supplementary.transpose()?,
            package,
            split: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            main,
            bytes,
            kept: false,
        }))
    }

    /// The sections of a unit in a `.dwo` file; `None` if there is no such file.
    pub(super) fn split(
        &self,
        image: &DebugFile,
        number: usize,
        compiled_in: &str,
        name: &str,
    ) -> Option<&Sections> {
        let find = || {
            let from = image.described_in()?;
            let file =
                files::split(from, compiled_in, name).or_else(|| files::split(image, compiled_in, name))?;
            sections(&file, &mut 0, SectionId::dwo_name).ok()
        };
        self.split.get(number)?.get_or_init(find).as_ref()
    }
}

pub(super) fn slice(bytes: &[u8]) -> Slice<'_> {
    EndianSlice::new(bytes, LittleEndian)
}

fn sections(
    image: &DebugFile,
    bytes: &mut u64,
    name: impl Fn(SectionId) -> Option<&'static str>,
) -> Result<Sections, ImageError> {
    use SectionId::{DebugAranges, DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro, DebugNames};
    DwarfSections::load(|id| match id {
        DebugAranges | DebugLoc | DebugLocLists | DebugMacinfo | DebugMacro | DebugNames => Ok(Vec::new()),
        id => section(image, name(id), bytes),
    })
}

fn section(image: &DebugFile, name: Option<&'static str>, bytes: &mut u64) -> Result<Vec<u8>, ImageError> {
    let Some(name) = name else {
        return Ok(Vec::new());
    };
    let section = image.section_bytes_up_to(name, BYTES_MAX.saturating_sub(*bytes))?;
    *bytes += section.len() as u64;
    Ok(section)
}
