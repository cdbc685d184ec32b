//! Reports requested functions that are not probed, as text. Decides nothing.

use std::collections::BTreeSet;

use abi::SpecFlags;
use job::Member;
use profile::format::plural;
use profile::mpi;

use super::{Probe, ProbeSelector, Probes, selection};

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
            let mut count = 0;
            for module in &member.space.modules {
                let functions = self.numbers.seen.functions(module, &want.selector);
                // MPI's functions are numbered by the names that users know.
                let is_new = |resolved: &&selection::ResolvedFunction| {
                    !numbered.contains(&resolved.symbol)
                        && mpi::find(resolved.name.trim_start_matches('P')).is_none()
                };
                count += functions.iter().filter(is_new).count();
            }
            if count > 0 {
                let (pid, selector) = (member.process.pid, &want.selector);
                self.missing.report(format!("{selector} of {pid}"), || {
                    format!("{count} functions of process {pid} that match {selector} are not probed: they were loaded after the start")
                });
            }
        }
    }
}
