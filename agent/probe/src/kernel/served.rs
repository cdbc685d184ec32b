//! The service's side of a session: the programs that it has loaded for a user. They never leave this process,
//! because a process that has one can attach it to any program.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use super::{
    KernelError,
    links::{CallMoment, Link, LinkKind, LinkRequest, ProbeSite},
    loading::{LoadOptions, LoadedObject, Programs, Purpose},
    program::pid_namespace,
    service::SHARED,
};

/// The number of the pid namespace in which processes are counted; 0 for the initial one.
pub fn served_namespace() -> u64 {
    pid_namespace().1
}

/// The programs of a session of a user.
pub struct ServedPrograms {
    programs: Programs,
    /// The run-queue time of threads inside calls is reported.
    pub reports_waits: bool,
}

impl ServedPrograms {
    /// Loads the object for a user. The programs use hits only of processes that this user may inspect.
    /// Returns the maps, in the order of the protocol.
    ///
    /// # Errors
    /// If the kernel refuses it, or cannot limit a link to a process (before 6.10).
    pub fn load(options: &LoadOptions, user: u32) -> Result<(ServedPrograms, Vec<OwnedFd>), KernelError> {
        let LoadedObject {
            maps,
            programs,
            reports_waits,
            ..
        } = LoadedObject::load(options, &Purpose::User(user))?;
        if programs.kind() != (LinkKind::UprobeMulti { by_process: true }) {
            return Err(KernelError::NotByProcess);
        }
        let descriptors = SHARED
            .map(|name| maps.share(name))
            .into_iter()
            .collect::<Result<_, _>>()?;
        Ok((
            ServedPrograms {
                programs,
                reports_waits,
            },
            descriptors,
        ))
    }

    /// Attaches to sites of an open file in a process.
    ///
    /// # Errors
    /// That of the kernel.
    pub fn attach(
        &self,
        file: BorrowedFd<'_>,
        pid: u32,
        at: CallMoment,
        sites: Vec<ProbeSite>,
    ) -> io::Result<OwnedFd> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match self
            .programs
            .attach(&LinkRequest::new(path, sites, at, Some(pid)))?
        {
            Link::Multi(link) => Ok(link),
            Link::Tracefs(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
