//! The user who typed the command, as whom ssh and srun are started: with their rights, groups and environment, where their
//! keys, their ssh agent and their Slurm are.

use std::{fs, io};

use job::ProcessTable;
use rustix::{
    process::{Gid, Uid, getpid, setpriority_process},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use serde::{Deserialize, Serialize};

use crate::{
    exit::Failure,
    rights::{self, RightsError},
};

/// Another user than the one whose rights this process has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartUser {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    environment: Vec<(String, String)>,
}

impl StartUser {
    /// The user who called sudo, as the nearest process of theirs above this one has it; `None` without sudo.
    pub(crate) fn of_sudo() -> Result<Option<StartUser>, Failure> {
        let caller = rights::caller();
        if caller == rustix::process::getuid().as_raw() {
            return Ok(None);
        }
        let table = ProcessTable::read();
        let above = table.lineage(std::process::id().cast_signed()).skip(1);
        let mut found = above.filter_map(|(pid, _)| StartUser::of(pid, caller));
        let unknown = || {
            Failure::invalid(format!(
                "agents on other machines are started as the user who called sudo, and no process of {} is above this one: start \
                 them by hand (--join-file), or run this as root without sudo",
                tuner::user_name(caller)
            ))
        };
        found.next().map(Some).ok_or_else(unknown)
    }

    /// The user of a process; `None` if that is another one.
    fn of(pid: i32, uid: u32) -> Option<StartUser> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        StartUser::parse(&status, &environment).filter(|user| user.uid == uid)
    }

    /// Of `status` and `environ` in /proc.
    fn parse(status: &str, environment: &[u8]) -> Option<StartUser> {
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(
                line.split_whitespace()
                    .map_while(|word| word.parse().ok())
                    .collect(),
            )
        };
        let lines = environment.split(|byte| *byte == 0);
        let variables = lines.filter_map(|line| {
            let (name, value) = std::str::from_utf8(line).ok()?.split_once('=')?;
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        Some(StartUser {
            uid: *numbers("Uid:")?.first()?,
            gid: *numbers("Gid:")?.first()?,
            groups: numbers("Groups:")?,
            environment: variables.collect(),
        })
    }

    pub(super) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// The value of a variable in the user's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Leaves this process the rights of the user who typed the command, for good. Must be called while it has one thread.
pub(super) fn become_user(user: Option<&StartUser>) -> Result<(), BecomeError> {
    // A session has a raised priority, which is not for ssh.
    setpriority_process(Some(getpid()), 0).map_err(io::Error::from)?;
    if let Some(user) = user {
        let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        set_thread_groups(&groups).map_err(io::Error::from)?;
        set_thread_res_gid(gid, gid, gid).map_err(io::Error::from)?;
        set_thread_res_uid(uid, uid, uid).map_err(io::Error::from)?;
    }
    Ok(rights::only_start_programs()?)
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BecomeError {
    #[error("the rights of the user who typed the command could not be taken")]
    User(#[from] io::Error),
    #[error(transparent)]
    Rights(#[from] RightsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_groups_and_environment_are_those_of_a_process() {
        let status =
            "Name:\tbash\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nGroups:\t27 100 \n";
        let user = StartUser::parse(status, b"HOME=/home/ann\0SSH_AUTH_SOCK=/a=b\0odd\0=x\0").unwrap();
        assert_eq!(
            (user.uid, user.gid, user.groups.as_slice()),
            (1000, 100, &[27, 100][..])
        );
        assert_eq!(user.variable("SSH_AUTH_SOCK"), Some("/a=b"));
        assert_eq!(user.environment.len(), 2);
        assert_eq!(StartUser::parse("Name:\tbash\n", b""), None);
        let own = rustix::process::getuid().as_raw();
        let me = StartUser::of(std::process::id().cast_signed(), own).unwrap();
        assert_eq!(me.uid, own);
        assert_eq!(StartUser::of(std::process::id().cast_signed(), own + 1), None);
    }
}
