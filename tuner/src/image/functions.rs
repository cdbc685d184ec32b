//! The functions of a file, by the symbols of both its tables.

use std::collections::{BTreeMap, BTreeSet};

use super::Image;
use crate::address::{FileOffset, LinkAddress};
use crate::elf::ImageError;
use crate::spelling::{MatchQuality, Spelling};
use crate::symbol::{Function, Symbol, SymbolKind};

impl Image {
    /// The functions among `names`, by file offset. A name without a function is omitted; for a name that
    /// several static functions share, all are returned.
    pub fn functions(&self, names: &[&str]) -> Result<Vec<Function>, ImageError> {
        let mut found: BTreeMap<FileOffset, Function> = BTreeMap::new();
        for table in [self.dynamic_symbols()?, self.static_symbols()?] {
            let named = names.iter().flat_map(|name| table.indices_of(name));
            // In the order of the table: a function is called by the first of its names.
            let indices = named.collect::<BTreeSet<u32>>();
            let symbols = indices.into_iter().filter_map(|index| table.at(index));
            symbols.for_each(|symbol| self.add_function(&mut found, symbol));
        }
        Ok(found.into_values().collect())
    }

    /// The function whose code is at `address`; `None` if no symbol states one.
    pub(crate) fn function_at(&self, address: LinkAddress) -> Result<Option<String>, ImageError> {
        let holds = |symbol: &Symbol| {
            let into = address.0.checked_sub(symbol.address.0);
            symbol.kind == SymbolKind::Function
                && symbol.defined
                && into.is_some_and(|into| into < symbol.size.max(1))
        };
        let tables = [self.dynamic_symbols()?, self.static_symbols()?];
        let found = tables.into_iter().find_map(|table| table.iter().find(holds));
        Ok(found.map(|symbol| symbol.name))
    }

    /// The lowest address at or behind `address` of a symbol.
    pub(crate) fn next_symbol(&self, address: LinkAddress) -> Result<Option<LinkAddress>, ImageError> {
        let next = [
            self.dynamic_symbols()?.next(address),
            self.static_symbols()?.next(address),
        ];
        Ok(next.into_iter().flatten().min())
    }

    /// The functions that `name` denotes, in the spelling of the source or the linker: the best matches, with
    /// their linker names. There are several for overloads, and for static functions of the same name.
    pub fn functions_spelled(&self, name: &str) -> Result<Option<(MatchQuality, Vec<Function>)>, ImageError> {
        let spelling = Spelling::new(name);
        let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
        let mut best = None;
        let mut found: BTreeMap<FileOffset, Function> = BTreeMap::new();
        for table in [self.dynamic_symbols()?, self.static_symbols()?] {
            for (fit, symbol) in table.spelled(&spelling, is_code) {
                if best < Some(fit) {
                    best = Some(fit);
                    found.clear();
                }
                if best == Some(fit) {
                    self.add_function(&mut found, symbol);
                }
            }
        }
        let found: Vec<Function> = found.into_values().collect();
        Ok(best.filter(|_| !found.is_empty()).map(|fit| (fit, found)))
    }

    fn add_function(&self, found: &mut BTreeMap<FileOffset, Function>, symbol: Symbol) {
        let is_code = matches!(symbol.kind, SymbolKind::Function | SymbolKind::IndirectFunction);
        let Some(offset) = self
            .file_offset(symbol.address)
            .filter(|_| is_code && symbol.defined)
        else {
            return;
        };
        let function = found.entry(offset).or_insert_with(|| Function {
            names: Vec::new(),
            offset,
            address: symbol.address,
            size: symbol.size,
            binding: symbol.binding,
            indirect: symbol.kind == SymbolKind::IndirectFunction,
        });
        if !function.names.contains(&symbol.name) {
            function.names.push(symbol.name);
        }
    }
}
