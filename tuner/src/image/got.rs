//! The words through which a file's code calls functions of other files: the dynamic linker fills them by
//! name.

use object::elf;

use super::Image;
use crate::address::LinkAddress;
use crate::elf::{ImageError, SymbolRelocation};
use crate::symbol::SymbolKind;

/// How the address of a function is stored in a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In the table for calls: the dynamic linker may fill it at the first call only.
    Call(LinkAddress),
    Table(LinkAddress),
    /// In data of the program: a pointer, as in a table of functions.
    Data,
}

impl Image {
    /// Every place where the address of the dynamic symbol `name` is stored at start.
    pub(crate) fn stored(&self, name: &str) -> Result<Vec<Stored>, ImageError> {
        let indices: Vec<u32> = self.dynamic_symbols()?.indices_of(name).collect();
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        self.each_relocation(|kind, symbol, place, _| {
            if indices.contains(&symbol) {
                found.extend(match kind {
                    elf::R_X86_64_JUMP_SLOT => Some(Stored::Call(place)),
                    elf::R_X86_64_GLOB_DAT => Some(Stored::Table(place)),
                    elf::R_X86_64_64 => Some(Stored::Data),
                    _ => None,
                });
            }
        })?;
        Ok(found)
    }

    /// Whether the file's own data contains this address of its own: a pointer to a function, as in a table
    /// of functions.
    pub(crate) fn is_pointed_to(&self, address: LinkAddress) -> Result<bool, ImageError> {
        let mut found = false;
        self.each_relocation(|kind, _, _, addend| {
            found |= kind == elf::R_X86_64_RELATIVE && addend.cast_unsigned() == address.0;
        })?;
        Ok(found)
    }

    /// The address in this file of the function that the dynamic linker stores into the word at `entry`;
    /// `None` if another file defines it.
    pub(crate) fn function_stored_at(&self, entry: LinkAddress) -> Option<LinkAddress> {
        let mut of_entry = None;
        let looked = self.each_relocation(|kind, symbol, place, _| {
            if place == entry && matches!(kind, elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT) {
                of_entry = Some(symbol);
            }
        });
        looked.ok()?;
        let symbol = self.dynamic_symbols().ok()?.at(of_entry?)?;
        (symbol.defined && symbol.kind == SymbolKind::Function).then_some(symbol.address)
    }

    /// Every relocation that stores the address of the dynamic symbol `name`, or copies its value.
    pub fn relocations_of(&self, name: &str) -> Result<Vec<SymbolRelocation>, ImageError> {
        let indices: Vec<u32> = self.dynamic_symbols()?.indices_of(name).collect();
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        self.each_relocation(|kind, symbol, place, addend| {
            if indices.contains(&symbol)
                && matches!(
                    kind,
                    elf::R_X86_64_COPY | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64
                )
            {
                found.push(SymbolRelocation {
                    place,
                    addend,
                    copy: kind == elf::R_X86_64_COPY,
                });
            }
        })?;
        Ok(found)
    }
}
