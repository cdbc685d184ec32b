//! Probes for a command and all its descendants: attached to the files that its processes are expected to
//! have, before any process exists. Other files are attached to when a process that has them is detected.

use std::collections::BTreeMap;

use job::Job;
use tuner::{FileId, Module, monotonic_ns};

use super::{ArmError, Member, ProbeSelector, Probes, SPARE_PROCESSES, Spare, Wanted};
use crate::kernel::{FamilyRoot, Kernel, KernelError};

/// Least number of processes that hit a probe for which there is room.
const PROCESSES_MIN: u32 = 128;

/// A file that was attached to after the command began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateFile {
    pub name: String,
    pub at_ns: u64,
    /// It had been attached to before; this attachment began a window.
    pub is_again: bool,
}

/// Files that were attached to after the command began.
#[derive(Debug, Default)]
pub(super) struct Late {
    files: BTreeMap<FileId, LateFile>,
    /// The current attachments are repeated ones.
    pub(super) is_again: bool,
}

impl Late {
    pub(super) fn attach(&mut self, module: &Module) {
        let file = LateFile {
            name: module.file_name().to_owned(),
            at_ns: monotonic_ns(),
            is_again: self.is_again,
        };
        self.files.insert(module.file_id(), file);
    }
}

impl Probes {
    /// Loads the kernel side and attaches to the files of `expected`, in every process. The kernel side gives
    /// slots only to processes of the family, at their first hit. `requested` says for each member of
    /// `expected` which of the wanted are requested in it.
    pub fn arm_family(
        expected: &Job,
        wanted: Vec<Wanted>,
        requested: &[Vec<bool>],
        root: FamilyRoot,
    ) -> Result<Probes, ArmError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let processes = PROCESSES_MIN.max(2 * cpus + SPARE_PROCESSES);
        let spare = Spare { processes, mpi: true };
        let mut armed = Probes::load(expected, wanted, requested, spare, |options| {
            Kernel::load_for(options, root)
        })?;
        armed.own_links = false;
        armed.see_resting();
        armed.late = Some(Late::default());
        for (member, requested) in expected.members.iter().zip(requested) {
            armed.place_requested(member, requested, &|_| true)?;
        }
        armed.is_armed = true;
        Ok(armed)
    }

    /// Attaches to the files of a family's process that `expected` did not contain.
    pub fn admit(
        &mut self,
        member: &Member,
        slot: u32,
        requested: Vec<bool>,
        job: &Job,
    ) -> Result<(), KernelError> {
        let place = slot as usize;
        if self.requested.len() <= place {
            self.requested.resize(place + 1, Vec::new());
        }
        self.requested[place] = requested;
        self.attach_late(member, slot, job)
    }

    /// The file of a process that was attached to last, if that was after the command began.
    pub fn attached_late(&self, member: &Member) -> Option<&LateFile> {
        let late = self.late.as_ref()?;
        let modules = member.space.modules.iter();
        let files = modules.filter_map(|module| late.files.get(&module.file_id()));
        files.max_by_key(|file| file.at_ns)
    }

    /// Whether some process had the function of a probe, given by its place in the list, and it was probed.
    pub fn is_attached(&self, probe: u32) -> bool {
        let mut places = self.attached.values().flatten();
        places.any(|place| place.site.probe == probe)
    }

    /// Functions that were requested by name in at least one process, and that no process has.
    pub fn never_found(&self) -> Vec<String> {
        if self.late.is_none() {
            return Vec::new();
        }
        let named = |selector: &ProbeSelector| {
            matches!(selector, ProbeSelector::Function(_) | ProbeSelector::Mark(_))
        };
        let probes = self.numbers.probes.iter().zip(0..);
        let plain = probes.filter(|(probe, _)| {
            let wanted = probe.wanted.iter().filter(|want| self.is_requested(**want));
            let mut wanted = wanted.filter_map(|want| self.wanted.get(*want));
            wanted.any(|want| named(&want.selector) && want.flags == 0 && want.captures.is_empty())
        });
        plain
            .filter(|(_, number)| !self.is_attached(*number))
            .map(|(probe, _)| format!("no process of the command was seen to have {}", probe.name))
            .collect()
    }
}
