//! The functions and variables of a file, each with type, size, section and possible uses. For listings;
//! `variable` and `function` resolve a name in a process.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::LinkAddress;
use crate::dwarf::{self, Description, VariableType};
use crate::image::{Image, ImageError};
use crate::spelling;
use crate::symbol::{Binding, Symbol, SymbolKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolUse {
    Probe,
    /// A function that selects another one when it is first called: a probe sees the selection.
    ProbeChoice,
    /// A variable of a known type, or of one that can be stated: it can be read and written.
    Set {
        state_type: bool,
    },
    /// A struct or an array: its parts can be read and written.
    Parts,
    /// A pointer: its target can be read and written.
    Follow,
    /// It can be read, but not written for this reason.
    Read(&'static str),
    Nothing(&'static str),
}

/// One function or variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its name in the source.
    pub name: String,
    pub symbol: String,
    pub kind: SymbolKind,
    /// Where the linker placed it.
    pub address: LinkAddress,
    /// The size, in bytes.
    pub size: u64,
    /// Visible only in its source file or in this file.
    pub is_private: bool,
    pub section: Option<String>,
    /// The source file of a private one, by the symbol table.
    pub source: Option<String>,
    is_writable: bool,
}

impl CatalogEntry {
    pub fn is_function(&self) -> bool {
        matches!(self.kind, SymbolKind::Function | SymbolKind::IndirectFunction)
    }

    /// Its possible uses, as far as its type is known.
    pub fn can(&self, known: Option<&Description>) -> SymbolUse {
        match self.kind {
            SymbolKind::Function => return SymbolUse::Probe,
            SymbolKind::IndirectFunction => return SymbolUse::ProbeChoice,
            SymbolKind::ThreadLocal => return SymbolUse::Nothing("per thread"),
            SymbolKind::Other => return SymbolUse::Nothing("a label"),
            SymbolKind::Variable => {}
        }
        if !self.is_writable {
            return SymbolUse::Read("constant");
        }
        let of = known.and_then(|known| known.of);
        match of {
            Some(of) if of.value_type().is_some() => SymbolUse::Set { state_type: false },
            Some(of) if is_complete(of) => SymbolUse::Set { state_type: true },
            Some(VariableType {
                kind: dwarf::ValueKind::Pointer,
                ..
            }) => SymbolUse::Follow,
            Some(_) => SymbolUse::Parts,
            None if matches!(self.size, 1 | 2 | 4 | 8) => SymbolUse::Set { state_type: true },
            None => SymbolUse::Read("type unknown"),
        }
    }
}

fn is_complete(of: VariableType) -> bool {
    of.kind == dwarf::ValueKind::Enum && matches!(of.size, 1 | 2 | 4 | 8)
}

/// All functions and variables that the file defines and `is_wanted` accepts by name, sorted by name. An
/// entry is listed under each of its names.
pub fn entries(image: &Image, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<CatalogEntry>, ImageError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for table in [image.dynamic_symbols()?, image.static_symbols()?] {
        for symbol in table
            .iter()
            .filter(|symbol| symbol.defined && symbol.kind != SymbolKind::Other)
        {
            let name = spelling::demangle(&symbol.name);
            if !(is_wanted(&name) || is_wanted(&symbol.name)) {
                continue;
            }
            if seen.insert((symbol.name.clone(), symbol.address)) {
                found.push(entry(image, symbol, name));
            }
        }
    }
    found.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
    Ok(found)
}

fn entry(image: &Image, symbol: Symbol, name: String) -> CatalogEntry {
    let section = match symbol.kind {
        SymbolKind::ThreadLocal => None,
        _ => image.section_at(symbol.address, symbol.size.max(1)),
    };
    let is_relro = image.is_read_only_after_relocation(symbol.address, symbol.size);
    CatalogEntry {
        is_writable: section.is_some_and(|section| section.writable && !section.executable) && !is_relro,
        section: section.map(|section| section.name.clone()),
        is_private: symbol.binding == Binding::Local,
        source: symbol.source.as_deref().map(str::to_owned),
        kind: symbol.kind,
        address: symbol.address,
        size: symbol.size,
        symbol: symbol.name,
        name,
    }
}

/// The debug information of these entries by address, read once for all of them.
pub fn describe<'e>(
    image: &Image,
    entries: impl IntoIterator<Item = &'e CatalogEntry>,
) -> Result<BTreeMap<LinkAddress, Description>, ImageError> {
    let wanted = entries
        .into_iter()
        .filter(|entry| entry.kind != SymbolKind::ThreadLocal);
    let addresses: Vec<LinkAddress> = wanted.map(|entry| entry.address).collect();
    dwarf::describe(image, &addresses)
}
