//! What is probed, in which processes: gives every function a number, loads the kernel side, attaches, and adds processes
//! that come later. Reads no metric and decides nothing.

mod captures;
mod number;
mod places;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use abi::{ProbeSpec, SpecFlags};
use tuner::module::Module;

pub use self::captures::{CaptureError, ProbeCapture, Read, WantedCapture, number as number_of};
use self::places::{KnownFiles, Place, address_of};
use crate::{
    discover::{Job, Member},
    kernel::{At, Kernel, KernelError, Link, LinkKind, LinkRequest, LoadOptions, Site},
    mpi::{self, BytesKind},
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
    /// Values to read at its hits.
    pub captures: Vec<WantedCapture>,
}

/// Why a session has no probes.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A rule asks for what cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
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
    /// What is read at a hit, in the order in which the kernel side sends it.
    pub captures: Vec<ProbeCapture>,
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
    /// None in a session that may not probe.
    kernel: Option<Kernel>,
    probes: Vec<Probe>,
    attached: BTreeMap<(String, u64), BTreeSet<Place>>,
    files: KnownFiles,
    slots: u32,
    room: u32,
    own_links: bool,
    missing: Vec<String>,
}

impl Probes {
    /// Loads the kernel side and attaches to every member of the job. Nothing counts until it is watched.
    pub fn arm(job: &Job, wanted: &[Wanted], force_tracefs: bool) -> Result<Probes, ArmError> {
        let probes = number::number(job, wanted)?;
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
            kernel: Some(kernel),
            probes,
            attached: BTreeMap::new(),
            files: KnownFiles::new(),
            slots: 0,
            room: processes,
            missing: Vec::new(),
        };
        for member in &job.members {
            armed.add(member)?;
        }
        Ok(armed)
    }

    /// No probe at all: the processes get their slots, and /proc is all there is.
    pub fn none(job: &Job, why: Vec<String>) -> Probes {
        Probes {
            links: Vec::new(),
            kernel: None,
            probes: Vec::new(),
            attached: BTreeMap::new(),
            files: KnownFiles::new(),
            slots: job.members.len().try_into().unwrap_or(abi::MAX_PROCESSES),
            room: abi::MAX_PROCESSES,
            own_links: true,
            missing: why,
        }
    }

    /// From now on the hits of the process in this slot count.
    pub fn watch(&mut self, slot: u32, pid: i32) -> Result<(), KernelError> {
        self.kernel
            .as_mut()
            .map_or(Ok(()), |kernel| kernel.watch(pid as u32, slot))
    }

    /// Attaches to one more process and gives it a slot, if there is room. It counts once it is watched.
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
        if self.kernel.is_none() {
            self.slots += 1;
            return Ok(Some(slot));
        }
        let found = places::find(&self.probes, member, &mut self.files);
        self.missing.extend(found.missing);
        for (module, sites) in found.by_module {
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
        self.set_variables(member, slot)?;
        self.slots += 1;
        Ok(Some(slot))
    }

    /// Stops counting a process. Its cells stay readable.
    pub fn forget(&mut self, pid: i32) -> Result<(), KernelError> {
        self.kernel
            .as_mut()
            .map_or(Ok(()), |kernel| kernel.forget(pid as u32))
    }

    /// The probes, by number.
    pub fn list(&self) -> &[Probe] {
        &self.probes
    }

    /// Processes that have a slot.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The kernel side; none in a session that may not probe.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// The kernel side, for changing.
    pub fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }

    /// What could not be probed, in words.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Sites attached so far, over all files.
    pub fn site_count(&self) -> usize {
        self.attached.values().map(BTreeSet::len).sum()
    }

    /// Whether processes outside the job pay for the probes: links that are not limited to a process fire in every program
    /// that maps the file.
    pub fn strangers_pay(&self) -> bool {
        !self.own_links
    }

    /// Tells the kernel side where the process has the variables that are captured.
    fn set_variables(&mut self, member: &Member, slot: u32) -> Result<(), KernelError> {
        let Some(kernel) = &mut self.kernel else {
            return Ok(());
        };
        for (probe, known) in self.probes.iter().enumerate() {
            for (place, capture) in known.captures.iter().enumerate() {
                let Read::Variable(name) = &capture.read else {
                    continue;
                };
                match member.variable_address(name) {
                    Ok(address) => kernel.set_variable(slot, probe as u32, place as u32, address)?,
                    Err(error) => self
                        .missing
                        .push(format!("{name} is not captured at {}: {error}", known.name)),
                }
            }
        }
        Ok(())
    }

    /// Tells the kernel side at which addresses a process has the sites, for links without cookies.
    fn set_addresses(&mut self, pid: u32, module: &Module, places: &[Place]) -> Result<(), KernelError> {
        let Some(kernel) = self
            .kernel
            .as_mut()
            .filter(|kernel| kernel.link_kind() == LinkKind::Tracefs)
        else {
            return Ok(());
        };
        for place in places {
            if let Some(address) = address_of(module, place.site.offset) {
                kernel.set_address(pid, address, place.site.probe)?;
            }
        }
        Ok(())
    }

    /// Attaches to what is not attached yet. A link of a process's own is made for each process.
    fn attach(
        &mut self,
        module: &Module,
        path: PathBuf,
        places: &[Place],
        pid: i32,
    ) -> Result<(), KernelError> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let key = (format!("{:?}", module.device), module.inode);
        let known = self.attached.entry(key).or_default();
        let is_new = |place: &&Place| self.own_links || !known.contains(place);
        let new: Vec<Place> = places.iter().filter(is_new).copied().collect();
        known.extend(&new);
        let pid = self.own_links.then_some(pid as u32);
        // Returns first: a call that is entered in between then has its return seen without an entry, which is told from a
        // loss, and not the other way round.
        for at in [At::Return, At::ReturnInstruction, At::Entry] {
            let sites: Vec<Site> = new
                .iter()
                .filter(|place| place.at == at)
                .map(|place| place.site)
                .collect();
            if !sites.is_empty() {
                let request = LinkRequest {
                    path: path.clone(),
                    sites,
                    at,
                    pid,
                };
                self.links.push(kernel.attach(&request)?);
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
