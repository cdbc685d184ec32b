//! The probes of a session: gives every function a number, loads the kernel side, attaches, and adds
//! processes that come later. Reads no metric and decides nothing.

mod attach;
mod captures;
mod family;
mod gone;
mod late_mpi;
mod live;
mod missing;
mod number;
mod overwritten;
mod places;
mod priced;
pub(crate) mod selection;
mod switch;
mod ways;
mod windows;
mod worlds;

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::BorrowedFd,
    time::Duration,
};

use job::{Job, Member};
use profile::mpi;
use tuner::{CodeText, FileId, monotonic_ns};

use profile::probe::{CaptureStep, Probe, ProbeCapture, ProbeSelector, Read, Wanted, WantedCapture};

pub(crate) use self::captures::CaptureError;
use self::missing::Missing;
use self::number::Numbers;
use self::places::{KnownFiles, PricedSite};
pub use self::selection::has_regions;
use crate::kernel::{
    self, Calibration, CallMoment, CloseTicket, Closer, Kernel, KernelError, Link, LinkChoice, LinkKind,
    LoadOptions, ProbeLoader, Ring, has_same_pid_in_kernel,
};

/// Up to this many processes get links of their own, or all by the node's service. Those cost other processes nothing, but about 28 ns a
/// link at every hit. With more processes there is one link for each file, and the program filters.
const OWN_LINKS_MAX: usize = 8;

/// Room for processes that join later.
const SPARE_PROCESSES: u32 = 64;
/// Room for functions of rules that are added later.
const SPARE_PROBES: u32 = 64;
/// Room for the aggregating probes among them.
const SPARE_SUMS: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A rule requests a value that cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A pattern matches more functions than is sensible.
    #[error("{wanted} means {found} functions, and at most {most} are probed; a longer pattern means fewer")]
    TooManyFunctions {
        wanted: String,
        found: usize,
        /// The greatest permitted number.
        most: usize,
    },
    /// An added rule requests probes, and nothing can be attached any more.
    #[error("it needs probes, and {0}")]
    NoMore(String),
}

/// The armed probes of a session. Dropping it detaches all.
pub struct Probes {
    links: Vec<Linked>,
    closer: Closer,
    /// The places at which links are being closed. Nothing is attached there until then: the same calls would
    /// be counted twice.
    closing: Vec<(CloseTicket, LinkTarget)>,
    /// Since when something is not attached for that reason.
    put_off_since_ns: Option<u64>,
    /// The sampling window is closed: sampled functions are detached.
    is_shut: bool,
    /// The prices of hits; `None` if nothing is probed.
    calibration: Option<Calibration>,
    /// `None` in a session without probe rights.
    kernel: Option<Kernel>,
    numbers: Numbers,
    wanted: Vec<Wanted>,
    /// For each request, whether it is switched on.
    on: Vec<bool>,
    /// Requests that are suspended to keep the budget.
    resting: BTreeSet<usize>,
    /// For each slot, which of the requests apply to its process.
    requested: Vec<Vec<bool>>,
    attached: BTreeMap<LinkTarget, BTreeSet<PricedSite>>,
    /// File names of shared libraries that have had links for all processes that map them.
    shared_libraries: BTreeSet<String>,
    /// Functions that were searched, each with whether some process has it.
    defined: BTreeMap<u32, bool>,
    files: KnownFiles,
    /// Probes are attached to the members that the job had at the start.
    is_armed: bool,
    room: u32,
    own_links: bool,
    /// In a session of a command: files that were attached to only when a process with them was detected.
    late: Option<family::Late>,
    missing: Missing,
    /// Functions of files with links for all processes whose code some process has overwritten.
    overwritten: BTreeSet<(FileId, u32)>,
    /// Slots of processes whose MPI library does not show its world communicator yet.
    unsettled: BTreeSet<u32>,
}

/// A file, and the process if the link is limited to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkTarget {
    file: FileId,
    process: Option<u32>,
}

/// Functions that share links, and so are attached and detached together: those of the same requests, unless
/// they have a class of their own.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LinkGroup {
    requests: Vec<usize>,
    class: Option<LinkClass>,
}

/// Functions whose links are attached and detached separately from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LinkClass {
    /// A function that is requested by its name.
    Named(u32),
    Sampled,
    /// Functions that a process calls first.
    First,
    /// MPI_Test, MPI_Iprobe and others that are called repeatedly.
    Polling,
}

/// A link, and the probes that it serves.
struct Linked {
    probes: BTreeSet<u32>,
    at: CallMoment,
    to: LinkTarget,
    link: Link,
}

/// Room on the kernel side beyond what is attached at the start.
struct Spare {
    /// Total number of processes.
    processes: u32,
    /// Room for the functions of an MPI library that no process has yet.
    mpi: bool,
}

impl Probes {
    /// Loads the kernel side and attaches to every member of the job. Hits count only once a process is
    /// watched. `requested` says for each member which of the wanted are requested in it.
    pub fn arm(
        job: &Job,
        wanted: Vec<Wanted>,
        requested: Vec<Vec<bool>>,
        loader: &ProbeLoader,
    ) -> Result<Probes, ArmError> {
        let members = job.members.len() as u32;
        let is_launched = job.roots.iter().any(|root| root.is_launcher);
        let spare = Spare {
            processes: 2 * members + SPARE_PROCESSES,
            // Ranks that are still shells, or interpreters, will load an MPI library.
            mpi: is_launched && job.members.iter().all(|member| member.mpi.is_none()),
        };
        let mut armed = Probes::load(job, wanted, &requested, spare, |options| loader.load(options))?;
        armed.see_resting();
        armed.report_nothing(&requested);
        for (member, requested) in job.members.iter().zip(requested) {
            armed.add(member, requested, job)?;
        }
        armed.is_armed = true;
        Ok(armed)
    }

    /// Numbers the functions and loads the kernel side, with room for more of them.
    fn load(
        job: &Job,
        wanted: Vec<Wanted>,
        requested: &[Vec<bool>],
        spare: Spare,
        load: impl FnOnce(LoadOptions) -> Result<Kernel, KernelError>,
    ) -> Result<Probes, ArmError> {
        let mut numbers = Numbers::of(job, &wanted, requested)?;
        let count = u32::try_from(numbers.probes.len()).unwrap_or(abi::PROBES_MAX);
        let (more, sized) = match spare.mpi {
            true => (SPARE_PROBES + 2 * mpi::FUNCTIONS.len() as u32, mpi::with_bytes()),
            false => (SPARE_PROBES, 0),
        };
        let more_rows = sized.saturating_sub(numbers.sized()) * abi::Sizes::ROWS;
        let count = (count + more).min(abi::PROBES_MAX);
        let room = abi::PROCESSES_MAX.min(abi::TOTALS_MAX / count.max(1));
        let processes = spare.processes.min(room);
        // Functions that no process has yet are decided on when a process has them.
        let summed = wanted.iter().filter(|want| want.partial_sum.is_some()).count();
        let mut kernel = load(LoadOptions {
            probes: count,
            processes,
            rows: (numbers.rows + more_rows).min(abi::ROWS_MAX),
            partial_sums: (summed as u32).max(numbers.partial_sums.into()) + SPARE_SUMS,
            links: LinkChoice::Best,
        })?;
        let calibration = (!numbers.probes.is_empty()).then(|| kernel::measure(&mut kernel));
        let by_process = matches!(kernel.link_kind(), LinkKind::UprobeMulti { by_process: true });
        // With tracefs nothing can be attached or detached once the right to write is given up. So everything
        // cheap is attached, and hits of probes that are switched off are dropped.
        let all_on = kernel.link_kind() == LinkKind::Tracefs;
        let may_be_on = |want: &Wanted| !all_on || !want.is_quiet;
        let is_on = |want: &Wanted| (want.is_on || all_on) && may_be_on(want);
        let on: Vec<bool> = wanted.iter().map(is_on).collect();
        numbers.share_with_profile(&wanted, &on);
        for (index, probe) in numbers.probes.iter().enumerate() {
            kernel.set_spec(index as u32, probe.spec)?;
        }
        let mut loaded = Probes::none(job, Vec::new());
        loaded.own_links = kernel.service().is_some() || by_process && job.members.len() <= OWN_LINKS_MAX;
        loaded.calibration = calibration;
        loaded.kernel = Some(kernel);
        loaded.numbers = numbers;
        (loaded.wanted, loaded.on) = (wanted, on);
        loaded.requested.clear();
        loaded.files = KnownFiles::new(kernel::emulation(), !all_on);
        loaded.is_armed = false;
        loaded.room = processes;
        if all_on && loaded.numbers.probes.iter().any(|probe| probe.is_quiet) {
            let text = "parallel regions are not profiled: on this kernel (tracefs) probes that cost too much could not be detached";
            loaded.missing.report(text.to_owned(), || text.to_owned());
        }
        loaded.report_rows();
        Ok(loaded)
    }

    /// Creates a session without probes: the processes get their slots, and only /proc is read.
    pub fn none(job: &Job, why: Vec<String>) -> Probes {
        Probes {
            links: Vec::new(),
            closer: Closer::default(),
            closing: Vec::new(),
            put_off_since_ns: None,
            is_shut: false,
            calibration: None,
            kernel: None,
            numbers: Numbers::default(),
            wanted: Vec::new(),
            on: Vec::new(),
            resting: BTreeSet::new(),
            requested: vec![Vec::new(); job.members.len()],
            attached: BTreeMap::new(),
            shared_libraries: BTreeSet::new(),
            defined: BTreeMap::new(),
            files: KnownFiles::default(),
            room: abi::PROCESSES_MAX,
            own_links: true,
            late: None,
            missing: Missing {
                texts: why,
                ..Missing::default()
            },
            is_armed: true,
            overwritten: BTreeSet::new(),
            unsettled: BTreeSet::new(),
        }
    }

    /// Hits of the process in this slot count from now on.
    pub fn watch(&mut self, slot: u32, pid: i32) -> Result<(), KernelError> {
        self.kernel
            .as_mut()
            .map_or(Ok(()), |kernel| kernel.watch(pid as u32, slot))
    }

    /// Attaches to one more process and gives it a slot, if there is room. It counts once it is watched.
    pub fn add(
        &mut self,
        member: &Member,
        requested: Vec<bool>,
        job: &Job,
    ) -> Result<Option<u32>, KernelError> {
        let slot = self.slots();
        let pid = member.process.pid.number;
        if slot >= self.room {
            let room = self.room;
            self.missing.report(format!("process {pid}"), || {
                format!("process {pid} is not watched: there was room for {room} processes")
            });
            return Ok(None);
        }
        let is_observed = has_same_pid_in_kernel(pid);
        if self.kernel.is_some() && !is_observed {
            self.missing.report(format!("calls of {pid}"), || {
                format!(
                    "calls of process {pid} are not counted: it is in a pid namespace below ours, and the kernel gives probes no number \
                     for it there. Run tuneagent outside of all containers, or in the same one"
                )
            });
        }
        self.requested.push(requested);
        if self.kernel.is_none() || !is_observed {
            return Ok(Some(slot));
        }
        match self.is_armed {
            true => self.attach_late(member, slot, job)?,
            false => self.attach_to(member, slot)?,
        }
        Ok(Some(slot))
    }

    /// Attaches to the functions of a process that are needed there and chosen.
    fn place(
        &mut self,
        member: &Member,
        slot: u32,
        is_chosen: &dyn Fn(&Probe) -> bool,
    ) -> Result<(), KernelError> {
        let requested = self.requested.get(slot as usize).cloned().unwrap_or_default();
        self.place_requested(member, &requested, is_chosen)
    }

    /// As [`Probes::place`], with the requests of the process given.
    fn place_requested(
        &mut self,
        member: &Member,
        requested: &[bool],
        is_chosen: &dyn Fn(&Probe) -> bool,
    ) -> Result<(), KernelError> {
        let pid = member.process.pid;
        let mut files = std::mem::take(&mut self.files);
        let is_needed = |probe: &Probe| is_chosen(probe) && self.is_needed(probe, requested);
        let found = places::find(&self.numbers.probes, member, &mut files, is_needed);
        self.files = files;
        let places = found.by_module.iter().flat_map(|(_, places)| places);
        self.defined.extend(places.map(|place| (place.site.probe, true)));
        for index in found.undefined {
            self.defined.entry(index).or_insert(false);
            let probe = &self.numbers.probes[index as usize];
            // A pattern may match functions in one program and none in another.
            let is_named = |want: &usize| {
                matches!(
                    self.wanted[*want].selector,
                    ProbeSelector::Function(_) | ProbeSelector::Mark(_)
                )
            };
            if self.late.is_none() && probe.wanted.iter().any(is_named) {
                let text = || places::undefined(member, probe);
                self.missing.report(format!("function {}", probe.name), text);
            }
        }
        for text in found.missing {
            self.missing.report(text.clone(), || text);
        }
        let mut text = CodeText::of(&member.space);
        for (module, mut places) in found.by_module {
            let refused = self.overwritten(&mut text, module, &places);
            places.retain(|place| !refused.contains(&place.site.probe));
            match module.probe_path() {
                Ok(path) => {
                    self.set_addresses(pid.number as u32, module, &places)?;
                    if !self.attach_living(module, path, &places, pid)? {
                        return Ok(());
                    }
                }
                Err(error) => {
                    let file = module.file_name();
                    let text = || format!("{file} of process {pid} is not probed: {error}");
                    self.missing.report(format!("{file} of {pid}"), text);
                }
            }
        }
        Ok(())
    }

    /// MPI is watched whatever the rules request; another function if an active request includes it. Sampled
    /// functions are needed only in sampling windows.
    fn is_needed(&self, probe: &Probe, requested: &[bool]) -> bool {
        let is_requested = |want: &usize| self.is_wanted(*want) && requested.get(*want) == Some(&true);
        !self.pauses(probe) && (probe.mpi.is_some() || probe.wanted.iter().any(is_requested))
    }

    fn group(&self, probe: u32) -> LinkGroup {
        let is_named = |want: &usize| matches!(self.wanted[*want].selector, ProbeSelector::Function(_));
        match self.numbers.probes.get(probe as usize) {
            Some(of) if of.mpi.is_some() => self.group_of_mpi(of),
            Some(of) if of.wanted.iter().any(is_named) => LinkGroup {
                class: Some(LinkClass::Named(probe)),
                ..LinkGroup::default()
            },
            Some(of) => LinkGroup {
                requests: of.wanted.clone(),
                class: None,
            },
            None => LinkGroup::default(),
        }
    }

    /// Stops counting a process. Its cells stay readable.
    pub fn forget(&mut self, pid: i32) -> Result<(), KernelError> {
        self.kernel
            .as_mut()
            .map_or(Ok(()), |kernel| kernel.forget(pid as u32))
    }

    /// Uses this closer from now on.
    pub fn close_by(&mut self, closer: Closer) {
        std::mem::replace(&mut self.closer, closer).finish(Duration::ZERO);
        self.closing.clear();
    }

    fn close(&mut self, over: Vec<Linked>) {
        let targets: BTreeSet<LinkTarget> = over.iter().map(|linked| linked.to).collect();
        let ticket = self.closer.close(in_order(over));
        self.closing.extend(targets.into_iter().map(|to| (ticket, to)));
    }

    pub fn is_closing(&mut self) -> bool {
        let closed = self.closer.closed();
        self.closing.retain(|(ticket, _)| closed < *ticket);
        !self.closing.is_empty()
    }

    /// Becomes readable when links were closed; `None` if the caller must poll.
    pub fn closed_stream(&self) -> Option<BorrowedFd<'_>> {
        self.closer.stream()
    }

    /// Whether links to this file are being closed. If so, attaching there is postponed.
    fn puts_off(&mut self, to: LinkTarget) -> bool {
        let puts_off = self.is_closing() && self.closing.iter().any(|(_, closing)| *closing == to);
        if puts_off {
            self.put_off_since_ns.get_or_insert_with(monotonic_ns);
        }
        puts_off
    }

    /// Detaches all. Waits at most `patience` until the kernel has closed the links, and returns whether it
    /// has; the rest is closed in the background.
    pub fn detach(&mut self, patience: Duration) -> bool {
        let links = std::mem::take(&mut self.links).into_iter();
        let calibration = self
            .calibration
            .take()
            .into_iter()
            .flat_map(|calibration| calibration.links);
        let mut closer = std::mem::take(&mut self.closer);
        closer.close([links.map(|linked| linked.link).chain(calibration).collect()]);
        closer.finish(patience)
    }

    /// The probes, indexed by number.
    pub fn list(&self) -> &[Probe] {
        &self.numbers.probes
    }

    /// Whether captured values have moved to other indices since the last call, so that hits in flight have
    /// the previous ones.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.numbers.has_moved)
    }

    /// Numbers of the aggregates of all probes that aggregate hits, or did.
    pub fn partial_sums(&self) -> impl Iterator<Item = u16> {
        let numbers = self
            .numbers
            .probes
            .iter()
            .map(|probe| probe.spec.partial_sum.number);
        numbers.filter(|number| *number > 0)
    }

    /// Number of watched functions that are shown separately.
    pub fn watched(&self) -> usize {
        let is_requested = |probe: &Probe| probe.wanted.iter().any(|want| self.is_requested(*want));
        let shown = self.numbers.probes.iter().zip(0..);
        let shown = shown.filter(|(probe, number)| !probe.is_quiet && !self.is_absent(*number));
        shown
            .filter(|(probe, _)| probe.mpi.is_some() || is_requested(probe))
            .count()
    }

    /// Whether the function was searched and no process has it. Unknown for a command: processes come later.
    fn is_absent(&self, probe: u32) -> bool {
        self.late.is_none() && self.defined.get(&probe) == Some(&false)
    }

    /// The requests for functions or marks that no process has, each with their names.
    pub fn absent(&self) -> BTreeMap<usize, String> {
        let absent = self.numbers.probes.iter().zip(0..);
        let absent = absent.filter(|(probe, number)| probe.mpi.is_none() && self.is_absent(*number));
        let named = |want: &usize| {
            let selector = &self.wanted[*want].selector;
            matches!(selector, ProbeSelector::Function(_) | ProbeSelector::Mark(_))
        };
        let of =
            absent.flat_map(|(probe, _)| probe.wanted.iter().map(move |want| (*want, probe.name.clone())));
        of.filter(|(want, _)| named(want)).collect()
    }

    pub fn watched_of_mpi(&self) -> usize {
        self.shown().filter(|probe| probe.mpi.is_some()).count()
    }

    /// Probes that are shown separately if they are watched.
    fn shown(&self) -> impl Iterator<Item = &Probe> {
        self.numbers.probes.iter().filter(|probe| !probe.is_quiet)
    }

    /// Whether a request applies to some process, or there is no process yet. A request for processes of a
    /// role that none has is neither watched nor reported as missing.
    fn is_requested(&self, want: usize) -> bool {
        let by = |requested: &Vec<bool>| requested.get(want) == Some(&true);
        self.requested.is_empty() || self.requested.iter().any(by)
    }

    /// Whether some process has a function of a request.
    pub fn is_found(&self, want: usize) -> bool {
        let mut probes = self.numbers.probes.iter().zip(0..);
        probes.any(|(probe, number)| probe.wanted.contains(&want) && self.defined.get(&number) == Some(&true))
    }

    /// Number of slots in use.
    pub fn slots(&self) -> u32 {
        self.requested.len() as u32
    }

    /// The kernel side; `None` in a session without probe rights.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    pub fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }

    /// The ring of hits; `None` if nothing is probed.
    pub fn take_hits(&mut self) -> Result<Option<Ring>, KernelError> {
        self.kernel.as_mut().map(Kernel::take_hits).transpose()
    }

    /// What could not be probed, as text.
    pub fn missing(&self) -> &[String] {
        &self.missing.texts
    }

    pub fn site_count(&self) -> usize {
        self.attached.values().map(BTreeSet::len).sum()
    }

    /// File names of the shared libraries whose probes processes outside the job pay for: links that are not limited to
    /// a process fire in every program that maps the file.
    pub fn shared_libraries(&self) -> &BTreeSet<String> {
        &self.shared_libraries
    }
}

/// Entries first: the returns of open calls are still seen, and no call is entered whose return is not seen.
fn in_order(over: Vec<Linked>) -> [Vec<Link>; 2] {
    let (entries, returns): (Vec<Linked>, Vec<Linked>) = over
        .into_iter()
        .partition(|linked| linked.at == CallMoment::Entry);
    [entries, returns].map(|links| links.into_iter().map(|linked| linked.link).collect())
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.detach(Duration::ZERO);
    }
}
