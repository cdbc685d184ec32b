//! Where the probed functions stand in the modules of a process. Attaches nothing.

use std::collections::{BTreeMap, BTreeSet};

use tuner::{code, module::Module, symbol::Function};

use super::Probe;
use crate::{
    discover::{Member, WatchedSite},
    kernel::{At, Site},
};

/// A site, and which moment of its function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) site: Site,
    pub(super) at: At,
}

/// What was found in a process.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    pub(super) by_module: Vec<(&'a Module, Vec<Place>)>,
    /// What was not, in words.
    pub(super) missing: Vec<String>,
}

/// What each file (device, inode) defines of the named functions: the ranks of a job share their files.
pub(super) type KnownFiles = BTreeMap<(String, u64), Vec<Function>>;

/// Finds every probe in a process. MPI's functions are those of the library that defines MPI; others may stand in any module,
/// and are probed wherever they do.
pub(super) fn find<'a>(probes: &[Probe], member: &'a Member, known: &mut KnownFiles) -> Found<'a> {
    let mut found = Found::default();
    if let (Some(mpi), Some(module)) = (&member.mpi, member.mpi_module()) {
        for site in &mpi.sites {
            found.add_mpi(probes, module, site);
        }
    }
    let named = || probes.iter().enumerate().filter(|(_, probe)| probe.mpi.is_none());
    let names: Vec<&str> = named().map(|(_, probe)| probe.name.as_str()).collect();
    let mut missing: BTreeSet<&str> = names.iter().copied().collect();
    for module in &member.space.modules {
        let key = (format!("{:?}", module.device), module.inode);
        let functions = known.entry(key).or_insert_with(|| functions(module, &names));
        for function in functions.iter() {
            for (probe, wanted) in named().filter(|(_, probe)| function.names.contains(&probe.name)) {
                missing.remove(wanted.name.as_str());
                found.add_named(probe as u32, wanted, module, function);
            }
        }
    }
    found
        .missing
        .extend(missing.into_iter().map(|name| why_missing(member, name)));
    found
}

/// The functions of a module among the named: as the linker has the name, else as the source has it, when it means one function.
fn functions(module: &Module, names: &[&str]) -> Vec<Function> {
    let mut found = module.image.functions(names).unwrap_or_default();
    for name in names {
        if found
            .iter()
            .any(|function| function.names.iter().any(|known| known == name))
        {
            continue;
        }
        if let Ok(Some((_, mut fitting))) = module.image.functions_spelled(name)
            && fitting.len() == 1
            && let Some(mut function) = fitting.pop()
        {
            function.names.push((*name).to_owned());
            found.push(function);
        }
    }
    found
}

/// Not under this name in any symbol table: it may be inlined, or have overloads.
fn why_missing(member: &Member, name: &str) -> String {
    match member.space.function(name) {
        Err(error) => error.to_string(),
        Ok((module, function)) => format!(
            "{name} is not probed: as the linker has it, it is {} in {}",
            function.names.join(", "),
            module.file_name()
        ),
    }
}

impl<'a> Found<'a> {
    fn add_mpi(&mut self, probes: &[Probe], module: &'a Module, site: &WatchedSite) {
        let is_it = |probe: &Probe| probe.mpi.is_some() && probe.name == site.name;
        if let Some(probe) = probes.iter().position(is_it) {
            let site = Site {
                offset: site.offset.0,
                probe: probe as u32,
            };
            // C functions that nothing unwinds through: the cheap way to their returns is safe.
            for at in [At::Return, At::Entry] {
                self.add(module, Place { site, at });
            }
        }
    }

    fn add_named(&mut self, probe: u32, wanted: &Probe, module: &'a Module, function: &Function) {
        let entry = Site {
            offset: function.offset.0,
            probe,
        };
        self.add(
            module,
            Place {
                site: entry,
                at: At::Entry,
            },
        );
        if !wanted.is_timed() {
            return;
        }
        match code::returns(&module.image, function) {
            Ok(returns) => {
                for offset in &returns.instructions {
                    let site = Site {
                        offset: offset.0,
                        probe,
                    };
                    self.add(
                        module,
                        Place {
                            site,
                            at: At::ReturnInstruction,
                        },
                    );
                }
                if returns.jumps_out > 0 {
                    self.missing.push(format!(
                        "{} can be left by {} jumps to other code: calls that end so are counted, not timed",
                        wanted.name, returns.jumps_out,
                    ));
                }
            }
            Err(error) => self.missing.push(format!(
                "calls of {} are counted, not timed: {error}",
                wanted.name
            )),
        }
    }

    fn add(&mut self, module: &'a Module, place: Place) {
        let is_it =
            |known: &&mut (&Module, Vec<Place>)| known.0.path == module.path && known.0.bias == module.bias;
        match self.by_module.iter_mut().find(is_it) {
            Some((_, places)) => places.push(place),
            None => self.by_module.push((module, vec![place])),
        }
    }
}

/// Where a process has what stands at this offset of a module's file.
pub(super) fn address_of(module: &Module, offset: u64) -> Option<u64> {
    let segments = &module.image.segments;
    let inside = |start: u64, size: u64| offset.checked_sub(start).filter(|into| *into < size);
    segments.iter().find_map(|segment| {
        let into = inside(segment.offset.0, segment.file_size)?;
        Some(module.bias.0.wrapping_add(segment.address.0 + into))
    })
}
