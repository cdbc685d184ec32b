//! A file with the debug information that belongs to it, which may be in other files.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::files::{self, Origin};
use super::load::{DebugInfo, DebugInfoCache};
use super::parameters::Signatures;
use crate::elf::{Elf, ImageError};

/// An ELF file, where it was found, and its cached debug information.
#[derive(Debug)]
pub struct DebugFile {
    elf: Elf,
    pub(super) origin: Origin,
    separate: OnceLock<Option<Box<DebugFile>>>,
    info: DebugInfoCache,
    pub(super) signatures: Signatures,
}

impl Deref for DebugFile {
    type Target = Elf;

    fn deref(&self) -> &Elf {
        &self.elf
    }
}

impl DebugFile {
    /// Files that belong to it are searched from `origin`.
    pub(crate) fn new(elf: Elf, origin: Origin) -> DebugFile {
        DebugFile {
            elf,
            origin,
            separate: OnceLock::new(),
            info: DebugInfoCache::default(),
            signatures: Signatures::default(),
        }
    }

    /// The same file with another origin.
    pub(crate) fn found_at(self, origin: Origin) -> DebugFile {
        DebugFile::new(self.elf, origin)
    }

    /// The file to which its debug information and symbols were moved, if it is found.
    pub(crate) fn separate(&self) -> Option<&DebugFile> {
        let found = self.separate.get_or_init(|| files::separate(self).map(Box::new));
        found.as_deref()
    }

    /// The file that has its debug information: itself, or the one to which it was moved.
    pub(super) fn described_in(&self) -> Option<&DebugFile> {
        if self.has_section(".debug_info") {
            Some(self)
        } else {
            self.separate()
        }
    }

    /// Its debug information; `None` if none is found.
    pub(super) fn debug_info(&self) -> Result<Option<Arc<DebugInfo>>, ImageError> {
        self.info.get(self)
    }

    /// Frees its debug information: it is read again on demand.
    pub(crate) fn forget(&self) {
        self.info.forget();
        if let Some(Some(separate)) = self.separate.get() {
            separate.forget();
        }
    }
}
