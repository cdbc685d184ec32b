//! A job: its ranks with their mappings, and the MPI they use. Jobs are found by [`super::discovery`].

use std::collections::{BTreeMap, BTreeSet};

use tuner::{Address, AddressSpace, FileOffset, Images, Module, Process, VariableError, VariableName, dwarf};

use super::name;
use crate::mpi::{self, Implementation, Rank};

#[derive(Clone, Debug)]
pub struct Mpi {
    pub implementation: Implementation,
    /// Path of the file that defines it, as the process sees it.
    pub library: String,
    pub sites: Vec<WatchedSite>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedSite {
    /// Such as `MPI_Send` or `MPI_Send_c`.
    pub name: String,
    /// Offset of its first instruction in the file.
    pub offset: FileOffset,
    /// In bytes; 0 if the file does not state it.
    pub size: u64,
    /// Address in the process.
    pub address: Address,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub process: Process,
    /// The name under which it was started, if that is of a link to its file; else its file name.
    pub name: String,
    /// `None` for a program without a launcher.
    pub rank: Option<Rank>,
    pub space: AddressSpace,
    pub mpi: Option<Mpi>,
}

impl Member {
    pub fn mpi_module(&self) -> Option<&Module> {
        let library = &self.mpi.as_ref()?.library;
        self.space.modules.iter().find(|module| module.path == *library)
    }

    /// Whether it is alone in MPI_COMM_WORLD although its launcher started several ranks.
    pub fn is_alone(&self) -> bool {
        let both = self.mpi.as_ref().zip(self.rank);
        both.is_some_and(|(mpi, rank)| crate::mpi::is_alone(&mpi.implementation, &self.space, rank))
    }

    /// File name of its program.
    pub fn program(&self) -> String {
        name::of_file(&self.process.executable)
    }

    /// File name of the script that it runs, or its module; `None` if it is no interpreter.
    pub fn script(&self) -> Option<String> {
        name::script(&self.program(), &self.process.arguments)
    }

    /// File names of its mapped modules.
    pub fn libraries(&self) -> impl Iterator<Item = String> + '_ {
        self.space
            .modules
            .iter()
            .map(|module| module.file_name().to_owned())
    }

    /// The modules that are mapped now; `None` if they can no longer be read.
    pub fn space_now(&self, images: &Images) -> Option<AddressSpace> {
        AddressSpace::read(&self.process, images).ok()
    }

    /// The modules that have a copy of a variable now; a single `None` if there is at most one copy.
    pub fn copies(&self, variable: &str, images: &Images) -> Vec<Option<String>> {
        let now = self.space_now(images);
        let space = now.as_ref().unwrap_or(&self.space);
        match space.every_variable(&VariableName::from(variable)) {
            Ok(locations) if locations.len() > 1 => {
                let paths = locations.into_iter().map(|location| Some(location.module.path));
                let mut modules: Vec<Option<String>> = paths.collect();
                modules.sort();
                modules.dedup();
                modules
            }
            // The write resolves the single copy, or reports why there is none.
            _ => vec![None],
        }
    }

    /// The modules that had a copy of a variable when the process was read.
    pub fn copies_at_start(&self, variable: &str) -> Vec<String> {
        let locations = self.space.every_variable(&VariableName::from(variable));
        let paths = locations.unwrap_or_default().into_iter();
        paths.map(|location| location.module.path).collect()
    }

    pub fn variable_address(&self, name: &str) -> Result<u64, VariableError> {
        Ok(self.space.variable(&VariableName::from(name))?.address.0)
    }

    /// Register number and type of a parameter of a function, from the debug information. `None` for
    /// floating-point parameters.
    pub fn parameter(&self, function: &str, index: u8) -> Option<(u8, &'static str)> {
        let places = self.space.functions(&[function]).ok()?;
        places.iter().find_map(|(module, function)| {
            let known = dwarf::parameters(&module.image, function.address).ok()??;
            let parameter = known.get(usize::from(index))?;
            Some((parameter.register, parameter.of.value_type()?.name()))
        })
    }

    /// Why its MPI cannot be watched, if it was linked into a program without symbols.
    pub fn stripped_mpi(&self) -> Option<&'static str> {
        let program = self.space.executable().filter(|_| self.mpi.is_none())?;
        mpi::is_stripped_of(&program.image).then_some(
            "MPI is linked into its program, whose symbols were removed (strip, -s): the addresses of MPI_Send and the \
             others are not known. It can be watched when a file with the symbols exists (/usr/lib/debug by build id, or \
             .gnu_debuglink, as gdb finds it), when it is built without strip, or linked with the shared library of its MPI",
        )
    }

    /// Whether it has a variable of this name; several libraries may have one.
    pub fn has_variable(&self, name: &str) -> bool {
        let copies = self.space.every_variable(&VariableName::from(name));
        copies.is_ok_and(|copies| !copies.is_empty())
    }
}

/// A process that started processes of a job, and may start more.
#[derive(Clone, Debug)]
pub struct Root {
    pub process: Process,
    /// Whether it launches ranks; otherwise it is a program without a launcher, and one of the job's
    /// processes itself.
    pub is_launcher: bool,
}

/// The sum of the sizes of all worlds of these ranks, each given with its process. One launcher starts one
/// world; with several, the number of equal ranks is the number of worlds, and fewer worlds than launchers
/// means that parts of several were taken for one.
fn world_size(ranks: &[(Rank, i32)], launchers: usize) -> Option<usize> {
    let mut processes: BTreeMap<u32, BTreeMap<u32, BTreeSet<i32>>> = BTreeMap::new();
    for (rank, pid) in ranks {
        let of_size = processes.entry(rank.size?).or_default();
        of_size.entry(rank.number).or_default().insert(*pid);
    }
    if launchers == 1 {
        let (size, _) = processes.pop_first()?;
        return processes.is_empty().then_some(size as usize);
    }
    let worlds = processes.into_iter().map(|(size, ranks)| {
        let most = ranks.values().map(BTreeSet::len).max();
        (size as usize, most.unwrap_or_default())
    });
    let worlds: Vec<(usize, usize)> = worlds.collect();
    let count: usize = worlds.iter().map(|(_, worlds)| worlds).sum();
    (count >= launchers).then(|| worlds.iter().map(|(size, worlds)| size * worlds).sum())
}

/// The processes that are watched together on this machine: those of one parallel program, or of several that
/// share CPUs.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The processes that started it; more than one if several programs are watched together.
    pub roots: Vec<Root>,
    /// Ordered by program, then by rank.
    pub members: Vec<Member>,
    /// Processes of the job that could not be read, with the reason.
    pub unreachable: Vec<(i32, String)>,
    /// Number of processes below programs without a launcher that belong to another user than these, and were left out.
    pub of_other_users: usize,
}

impl Job {
    /// Whether a process of it has an MPI library.
    pub fn has_mpi(&self) -> bool {
        self.members.iter().any(|member| member.mpi.is_some())
    }

    /// Name of the program that most processes run; for several programs all their names.
    pub fn program(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for member in &self.members {
            *counts.entry(member.name.clone()).or_default() += 1;
        }
        if self.roots.len() > 1 {
            return counts.into_keys().collect::<Vec<_>>().join(", ");
        }
        let most = counts.values().max().copied();
        let names = self.members.iter().map(|member| member.name.clone());
        let mut most_used = names.filter(|name| counts.get(name).copied() == most);
        most_used.next().unwrap_or_else(|| "?".to_owned())
    }

    /// The script that the processes of [`Job::program`] run; `None` if several programs are watched together, or it
    /// is no interpreter.
    pub fn script(&self) -> Option<String> {
        let program = self.program();
        let first = self.members.iter().find(|member| member.name == program)?;
        first.script()
    }

    pub fn launcher(&self) -> Option<&Process> {
        let root = self.roots.iter().find(|root| root.is_launcher)?;
        Some(&root.process)
    }

    /// Number of ranks of the world communicators; `None` if it is not stated for each rank, or the
    /// statements differ. For a job without ranks, the number of processes here.
    pub fn size(&self) -> Option<usize> {
        let ranks = self.members.iter().map(|member| {
            let rank = member.rank.map(|rank| (rank, member.process.pid.number));
            (rank.is_some() || member.mpi.is_some()).then_some(rank)
        });
        let ranks: Vec<_> = ranks.flatten().collect();
        if ranks.is_empty() {
            return Some(self.members.len());
        }
        let launchers = self.roots.iter().filter(|root| root.is_launcher).count();
        world_size(&ranks.into_iter().collect::<Option<Vec<_>>>()?, launchers)
    }

    pub fn size_here(&self) -> usize {
        let ranks = self.members.iter().filter_map(|member| {
            let rank = member.rank?;
            let several = (self.roots.len() > 1).then_some(member.process.pid.number);
            Some((rank.number, several))
        });
        match ranks.collect::<BTreeSet<_>>().len() {
            0 => self.members.len(),
            ranks => ranks,
        }
    }

    /// Records programs whose MPI cannot be watched, once for each program.
    pub fn report_stripped(&mut self) {
        let mut seen = BTreeSet::new();
        for member in self.members.iter().filter(|member| member.mpi.is_none()) {
            let program = member
                .space
                .executable()
                .map(|module| (module.device, module.inode));
            if seen.insert(program)
                && let Some(why) = member.stripped_mpi()
            {
                self.unreachable.push((member.process.pid.number, why.to_owned()));
            }
        }
    }

    /// Adds the processes of another job, to be watched together.
    pub fn join(&mut self, other: Job) {
        let known: BTreeSet<i32> = self
            .members
            .iter()
            .map(|member| member.process.pid.number)
            .collect();
        let is_new = |member: &Member| !known.contains(&member.process.pid.number);
        self.members.extend(other.members.into_iter().filter(is_new));
        for root in other.roots {
            let pid = root.process.pid;
            if self.roots.iter().all(|known| known.process.pid != pid) {
                self.roots.push(root);
            }
        }
        self.unreachable.extend(other.unreachable);
        self.of_other_users += other.of_other_users;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_known_only_where_it_is_stated_for_every_rank() {
        let four = Some(4);
        for (ranks, launchers, expected) in [
            (vec![(0, four), (1, four)], 1, four),
            (vec![(0, four), (1, None)], 1, None),
            (vec![(0, four), (1, Some(2))], 1, None),
            // A wrapper script has the rank of its program.
            (vec![(0, four), (0, four), (1, four)], 1, four),
            // In containers no launcher is visible.
            (vec![(0, Some(2)), (1, Some(2))], 0, Some(2)),
            (
                vec![(0, Some(2)), (1, Some(2)), (0, Some(2)), (1, Some(2))],
                2,
                four,
            ),
            (vec![(0, Some(2)), (0, four)], 2, Some(6)),
            // Half of one job and half of another look like one.
            (vec![(0, four), (1, four), (2, four), (3, four)], 2, None),
        ] {
            let ranks: Vec<(Rank, i32)> = (100..)
                .zip(ranks)
                .map(|(pid, (number, size))| (Rank { number, size }, pid))
                .collect();
            let expected = expected.map(|size| size as usize);
            assert_eq!(world_size(&ranks, launchers), expected, "{ranks:?}");
        }
    }
}
