//! Probes for a command and everything that it starts: on the files that its processes will have, before there are any. What
//! nobody foresaw is attached to when a process that has it is seen.

use std::collections::BTreeMap;

use tuner::module::Module;

use super::{
    ArmError, Member, Probes, SPARE_PROBES, SPARE_PROCESSES, Sought, Wanted, number::Numbers, tallies,
};
use crate::{
    clock::monotonic_ns,
    discover::Job,
    kernel::{FamilyRoot, Kernel, KernelError},
    mpi,
};

/// Room for at least so many processes that hit a probe.
const PROCESSES_MIN: u32 = 128;

/// What was attached to after the command began: by file (device, inode), its name and when.
#[derive(Debug, Default)]
pub(super) struct Late(BTreeMap<(u64, u64), (String, u64)>);

impl Late {
    pub(super) fn attach(&mut self, module: &Module) {
        let since = (module.file_name().to_owned(), monotonic_ns());
        self.0.insert(module.file_id(), since);
    }
}

impl Probes {
    /// Loads the kernel side and attaches to the files of `foreseen`, in every process; the kernel side gives slots to those of the
    /// family as they hit, and to nobody else. `asked` says for each of the foreseen what is asked for in it.
    pub fn arm_family(
        foreseen: &Job,
        wanted: Vec<Wanted>,
        asked: &[Vec<bool>],
        root: FamilyRoot,
    ) -> Result<Probes, ArmError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let processes = PROCESSES_MIN.max(2 * cpus + SPARE_PROCESSES);
        // MPI that nobody foresaw has numbers too.
        let spare = SPARE_PROBES + 2 * mpi::FUNCTIONS.len() as u32;
        let mut armed = Probes::load(foreseen, wanted, asked, (spare, processes), |options| {
            Kernel::load_for(options, Some(root))
        })?;
        armed.own_links = false;
        armed.late = Some(Late::default());
        for (member, asked) in foreseen.members.iter().zip(asked) {
            armed.place_asked(member, asked, &|_| true)?;
        }
        armed.is_armed = true;
        Ok(armed)
    }

    /// Attaches to what a process of the family has and nobody foresaw.
    pub fn admit(
        &mut self,
        member: &Member,
        slot: u32,
        asked: Vec<bool>,
        job: &Job,
    ) -> Result<(), KernelError> {
        let place = slot as usize;
        if self.asked.len() <= place {
            self.asked.resize(place + 1, Vec::new());
        }
        self.asked[place] = asked;
        if self.is_of_another_mpi(member) {
            let pid = member.process.pid;
            self.missing.tell(format!("MPI of {pid}"), || {
                format!("MPI of process {pid} is not probed: it is another one than that of the others")
            });
            let without = Member {
                mpi: None,
                ..member.clone()
            };
            return self.attach_to(&without, slot);
        }
        self.number_mpi(member, job)?;
        self.attach_to(member, slot)
    }

    fn attach_to(&mut self, member: &Member, slot: u32) -> Result<(), KernelError> {
        self.tell_of_unnumbered(member, slot);
        self.place(member, slot, &|_| true)?;
        self.set_variables(member, slot)?;
        self.set_world(member, slot)
    }

    /// Bytes are counted as one implementation has them.
    fn is_of_another_mpi(&self, member: &Member) -> bool {
        let Some(mpi) = &member.mpi else { return false };
        let known = self.numbers.probes.iter();
        let mut known = known.filter(|probe| probe.bytes_kind().is_some());
        known.any(|probe| probe.spec.message.layout != mpi.implementation.layout as u8)
    }

    /// Gives the functions of an MPI their numbers that nobody foresaw.
    fn number_mpi(&mut self, member: &Member, job: &Job) -> Result<(), KernelError> {
        let before = self.numbers.probes.len();
        let mut numbers = self.numbers.clone();
        if !numbers.add_late_mpi(member, &self.wanted, job) {
            return Ok(());
        }
        let room = self.kernel().map_or(0, Kernel::room);
        if numbers.probes.len() > room {
            self.missing.tell("late MPI".into(), || {
                format!("MPI is not probed: there was room for {room} functions")
            });
            return Ok(());
        }
        self.numbers = numbers;
        self.files.clear();
        self.set_specs(before..self.numbers.probes.len())
    }

    /// The file of a process that was attached to last, if that was after the command began, and when.
    pub fn attached_late(&self, member: &Member) -> Option<(&str, u64)> {
        let files = self.late.as_ref()?;
        let modules = member.space.modules.iter();
        let late = modules.filter_map(|module| files.0.get(&module.file_id()));
        late.max_by_key(|(_, at_ns)| *at_ns)
            .map(|(name, at_ns)| (name.as_str(), *at_ns))
    }

    /// Functions that were asked for by their names and that no process had.
    pub fn never_found(&self) -> Vec<String> {
        if self.late.is_none() {
            return Vec::new();
        }
        let is_attached = |probe: u32| {
            let mut places = self.attached.values().flatten();
            places.any(|place| place.site.probe == probe)
        };
        let named = |sought: &Sought| matches!(sought, Sought::Function(_) | Sought::Mark(_));
        let probes = self.numbers.probes.iter().zip(0..);
        let plain = probes.filter(|(probe, _)| {
            let mut wanted = probe.wanted.iter().filter_map(|want| self.wanted.get(*want));
            wanted.any(|want| named(&want.sought) && want.flags == 0 && want.captures.is_empty())
        });
        plain
            .filter(|(_, number)| !is_attached(*number))
            .map(|(probe, _)| format!("no process of the command was seen to have {}", probe.name))
            .collect()
    }
}

impl Numbers {
    /// Numbers what a process has of MPI and nobody had before; false when that is nothing.
    fn add_late_mpi(&mut self, member: &Member, wanted: &[Wanted], job: &Job) -> bool {
        let first = self.probes.len();
        self.add_mpi(member);
        for probe in self.probes.iter_mut().skip(first) {
            for (index, want) in wanted.iter().enumerate() {
                if matches!(want.sought, Sought::Mpi(_)) && want.sought.means(&probe.name, true) {
                    probe.wanted.push(index);
                    probe.spec.flags |= want.flags;
                }
            }
            // What cannot be captured is said when a rule looks for it.
            probe.captures = super::captures::of_probe(probe, wanted, job).unwrap_or_default();
            for (place, capture) in probe.spec.captures.iter_mut().zip(&probe.captures) {
                *place = capture.spec;
            }
            tallies::decide(probe, wanted, &mut self.tallies);
        }
        self.probes.len() > first
    }
}
