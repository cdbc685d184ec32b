//! What is probed, in which processes: gives every function a number, loads the kernel side, attaches, and adds processes
//! that come later. Reads no metric and decides nothing.

use std::{collections::BTreeMap, path::PathBuf};

use abi::{ByteRule, Capture, ProbeSpec, SizeLayout, SpecFlags};
use tuner::module::Module;

use crate::{
    discover::{Job, Member},
    kernel::{At, Kernel, KernelError, Link, LinkKind, LinkRequest, LoadOptions, Site},
    mpi::{self, BytesKind, Implementation},
};

/// Up to this many processes each gets links of its own, which cost strangers nothing but every hit about 28 ns a link;
/// beyond, one link for each file is filtered in the program.
const OWN_LINKS_MAX: usize = 8;

/// Room for processes that join later.
const SPARE_PROCESSES: u32 = 64;

/// A probe as asked for by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the function.
    pub function: String,
    /// [`SpecFlags`] that someone needs.
    pub flags: u32,
}

/// A function that is probed.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// What it is in MPI, and whether its counts have 64 bits.
    pub mpi: Option<&'static mpi::Function>,
    /// What is done at a hit.
    pub spec: ProbeSpec,
}

impl Probe {
    /// Which way its bytes go, when they are counted.
    pub fn bytes_kind(&self) -> Option<BytesKind> {
        let counted = self.spec.flags & SpecFlags::BYTES != 0;
        self.mpi
            .and_then(|function| function.bytes)
            .filter(|_| counted)
            .map(|bytes| bytes.kind)
    }

    /// Whether its calls are timed.
    pub fn is_timed(&self) -> bool {
        self.spec.flags & SpecFlags::SPAN != 0
    }
}

/// The armed probes of a session. Dropping it detaches all.
pub struct Probes {
    links: Vec<Link>,
    kernel: Kernel,
    probes: Vec<Probe>,
    attached: BTreeMap<(String, u64), Vec<Site>>,
    slots: u32,
    room: u32,
    own_links: bool,
    missing: Vec<String>,
}

impl Probes {
    /// Loads the kernel side and attaches to every member of the job.
    pub fn arm(job: &Job, wanted: &[Wanted], force_tracefs: bool) -> Result<Probes, KernelError> {
        let probes = number(job, wanted);
        let count = u32::try_from(probes.len())
            .unwrap_or(abi::MAX_PROBES)
            .min(abi::MAX_PROBES);
        let members = job.members.len() as u32;
        let room = abi::MAX_PROCESSES.min(abi::MAX_TOTALS / count.max(1));
        let processes = (2 * members + SPARE_PROCESSES).min(room);
        let mut kernel = Kernel::load(LoadOptions {
            probes: count,
            processes,
            force_tracefs,
        })?;
        for (index, probe) in probes.iter().enumerate() {
            kernel.set_spec(index as u32, probe.spec)?;
        }
        let by_process = matches!(kernel.link_kind(), LinkKind::UprobeMulti { by_process: true });
        let mut armed = Probes {
            links: Vec::new(),
            own_links: by_process && job.members.len() <= OWN_LINKS_MAX,
            kernel,
            probes,
            attached: BTreeMap::new(),
            slots: 0,
            room: processes,
            missing: Vec::new(),
        };
        for member in &job.members {
            armed.add(member)?;
        }
        Ok(armed)
    }

    /// Attaches to one more process and gives it a slot, if there is room. The process counts from here on.
    pub fn add(&mut self, member: &Member) -> Result<Option<u32>, KernelError> {
        let slot = self.slots;
        let pid = member.process.pid.number;
        if slot >= self.room {
            self.missing.push(format!(
                "process {pid} is not watched: there was room for {} processes",
                self.room
            ));
            return Ok(None);
        }
        for (module, sites) in self.sites_in(member) {
            let path = match module.probe_path() {
                Ok(path) => path,
                Err(error) => {
                    self.missing.push(format!(
                        "{} of process {pid} is not probed: {error}",
                        module.file_name()
                    ));
                    continue;
                }
            };
            self.set_addresses(pid as u32, module, &sites)?;
            self.attach(module, path, &sites, pid)?;
        }
        self.kernel.watch(pid as u32, slot)?;
        self.slots += 1;
        Ok(Some(slot))
    }

    /// Stops counting a process. Its cells stay readable.
    pub fn forget(&mut self, pid: i32) -> Result<(), KernelError> {
        self.kernel.forget(pid as u32)
    }

    /// The probes, by number.
    pub fn list(&self) -> &[Probe] {
        &self.probes
    }

    /// Processes that have a slot.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The kernel side.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The kernel side, for changing.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// What could not be probed, in words.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Sites attached so far, over all files.
    pub fn site_count(&self) -> usize {
        self.attached.values().map(Vec::len).sum()
    }

    /// Whether processes outside the job pay for the probes: links that are not limited to a process fire in every program
    /// that maps the file.
    pub fn strangers_pay(&self) -> bool {
        !self.own_links
    }

    /// Where the probes stand in the modules of a process.
    fn sites_in<'a>(&mut self, member: &'a Member) -> Vec<(&'a Module, Vec<Site>)> {
        let mut found: Vec<(&Module, Vec<Site>)> = Vec::new();
        if let (Some(mpi), Some(module)) = (&member.mpi, member.mpi_module()) {
            let site = |site: &crate::discover::WatchedSite| {
                let probe = self
                    .probes
                    .iter()
                    .position(|probe| probe.mpi.is_some() && probe.name == site.name)?;
                Some(Site {
                    offset: site.offset.0,
                    probe: probe as u32,
                })
            };
            found.push((module, mpi.sites.iter().filter_map(site).collect()));
        }
        let named: Vec<(u32, String)> = self
            .probes
            .iter()
            .enumerate()
            .filter(|(_, probe)| probe.mpi.is_none())
            .map(|(index, probe)| (index as u32, probe.name.clone()))
            .collect();
        for (probe, name) in named {
            let before = found.len();
            for module in &member.space.modules {
                for function in module.image.functions(&[&name]).unwrap_or_default() {
                    found.push((
                        module,
                        vec![Site {
                            offset: function.offset.0,
                            probe,
                        }],
                    ));
                }
            }
            if found.len() == before {
                let pid = member.process.pid;
                self.missing.push(format!(
                    "no module of process {pid} defines a function {name} (inlined, or misspelt)"
                ));
            }
        }
        merge_by_module(found)
    }

    fn set_addresses(&mut self, pid: u32, module: &Module, sites: &[Site]) -> Result<(), KernelError> {
        if self.kernel.link_kind() != LinkKind::Tracefs {
            return Ok(());
        }
        for site in sites {
            let segment = module.image.segments.iter().find(|segment| {
                site.offset >= segment.offset.0 && site.offset - segment.offset.0 < segment.file_size
            });
            if let Some(segment) = segment {
                let address = module
                    .bias
                    .0
                    .wrapping_add(segment.address.0 + (site.offset - segment.offset.0));
                self.kernel.set_address(pid, address, site.probe)?;
            }
        }
        Ok(())
    }

    fn attach(
        &mut self,
        module: &Module,
        path: PathBuf,
        sites: &[Site],
        pid: i32,
    ) -> Result<(), KernelError> {
        let key = (format!("{:?}", module.device), module.inode);
        let known = self.attached.entry(key).or_default();
        let new: Vec<Site> = sites
            .iter()
            .filter(|site| self.own_links || !known.contains(site))
            .copied()
            .collect();
        known.extend(
            new.iter()
                .filter(|site| !known.contains(site))
                .copied()
                .collect::<Vec<_>>(),
        );
        let pid = self.own_links.then_some(pid as u32);
        let is_span = |site: &Site| self.probes[site.probe as usize].is_timed();
        // Returns first: a call that is entered in between then has its return seen without an entry, which is told from a
        // loss, and not the other way round.
        let returns: Vec<Site> = new.iter().filter(|site| is_span(site)).copied().collect();
        for (sites, at) in [(returns, At::Return), (new, At::Entry)] {
            if !sites.is_empty() {
                let request = LinkRequest {
                    path: path.clone(),
                    sites,
                    at,
                    pid,
                };
                self.links.push(self.kernel.attach(&request)?);
            }
        }
        Ok(())
    }
}

impl Drop for Probes {
    /// Closing a link waits for the kernel to be sure that no hit is under way. Closed side by side, all wait at once.
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for link in self.links.drain(..) {
                scope.spawn(move || drop(link));
            }
        });
    }
}

fn merge_by_module(found: Vec<(&Module, Vec<Site>)>) -> Vec<(&Module, Vec<Site>)> {
    let mut merged: Vec<(&Module, Vec<Site>)> = Vec::new();
    for (module, sites) in found {
        match merged
            .iter_mut()
            .find(|(known, _)| known.path == module.path && known.bias == module.bias)
        {
            Some((_, known)) => known.extend(sites),
            None => merged.push((module, sites)),
        }
    }
    merged
}

/// Numbers the functions: those of MPI in the order of the table, then the others as asked for.
fn number(job: &Job, wanted: &[Wanted]) -> Vec<Probe> {
    let asked = |name: &str| {
        wanted
            .iter()
            .filter(|want| want.function == name)
            .fold(0, |flags, want| flags | want.flags)
    };
    let mut probes: Vec<Probe> = Vec::new();
    for member in &job.members {
        let Some(mpi) = &member.mpi else { continue };
        for site in &mpi.sites {
            if probes.iter().any(|probe| probe.name == site.name) {
                continue;
            }
            if let Some((function, is_large)) = mpi::find(&site.name) {
                let mut spec = mpi_spec(function, is_large, &mpi.implementation);
                spec.flags |= asked(&site.name);
                probes.push(Probe {
                    name: site.name.clone(),
                    mpi: Some(function),
                    spec,
                });
            }
        }
    }
    for want in wanted {
        if !probes.iter().any(|probe| probe.name == want.function) {
            let spec = ProbeSpec {
                flags: asked(&want.function),
                ..ProbeSpec::default()
            };
            probes.push(Probe {
                name: want.function.clone(),
                mpi: None,
                spec,
            });
        }
    }
    probes
}

fn mpi_spec(function: &mpi::Function, is_large: bool, implementation: &Implementation) -> ProbeSpec {
    let mut spec = ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::OUTERMOST,
        captures: [Capture::default(); abi::MAX_CAPTURES],
        bytes: ByteRule::default(),
    };
    if let Some(bytes) = function
        .bytes
        .filter(|_| implementation.layout != SizeLayout::Unknown)
    {
        spec.flags |= SpecFlags::BYTES;
        spec.bytes = ByteRule {
            layout: implementation.layout as u8,
            count_argument: bytes.count,
            type_argument: bytes.datatype,
            count_width: if is_large { 8 } else { 4 },
            buffer_argument: bytes.buffer.unwrap_or(ByteRule::NO_BUFFER),
            zero: 0,
            size_offset: implementation.size_offset,
        };
    }
    spec
}
