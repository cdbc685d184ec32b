//! How a name is bound to bytes, and how that is found out.
//!
//! Several files may define the same name, and only one of the definitions is used by the code that a user
//! has in mind. The dynamic linker decides so: it searches the program first, then the libraries in the order
//! of its list, and takes the first *exported* definition (.dynsym, default visibility). It follows that
//!
//! - a library's variable that the program also defines is dead: everybody uses the program's
//!   (*interposition*);
//! - a library's variable that a program not built as PIC (or built with GCC's default for PIE on x86-64)
//!   uses is copied into the program's bss at start, and everybody, the library too, uses the copy (*copy
//!   relocation*: `R_X86_64_COPY`, `R_AARCH64_COPY`). Writing the bytes in the library would change nothing;
//! - libraries loaded later by dlopen search this global list first and then themselves, so that two of them
//!   can each have a living variable of the same name (RTLD_LOCAL); so can a library linked with -Bsymbolic
//!   or with protected visibility;
//! - what is only in .symtab is seen by its own file alone.
//!
//! We do not trust this reasoning where we can do better: a module that reaches a variable through its GOT
//! has the address that the dynamic linker chose in its memory (`GLOB_DAT` and absolute relocations). So we
//! ask, for every module that defines or uses the name, which bytes its code sees: first by the GOT entry,
//! and by the rules above only where there is none. One answer is the variable; two are
//! [`VariableError::Ambiguous`] and the user has to name the module.
//!
//! Symbol versions are not told apart.

use std::collections::{BTreeMap, HashSet};

use super::{Definition, Location, VariableError, VariableName};
use crate::address::Address;
use crate::dwarf;
use crate::image::ImageError;
use crate::module::Module;
use crate::space::AddressSpace;
use crate::symbol::{Binding, Symbol, SymbolKind};

#[derive(Debug)]
struct Candidate {
    module: usize,
    symbol: Symbol,
    address: Address,
}

impl AddressSpace {
    /// Finds the variable that `wanted` means; see the head of this module for how.
    pub fn variable(&self, wanted: &VariableName) -> Result<Location, VariableError> {
        let search = Search::new(self, &wanted.name)?;
        let seen = match &wanted.module {
            None => search.seen_by_all()?,
            Some(module) => search.seen_by(module)?,
        };
        let mut seen = seen.into_iter();
        match (seen.next(), seen.next()) {
            (None, _) => Err(search.nothing_found(wanted.module.as_deref())),
            (Some((address, confirmed)), None) => search.location(address, confirmed),
            (Some(first), Some(second)) => Err(search.ambiguous([first, second].into_iter().chain(seen))),
        }
    }
}

/// The addresses that code sees under the name, and whether the dynamic linker's own answer said so.
type Seen = BTreeMap<Address, bool>;

struct Search<'a> {
    space: &'a AddressSpace,
    name: &'a str,
    candidates: Vec<Candidate>,
    others: Vec<Candidate>,
    users: HashSet<usize>,
    global: Option<Address>,
}

impl<'a> Search<'a> {
    fn new(space: &'a AddressSpace, name: &'a str) -> Result<Search<'a>, VariableError> {
        let mut search = Search {
            space,
            name,
            candidates: vec![],
            others: vec![],
            users: HashSet::new(),
            global: None,
        };
        for (index, module) in space.modules.iter().enumerate() {
            search
                .gather(index, module)
                .map_err(|source| image_error(module, source))?;
        }
        search.global = search.first_global();
        Ok(search)
    }

    fn gather(&mut self, index: usize, module: &Module) -> Result<(), ImageError> {
        let exported = module.image.dynamic_symbols()?.named(self.name);
        for symbol in exported.chain(module.image.static_symbols()?.named(self.name)) {
            if !symbol.defined {
                self.users.insert(index);
                continue;
            }
            let candidate = Candidate {
                module: index,
                address: module.address(symbol.address),
                symbol,
            };
            let list = match candidate.symbol.kind {
                SymbolKind::Variable => &mut self.candidates,
                _ => &mut self.others,
            };
            if !list
                .iter()
                .any(|known| known.module == index && known.address == candidate.address)
            {
                list.push(candidate);
            }
        }
        Ok(())
    }

    /// The definition that the dynamic linker finds first for everybody.
    fn first_global(&self) -> Option<Address> {
        if !self.candidates.iter().any(|candidate| candidate.symbol.exported) {
            return None;
        }
        let at_start = self.space.loaded_at_start();
        let is_global = |candidate: &&Candidate| {
            candidate.symbol.exported
                && (at_start.contains(&candidate.module) || candidate.symbol.binding == Binding::Unique)
        };
        self.candidates
            .iter()
            .find(is_global)
            .map(|candidate| candidate.address)
    }

    fn seen_by_all(&self) -> Result<Seen, VariableError> {
        let mut seen = Seen::new();
        for (index, module) in self.space.modules.iter().enumerate() {
            let mut defined = self
                .candidates
                .iter()
                .filter(|candidate| candidate.module == index);
            // A static variable of the program is as likely meant as a library's; one of a library is not.
            if self.users.contains(&index) || defined.any(|own| own.symbol.exported || module.is_executable) {
                self.add_view(index, &mut seen)?;
            }
        }
        if seen.is_empty() {
            seen.extend(self.candidates.iter().map(|candidate| (candidate.address, false)));
        }
        Ok(seen)
    }

    fn seen_by(&self, name: &str) -> Result<Seen, VariableError> {
        let mut seen = Seen::new();
        let mut is_loaded = false;
        for (index, _) in self
            .space
            .modules
            .iter()
            .enumerate()
            .filter(|(_, module)| module.is_called(name))
        {
            is_loaded = true;
            if self.users.contains(&index) || self.candidates.iter().any(|own| own.module == index) {
                self.add_view(index, &mut seen)?;
            }
        }
        match is_loaded {
            true => Ok(seen),
            false => Err(VariableError::NoSuchModule {
                pid: self.space.process.pid,
                module: name.to_owned(),
            }),
        }
    }

    /// Adds what the code of one module sees under the name.
    fn add_view(&self, index: usize, seen: &mut Seen) -> Result<(), VariableError> {
        if let Some(address) = self.bound_in_memory(index)? {
            seen.insert(address, true);
            return Ok(());
        }
        let module = &self.space.modules[index];
        let own: Vec<&Candidate> = self
            .candidates
            .iter()
            .filter(|candidate| candidate.module == index)
            .collect();
        let binds_itself = |own: &&&Candidate| {
            !own.symbol.exported
                || own.symbol.protected
                || module.image.dynamic.symbolic
                || module.is_executable
        };
        let private: Vec<&&Candidate> = own.iter().filter(binds_itself).collect();
        if !private.is_empty() {
            private
                .iter()
                .for_each(|own| _ = seen.entry(own.address).or_insert(false));
        } else if let Some(global) = self.global {
            seen.entry(global).or_insert(false);
        } else {
            own.iter()
                .for_each(|own| _ = seen.entry(own.address).or_insert(false));
        }
        Ok(())
    }

    /// The address that the dynamic linker stored for a module's code, if it did and it is one of the
    /// definitions (a word that is not yet relocated is none).
    fn bound_in_memory(&self, index: usize) -> Result<Option<Address>, VariableError> {
        let module = &self.space.modules[index];
        let relocations = module
            .image
            .relocations_of(self.name)
            .map_err(|source| image_error(module, source))?;
        for relocation in relocations.iter().filter(|relocation| !relocation.copy) {
            let word = self.space.memory.word(module.address(relocation.place))?;
            let address = Address(word.wrapping_sub(relocation.addend.cast_unsigned()));
            if self
                .candidates
                .iter()
                .any(|candidate| candidate.address == address)
            {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    fn location(&self, address: Address, is_confirmed: bool) -> Result<Location, VariableError> {
        let Some(found) = self
            .candidates
            .iter()
            .find(|candidate| candidate.address == address)
        else {
            return Err(self.nothing_found(None));
        };
        let module = &self.space.modules[found.module];
        let relocations = module
            .image
            .relocations_of(self.name)
            .map_err(|source| image_error(module, source))?;
        let source = self
            .candidates
            .iter()
            .find(|other| other.module != found.module && other.symbol.exported);
        let source = source.filter(|_| relocations.iter().any(|relocation| relocation.copy));
        // Of a copied variable the program's debug information knows only the declaration; the library's has
        // the type.
        let described = [Some(found), source].into_iter().flatten();
        let mut variable_type = None;
        for candidate in described {
            let module = &self.space.modules[candidate.module];
            let found = dwarf::variable_type(&module.image, candidate.symbol.address);
            variable_type = variable_type.or(found.map_err(|source| image_error(module, source))?);
        }
        Ok(Location {
            symbol: self.name.to_owned(),
            module: module.clone(),
            link_address: found.symbol.address,
            address,
            size: match found.symbol.size {
                0 => variable_type.map_or(0, |known| known.size),
                size => size,
            },
            variable_type,
            copied_from: source.map(|source| self.space.modules[source.module].path.clone()),
            is_confirmed,
        })
    }

    fn ambiguous(&self, seen: impl Iterator<Item = (Address, bool)>) -> VariableError {
        let place = |(address, _)| {
            let found = self
                .candidates
                .iter()
                .find(|candidate| candidate.address == address)?;
            let path = self.space.modules[found.module].path.clone();
            Some(Definition {
                path,
                address,
                is_private: !found.symbol.exported,
            })
        };
        let (pid, name) = (self.space.process.pid, self.name.to_owned());
        VariableError::Ambiguous {
            pid,
            name,
            places: seen.filter_map(place).collect(),
        }
    }

    fn nothing_found(&self, module: Option<&str>) -> VariableError {
        let name = self.name.to_owned();
        let meant =
            |other: &&Candidate| module.is_none_or(|name| self.space.modules[other.module].is_called(name));
        let Some(other) = self.others.iter().find(meant) else {
            let unreadable = self.space.unreadable.len();
            return VariableError::NotFound {
                pid: self.space.process.pid,
                name,
                unreadable,
            };
        };
        let path = self.space.modules[other.module].path.clone();
        match other.symbol.kind {
            SymbolKind::ThreadLocal => VariableError::ThreadLocal { name, path },
            SymbolKind::Function | SymbolKind::IndirectFunction => VariableError::NotAVariable {
                name,
                path,
                what: "a function",
            },
            SymbolKind::Variable | SymbolKind::Other => VariableError::NotAVariable {
                name,
                path,
                what: "a label",
            },
        }
    }
}

fn image_error(module: &Module, source: ImageError) -> VariableError {
    VariableError::Image {
        path: module.path.clone(),
        source,
    }
}
