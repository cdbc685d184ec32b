//! Loads the object of probes: creates its maps, and loads its programs for the links that this kernel
//! supports. A session does it for itself, or the node's service for a session of a user without rights.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use aya::{EbpfLoader, VerifierLogLevel};
use serde::{Deserialize, Serialize};

use super::{
    calls::ring_size,
    error::KernelError,
    family::{Family, FamilyRoot, Setting},
    fields,
    links::{self, CallMoment, Link, LinkChoice, LinkKind, LinkRequest},
    maps::Maps,
    program::{self, ProgramText, load_error, pid_namespace},
};

/// The kernel side, built by `cargo xtask ebpf` and committed.
pub(super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt/tuneagent.bpf.o"));

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOptions {
    pub probes: u32,
    /// Number of processes for which there is room.
    pub processes: u32,
    /// Histogram rows of each process.
    pub rows: u32,
    /// Number of probes whose hits are aggregated.
    pub partial_sums: u32,
    /// The node's service always uses the best.
    #[serde(skip)]
    pub links: LinkChoice,
}

impl LoadOptions {
    /// Used to determine whether and how probes are possible.
    pub const ONE_PROBE: LoadOptions = LoadOptions {
        probes: 1,
        processes: 1,
        rows: 0,
        partial_sums: 0,
        links: LinkChoice::Best,
    };

    /// Number of records of calls: for each function in each process.
    pub fn records(&self) -> Option<u32> {
        self.processes.checked_add(1)?.checked_mul(self.probes)
    }

    /// Whether a session of a process that is not trusted may have these sizes, whatever their product is.
    pub fn is_in_range(&self) -> bool {
        let sums = self.probes.saturating_add(abi::ROWS_MAX);
        self.processes <= abi::PROCESSES_MAX && self.rows <= abi::ROWS_MAX && self.partial_sums <= sums
    }

    /// Slots: one more than processes can get, for hits of our own (see `calibration`).
    pub(super) fn slots(&self) -> u32 {
        self.processes + 1
    }

    pub(super) fn cells(&self) -> u32 {
        self.probes.saturating_mul(self.slots()).clamp(1, abi::TOTALS_MAX)
    }

    pub(super) fn calls(&self) -> u32 {
        self.slots() * ring_size(self.processes)
    }

    pub(super) fn all_rows(&self) -> u32 {
        self.rows
            .saturating_mul(self.processes)
            .clamp(1, abi::HISTOGRAM_ROWS_MAX)
    }

    pub(super) fn sums(&self) -> u32 {
        self.partial_sums
            .saturating_mul(self.slots() * 2)
            .clamp(2, abi::SUMS_MAX)
    }
}

/// For whom the object is loaded.
pub(super) enum Purpose {
    Session,
    /// A session of a command, whose processes the kernel side finds by itself.
    Command(FamilyRoot),
    /// A session of this user, which has no rights of its own.
    User(u32),
}

pub(super) struct Programs {
    entry: OwnedFd,
    leaves: OwnedFd,
    kind: LinkKind,
}

/// What loading the object results in.
pub(super) struct LoadedObject {
    pub(super) maps: Maps,
    pub(super) programs: Programs,
    /// The run-queue time of threads inside calls is reported.
    pub(super) reports_waits: bool,
    pub(super) family: Option<Family>,
}

impl LoadedObject {
    pub(super) fn load(options: &LoadOptions, purpose: &Purpose) -> Result<LoadedObject, KernelError> {
        let setting = match purpose {
            Purpose::Command(root) => Some(Setting::of(*root, options.processes)?),
            Purpose::Session | Purpose::User(_) => None,
        };
        let access = match purpose {
            Purpose::User(user) => Some((*user, fields::of_access().ok_or(KernelError::NoAccessCheck)?)),
            Purpose::Session | Purpose::Command(_) => None,
        };
        let (ring_size, waited_offset) = (ring_size(options.processes), fields::waited_offset());
        let (device, inode) = pid_namespace();
        let mut loader = EbpfLoader::new();
        if let Some(setting) = &setting {
            setting.report(&mut loader);
        }
        if let Some((user, places)) = &access {
            loader.override_global("OWN_PROCESSES", &1_u32, true);
            loader.override_global("FAMILY_USER", user, true);
            for (name, place) in places {
                loader.override_global(name, place, true);
            }
        }
        let maps = loader
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .map_max_entries("TOTALS", options.cells())
            .map_max_entries(
                "ADDRESSES",
                options.cells().saturating_mul(abi::CAPTURES_MAX as u32),
            )
            .map_max_entries("CALLS", options.calls())
            .map_max_entries("HEADS", options.slots())
            .map_max_entries("WORLDS", options.slots())
            .map_max_entries("HISTOGRAMS", options.all_rows())
            .map_max_entries("PARTIAL_SUMS", options.sums())
            .map_max_entries("EPOCHS", options.slots())
            .override_global("SUM_COUNT", &options.partial_sums, true)
            .override_global("ROW_COUNT", &options.rows, true)
            .override_global("PROBE_COUNT", &options.probes, true)
            .override_global("RING_SIZE", &ring_size, true)
            .override_global("WAITED_OFFSET", &waited_offset.unwrap_or_default(), true)
            .override_global("NAMESPACE_DEVICE", &device, true)
            .override_global("NAMESPACE_INODE", &inode, true)
            .load(OBJECT)
            .map(Maps::of)
            .map_err(load_error)?;
        let kind = links::kind(options.links);
        let programs = Programs::load(&maps, kind)?;
        let family = setting.map(|_| Family::begin(OBJECT, &maps, kind, options.processes));
        Ok(LoadedObject {
            family: family.transpose()?,
            maps,
            programs,
            reports_waits: waited_offset.is_some(),
        })
    }
}

impl Programs {
    /// Loads the programs for the kind of links that this kernel supports.
    fn load(maps: &Maps, kind: LinkKind) -> Result<Programs, KernelError> {
        // Sums over ranks use bpf_loop, and the verifier needs types to check functions separately.
        let text = ProgramText::parse(OBJECT, maps)?.with_types()?;
        let load = |name| text.load(name, links::attach_type(kind));
        Ok(Programs {
            entry: load("entry")?,
            leaves: load("leaves")?,
            kind,
        })
    }

    pub(super) fn kind(&self) -> LinkKind {
        self.kind
    }

    pub(super) fn attach(&self, request: &LinkRequest) -> io::Result<Link> {
        let program = match request.at {
            CallMoment::Entry => &self.entry,
            CallMoment::Exit { .. } => &self.leaves,
        };
        links::attach(self.kind, program.as_fd(), request)
    }

    /// Number of instructions that the verifier followed in each program, if the kernel reports it (since
    /// 5.16). The verifier refuses a program beyond a million.
    pub(super) fn verified(&self) -> [(&'static str, Option<u64>); 2] {
        [("entry", &self.entry), ("leaves", &self.leaves)]
            .map(|(name, program)| (name, program::verified(program.as_fd())))
    }
}
