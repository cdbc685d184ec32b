//! Locates the probed functions in the modules of a process. Attaches nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use abi::ExitSite;
use job::{Member, WatchedSite};
use tuner::{
    Binding, CodeError, Cost, Emulation, EntrySites, ExitFinder, Exits, FileOffset, Function, LastJump, Mark,
    Module, Places, needed_at, needed_at_entry,
};

use super::{Probe, selection};
use crate::kernel::{CallMoment, ProbeSite};

/// A site, and the moment of its function that it marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PricedSite {
    pub(super) site: ProbeSite,
    pub(super) at: CallMoment,
    /// How the kernel handles the probed instruction.
    pub(super) cost: Cost,
    /// File offsets of the code that must be unmodified for the probe to be safe.
    needs: (u64, u64),
}

impl PricedSite {
    fn new(site: ProbeSite, at: CallMoment, cost: Cost, needs: Range<u64>) -> PricedSite {
        PricedSite {
            site,
            at,
            cost,
            needs: (needs.start, needs.end),
        }
    }

    /// The code that the process must have unmodified, as file offsets.
    pub(super) fn needs(&self) -> Range<u64> {
        self.needs.0..self.needs.1
    }
}

/// The places found in a process.
#[derive(Debug, Default)]
pub(super) struct FoundPlaces<'a> {
    pub(super) by_module: Vec<(&'a Module, Vec<PricedSite>)>,
    /// Probes whose functions the process does not have.
    pub(super) undefined: Vec<u32>,
    /// What else is missing, as text.
    pub(super) missing: Vec<String>,
}

/// Caches data of each file (device, inode): the ranks of a job share their files.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    emulation: Emulation,
    has_cookies: bool,
    files: BTreeMap<(String, u64), KnownFile>,
}

#[derive(Debug, Default)]
struct KnownFile {
    /// The named functions that it defines; `None` before the first search.
    functions: Option<Vec<Function>>,
    entries: Entries,
    /// Links have cookies, which identify a place. Without them, only a return instruction ends a call.
    has_cookies: bool,
    /// Exits of functions, or why they are unknown, by the offset of the function.
    exits: BTreeMap<FileOffset, Result<Exits, CodeError>>,
}

/// The instructions at which entries of functions are probed.
#[derive(Debug, Default)]
struct Entries {
    sites: EntrySites,
    chosen: BTreeMap<FileOffset, (FileOffset, Cost)>,
}

impl KnownFiles {
    /// For a kernel with this emulation, whose links may have cookies.
    pub(super) fn new(emulation: Emulation, has_cookies: bool) -> KnownFiles {
        KnownFiles {
            emulation,
            has_cookies,
            files: BTreeMap::new(),
        }
    }

    /// Clears the cache: the selectors match other functions from now on.
    pub(super) fn clear(&mut self) {
        self.files.clear();
    }

    fn of(&mut self, module: &Module) -> &mut KnownFile {
        let key = (format!("{:?}", module.device), module.inode);
        self.files.entry(key).or_insert_with(|| KnownFile {
            functions: None,
            entries: Entries {
                sites: EntrySites::new(self.emulation),
                chosen: BTreeMap::new(),
            },
            has_cookies: self.has_cookies,
            exits: BTreeMap::new(),
        })
    }
}

impl KnownFile {
    fn exits(&mut self, finder: &ExitFinder<'_>, function: &Function) -> &Result<Exits, CodeError> {
        let find = || finder.exits(function);
        self.exits.entry(function.offset).or_insert_with(find)
    }
}

impl Entries {
    fn of(&mut self, module: &Module, offset: FileOffset, size: u64) -> (FileOffset, Cost) {
        let choose = || {
            let site = self.sites.of(&module.image, offset, size);
            (site.offset, site.cost)
        };
        *self.chosen.entry(offset).or_insert_with(choose)
    }
}

/// Finds the probes that are needed in a process. MPI's functions are those of the library that defines MPI;
/// others may be in any module, and are probed in every module that has them.
pub(super) fn find<'a>(
    probes: &[Probe],
    member: &'a Member,
    known: &mut KnownFiles,
    is_needed: impl Fn(&Probe) -> bool,
) -> FoundPlaces<'a> {
    let mut found = FoundPlaces::default();
    if let (Some(mpi), Some(module)) = (&member.mpi, member.mpi_module()) {
        let (file, finder) = (known.of(module), ExitFinder::new(&module.image));
        for site in &mpi.sites {
            let is_it = |probe: &Probe| probe.mpi.is_some() && probe.name == site.name && is_needed(probe);
            if let Some(probe) = probes.iter().position(is_it) {
                let wanted = &probes[probe];
                found.add_named(
                    probe as u32,
                    wanted,
                    module,
                    &function_of(site, module),
                    &mut *file,
                    &finder,
                );
            }
        }
    }
    let mpi_apart = || probes.iter().enumerate().filter(|(_, probe)| probe.mpi.is_none());
    let others = || mpi_apart().filter(|(_, probe)| probe.mark.is_none());
    let names: Vec<&str> = others()
        .flat_map(|(_, probe)| &probe.symbols)
        .map(String::as_str)
        .collect();
    let unseen = others().filter(|(_, probe)| probe.symbols.is_empty());
    let unseen: Vec<&str> = unseen.map(|(_, probe)| probe.name.as_str()).collect();
    let needed = || others().filter(|(_, probe)| is_needed(probe));
    let marks = || mpi_apart().filter(|(_, probe)| probe.mark.is_some() && is_needed(probe));
    let mut missing: BTreeSet<u32> = needed().chain(marks()).map(|(index, _)| index as u32).collect();
    for module in &member.space.modules {
        for (probe, wanted) in marks() {
            if found.add_mark(probe as u32, wanted, module) {
                missing.remove(&(probe as u32));
            }
        }
        let (file, finder) = (known.of(module), ExitFinder::new(&module.image));
        let functions = file
            .functions
            .get_or_insert_with(|| functions(module, &names, &unseen))
            .clone();
        for function in &functions {
            let is_it = |probe: &Probe| match probe.symbols.is_empty() {
                true => function.names.contains(&probe.name),
                false => function.names.iter().any(|name| probe.symbols.contains(name)),
            };
            // A function with two names has one probe, which knows both.
            if let Some((probe, wanted)) = needed().find(|(_, probe)| is_it(probe)) {
                missing.remove(&(probe as u32));
                found.add_named(probe as u32, wanted, module, function, &mut *file, &finder);
            }
        }
    }
    found.undefined = missing.into_iter().collect();
    found
}

/// The functions of a module among the named ones; `unseen` are names that no process had when the functions
/// were numbered.
fn functions(module: &Module, names: &[&str], unseen: &[&str]) -> Vec<Function> {
    let mut found = module.image.functions(names).unwrap_or_default();
    for name in unseen {
        if let Ok(Some((_, fitting))) = module.image.functions_spelled(name) {
            found.extend(fitting.into_iter().map(|mut function| {
                function.names.push((*name).to_owned());
                function
            }));
        }
    }
    found
}

/// Why a function or a mark is not probed in a process, with a similar name if there is one.
pub(super) fn undefined(member: &Member, probe: &Probe) -> String {
    let name = probe.name.as_str();
    if probe.mark.is_some() {
        let why = format!("process {} has no mark {name}", member.process.pid);
        return match selection::nearest_mark(member, name) {
            Some(near) => format!("{why}; did you mean `{near}`?"),
            None => why,
        };
    }
    let why = match member.space.every_function(&name.into()) {
        Err(error) => error.to_string(),
        Ok(_) => format!("process {} has no function {name}", member.process.pid),
    };
    match selection::nearest(member, name) {
        // A similar name of a library is not the one that was removed.
        _ if is_stripped(member) => format!(
            "{why}; the symbols of {} were removed (strip): of its functions only those that it exports have names, unless a file \
             with its symbols is there (/usr/lib/debug, .gnu_debuglink)",
            member.program()
        ),
        Some(near) => format!("{why}; did you mean `{near}`?"),
        // A comma in the name of a C++ function is between brackets.
        None if name.contains(',') && !name.contains('(') => {
            format!("{why}; several functions are separated by spaces")
        }
        None => why,
    }
}

fn is_stripped(member: &Member) -> bool {
    let program = member.space.executable();
    program.is_some_and(|module| module.image.is_stripped())
}

impl<'a> FoundPlaces<'a> {
    /// Adds the places of a mark in a module that pass the captured values; false if there are none.
    fn add_mark(&mut self, probe: u32, wanted: &Probe, module: &'a Module) -> bool {
        let marks = module.image.marks().unwrap_or_default();
        let is_it =
            |mark: &&Mark| wanted.mark_name() == Some(&mark.name) && wanted.mark.as_ref() == Some(&mark.text);
        let mut is_there = false;
        for mark in marks.iter().filter(is_it) {
            is_there = true;
            let (name, address) = (&mark.name, mark.address);
            let Some(offset) = mark
                .offset(&module.image)
                .filter(|_| !mark.is_long_nop(&module.image))
            else {
                self.missing.push(format!(
                    "the mark {name} at {address} of {} is not probed: it is not an instruction of one byte, and the kernel could make a call of it that destroys what its function keeps below the stack",
                    module.path
                ));
                continue;
            };
            let semaphore = mark
                .semaphore
                .and_then(|semaphore| module.image.file_offset(semaphore));
            let site = ProbeSite {
                offset: offset.0,
                probe,
                semaphore: semaphore.map_or(0, |offset| offset.0),
                exit: 0,
            };
            // A mark's instruction is a nop of one byte; others were refused.
            let place = PricedSite::new(site, CallMoment::Entry, Cost::Emulated, needed_at(offset));
            self.add(module, place);
        }
        is_there
    }

    fn add_named(
        &mut self,
        probe: u32,
        wanted: &Probe,
        module: &'a Module,
        function: &Function,
        file: &mut KnownFile,
        finder: &ExitFinder<'_>,
    ) {
        let (offset, cost) = file.entries.of(module, function.offset, function.size);
        let site = ProbeSite::new(offset.0, probe);
        let needs = needed_at_entry(function.offset, function.size, offset);
        self.add(module, PricedSite::new(site, CallMoment::Entry, cost, needs));
        if !wanted.is_timed() {
            return;
        }
        // The return value is in its register only at the return instruction.
        let by_jumps = file.has_cookies && !wanted.reads_returned();
        let text = match file.exits(finder, function) {
            Ok(exits) => {
                for place in exits_at(exits, probe, by_jumps) {
                    self.add(module, place);
                }
                match not_timed(exits, wanted) {
                    None => return,
                    Some(text) => text,
                }
            }
            Err(error) => format!("calls of {} are counted, not timed: {error}", wanted.name),
        };
        self.missing.push(text);
    }

    fn add(&mut self, module: &'a Module, place: PricedSite) {
        let is_it = |known: &&mut (&Module, Vec<PricedSite>)| {
            known.0.path == module.path && known.0.bias == module.bias
        };
        match self.by_module.iter_mut().find(is_it) {
            Some((_, places)) if places.contains(&place) => {}
            Some((_, places)) => places.push(place),
            None => self.by_module.push((module, vec![place])),
        }
    }
}

/// The address in a process of this offset of a module's file.
pub(super) fn address_of(module: &Module, offset: u64) -> Option<u64> {
    let segments = &module.image.segments;
    let inside = |start: u64, size: u64| offset.checked_sub(start).filter(|into| *into < size);
    segments.iter().find_map(|segment| {
        let into = inside(segment.offset.0, segment.file_size)?;
        Some(module.bias.0.wrapping_add(segment.address.0 + into))
    })
}

fn function_of(site: &WatchedSite, module: &Module) -> Function {
    Function {
        names: vec![site.name.clone()],
        offset: site.offset,
        address: module.link(site.address),
        size: site.size,
        binding: Binding::Global,
        indirect: false,
    }
}

/// What of the calls of a function is not timed, in words. Functions that the session probes by itself, those of
/// MPI and of parallel regions, are not mentioned.
fn not_timed(exits: &Exits, wanted: &Probe) -> Option<String> {
    let name = &wanted.name;
    let is_named = wanted.mpi.is_none() && wanted.part().is_none();
    let all = [&exits.own, &exits.elsewhere];
    let returns = |places: &&Places| !places.returns.is_empty() || !places.jumps.is_empty();
    let has_last = all.iter().any(|places| !places.last.is_empty());
    match exits.unknown {
        0 if is_named && has_last && !all.iter().any(returns) => Some(format!(
            "{name} ends with a jump to code of another file: only the time until that jump is measured"
        )),
        0 => None,
        unknown => Some(format!(
            "{name} can be left by {unknown} jumps that cannot be followed: calls that end so are counted, not timed"
        )),
    }
}

/// The probes at the exits of a function: at its last jumps, or at its return instructions only.
fn exits_at(exits: &Exits, probe: u32, by_jumps: bool) -> Vec<PricedSite> {
    let of = |places: &Places, is_shared| {
        let place = |offset: FileOffset, cost, exit| {
            let site = ProbeSite {
                exit,
                ..ProbeSite::new(offset.0, probe)
            };
            PricedSite::new(site, CallMoment::Exit { is_shared }, cost, needed_at(offset))
        };
        let at_jump = |jump: &LastJump| {
            let condition = jump.condition.map(|condition| (condition, jump.is_taken));
            place(jump.offset, Cost::Emulated, ExitSite::bits(jump.depth, condition))
        };
        let (jumps, returns) = match by_jumps {
            true => (&places.jumps[..], &places.beside_jumps),
            false => (&[][..], &places.returns),
        };
        let returns = returns.iter().chain(&places.last);
        let returns = returns.map(|offset| place(*offset, Cost::Stepped, 0));
        jumps.iter().map(at_jump).chain(returns).collect::<Vec<_>>()
    };
    [of(&exits.own, false), of(&exits.elsewhere, true)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_always_ends_with_a_jump_to_another_file_is_said_to_be_timed_until_there() {
        let places = |returns: &[u64], last: &[u64]| Places {
            returns: returns.iter().copied().map(FileOffset).collect(),
            last: last.iter().copied().map(FileOffset).collect(),
            ..Places::default()
        };
        let exits = |own, elsewhere, unknown| Exits {
            own,
            elsewhere,
            unknown,
        };
        let none = Places::default;
        let named = |name: &str| Probe {
            name: name.to_owned(),
            ..Probe::default()
        };
        for (exits, text) in [
            (exits(places(&[8], &[]), none(), 0), None),
            // It ends so in some cases only.
            (exits(places(&[8], &[40]), none(), 0), None),
            (exits(none(), places(&[8], &[40]), 0), None),
            (
                exits(none(), places(&[], &[40]), 0),
                Some(
                    "forces ends with a jump to code of another file: only the time until that jump is measured",
                ),
            ),
            (
                exits(places(&[8], &[]), none(), 2),
                Some(
                    "forces can be left by 2 jumps that cannot be followed: calls that end so are counted, not timed",
                ),
            ),
        ] {
            assert_eq!(not_timed(&exits, &named("forces")).as_deref(), text);
        }
        let exits = exits(none(), places(&[], &[40]), 0);
        assert_eq!(not_timed(&exits, &named("forces._omp_fn.0")), None);
    }
}
