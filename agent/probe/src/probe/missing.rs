//! Reports requested functions that are not probed, as text. Decides nothing.

use std::collections::BTreeSet;
use std::fmt;

use abi::SpecFlags;
use job::Member;
use profile::format::plural;
use profile::mpi;

use super::{Probe, ProbeSelector, Probes, selection};

/// Functions of a program that began, or loaded a library, after the session: as those of `run -- sh -c ./program`.
fn came_late(count: usize, selectors: &str, pid: impl fmt::Display, program: &str) -> String {
    let functions = plural(count, "function");
    let were = if count == 1 { "it was" } else { "they were" };
    format!(
        "{functions} of process {pid} ({program}) cannot be probed in this session, as {were} loaded after its start ({selectors}). Attach \
         again (tuneagent attach {pid}); if a shell or script starts {program}, run {program} itself"
    )
}

/// What could not be probed, as text; each item once, however many processes lack it.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) texts: Vec<String>,
    pub(super) reported: BTreeSet<String>,
}

impl Missing {
    pub(super) fn report(&mut self, about: String, text: impl FnOnce() -> String) {
        if self.reported.insert(about) {
            self.texts.push(text());
        }
    }
}

impl Probes {
    /// Reports patterns and sets that match no function of any process in which they are requested.
    pub(super) fn report_nothing(&mut self, requested: &[Vec<bool>]) {
        for (index, want) in self.wanted.iter().enumerate().filter(|(_, want)| !want.is_quiet) {
            let is_requested = requested
                .iter()
                .any(|requested| requested.get(index) == Some(&true));
            let is_there = self
                .numbers
                .probes
                .iter()
                .any(|probe| probe.wanted.contains(&index));
            if is_requested && !is_there {
                let text = || format!("no function of the program fits {}", want.selector);
                self.missing.report(want.selector.to_string(), text);
            }
        }
    }

    /// Reports functions without room for the requested histograms of durations.
    pub(super) fn report_rows(&mut self) {
        let is_to_be = |want: &usize| self.wanted[*want].flags & SpecFlags::DURATIONS != 0;
        let probes = self.numbers.probes.iter();
        let (with, without): (Vec<&Probe>, Vec<&Probe>) = probes
            .filter(|probe| probe.wanted.iter().any(is_to_be))
            .partition(|probe| probe.rows_of_durations().is_some());
        if without.is_empty() {
            return;
        }
        let text = format!(
            "no histogram of {} named with --probe: there was room for {}",
            plural(without.len(), "function"),
            with.len()
        );
        self.missing.report(text.clone(), || text);
    }

    /// Reports functions of a process that came later and that were not numbered at the start.
    pub(super) fn report_unnumbered(&mut self, member: &Member, slot: u32) {
        let numbered: BTreeSet<&String> = self
            .numbers
            .probes
            .iter()
            .flat_map(|probe| &probe.symbols)
            .collect();
        let requested = self.requested.get(slot as usize).cloned().unwrap_or_default();
        let (mut late, mut selectors) = (BTreeSet::new(), Vec::new());
        for (want, _) in self
            .wanted
            .iter()
            .zip(requested)
            .filter(|(_, requested)| *requested)
        {
            if want.is_quiet
                || !matches!(
                    want.selector,
                    ProbeSelector::Pattern(_)
                        | ProbeSelector::OpenmpRegion
                        | ProbeSelector::OpenmpSize
                        | ProbeSelector::BlasCall
                        | ProbeSelector::Gpu(_)
                )
            {
                continue;
            }
            let mut is_late = false;
            for module in &member.space.modules {
                let functions = self.numbers.seen.functions(module, &want.selector);
                // MPI's functions are numbered by the names that users know.
                let is_new = |resolved: &&selection::ResolvedFunction| {
                    !numbered.contains(&resolved.symbol)
                        && mpi::find(resolved.name.trim_start_matches('P')).is_none()
                };
                let symbols = functions
                    .iter()
                    .filter(is_new)
                    .map(|resolved| resolved.symbol.clone());
                let symbols: Vec<String> = symbols.collect();
                is_late |= !symbols.is_empty();
                late.extend(symbols);
            }
            let selector = want.selector.to_string();
            if is_late && !selectors.contains(&selector) {
                selectors.push(selector);
            }
        }
        if !late.is_empty() {
            let (program, selectors) = (member.program(), selectors.join(", "));
            self.missing.report(format!("{selectors} of {program}"), || {
                came_late(late.len(), &selectors, member.process.pid, &program)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_functions_that_came_late_it_is_said_how_they_are_probed() {
        for (count, text) in [
            (
                1,
                "1 function of process 7 (short) cannot be probed in this session, as it was ",
            ),
            (
                13,
                "13 functions of process 7 (short) cannot be probed in this session, as they were ",
            ),
        ] {
            let said = came_late(count, "openmp.region, openmp.size", 7, "short");
            assert!(said.starts_with(text), "{said}");
            assert!(
                said.ends_with("(tuneagent attach 7); if a shell or script starts short, run short itself"),
                "{said}"
            );
        }
    }
}
