//! Gives every function a number and determines its spec.

use std::collections::{BTreeMap, BTreeSet};

use abi::{Capture, Durations, MessageSpec, ProbeSpec, SizeLayout, Sizes, SpecFlags};
use job::{Implementation, Job, Member};
use profile::mpi;
use profile::probe::{ANOTHER, decide_partial_sum};
use tuner::Module;

use super::{
    ArmError, Probe, ProbeSelector, Wanted, captures,
    selection::{BODIES_MAX, FileSelections, PATTERN_MAX, ResolvedFunction},
};

/// A file (device, inode) and the offset at which a function begins: several names of a function share one
/// probe, otherwise every call would count twice.
type ProbedFunction = (String, u64, u64);

/// Flags that only requests with sent hits need.
const OF_SENDING: u32 =
    SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN | SpecFlags::PARTS | SpecFlags::DECIDES;

/// Flags that the profile needs for parallel regions.
const OF_PROFILE: u32 = SpecFlags::SPAN | SpecFlags::SEQUENCE;

/// The functions by number. Numbers never change.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    pub(super) probes: Vec<Probe>,
    spots: BTreeMap<ProbedFunction, usize>,
    pub(super) seen: FileSelections,
    /// Number of functions that ever had an aggregate in the kernel.
    pub(super) partial_sums: u16,
    /// Number of histogram rows of each process.
    pub(super) rows: u32,
    /// Captured values have moved to other indices; hits in flight have the previous ones.
    pub(super) has_moved: bool,
}

impl Numbers {
    /// Numbers the functions: those of MPI in the order of the table, then the others in the order of the
    /// requests. `requested` says for each member which of the wanted are requested in it.
    pub(super) fn of(job: &Job, wanted: &[Wanted], requested: &[Vec<bool>]) -> Result<Numbers, ArmError> {
        let mut numbers = Numbers::default();
        for member in &job.members {
            numbers.add_mpi(member);
        }
        let members: Vec<(&Member, &Vec<bool>)> = job.members.iter().zip(requested).collect();
        numbers.grow(job, wanted, 0, &members)?;
        Ok(numbers)
    }

    /// Numbers the functions of the wanted from `first` on; `requested` says which of all the wanted are
    /// requested in each of these members.
    pub(super) fn grow(
        &mut self,
        job: &Job,
        wanted: &[Wanted],
        first: usize,
        requested: &[(&Member, &Vec<bool>)],
    ) -> Result<(), ArmError> {
        // Named functions have a probe of their own; all other functions of a GPU library share one.
        let is_gpu = |(_, want): &(usize, &Wanted)| matches!(want.selector, ProbeSelector::Gpu(_));
        let of_gpu = wanted.iter().enumerate().skip(first).filter(is_gpu);
        let others = wanted.iter().enumerate().skip(first).filter(|want| !is_gpu(want));
        for (index, want) in others.chain(of_gpu) {
            let is_requested =
                |(_, requested): &&(&Member, &Vec<bool>)| requested.get(index).copied().unwrap_or_default();
            let members = requested.iter().filter(is_requested).map(|(member, _)| *member);
            self.add(index, &want.selector, &members.collect::<Vec<_>>())?;
        }
        let is_requested = |probe: &&mut Probe| first == 0 || probe.wanted.iter().any(|want| *want >= first);
        for probe in self.probes.iter_mut().filter(is_requested) {
            let mut of_probe = probe.wanted.iter().filter_map(|index| wanted.get(*index));
            probe.is_quiet = !probe.wanted.is_empty() && of_probe.all(|want| want.is_quiet);
            let had_rows = probe.rows_of_durations().is_some();
            for want in probe.wanted.iter().filter_map(|index| wanted.get(*index)) {
                probe.spec.flags |= want.flags;
            }
            if !had_rows {
                give_rows(probe, &mut self.rows);
            }
            // A function that no process has is reported as missing, whatever values it should capture.
            let captures = match captures::of_probe(probe, wanted, job) {
                Err(_) if probe.mark.is_none() && !is_anywhere(&probe.name, job) => Vec::new(),
                captures => captures?,
            };
            self.has_moved |= !captures.starts_with(&probe.captures);
            probe.captures = captures;
            for (place, capture) in probe.spec.captures.iter_mut().zip(&probe.captures) {
                *place = capture.spec;
            }
            decide_partial_sum(probe, wanted, &mut self.partial_sums);
        }
        if self.probes.len() > abi::PROBES_MAX as usize {
            return Err(ArmError::TooManyFunctions {
                wanted: "the rules together".into(),
                found: self.probes.len(),
                most: abi::PROBES_MAX as usize,
            });
        }
        Ok(())
    }

    /// Drops these requests: nothing is sent for them any more. Counts and times for other requests continue.
    pub(super) fn shrink(&mut self, gone: &[usize], wanted: &[Wanted]) -> Vec<u32> {
        let mut changed = Vec::new();
        for (probe, index) in self.probes.iter_mut().zip(0..) {
            let before = probe.wanted.len();
            probe.wanted.retain(|want| !gone.contains(want));
            if probe.wanted.len() == before {
                continue;
            }
            let requested = || probe.wanted.iter().filter_map(|index| wanted.get(*index));
            probe.is_quiet = !probe.wanted.is_empty() && requested().all(|want| want.is_quiet);
            let sent = requested().fold(0, |flags, want| flags | want.flags);
            probe.spec.flags &= !OF_SENDING | sent;
            decide_partial_sum(probe, wanted, &mut self.partial_sums);
            if probe.wanted.is_empty() {
                probe.captures.clear();
                probe.spec.captures = [Capture::default(); abi::CAPTURES_MAX];
            }
            changed.push(index);
        }
        changed
    }

    /// Requests the profile's share of a function that a rule probes only while the profile watches: the end
    /// of a call, which a counting rule does not need, may cost ten times as much as its entry. `on` says
    /// which requests are switched on. Returns the functions whose flags changed.
    pub(super) fn share_with_profile(&mut self, wanted: &[Wanted], on: &[bool]) -> Vec<u32> {
        let mut changed = Vec::new();
        for (probe, index) in self.probes.iter_mut().zip(0..) {
            let requested = || {
                probe
                    .wanted
                    .iter()
                    .filter_map(|want| Some((wanted.get(*want)?, on.get(*want)?)))
            };
            if !requested().any(|(want, _)| want.is_quiet) {
                continue;
            }
            let flags = |is_selected: &dyn Fn(&Wanted, bool) -> bool| {
                let resolved = requested().filter(|(want, on)| is_selected(want, **on));
                resolved.fold(0, |flags, (want, _)| flags | want.flags) & OF_PROFILE
            };
            let of_rules = flags(&|want, _| !want.is_quiet);
            let needed = of_rules | flags(&|want, on| want.is_quiet && (on || probe.is_quiet));
            let is_counted =
                requested().any(|(want, on)| !want.is_quiet && *on) && needed & SpecFlags::SPAN == 0;
            probe.is_only_counted = !probe.is_quiet && (probe.is_only_counted || is_counted);
            if probe.spec.flags & OF_PROFILE != needed {
                probe.spec.flags = probe.spec.flags & !OF_PROFILE | needed;
                changed.push(index);
            }
        }
        changed
    }

    pub(super) fn add_mpi(&mut self, member: &Member) {
        let (Some(mpi), Some(module)) = (&member.mpi, member.mpi_module()) else {
            return;
        };
        for site in &mpi.sites {
            let Some(called) = mpi::find(&site.name) else {
                continue;
            };
            let known = self.probes.iter().position(|probe| probe.name == site.name);
            let index = known.unwrap_or_else(|| {
                let mut spec = mpi_spec(called, &mpi.implementation);
                if spec.flags & SpecFlags::BYTES != 0 {
                    let row = take_rows(&mut self.rows, Sizes::ROWS);
                    spec.message.row = row.map_or(MessageSpec::NO_ROW, |row| row as u16);
                }
                self.push(&site.name, Some(called.function), spec)
            });
            self.spots.insert(spot(module, site.offset.0), index);
        }
    }

    fn add(&mut self, want: usize, selector: &ProbeSelector, members: &[&Member]) -> Result<(), ArmError> {
        if let ProbeSelector::Mpi(_) = selector {
            for probe in self
                .probes
                .iter_mut()
                .filter(|probe| selector.means(&probe.name, probe.mpi.is_some()))
            {
                probe.wanted.push(want);
            }
            return Ok(());
        }
        if let ProbeSelector::Mark(name) = selector {
            self.add_mark(want, name, members);
            return Ok(());
        }
        // MPI functions are requested by the names that users know; their probes are at the profiling names.
        let mut resolved: Vec<usize> = match selector {
            ProbeSelector::Function(name) => self.named(name).into_iter().collect(),
            _ => Vec::new(),
        };
        if resolved.is_empty() {
            let found = self.found(selector, members);
            let names: BTreeSet<&str> = found.iter().map(|(_, function)| function.name.as_str()).collect();
            let is_body = *selector == ProbeSelector::OpenmpBody;
            if is_body && names.len() > BODIES_MAX {
                return Ok(());
            }
            if !is_body && names.len() > PATTERN_MAX {
                return Err(ArmError::TooManyFunctions {
                    wanted: selector.to_string(),
                    found: names.len(),
                    most: PATTERN_MAX,
                });
            }
            for (spot, function) in found {
                let taken = self.spots.get(&spot).copied();
                let is_part = |set: &&Probe| set.is_gpu() && set.name != function.name;
                if let Some(set) = taken.map(|taken| &self.probes[taken]).filter(is_part) {
                    let why = format!("{} is probed as a part of {}", function.symbol, set.name);
                    return Err(ArmError::NoMore(why));
                }
                let known = taken.or_else(|| self.named(&function.name));
                let index = known.unwrap_or_else(|| self.push(&function.name, None, ProbeSpec::default()));
                self.spots.entry(spot).or_insert(index);
                self.probes[index].symbols.insert(function.symbol);
                if !resolved.contains(&index) {
                    resolved.push(index);
                }
            }
        }
        // A function that no process has yet keeps its number for a process that joins later.
        if let (ProbeSelector::Function(name), true) = (selector, resolved.is_empty()) {
            resolved.push(self.push(name, None, ProbeSpec::default()));
        }
        for index in resolved {
            self.probes[index].wanted.push(want);
        }
        Ok(())
    }

    /// A mark has one probe for each way in which it passes its values: compilers duplicate its place, and
    /// each copy may use other registers. A mark that no process has yet keeps its number.
    fn add_mark(&mut self, want: usize, name: &str, members: &[&Member]) {
        let modules = members.iter().flat_map(|member| &member.space.modules);
        let marks = modules.flat_map(|module| module.image.marks().unwrap_or_default());
        let mut ways: Vec<&str> = marks
            .filter(|mark| mark.name == name)
            .map(|mark| mark.text.as_str())
            .collect();
        ways.sort_unstable();
        ways.dedup();
        if ways.is_empty() {
            ways.push("");
        }
        for (place, way) in ways.into_iter().enumerate() {
            let is_it = |probe: &Probe| probe.mark_name() == Some(name) && probe.mark.as_deref() == Some(way);
            let known = self.probes.iter().position(is_it);
            let index = known.unwrap_or_else(|| {
                let shown = match place {
                    0 => name.to_owned(),
                    place => format!("{name}{ANOTHER}{}", place + 1),
                };
                self.push(&shown, None, ProbeSpec::default())
            });
            self.probes[index].mark = Some(way.to_owned());
            self.probes[index].wanted.push(want);
        }
    }

    /// The functions of these processes that the selector matches: all matches, or the best ones for a name.
    fn found(
        &mut self,
        selector: &ProbeSelector,
        members: &[&Member],
    ) -> Vec<(ProbedFunction, ResolvedFunction)> {
        let mut found: Vec<(ProbedFunction, ResolvedFunction)> = Vec::new();
        for module in members.iter().flat_map(|member| &member.space.modules) {
            let functions = self.seen.functions(module, selector).iter();
            found.extend(functions.map(|function| (spot(module, function.offset), function.clone())));
        }
        let best = found.iter().map(|(_, function)| function.fit).max().flatten();
        found.retain(|(_, function)| function.fit == best);
        found
    }

    /// Whether it is probed for the profile only.
    pub(super) fn is_quiet(&self, probe: u32) -> bool {
        self.probes
            .get(probe as usize)
            .is_some_and(|probe| probe.is_quiet)
    }

    /// Number of functions whose messages are counted by size.
    pub(super) fn sized(&self) -> u32 {
        let has_row = |probe: &&Probe| probe.spec.flags & SpecFlags::BYTES != 0;
        self.probes.iter().filter(has_row).count() as u32
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.probes.iter().position(|probe| probe.name == name)
    }

    fn push(&mut self, name: &str, mpi: Option<&'static mpi::MpiFunction>, spec: ProbeSpec) -> usize {
        self.probes.push(Probe::new(name, mpi, spec));
        self.probes.len() - 1
    }
}

/// Takes adjacent free histogram rows. Returns the first of them; `None` if there is no room.
fn take_rows(taken: &mut u32, count: u32) -> Option<u32> {
    let (first, end) = (*taken, *taken + count);
    (end <= abi::ROWS_MAX).then(|| {
        *taken = end;
        first
    })
}

/// Whether some process has a function.
fn is_anywhere(name: &str, job: &Job) -> bool {
    let has = |member: &Member| member.space.every_function(&name.into()).is_ok();
    job.members.iter().any(has)
}

/// Takes rows for a histogram of durations, if requested and if there is room.
fn give_rows(probe: &mut Probe, taken: &mut u32) {
    if probe.rows_of_durations().is_none() {
        return;
    }
    match take_rows(taken, Durations::ROWS) {
        Some(first) => probe.spec.durations = first,
        None => probe.spec.flags &= !SpecFlags::DURATIONS,
    }
}

fn spot(module: &Module, offset: u64) -> ProbedFunction {
    (format!("{:?}", module.device), module.inode, offset)
}

fn mpi_spec(called: mpi::CalledFunction, implementation: &Implementation) -> ProbeSpec {
    let function = called.function;
    let mut spec = ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::OUTERMOST,
        message: job::mpi_spec(called, implementation),
        ..ProbeSpec::default()
    };
    if !function.is_polling() {
        spec.flags |= SpecFlags::SEQUENCE;
    }
    if implementation.layout != SizeLayout::Unknown && function.carries.is_some() {
        spec.flags |= SpecFlags::MESSAGE;
        if function.has_bytes() {
            spec.flags |= SpecFlags::BYTES;
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_a_rule_counts_is_timed_only_while_the_profile_watches_it() {
        let profile = Wanted::quietly(ProbeSelector::OpenmpRegion);
        let rule = Wanted {
            flags: 0,
            is_quiet: false,
            is_counted: true,
            ..profile.clone()
        };
        let wanted = [profile, rule];
        let mut numbers = Numbers::default();
        numbers.push("GOMP_parallel", None, ProbeSpec::default());
        numbers.probes[0].wanted = vec![0, 1];
        let mut share = |on: [bool; 2]| {
            let changed = numbers.share_with_profile(&wanted, &on);
            let probe = &numbers.probes[0];
            (changed, probe.is_timed(), probe.is_only_counted)
        };
        assert_eq!(share([true, false]), (vec![0], true, false));
        assert_eq!(share([true, true]), (vec![], true, false));
        assert_eq!(share([false, true]), (vec![0], false, true));
        // Some of its calls have no duration from now on, whichever request times the others.
        assert_eq!(share([true, true]), (vec![0], true, true));
    }
}
