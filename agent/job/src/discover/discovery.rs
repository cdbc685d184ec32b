//! Finds the job of a process, and the processes that join it later. Caches what it has learned of mapped
//! files, and of processes that had nothing worth watching.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tuner::{AddressSpace, Images, MemoryError, Module, Process, ProcessError, SpaceError, descendants};

use super::{
    job::{Job, Member, Mpi, Root, WatchedSite},
    launcher, name,
    still::{FailedSearches, Still, Used, used},
    table::ProcessTable,
};
use crate::mpi::{self, Implementation, Rank};

#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(
        "{name} (process {pid}) has started no rank on this machine: none of its descendants has a rank in its environment"
    )]
    NoRanks { pid: i32, name: String },
}

/// Interval and number of checks while a process loads a library.
const LOADING_INTERVAL: Duration = Duration::from_millis(2);
const LOADING_LOOKS_MAX: u32 = 500;

/// How often a job is read again if a process executed another program meanwhile.
const EXEC_RETRIES_MAX: u32 = 10;

/// After this much CPU time of a process its dynamic linker is assumed to have finished.
const LINKING_NS: u64 = 1_000_000_000;

/// The MPI that a file defines, and its functions.
type MpiFunctions = (Implementation, Vec<tuner::Function>);

/// Finds jobs, and caches what it has learned of the files they map.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Whether processes of other users belong to the program that started them, too.
    pub any_user: bool,
    pub(super) images: Images,
    /// The MPI that each file (device, inode) defines, with link addresses, which all processes share.
    libraries: HashMap<(String, u64), Option<MpiFunctions>>,
    /// Processes seen once below a program, which may have ended before they are worth watching.
    pub(super) short_lived: BTreeSet<i32>,
    /// By root of a job: the processes below it that were searched for new ones.
    still: BTreeMap<i32, Still>,
    /// Processes that were not ranks with MPI when they were read.
    without_mpi: FailedSearches,
}

impl Discovery {
    /// The job that process `pid` belongs to or launches. For a process around several jobs, all of them.
    /// Waits a moment for processes that are loading a library, once for all of them.
    pub fn job_of(&mut self, pid: i32) -> Result<Job, DiscoverError> {
        let mut job = self.job_that_stays(pid)?;
        for _ in 0..LOADING_LOOKS_MAX {
            let members = job.members.iter_mut();
            let loading: Vec<&mut Member> = members.filter(|member| !member.space.is_linked()).collect();
            if loading.is_empty() {
                break;
            }
            std::thread::sleep(LOADING_INTERVAL);
            for member in loading {
                if let Ok(now) = self.look_into(member.process.clone(), member.rank) {
                    *member = now;
                }
            }
        }
        Ok(job)
    }

    /// Reads again if a process executes another program during the read.
    fn job_that_stays(&mut self, pid: i32) -> Result<Job, DiscoverError> {
        for _ in 0..EXEC_RETRIES_MAX {
            match self.job_as_it_is(pid) {
                Err(DiscoverError::Space(SpaceError::Memory(MemoryError::Gone { .. }))) => {
                    std::thread::sleep(LOADING_INTERVAL);
                }
                result => return result,
            }
        }
        self.job_as_it_is(pid)
    }

    fn job_as_it_is(&mut self, pid: i32) -> Result<Job, DiscoverError> {
        let start = Process::open(pid)?;
        let table = ProcessTable::read();
        let launchers = launcher::find(&table, pid);
        if launchers.is_empty() {
            return Ok(self.family_of(start, &table)?);
        }
        let mut all = Job::default();
        for launcher in launchers {
            match self.launched_by(Process::open(launcher)?, &table) {
                // A program that was started without a launcher has a daemon of its MPI library below it
                // (`orted`), which launches nothing.
                Err(DiscoverError::NoRanks { .. })
                    if table.lineage(launcher).skip(1).any(|(above, _)| above == pid) => {}
                job => all.join(job?),
            }
        }
        match all.members.is_empty() && all.unreachable.is_empty() {
            true => Ok(self.family_of(start, &table)?),
            false => Ok(all),
        }
    }

    /// A program without a launcher, with all its descendants.
    fn family_of(&mut self, start: Process, table: &ProcessTable) -> Result<Job, SpaceError> {
        let environment = start.environment().unwrap_or_default();
        let (pid, user) = (start.pid.number, start.uid);
        let member = self.look_into(start.clone(), Rank::from_environment(&environment))?;
        let mut job = Job {
            roots: vec![Root {
                process: start,
                is_launcher: false,
            }],
            members: vec![member],
            ..Job::default()
        };
        let ours: BTreeSet<i32> = table
            .lineage(std::process::id() as i32)
            .map(|(pid, _)| pid)
            .collect();
        for child in table
            .descendants(pid)
            .into_iter()
            .filter(|child| !ours.contains(child))
        {
            match self.relative(child, user) {
                Some(Ok(member)) => job.members.push(member),
                Some(Err(error)) => job.unreachable.push((child, error.to_string())),
                None => {
                    let is_of_another = Process::open(child).is_ok_and(|child| !self.includes(&child, user));
                    job.of_other_users += usize::from(is_of_another);
                }
            }
        }
        Ok(job)
    }

    /// A process that a program has started; `None` if it has ended, is a launcher or another user's.
    pub(super) fn relative(&mut self, pid: i32, user: u32) -> Option<Result<Member, SpaceError>> {
        let process = Process::open(pid).ok()?;
        if !self.includes(&process, user) || launcher::is_launcher(&process.name) {
            return None;
        }
        let rank = process
            .environment()
            .ok()
            .and_then(|lines| Rank::from_environment(&lines));
        Some(self.look_into(process, rank))
    }

    /// Whether a process that a program of `user` has started is looked at.
    fn includes(&self, process: &Process, user: u32) -> bool {
        self.any_user || process.uid == user
    }

    fn launched_by(&mut self, launcher: Process, table: &ProcessTable) -> Result<Job, DiscoverError> {
        let (number, name) = (launcher.pid.number, launcher.name.clone());
        let job = self.job_under(launcher, table);
        match job.unreachable.first() {
            // All processes were refused: the error of the first one is returned.
            Some((pid, _)) if job.members.is_empty() => {
                let process = Process::open(*pid)?;
                AddressSpace::read(&process, &self.images)?;
                Ok(job)
            }
            None if job.members.is_empty() => Err(DiscoverError::NoRanks { pid: number, name }),
            _ => Ok(job),
        }
    }

    /// The ranks below a launcher. A wrapper script may have the rank in its environment too: the process
    /// with MPI counts, and of several the one started last.
    pub(crate) fn job_under(&mut self, launcher: Process, table: &ProcessTable) -> Job {
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
        // A wrapper script has a rank too; the program that it will start joins later, with its MPI.
        if by_rank.values().any(|member| member.mpi.is_some()) {
            by_rank.retain(|_, member| member.mpi.is_some());
        }
        Job {
            roots: vec![Root {
                process: launcher,
                is_launcher: true,
            }],
            members: by_rank.into_values().collect(),
            unreachable,
            of_other_users: 0,
        }
    }

    /// Unknown processes of a root of the job: below a launcher, ranks that have mapped their MPI; of any
    /// other program, itself and its descendants if they still exist at the second check. Shorter-lived
    /// processes are not worth a probe.
    pub fn newcomers(&mut self, root: &Root, known: &BTreeSet<i32>) -> Vec<Member> {
        let pid = root.process.pid;
        let still = self.still.entry(pid.number).or_default();
        if still.holds(known) {
            return Vec::new();
        }
        let used_before = still.used();
        let itself = (!root.is_launcher && pid.is_alive()).then_some(pid.number);
        let below = descendants(pid.number, usize::MAX);
        let all = itself.into_iter().chain(below.iter().copied());
        let unknown: Vec<i32> = all.filter(|pid| !known.contains(pid)).collect();
        // A process that is seen for the first time must be checked again.
        let are_reported = root.is_launcher || unknown.iter().all(|pid| self.short_lived.contains(pid));
        let below = below.into_iter().chain([pid.number]);
        still.walked(below.collect(), known, used_before.filter(|_| are_reported));
        let mut found = Vec::new();
        for pid in unknown {
            if root.is_launcher {
                found.extend(self.late_rank(pid));
            } else if pid.unsigned_abs() != std::process::id() && !self.short_lived.insert(pid) {
                let member = self.relative(pid, root.process.uid);
                found.extend(member.and_then(Result::ok));
            }
        }
        self.forget_gone();
        found
    }

    /// A rank with its MPI; `None` as long as it has mapped none, or its dynamic linker may still be working:
    /// a library that rules need may be mapped after MPI. A process without CPU time since the last check has
    /// mapped nothing.
    pub fn late_rank(&mut self, pid: i32) -> Option<Member> {
        let used = used(pid);
        if self.without_mpi.is_unchanged(pid, used) {
            return None;
        }
        let found = self.rank_with_mpi(pid, used);
        if found.is_none() {
            self.without_mpi.add(pid, used);
        }
        found
    }

    /// The process as it is now, if it has mapped more libraries than before and its dynamic linker is idle.
    pub fn with_new_libraries(&mut self, before: &Member) -> Option<Member> {
        let space = before.space_now(&self.images)?;
        if space.modules.len() <= before.space.modules.len() || !space.is_linked() {
            return None;
        }
        let mpi = self.mpi_of(&space);
        Some(Member {
            space,
            mpi,
            ..before.clone()
        })
    }

    fn rank_with_mpi(&mut self, pid: i32, used: Option<Used>) -> Option<Member> {
        let process = Process::open(pid).ok()?;
        let rank = Rank::from_environment(&process.environment().ok()?)?;
        let member = self.look_into(process, Some(rank)).ok()?;
        let has_begun = used.is_none_or(|(_, ns)| ns > LINKING_NS) || member.space.is_linked();
        (member.mpi.is_some() && has_begun).then_some(member)
    }

    /// Drops data of processes that have ended.
    pub(super) fn forget_gone(&mut self) {
        self.short_lived.retain(|pid| Process::open(*pid).is_ok());
        self.without_mpi.forget_gone();
    }

    pub(super) fn look_into(&mut self, process: Process, rank: Option<Rank>) -> Result<Member, SpaceError> {
        let space = AddressSpace::read(&process, &self.images)?;
        let mpi = self.mpi_of(&space);
        let size = mpi
            .as_ref()
            .filter(|_| rank.is_some_and(|rank| rank.size.is_none()))
            .and_then(|known| mpi::world_size(&mpi::world(&known.implementation, &space, rank)));
        Ok(Member {
            name: name::of_process(&process),
            process,
            rank: rank.map(|rank| Rank {
                size: rank.size.or(size),
                ..rank
            }),
            space,
            mpi,
        })
    }

    pub(super) fn mpi_of(&mut self, space: &AddressSpace) -> Option<Mpi> {
        space.modules.iter().find_map(|module| {
            let key = (format!("{:?}", module.device), module.inode);
            let known = self.libraries.entry(key).or_insert_with(|| {
                let implementation = mpi::recognise(module, space)?;
                Some((implementation, watched_functions(module)))
            });
            let (implementation, functions) = known.as_ref()?;
            let site = |function: &tuner::Function| WatchedSite {
                name: public_name(&function.names),
                offset: function.offset,
                size: function.size,
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

/// The C functions under their profiling names, in which all language bindings and interposed tools end.
fn watched_functions(module: &Module) -> Vec<tuner::Function> {
    let names: Vec<String> = profile::mpi::FUNCTIONS
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

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        path::{Path, PathBuf},
        process::Command,
    };

    use tuneagent_e2e::line_program::LineProgram;

    use super::*;

    /// Every process that is read from now on has MPI.
    fn takes_all_for_mpi(discovery: &mut Discovery) {
        let mpi = Implementation {
            name: "MPI",
            version: None,
            layout: abi::SizeLayout::Unknown,
            size_offset: 0,
        };
        let libraries = discovery.libraries.values_mut();
        libraries.for_each(|known| *known = Some((mpi.clone(), Vec::new())));
    }

    #[test]
    fn a_rank_without_mpi_is_looked_into_again_only_once_it_has_used_cpu_time() {
        let mut rank = LineProgram::start(Command::new("cat").env("OMPI_COMM_WORLD_RANK", "0")).unwrap();
        let pid = rank.pid() as i32;
        rank.say("a line").unwrap();
        let mut discovery = Discovery::default();
        // The process may still be about to sleep.
        let is_left_alone = (0..100).any(|_| {
            discovery = Discovery::default();
            assert!(discovery.late_rank(pid).is_none());
            takes_all_for_mpi(&mut discovery);
            discovery.late_rank(pid).is_none()
        });
        assert!(is_left_alone);
        // The CPU time of a running thread is reported up to a tick late.
        let is_found = (0..1000).any(|_| {
            rank.say("a line").unwrap();
            discovery.late_rank(pid).is_some()
        });
        assert!(is_found);
    }

    #[test]
    fn processes_of_other_users_below_a_program_are_counted_or_are_members() {
        tuneagent_e2e::require_or_return!(Root);
        const USER: u32 = 65534;
        let command = "setpriv --reuid=65534 --clear-groups cat; true";
        let mut program = LineProgram::start(Command::new("bash").args(["-c", command])).unwrap();
        // The answer of `cat` comes after the change of its user.
        program.say("a line").unwrap();
        let users = |any_user| {
            let mut discovery = Discovery {
                any_user,
                ..Discovery::default()
            };
            let job = discovery.job_of(program.pid() as i32).unwrap();
            let users: Vec<u32> = job.members.iter().map(|member| member.process.uid).collect();
            (users, job.of_other_users)
        };
        let found = [users(false), users(true)];
        program.end().unwrap();
        assert_eq!(found, [(vec![0], 1), (vec![0, USER], 0)]);
    }

    #[test]
    fn a_program_that_executes_itself_over_and_over_is_found_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("again");
        std::fs::write(&script, "sleep 0.01; exec bash \"$0\"\n").unwrap();
        let mut child = Command::new("bash").arg(&script).spawn().unwrap();
        let pid = child.id() as i32;
        let failure = (0..300).find_map(|_| Discovery::default().job_of(pid).err());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(failure.is_none(), "{failure:?}");
    }

    /// Compiled from `tests/programs`.
    fn auditor(folder: &Path) -> PathBuf {
        let library = folder.join("slow_linking.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/slow_linking.c");
        let mut compiler = Command::new("cc");
        let compiler = compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source);
        assert!(compiler.status().unwrap().success());
        library
    }

    #[test]
    fn a_rank_is_none_while_its_dynamic_linker_is_at_work() {
        let folder = tempfile::tempdir().unwrap();
        let pipes = ["waits", "go"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        let mut rank = Command::new("bash");
        rank.env("OMPI_COMM_WORLD_RANK", "0")
            .env("LD_AUDIT", auditor(folder.path()))
            .env("SLOW_FOLDER", folder.path())
            .env("SLOW_LIBRARY", "libtinfo.so");
        let mut rank = LineProgram::start(&mut rank).unwrap();
        let pid = rank.pid() as i32;
        File::open(&pipes[0]).unwrap();
        let mut discovery = Discovery::default();
        assert!(discovery.rank_with_mpi(pid, used(pid)).is_none());
        takes_all_for_mpi(&mut discovery);
        assert!(discovery.rank_with_mpi(pid, used(pid)).is_none());
        // After this much CPU time the process is accepted as it is.
        let long_since = used(pid).map(|(clock, _)| (clock, LINKING_NS + 1));
        assert!(discovery.rank_with_mpi(pid, long_since).is_some());
        assert!(!discovery.job_of(pid).unwrap().members[0].space.is_linked());
        File::options().write(true).open(&pipes[1]).unwrap();
        rank.say("echo here").unwrap();
        assert!(discovery.rank_with_mpi(pid, used(pid)).is_some());
        assert!(discovery.job_of(pid).unwrap().members[0].space.is_linked());
    }
}
