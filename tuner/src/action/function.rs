//! Resolves the name of a function to code, and checks that memory equals its file.

use std::fmt;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use plan::FunctionName;

use crate::address::Address;
use crate::arch::{
    Emulation,
    x86_64::code::{Body, FUNCTION_BYTES_MAX},
};
use crate::error::ActionError;
use crate::function::FunctionError;
use crate::journal::{ActionRecord, HexBytes, JournalChange, PatchedBytes, Status};
use crate::module::{Module, ModuleError};
use crate::place::{CodeState, ProcessMemory};
use crate::site::EntrySites;
use crate::space::AddressSpace;
use crate::symbol::{Binding, Function};

/// The breakpoint of uprobes.
const BREAKPOINT: u8 = 0xcc;

/// A function of a process.
#[derive(Debug, Clone)]
pub(crate) struct FoundFunction {
    /// The name in the request.
    pub(crate) name: String,
    pub(crate) module: Module,
    pub(crate) function: Function,
}

impl FoundFunction {
    pub(crate) fn address(&self) -> Address {
        self.module.address(self.function.address)
    }

    pub(crate) fn refused(&self, done: &'static str, why: impl fmt::Display) -> ActionError {
        ActionError::Refused {
            function: self.name.clone(),
            done,
            why: why.to_string(),
        }
    }

    /// Its instructions, from the file.
    pub(crate) fn body(&self, done: &'static str) -> Result<Body, ActionError> {
        match self.function.size {
            0 => return Err(self.refused(done, "its symbol has no size: where it ends is not known")),
            size if size > FUNCTION_BYTES_MAX => {
                return Err(self.refused(done, format!("it takes {size} bytes, more than are looked at")));
            }
            _ => {}
        }
        let bytes = self.file_bytes(0, self.function.size as usize, done)?;
        Body::decode(self.address(), bytes)
            .map_err(|at| self.refused(done, format!("the instruction at offset {at} cannot be decoded")))
    }

    /// `length` bytes of the file, from `offset` bytes behind the function's begin.
    pub(crate) fn file_bytes(
        &self,
        offset: u64,
        length: usize,
        done: &'static str,
    ) -> Result<Vec<u8>, ActionError> {
        let mut bytes = vec![0; length];
        let read = self
            .module
            .image
            .file()
            .read_exact_at(&mut bytes, self.function.offset.0 + offset);
        read.map_err(|error| self.refused(done, format!("its file cannot be read: {error}")))?;
        Ok(bytes)
    }

    /// Whether a probe of a session at its entry may be behind the bytes to be changed: it would miss calls,
    /// or count wrong ones.
    fn is_entry_probed(&self, context: &PlanContext<'_>, body: &Body) -> Result<bool, ActionError> {
        for long_nops in [false, true] {
            let sites = EntrySites::new(Emulation { long_nops });
            let site = sites.of(&self.module.image, self.function.offset, self.function.size);
            let into = site.offset.0 - self.function.offset.0;
            let at = Address(body.start.0 + into);
            let mut found = [0];
            context.memory.read(at, &mut found)?;
            if body.bytes_at(at, 1) != Some(&found[..]) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A site of its code, with the old bytes from the file, if memory has the same.
    pub(crate) fn site(
        &self,
        context: &PlanContext<'_>,
        body: &Body,
        address: Address,
        new: Vec<u8>,
        done: &'static str,
    ) -> Result<PatchedBytes, ActionError> {
        context.refuse_taken(&(address.0..address.0 + new.len() as u64))?;
        let memory = context.memory;
        let outside = || self.refused(done, "the bytes lie outside of it");
        let behind = address.0.checked_sub(body.start.0).ok_or_else(outside)?;
        let old = match body.bytes_at(address, new.len()) {
            Some(old) => old.to_vec(),
            // Padding behind its end.
            None => self.file_bytes(behind, new.len(), done)?,
        };
        let mut found = vec![0; old.len()];
        memory.read(address, &mut found)?;
        if found != old {
            let probed = found
                .iter()
                .zip(&old)
                .any(|(found, old)| *found == BREAKPOINT && *old != BREAKPOINT);
            return Err(match probed {
                true => ActionError::Probed {
                    function: self.name.clone(),
                    address,
                },
                false => self.refused(
                    done,
                    format!("its code at {address} is not what its file has: another tool changed it"),
                ),
            });
        }
        if address == body.start && self.is_entry_probed(context, body)? {
            return Err(ActionError::Probed {
                function: self.name.clone(),
                address,
            });
        }
        let link = crate::address::LinkAddress(self.function.address.0 + behind);
        let place = memory.code(CodeState::Original, &self.module, link, new.len(), &self.name)?;
        debug_assert_eq!(place.address(), address);
        Ok(PatchedBytes {
            module: self.module.path.clone(),
            build_id: self.module.build_id().cloned(),
            is_code: true,
            link_address: link,
            address,
            old: HexBytes(old),
            new: HexBytes(new),
        })
    }
}

/// The function that `wanted` denotes: the program's own, else the exported one that the dynamic linker finds
/// first, else the only one.
pub(crate) fn find(space: &AddressSpace, wanted: &FunctionName) -> Result<FoundFunction, ActionError> {
    let pid = space.process.pid;
    let mut candidates = Vec::new();
    for module in &space.modules {
        if wanted.module.as_ref().is_some_and(|name| !module.is_called(name)) {
            continue;
        }
        let functions = module.image.functions(&[wanted.name.as_str()]);
        let functions = functions.map_err(|error| ModuleError::Image {
            path: module.path.clone(),
            error,
        })?;
        candidates.extend(functions.into_iter().map(|function| (module, function)));
    }
    let none = || ActionError::NoFunction {
        pid,
        name: wanted.name.clone(),
        module: wanted.module.clone(),
    };
    let of_program: Vec<_> = candidates
        .iter()
        .filter(|(module, _)| module.is_executable)
        .collect();
    let exported = candidates
        .iter()
        .find(|(_, function)| function.binding != Binding::Local);
    let chosen = match (of_program.as_slice(), exported, candidates.as_slice()) {
        // Resolves C++ and Fortran names of the source.
        (_, _, []) => {
            let spelled = space.function(wanted).map_err(|error| match error {
                FunctionError::NotFound { .. } => none(),
                error => error.into(),
            })?;
            candidates.push(spelled);
            &candidates[0]
        }
        ([only], _, _) => *only,
        ([], Some(first), _) => first,
        ([], None, [only]) => only,
        _ => {
            return Err(ActionError::SeveralFunctions {
                pid,
                name: wanted.name.clone(),
                places: candidates
                    .iter()
                    .map(|(module, function)| {
                        format!("{} at {}", module.path, module.address(function.address))
                    })
                    .collect(),
            });
        }
    };
    Ok(FoundFunction {
        name: wanted.to_string(),
        module: chosen.0.clone(),
        function: chosen.1.clone(),
    })
}

/// Refuses a function that selects its implementation at start: its callers use another one.
pub(crate) fn refuse_indirect(found: &FoundFunction, done: &'static str) -> Result<(), ActionError> {
    match found.function.indirect {
        true => Err(found.refused(
            done,
            "it only picks, once, the function that callers get (IFUNC): name that one",
        )),
        false => Ok(()),
    }
}

/// The input of a plan.
#[derive(Debug)]
pub(crate) struct PlanContext<'a> {
    pub(crate) space: &'a AddressSpace,
    pub(crate) memory: &'a ProcessMemory,
    /// The bytes of changes in force, and the numbers of these changes.
    pub(crate) taken: Vec<(Range<u64>, u64)>,
}

impl<'a> PlanContext<'a> {
    pub(crate) fn new(
        space: &'a AddressSpace,
        memory: &'a ProcessMemory,
        changes: impl Iterator<Item = &'a JournalChange>,
    ) -> PlanContext<'a> {
        let is_in_force = |change: &&JournalChange| {
            !matches!(
                change.status,
                Status::Failed | Status::Reverted | Status::ChangedSince | Status::Done
            )
        };
        let mut taken = Vec::new();
        for change in changes.filter(is_in_force) {
            if let ActionRecord::Patch(patch) = &change.intent.action {
                let range = |site: &PatchedBytes| site.address.0..site.address.0 + site.new.0.len() as u64;
                let number = change.intent.change;
                taken.extend(
                    patch
                        .covers
                        .map(|(start, length)| (start.0..start.0 + length, number)),
                );
                taken.extend(patch.sites.iter().map(|site| (range(site), change.intent.change)));
            }
        }
        PlanContext { space, memory, taken }
    }

    pub(crate) fn find(&self, wanted: &FunctionName) -> Result<FoundFunction, ActionError> {
        find(self.space, wanted)
    }

    pub(crate) fn refuse_taken(&self, range: &Range<u64>) -> Result<(), ActionError> {
        let overlaps = |(taken, _): &&(Range<u64>, u64)| taken.start < range.end && range.start < taken.end;
        match self.taken.iter().find(overlaps) {
            Some((_, change)) => Err(ActionError::AlreadyChanged { change: *change }),
            None => Ok(()),
        }
    }
}
