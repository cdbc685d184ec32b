//! An ELF file with cached symbols, marks and debug information.

use std::fs::File;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use object::elf;

use crate::address::LinkAddress;
use crate::dwarf::{DebugFile, Origin};
use crate::elf::Elf;
pub(crate) use crate::elf::{BuildId, Dynamic};
pub use crate::elf::{ImageError, Segment};
use crate::mark::{self, Mark};
use crate::symbol::{Symbol, SymbolTable};

mod cached;
mod functions;
pub(crate) mod got;
mod outlined;

use cached::Cached;

/// One ELF file and its caches.
#[derive(Debug)]
pub struct Image {
    file: DebugFile,
    dynamic_symbols: Cached<SymbolTable>,
    static_symbols: Cached<SymbolTable>,
    marks: OnceLock<Vec<Mark>>,
}

impl Deref for Image {
    type Target = DebugFile;

    fn deref(&self) -> &DebugFile {
        &self.file
    }
}

impl Image {
    /// Reads the headers of an ELF file.
    pub fn read(file: File) -> Result<Image, ImageError> {
        Ok(Image {
            file: DebugFile::new(Elf::read(file)?, Origin::default()),
            dynamic_symbols: Cached::default(),
            static_symbols: Cached::default(),
            marks: OnceLock::new(),
        })
    }

    /// Sets where the file was found: files that belong to it, such as separate debug information, are
    /// searched from there.
    #[must_use]
    pub fn found_at(mut self, origin: Origin) -> Image {
        self.file = self.file.found_at(origin);
        self
    }

    /// The symbols of the dynamic linker (.dynsym).
    pub fn dynamic_symbols(&self) -> Result<Arc<SymbolTable>, ImageError> {
        self.dynamic_symbols.get(|| read_symbols(self, elf::SHT_DYNSYM))
    }

    /// The symbols of the link editor (.symtab); if they were stripped, those of its debug file; if there is none, those
    /// of the bodies of parallel regions, which are found by the code.
    pub fn static_symbols(&self) -> Result<Arc<SymbolTable>, ImageError> {
        if self.has_own_symbols() {
            return self.static_symbols.get(|| read_symbols(self, elf::SHT_SYMTAB));
        }
        match self.separate() {
            Some(debug) => self.static_symbols.get(|| read_symbols(debug, elf::SHT_SYMTAB)),
            None => self.static_symbols.get(|| outlined::symbols(self)),
        }
    }

    /// Whether neither it nor its debug file has symbols of the link editor.
    pub fn is_stripped(&self) -> bool {
        let is_there = self.has_own_symbols() || self.separate().is_some();
        let has_some = || {
            self.static_symbols()
                .is_ok_and(|table| table.iter().next().is_some())
        };
        !(is_there && has_some())
    }

    fn has_own_symbols(&self) -> bool {
        self.sections
            .iter()
            .any(|section| section.kind == elf::SHT_SYMTAB)
    }

    /// The probe places that its source names.
    pub fn marks(&self) -> Result<&[Mark], ImageError> {
        if self.marks.get().is_none() {
            let found = mark::marks(self)?;
            return Ok(self.marks.get_or_init(|| found));
        }
        Ok(self.marks.get().map_or(&[], Vec::as_slice))
    }

    /// Every symbol of both tables that this file defines. One that is in both is returned once, as the
    /// dynamic one.
    pub fn defined_symbols(&self) -> Result<Vec<Symbol>, ImageError> {
        let mut symbols: Vec<Symbol> = self
            .dynamic_symbols()?
            .iter()
            .filter(|symbol| symbol.defined)
            .collect();
        let exported: std::collections::HashSet<(String, LinkAddress)> = symbols
            .iter()
            .map(|symbol| (symbol.name.clone(), symbol.address))
            .collect();
        let own = self.static_symbols()?;
        let rest = own.iter().filter(|symbol| symbol.defined);
        symbols.extend(rest.filter(|symbol| !exported.contains(&(symbol.name.clone(), symbol.address))));
        Ok(symbols)
    }

    /// Frees its symbols and debug information: they are read again on demand.
    pub fn forget(&self) {
        self.dynamic_symbols.forget();
        self.static_symbols.forget();
        self.file.forget();
    }
}

fn read_symbols(file: &Elf, kind: elf::SectionType) -> Result<SymbolTable, ImageError> {
    let Some(section) = file.sections.iter().find(|section| section.kind == kind) else {
        return Ok(SymbolTable::default());
    };
    file.check_tables()?;
    let (entries, strings) = file.entries(section, "a symbol table")?;
    SymbolTable::new(entries, strings, kind == elf::SHT_DYNSYM)
}

#[cfg(test)]
mod tests;
