//! How a name is bound to bytes, and how the binding is determined.
//!
//! Several files may define the same name, and only one of the definitions is used by the code that a user
//! has in mind. The dynamic linker decides: it searches the program first, then the libraries in the order of
//! its list, and takes the first *exported* definition (.dynsym, default visibility). It follows that
//!
//! - a library's variable that the program also defines is dead: all code uses the program's
//!   (*interposition*);
//! - a library's variable that a program not built as PIC (or built with GCC's default for PIE on x86-64)
//!   uses is copied into the program's bss at start, and all code, the library's too, uses the copy (*copy
//!   relocation*: `R_X86_64_COPY`, `R_AARCH64_COPY`). Writing the bytes in the library would change nothing;
//! - libraries loaded later by dlopen search this global list first and then themselves, so that two of them
//!   can each have a living variable of the same name (RTLD_LOCAL); so can a library linked with -Bsymbolic
//!   or with protected visibility;
//! - what is only in .symtab is seen by its own file alone.
//!
//! We do not rely on this reasoning where memory has the answer: a module that reaches a variable through its
//! GOT has the address that the dynamic linker chose in its memory (`GLOB_DAT` and absolute relocations). So
//! we determine, for every module that defines or uses the name, which bytes its code sees: first by the GOT
//! entry, and by the rules above only where there is none. One answer is the variable; two are
//! [`VariableError::Ambiguous`] and the user has to name the module.
//!
//! Symbol versions are not distinguished.

use std::collections::{BTreeMap, HashSet};

use super::naming::{NamedVariable, image_error, is_of_unit, unit_of};
use super::{Chain, Definition, Location, VariableError, VariableName};
use crate::address::Address;
use crate::dwarf::{self, StepError, Trail, WalkError};
use crate::image::ImageError;
use crate::module::Module;
use crate::path::PathStep;
use crate::space::AddressSpace;
use crate::spelling;
use crate::symbol::{Binding, Symbol, SymbolKind};

#[derive(Debug)]
struct CandidateSymbol {
    module: usize,
    symbol: Symbol,
    address: Address,
}

impl AddressSpace {
    /// Finds the variable that `wanted` denotes, or the part of it, as the module documentation describes.
    pub fn variable(&self, wanted: &VariableName) -> Result<Location, VariableError> {
        let found = FittingVariables::look_for(self, wanted)?;
        match found.places.as_slice() {
            [] => Err(found.nothing()),
            [place] => found.location(place),
            places => Err(found.ambiguous(places)),
        }
    }

    /// Finds every variable that `wanted` denotes, for requests that mean all of them: several independent
    /// libraries can each have a living one.
    pub fn every_variable(&self, wanted: &VariableName) -> Result<Vec<Location>, VariableError> {
        let found = FittingVariables::look_for(self, wanted)?;
        if found.places.is_empty() {
            return Err(found.nothing());
        }
        found.places.iter().map(|place| found.location(place)).collect()
    }
}

/// The variables that a name denotes: those of every symbol that fits it.
struct FittingVariables<'a> {
    wanted: &'a VariableName,
    resolved: NamedVariable,
    searches: Vec<Search<'a>>,
    places: Vec<VisibleBytes>,
}

/// Bytes that some code sees under a name.
#[derive(Debug, Clone, Copy)]
struct VisibleBytes {
    search: usize,
    address: Address,
    /// The dynamic linker's own entry confirms it.
    is_confirmed: bool,
}

impl<'a> FittingVariables<'a> {
    fn look_for(
        space: &'a AddressSpace,
        wanted: &'a VariableName,
    ) -> Result<FittingVariables<'a>, VariableError> {
        let resolved = space.resolved(wanted)?;
        let mut found = FittingVariables {
            wanted,
            searches: Vec::new(),
            places: Vec::new(),
            resolved,
        };
        for symbol in &found.resolved.symbols {
            let search = Search::new(space, symbol)?;
            let seen = match (&found.resolved.unit, &found.resolved.module) {
                (Some(unit), module) => search.seen_in(unit, module.as_deref())?,
                (None, Some(module)) => search.seen_by(module)?,
                (None, None) => search.seen_by_all()?,
            };
            for (address, is_confirmed) in seen {
                if !found.places.iter().any(|place| place.address == address) {
                    found.places.push(VisibleBytes {
                        search: found.searches.len(),
                        address,
                        is_confirmed,
                    });
                }
            }
            found.searches.push(search);
        }
        Ok(found)
    }

    fn location(&self, place: &VisibleBytes) -> Result<Location, VariableError> {
        match self.searches.get(place.search) {
            Some(search) => search.location(place, &self.wanted.name, &self.resolved.steps),
            None => Err(self.nothing()),
        }
    }

    fn ambiguous(&self, places: &[VisibleBytes]) -> VariableError {
        let definition = |place: &VisibleBytes| self.searches.get(place.search)?.definition(place.address);
        let pid = self.searches.first().map(|search| search.space.process.pid);
        match pid {
            Some(pid) => VariableError::Ambiguous {
                pid,
                name: self.wanted.name.clone(),
                places: places.iter().filter_map(definition).collect(),
            },
            None => self.nothing(),
        }
    }

    fn nothing(&self) -> VariableError {
        let search = self.searches.first();
        let nothing = search.map(|search| search.nothing_found(self.resolved.module.as_deref()));
        let unit = self.resolved.unit.clone();
        match (nothing, unit, search) {
            (Some(VariableError::NotFound { pid, .. }), Some(module), _) => {
                VariableError::NoSuchModule { pid, module }
            }
            (Some(error), _, _) => error,
            (None, ..) => VariableError::Walk {
                name: self.wanted.name.clone(),
                error: WalkError::TooFar,
            },
        }
    }
}

/// The addresses that code sees under the name, and whether the dynamic linker's own entry confirms each.
type View = BTreeMap<Address, bool>;

struct Search<'a> {
    space: &'a AddressSpace,
    name: String,
    candidates: Vec<CandidateSymbol>,
    others: Vec<CandidateSymbol>,
    users: HashSet<usize>,
    global: Option<Address>,
}

impl<'a> Search<'a> {
    fn new(space: &'a AddressSpace, name: &str) -> Result<Search<'a>, VariableError> {
        let mut search = Search {
            space,
            name: name.to_owned(),
            candidates: vec![],
            others: vec![],
            users: HashSet::new(),
            global: None,
        };
        for (index, module) in space.modules.iter().enumerate() {
            search
                .gather(index, module)
                .map_err(|error| image_error(module, error))?;
        }
        search.global = search.first_global();
        Ok(search)
    }

    fn gather(&mut self, index: usize, module: &Module) -> Result<(), ImageError> {
        let (exported, own) = (module.image.dynamic_symbols()?, module.image.static_symbols()?);
        for symbol in exported.named(&self.name).chain(own.named(&self.name)) {
            if !symbol.defined {
                self.users.insert(index);
                continue;
            }
            let candidate = CandidateSymbol {
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

    /// The definition that the dynamic linker finds first for all modules.
    fn first_global(&self) -> Option<Address> {
        if !self.candidates.iter().any(|candidate| candidate.symbol.exported) {
            return None;
        }
        let at_start = self.space.loaded_at_start();
        let is_global = |candidate: &&CandidateSymbol| {
            candidate.symbol.exported
                && (at_start.contains(&candidate.module) || candidate.symbol.binding == Binding::Unique)
        };
        self.candidates
            .iter()
            .find(is_global)
            .map(|candidate| candidate.address)
    }

    fn seen_by_all(&self) -> Result<View, VariableError> {
        let mut seen = View::new();
        for (index, module) in self.space.modules.iter().enumerate() {
            let mut defined = self
                .candidates
                .iter()
                .filter(|candidate| candidate.module == index);
            // A static variable of the program may be the wanted one, as one that a library exports; a static
            // one of a library is not.
            if self.users.contains(&index) || defined.any(|own| own.symbol.exported || module.is_executable) {
                self.add_view(index, &mut seen)?;
            }
        }
        if seen.is_empty() {
            seen.extend(self.candidates.iter().map(|candidate| (candidate.address, false)));
        }
        Ok(seen)
    }

    fn seen_by(&self, name: &str) -> Result<View, VariableError> {
        let mut seen = View::new();
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

    /// What the code of one source file sees. The name alone does not decide it there: static variables of
    /// one name are several.
    fn seen_in(&self, unit: &str, module: Option<&str>) -> Result<View, VariableError> {
        let mut seen = View::new();
        for own in &self.candidates {
            let of = &self.space.modules[own.module];
            let is_selected = module.is_none_or(|name| of.is_called(name));
            if !is_selected || !is_of_unit(of, &own.symbol, unit) {
                continue;
            }
            match own.symbol.exported {
                true => self.add_view(own.module, &mut seen)?,
                false => _ = seen.entry(own.address).or_insert(false),
            }
        }
        Ok(seen)
    }

    /// Adds what the code of one module sees under the name.
    fn add_view(&self, index: usize, seen: &mut View) -> Result<(), VariableError> {
        if let Some(address) = self.bound_in_memory(index)? {
            seen.insert(address, true);
            return Ok(());
        }
        let module = &self.space.modules[index];
        let own: Vec<&CandidateSymbol> = self
            .candidates
            .iter()
            .filter(|candidate| candidate.module == index)
            .collect();
        let binds_itself = |own: &&&CandidateSymbol| {
            !own.symbol.exported
                || own.symbol.protected
                || module.image.dynamic.symbolic
                || module.is_executable
        };
        let private: Vec<&&CandidateSymbol> = own.iter().filter(binds_itself).collect();
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

    /// The address that the dynamic linker stored for a module's code, if it is one of the definitions (a
    /// word that is not relocated yet is not).
    fn bound_in_memory(&self, index: usize) -> Result<Option<Address>, VariableError> {
        let module = &self.space.modules[index];
        let relocations = module
            .image
            .relocations_of(&self.name)
            .map_err(|error| image_error(module, error))?;
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

    fn location(
        &self,
        place: &VisibleBytes,
        wanted: &str,
        steps: &[PathStep],
    ) -> Result<Location, VariableError> {
        let Some(found) = self
            .candidates
            .iter()
            .find(|candidate| candidate.address == place.address)
        else {
            return Err(self.nothing_found(None));
        };
        let module = &self.space.modules[found.module];
        let relocations = module
            .image
            .relocations_of(&self.name)
            .map_err(|error| image_error(module, error))?;
        let error = self
            .candidates
            .iter()
            .find(|other| other.module != found.module && other.symbol.exported);
        let error = error.filter(|_| relocations.iter().any(|relocation| relocation.copy));
        let trail = self.trail([Some(found), error], wanted, steps)?;
        let mut location = Location {
            symbol: wanted.to_owned(),
            module: module.clone(),
            link_address: found.symbol.address,
            address: place.address,
            chain: None,
            size: found.symbol.size,
            leaf: None,
            is_confirmed: place.is_confirmed,
        };
        match trail {
            Some(trail) => self.take(&mut location, trail, steps.is_empty())?,
            None if steps.is_empty() => {}
            None => {
                return Err(VariableError::NoDebugInformation {
                    name: wanted.to_owned(),
                    root: self.name.clone(),
                    path: module.path.clone(),
                });
            }
        }
        Ok(location)
    }

    /// The trail through the debug information. For a copied variable, the program's debug information has
    /// only the declaration; the library's has the type.
    fn trail(
        &self,
        described: [Option<&CandidateSymbol>; 2],
        wanted: &str,
        steps: &[PathStep],
    ) -> Result<Option<Trail>, VariableError> {
        for candidate in described.into_iter().flatten() {
            let module = &self.space.modules[candidate.module];
            let trail = dwarf::trail(&module.image, candidate.symbol.address, steps);
            let trail = trail.map_err(|error| match error {
                StepError::Walk(error) => VariableError::Walk {
                    name: wanted.to_owned(),
                    error,
                },
                StepError::Image(error) => image_error(module, error),
            })?;
            if trail.is_some() {
                return Ok(trail);
            }
        }
        Ok(None)
    }

    /// Moves from the variable to the end of the trail.
    fn take(&self, location: &mut Location, trail: Trail, is_complete: bool) -> Result<(), VariableError> {
        let bytes = if trail.is_fixed() { trail.leaf.of.size } else { 8 };
        let first = trail.hops.first().copied().unwrap_or(trail.offset);
        let end = first.checked_add(bytes);
        // The symbol table has the true size of the variable; types of other units may be wrong.
        if !is_complete && location.size > 0 && end.is_none_or(|end| end > location.size) {
            return Err(VariableError::Walk {
                name: location.symbol.clone(),
                error: WalkError::Outside { size: location.size },
            });
        }
        if !is_complete || location.size == 0 || !trail.is_fixed() {
            location.size = trail.leaf.of.size;
        }
        location.leaf = Some(trail.leaf);
        if trail.hops.is_empty() {
            location.link_address.0 = location.link_address.0.wrapping_add(trail.offset);
            location.address.0 = location.address.0.wrapping_add(trail.offset);
            return Ok(());
        }
        location.chain = Some(Chain {
            root: location.address,
            hops: trail.hops,
            offset: trail.offset,
        });
        location.address = location.follow(|address| self.space.memory.word(address))?;
        Ok(())
    }

    fn definition(&self, address: Address) -> Option<Definition> {
        let found = self
            .candidates
            .iter()
            .find(|candidate| candidate.address == address)?;
        let module = &self.space.modules[found.module];
        Some(Definition {
            path: module.path.clone(),
            name: spelling::demangle(&self.name),
            address,
            size: found.symbol.size,
            is_private: !found.symbol.exported,
            unit: (!found.symbol.exported)
                .then(|| unit_of(module, &found.symbol))
                .flatten(),
        })
    }

    fn nothing_found(&self, module: Option<&str>) -> VariableError {
        let name = self.name.clone();
        let resolved = |other: &&CandidateSymbol| {
            module.is_none_or(|name| self.space.modules[other.module].is_called(name))
        };
        let Some(other) = self.others.iter().find(resolved) else {
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
