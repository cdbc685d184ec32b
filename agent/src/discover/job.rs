//! The job of a process: its ranks with their mappings, and the MPI they use.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tuner::{
    address::{Address, FileOffset},
    dwarf,
    module::{Images, Module},
    process::{Process, ProcessError},
    space::{AddressSpace, SpaceError},
    variable::{VariableError, VariableName},
};

use super::{
    launcher,
    rank::Rank,
    table::{ProcessTable, descendants_now},
};
use crate::mpi::{self, Implementation};

/// Why no job was found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The process cannot be looked into.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its memory map cannot be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A launcher without ranks.
    #[error(
        "{name} (process {pid}) has started no rank on this machine: none of its descendants has a rank in its environment"
    )]
    NoRanks {
        /// The launcher.
        pid: i32,
        /// Its name.
        name: String,
    },
}

/// The MPI of a process.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Which one.
    pub implementation: Implementation,
    /// The file that defines it, as the process sees it.
    pub library: String,
    /// The watched functions in it.
    pub sites: Vec<WatchedSite>,
}

/// A watched function of an MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedSite {
    /// Its name, such as `MPI_Send` or `MPI_Send_c`.
    pub name: String,
    /// Where it begins in the file.
    pub offset: FileOffset,
    /// Where the process has it.
    pub address: Address,
}

/// One process of the job.
#[derive(Clone, Debug)]
pub struct Member {
    /// The process.
    pub process: Process,
    /// Its number in the job; `None` for a program without a launcher.
    pub rank: Option<Rank>,
    /// What it has mapped.
    pub space: AddressSpace,
    /// Its MPI, when it has one.
    pub mpi: Option<Mpi>,
}

impl Member {
    /// The module that defines the MPI.
    pub fn mpi_module(&self) -> Option<&Module> {
        let library = &self.mpi.as_ref()?.library;
        self.space.modules.iter().find(|module| module.path == *library)
    }
}

impl Member {
    /// File name of its program.
    pub fn program(&self) -> String {
        let name = self.process.executable.file_name();
        name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// File names of what it has mapped.
    pub fn libraries(&self) -> impl Iterator<Item = String> + '_ {
        self.space
            .modules
            .iter()
            .map(|module| module.file_name().to_owned())
    }

    /// What it has mapped by now; none when that cannot be read any more.
    pub fn space_now(&self, images: &Images) -> Option<AddressSpace> {
        AddressSpace::read(&self.process, images).ok()
    }

    /// The modules that have a copy of a variable, as the process is now; one that is not named where there is one copy or none.
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
            // Who writes finds the one, or says why there is none.
            _ => vec![None],
        }
    }

    /// Where it has a variable.
    pub fn variable_address(&self, name: &str) -> Result<u64, VariableError> {
        Ok(self.space.variable(&VariableName::from(name))?.address.0)
    }

    /// Register number and type of a parameter of a function, as the debug information says them. Parameters that are passed
    /// as floating-point numbers have none.
    pub fn parameter(&self, function: &str, index: u8) -> Option<(u8, &'static str)> {
        let places = self.space.functions(&[function]).ok()?;
        places.iter().find_map(|(module, function)| {
            let known = dwarf::parameters(&module.image, function.address).ok()??;
            let parameter = known.get(usize::from(index))?;
            Some((parameter.register, parameter.of.value_type()?.name()))
        })
    }

    /// The type of a variable, as the debug information says it.
    pub fn variable_type(&self, name: &str) -> Option<&'static str> {
        let location = self.space.variable(&VariableName::from(name)).ok()?;
        Some(location.value_type()?.name())
    }

    /// Whether a variable of this name is in it, and only one.
    pub fn has_variable(&self, name: &str) -> bool {
        self.space.variable(&VariableName::from(name)).is_ok()
    }
}

/// All processes of one parallel program on this machine.
#[derive(Clone, Debug)]
pub struct Job {
    /// The launcher, when there is one.
    pub launcher: Option<Process>,
    /// The processes, by rank.
    pub members: Vec<Member>,
    /// Processes that belong to it but could not be looked into, with the reason.
    pub unreachable: Vec<(i32, String)>,
}

impl Job {
    /// Name of the program that the ranks run.
    pub fn program(&self) -> String {
        self.members
            .first()
            .map_or_else(|| "?".to_owned(), Member::program)
    }

    /// Size of the world communicator, as far as it is known; else the number of processes here.
    pub fn size(&self) -> usize {
        let said = self
            .members
            .iter()
            .find_map(|member| member.rank.and_then(|rank| rank.size));
        said.map_or(self.members.len(), |size| size as usize)
    }
}

/// What is known of a file that defines MPI.
type Known = (Implementation, Vec<tuner::symbol::Function>);

/// Finds jobs, and keeps what it has learned of the files they map.
#[derive(Debug, Default)]
pub struct Scout {
    images: Images,
    /// What each file (device, inode) defines of MPI, with link addresses: the same for every process that maps it.
    libraries: HashMap<(String, u64), Option<Known>>,
}

impl Scout {
    /// The job that process `pid` belongs to, or is the launcher of.
    pub fn job_of(&mut self, pid: i32) -> Result<Job, DiscoverError> {
        let start = Process::open(pid)?;
        let table = ProcessTable::read();
        let Some(launcher) = launcher::find(&table, pid) else {
            let environment = start.environment().unwrap_or_default();
            let member = self.look_into(start, Rank::from_environment(&environment))?;
            return Ok(Job {
                launcher: None,
                members: vec![member],
                unreachable: Vec::new(),
            });
        };
        let launcher = Process::open(launcher)?;
        let job = self.job_under(launcher, &table);
        match job.unreachable.first() {
            // Everything was refused: the reason of the first one is the answer.
            Some((pid, _)) if job.members.is_empty() => {
                let process = Process::open(*pid)?;
                AddressSpace::read(&process, &self.images)?;
                Ok(job)
            }
            None if job.members.is_empty() => {
                let launcher = job
                    .launcher
                    .as_ref()
                    .map_or((pid, String::new()), |l| (l.pid.number, l.name.clone()));
                Err(DiscoverError::NoRanks {
                    pid: launcher.0,
                    name: launcher.1,
                })
            }
            _ => Ok(job),
        }
    }

    /// The ranks below a launcher. A rank's number may be in the environment of a wrapper script as well: the process
    /// with MPI counts, and of several the one started last.
    pub fn job_under(&mut self, launcher: Process, table: &ProcessTable) -> Job {
        let mut by_rank: BTreeMap<u32, Member> = BTreeMap::new();
        let mut unreachable = Vec::new();
        for pid in table.descendants(launcher.pid.number) {
            if table
                .get(pid)
                .is_some_and(|entry| launcher::is_launcher(&entry.name))
            {
                continue;
            }
            let Ok(process) = Process::open(pid) else { continue };
            let rank = match process.environment() {
                Ok(environment) => Rank::from_environment(&environment),
                Err(error) => {
                    unreachable.push((pid, error.to_string()));
                    continue;
                }
            };
            let Some(rank) = rank else { continue };
            match self.look_into(process, Some(rank)) {
                Ok(member) => {
                    let better = by_rank
                        .get(&rank.number)
                        .is_none_or(|old| member.mpi.is_some() || old.mpi.is_none());
                    if better {
                        by_rank.insert(rank.number, member);
                    }
                }
                Err(error) => unreachable.push((pid, error.to_string())),
            }
        }
        // A wrapper script carries a rank too; the program that it will start joins later, with its MPI.
        if by_rank.values().any(|member| member.mpi.is_some()) {
            by_rank.retain(|_, member| member.mpi.is_some());
        }
        Job {
            launcher: Some(launcher),
            members: by_rank.into_values().collect(),
            unreachable,
        }
    }

    /// Ranks below a launcher that are not known yet and have mapped their MPI.
    pub fn newcomers(&mut self, launcher: &Process, known: &BTreeSet<i32>) -> Vec<Member> {
        let unknown = descendants_now(launcher.pid.number)
            .into_iter()
            .filter(|pid| !known.contains(pid));
        let mut found = Vec::new();
        for pid in unknown {
            let Ok(process) = Process::open(pid) else { continue };
            let Some(rank) = process
                .environment()
                .ok()
                .and_then(|lines| Rank::from_environment(&lines))
            else {
                continue;
            };
            found.extend(
                self.look_into(process, Some(rank))
                    .ok()
                    .filter(|member| member.mpi.is_some()),
            );
        }
        found
    }

    fn look_into(&mut self, process: Process, rank: Option<Rank>) -> Result<Member, SpaceError> {
        let space = AddressSpace::read(&process, &self.images)?;
        let mpi = self.mpi_of(&space);
        Ok(Member {
            process,
            rank,
            space,
            mpi,
        })
    }

    fn mpi_of(&mut self, space: &AddressSpace) -> Option<Mpi> {
        space.modules.iter().find_map(|module| {
            let key = (format!("{:?}", module.device), module.inode);
            let known = self.libraries.entry(key).or_insert_with(|| {
                let implementation = mpi::recognise(module, space)?;
                Some((implementation, watched_functions(module)))
            });
            let (implementation, functions) = known.as_ref()?;
            let site = |function: &tuner::symbol::Function| WatchedSite {
                name: public_name(&function.names),
                offset: function.offset,
                address: module.address(function.address),
            };
            Some(Mpi {
                implementation: implementation.clone(),
                library: module.path.clone(),
                sites: functions.iter().map(site).collect(),
            })
        })
    }

    /// The files parsed so far.
    pub fn images(&self) -> &Images {
        &self.images
    }
}

/// The C functions under their profiling names: what every language binding and every interposed tool ends in.
fn watched_functions(module: &Module) -> Vec<tuner::symbol::Function> {
    let names: Vec<String> = mpi::FUNCTIONS
        .iter()
        .flat_map(|function| {
            let large = function
                .has_large_count
                .then(|| format!("PMPI_{}_c", function.stem));
            std::iter::once(format!("PMPI_{}", function.stem)).chain(large)
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    module.image.functions(&names).unwrap_or_default()
}

fn public_name(names: &[String]) -> String {
    let name = names.first().map_or("", String::as_str);
    name.strip_prefix('P').unwrap_or(name).to_owned()
}
