//! Turns chosen places into links of the kernel, and sends the kernel side the addresses that a process
//! needs. Selects nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use job::Member;
use tuner::{Module, Pid};

use super::{
    LinkGroup, LinkTarget, Linked, Probe, Probes, Read,
    places::{PricedSite, address_of},
};
use crate::kernel::{CallMoment, Kernel, KernelError, Link, LinkKind, LinkRequest, ProbeSite};

/// How often, and after which pause, attaching to a living process is retried if the kernel does not find it.
const TRIES: usize = 20;
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// One link for each function of a request that the kernel accepts.
fn one_by_one(kernel: &Kernel, request: &LinkRequest) -> Vec<(BTreeSet<u32>, Link)> {
    let probes: BTreeSet<u32> = request.sites.iter().map(|site| site.probe).collect();
    let attach = |probe: u32| {
        let sites = request.sites.iter().copied().filter(|site| site.probe == probe);
        let one = LinkRequest {
            sites: sites.collect(),
            path: request.path.clone(),
            ..*request
        };
        Some((BTreeSet::from([probe]), kernel.attach(&one).ok()?))
    };
    probes.into_iter().filter_map(attach).collect()
}

impl Probes {
    /// Sends the kernel side the addresses of the variables that are captured in the process.
    pub(super) fn set_variables(&mut self, member: &Member, slot: u32) -> Result<(), KernelError> {
        let Some(kernel) = &mut self.kernel else {
            return Ok(());
        };
        let requested = self.requested.get(slot as usize).cloned().unwrap_or_default();
        let is_requested = |probe: &Probe| {
            probe
                .wanted
                .iter()
                .any(|want| requested.get(*want) == Some(&true))
        };
        for (probe, known) in self
            .numbers
            .probes
            .iter()
            .enumerate()
            .filter(|(_, probe)| is_requested(probe))
        {
            for (place, capture) in known.captures.iter().enumerate() {
                let Read::Variable(name) = &capture.read else {
                    continue;
                };
                match member.variable_address(name) {
                    Ok(address) => kernel.set_variable(slot, probe as u32, place as u32, address)?,
                    Err(error) => self.missing.report(format!("{name} at {}", known.name), || {
                        format!("{} is not captured at {}: {error}", capture.what, known.name)
                    }),
                }
            }
        }
        Ok(())
    }

    /// Sends the kernel side the addresses of the sites in a process, for links without cookies.
    pub(super) fn set_addresses(
        &mut self,
        pid: u32,
        module: &Module,
        places: &[PricedSite],
    ) -> Result<(), KernelError> {
        let Some(kernel) = self
            .kernel
            .as_mut()
            .filter(|kernel| kernel.link_kind() == LinkKind::Tracefs)
        else {
            return Ok(());
        };
        // The stack pointer shows which call ends at a shared exit.
        let is_own = |place: &&PricedSite| place.at != CallMoment::Exit { is_shared: true };
        for place in places.iter().filter(is_own) {
            // A mark may be the first instruction of its function.
            let is_taken = |other: &&PricedSite| {
                is_own(other) && other.site.offset == place.site.offset && other.site.probe < place.site.probe
            };
            if let Some(other) = places.iter().find(is_taken) {
                let [other, name] =
                    [other, place].map(|place| self.numbers.probes[place.site.probe as usize].name.clone());
                self.missing.report(format!("{name} at {other}"), || {
                    format!("{name} is not probed: {other} begins at the same instruction, and this kernel cannot distinguish them")
                });
                continue;
            }
            if let Some(address) = address_of(module, place.site.offset) {
                kernel.set_address(pid, address, place.site.probe)?;
            }
        }
        Ok(())
    }

    fn report_late_file(&mut self, module: &Module) {
        let file = module.file_name();
        self.missing.report(format!("{file} of late"), || {
            format!(
                "{file}, which was not there at the start, is not probed: on this kernel (before 6.6) probes are attached at the start \
                 only; attach again and it is"
            )
        });
    }

    /// As [`Probes::attach`]; false if the process has ended, so there is nothing left to watch.
    pub(super) fn attach_living(
        &mut self,
        module: &Module,
        path: PathBuf,
        places: &[PricedSite],
        pid: Pid,
    ) -> Result<bool, KernelError> {
        for _ in 0..TRIES {
            match self.attach(module, path.clone(), places, pid.number) {
                Err(error) if error.is_of_no_process() && !pid.is_alive() => return Ok(false),
                // The process is executing a program: that takes the kernel microseconds.
                Err(error) if error.is_of_no_process() => std::thread::sleep(RETRY_AFTER),
                attached => return attached.map(|()| true),
            }
        }
        self.attach(module, path, places, pid.number).map(|()| true)
    }

    /// Attaches to places that are not attached yet. Links limited to a process are made for each process.
    pub(super) fn attach(
        &mut self,
        module: &Module,
        path: PathBuf,
        places: &[PricedSite],
        pid: i32,
    ) -> Result<(), KernelError> {
        let to = LinkTarget {
            file: module.file_id(),
            process: self.own_links.then_some(pid as u32),
        };
        if self.kernel.is_none() {
            return Ok(());
        }
        let known = self.attached.get(&to);
        let is_new = |place: &&PricedSite| known.is_none_or(|known| !known.contains(place));
        let new: Vec<PricedSite> = places.iter().filter(is_new).copied().collect();
        if new.is_empty() || self.puts_off(to) {
            return Ok(());
        }
        // The right to define events of tracefs was given up before.
        let is_tracefs = |kernel: &Kernel| kernel.link_kind() == LinkKind::Tracefs;
        if self.is_armed && self.kernel.as_ref().is_some_and(is_tracefs) {
            self.report_late_file(module);
            return Ok(());
        }
        if let Some(late) = self.late.as_mut().filter(|_| self.is_armed) {
            late.attach(module);
        }
        // All or nothing: if one link is refused, the next process of the file finds it refused too, instead
        // of taking it for attached.
        let links = self.links_to(&path, &new, to)?;
        self.links.extend(links);
        self.attached.entry(to).or_default().extend(new);
        if !self.own_links && !module.is_executable {
            self.shared_libraries.insert(module.file_name().to_owned());
        }
        Ok(())
    }

    /// Links to these places of a file.
    fn links_to(
        &self,
        path: &Path,
        places: &[PricedSite],
        to: LinkTarget,
    ) -> Result<Vec<Linked>, KernelError> {
        let mut groups: BTreeMap<LinkGroup, Vec<PricedSite>> = BTreeMap::new();
        for place in places {
            let group = groups.entry(self.group(place.site.probe)).or_default();
            group.push(*place);
        }
        let mut links = Vec::new();
        for places in groups.into_values() {
            // Returns first: for a call that is entered in between, a return without an entry is seen, which
            // can be distinguished from a loss; an entry without a return cannot.
            let moments: BTreeSet<CallMoment> = places.iter().map(|place| place.at).collect();
            for at in moments.into_iter().rev() {
                let here = places.iter().filter(|place| place.at == at);
                let sites: Vec<ProbeSite> = here.map(|place| place.site).collect();
                if !sites.is_empty() {
                    links.extend(self.links_at(path, sites, at, to)?);
                }
            }
        }
        Ok(links)
    }

    /// One link for all these sites; if the kernel refuses it, one for each function that the kernel accepts.
    fn links_at(
        &self,
        path: &Path,
        sites: Vec<ProbeSite>,
        at: CallMoment,
        to: LinkTarget,
    ) -> Result<Vec<Linked>, KernelError> {
        let Some(kernel) = &self.kernel else {
            return Ok(Vec::new());
        };
        let probes: BTreeSet<u32> = sites.iter().map(|site| site.probe).collect();
        let request = LinkRequest::new(path.to_owned(), sites, at, to.process);
        let linked = |(probes, link)| Linked { probes, at, to, link };
        match kernel.attach(&request) {
            Ok(link) => Ok(vec![linked((probes, link))]),
            // Instructions that the kernel does not probe (with a lock prefix) must not prevent other probes.
            Err(_) if probes.iter().all(|probe| self.numbers.is_quiet(*probe)) => {
                Ok(one_by_one(kernel, &request).into_iter().map(linked).collect())
            }
            Err(error) => Err(error),
        }
    }
}
