//! The processes of a command that was started to be watched: their expected files before they exist, and the
//! processes once they run.

use std::{collections::BTreeSet, io, path::Path};

use tuner::dwarf::Origin;
use tuner::{AddressSpace, Pid, Process, descendants, foreign};

use super::{Discovery, Job, Member, job::Root, launcher, name};
use crate::mpi::Rank;

impl Discovery {
    /// The member that a process will be if it runs these files, the program first; `None` if one of them
    /// cannot be read. `process` is about to run the program, or to start it.
    pub fn expected(&mut self, process: &Process, files: &[String]) -> Option<Member> {
        let program = files.first()?;
        let images = files.iter().map(|path| {
            let file = foreign::open(Path::new(path)).ok()?;
            let image = self.images.read(file, Origin::here(Path::new(path))).ok()?;
            Some((path.clone(), image))
        });
        let images: Option<Vec<_>> = images.collect();
        let mut process = process.clone();
        process.executable = program.into();
        let space = AddressSpace::of_files(process.clone(), images?).ok()?;
        let mpi = self.mpi_of(&space);
        Some(Member {
            name: name::of_file(&process.executable),
            process,
            rank: None,
            space,
            mpi,
        })
    }

    /// A process that has just hit its first probe; `None` if it can no longer be read.
    pub fn arrived(&mut self, pid: i32) -> Option<Member> {
        let process = Process::open(pid).ok()?;
        let rank = Rank::from_environment(&process.environment().ok()?);
        self.look_into(process, rank).ok()
    }

    /// A placeholder for a process of which nothing is known.
    pub fn no_member() -> io::Result<Member> {
        let process = Process::gone(0, "?");
        Ok(Member {
            space: AddressSpace::of_files(process.clone(), Vec::new())?,
            name: name::of_file(&process.executable),
            process,
            rank: None,
            mpi: None,
        })
    }

    /// Unknown processes of the command that are worth watching although they have hit nothing: for a command
    /// that launches ranks, the ranks that have mapped their MPI; for any other, all that still exist at the
    /// second check.
    pub fn family(&mut self, command: Pid, user: u32, known: &BTreeSet<i32>) -> Vec<Member> {
        let all: Vec<i32> = std::iter::once(command.number)
            .chain(descendants(command.number, usize::MAX))
            .collect();
        let names = |pid: &i32| Process::open(*pid).map(|process| process.name);
        let launches = all
            .iter()
            .any(|pid| names(pid).is_ok_and(|name| launcher::is_launcher(&name)));
        let mut found = Vec::new();
        for pid in all.into_iter().filter(|pid| !known.contains(pid)) {
            if launches {
                found.extend(self.late_rank(pid));
            } else if !self.short_lived.insert(pid) {
                found.extend(self.relative(pid, user).and_then(Result::ok));
            }
        }
        self.forget_gone();
        found
    }
}

impl Job {
    /// The job of a command that is about to start in this process: it has no members yet.
    pub fn of_command(process: Process) -> Job {
        let root = Root {
            process,
            is_launcher: false,
        };
        Job {
            roots: vec![root],
            ..Job::default()
        }
    }

    /// Updates the command's program, and whether it launches ranks, after it has executed one.
    pub fn look_at_command(&mut self) {
        if let Some(root) = self.roots.first_mut()
            && let Ok(process) = root.process.pid.open()
        {
            root.is_launcher = launcher::is_launcher(&process.name);
            root.process = process;
        }
    }
}
