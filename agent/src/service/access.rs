//! Decides whether a user may have a process watched: by the facts of the kernel, never by what the user says.
//! The kernel side decides the same at each hit, since a process can execute a set-uid program afterwards.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
};

use report::console::printable;

/// What the kernel says about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessFacts {
    /// Its command, made printable.
    pub(super) name: String,
    /// Its real, effective, saved and file system users.
    users: [u32; 4],
    groups: [u32; 4],
    /// The owner of its files in /proc: its user, or root if it must not be inspected (not dumpable).
    owner: u32,
    /// The mask of its permitted capabilities.
    capabilities: u64,
}

impl ProcessFacts {
    pub(super) fn read(pid: u32) -> io::Result<ProcessFacts> {
        let mut file = File::open(format!("/proc/{pid}/status"))?;
        let owner = file.metadata()?.uid();
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let facts = ProcessFacts::of(&String::from_utf8_lossy(&text), owner);
        facts.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The facts in the text of /proc/PID/status, which belongs to `owner`.
    fn of(text: &str, owner: u32) -> Option<ProcessFacts> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        };
        let four = |key: &str| {
            let numbers = value(key)?.split_whitespace().map(|word| word.parse().ok());
            let numbers: Option<Vec<u32>> = numbers.collect();
            <[u32; 4]>::try_from(numbers?).ok()
        };
        Some(ProcessFacts {
            name: printable(value("Name")?.trim()).into_owned(),
            users: four("Uid")?,
            groups: four("Gid")?,
            owner,
            capabilities: u64::from_str_radix(value("CapPrm")?.trim(), 16).ok()?,
        })
    }

    /// Why this user must not have the process watched; `None` if they may.
    pub(super) fn denial(&self, user: u32) -> Option<&'static str> {
        if self.users.iter().all(|of| *of != user) {
            return Some("it is a process of another user");
        }
        if self.users.iter().any(|of| *of != user) {
            return Some("it has several users, as a set-uid program has");
        }
        let (first, rest) = self.groups.split_first()?;
        if rest.iter().any(|of| of != first) {
            return Some("it has several groups, as a set-gid program has");
        }
        if self.capabilities != 0 && user != 0 {
            return Some("it has capabilities");
        }
        (self.owner != user).then_some("it has changed its user, is not readable, or has forbidden it")
    }
}

/// The number of the process of a pidfd; `None` if it has ended, or has no number here.
pub(super) fn process_of(descriptor: BorrowedFd<'_>) -> Option<u32> {
    let number = descriptor.as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::process::{PidfdFlags, getpid, getuid, pidfd_open};

    use super::*;

    const ANA: u32 = 1000;

    fn facts(users: [u32; 4], groups: [u32; 4], owner: u32, capabilities: u64) -> ProcessFacts {
        let line = |numbers: [u32; 4]| numbers.map(|number| number.to_string()).join("\t");
        let text = format!(
            "Name:\ta\\tb\x1b\nPid:\t7\nUid:\t{}\nGid:\t{}\nCapInh:\t0\nCapPrm:\t{capabilities:016x}\n",
            line(users),
            line(groups)
        );
        ProcessFacts::of(&text, owner).unwrap()
    }

    #[test]
    fn a_user_may_watch_what_is_theirs_in_every_respect_and_nothing_else() {
        let same = [ANA; 4];
        for (users, groups, owner, capabilities, expected) in [
            (same, same, ANA, 0, None),
            ([2000; 4], [2000; 4], 2000, 0, Some("another user")),
            ([0; 4], [0; 4], 0, 0x1ff_ffff_ffff, Some("another user")),
            // passwd, sudo: root is effective, saved and used for files.
            ([ANA, 0, 0, 0], same, 0, 0x1ff_ffff_ffff, Some("set-uid")),
            ([ANA, ANA, 0, ANA], same, 0, 0, Some("set-uid")),
            ([0, ANA, ANA, ANA], same, ANA, 0, Some("set-uid")),
            ([ANA, ANA, ANA, 0], same, ANA, 0, Some("set-uid")),
            (same, [ANA, 5, 5, 5], 0, 0, Some("set-gid")),
            (same, same, ANA, 1 << 13, Some("capabilities")),
            // Not dumpable: file capabilities that were given up, an unreadable program, prctl.
            (same, same, 0, 0, Some("has forbidden it")),
        ] {
            let denial = facts(users, groups, owner, capabilities).denial(ANA);
            let is_as_expected = match (denial, expected) {
                (None, None) => true,
                (Some(denial), Some(expected)) => denial.contains(expected),
                _ => false,
            };
            assert!(
                is_as_expected,
                "{users:?} {groups:?} {owner} {capabilities:x}: {denial:?}"
            );
        }
        assert_eq!(facts([0; 4], [0; 4], 0, 1).denial(0), None, "root's own");
    }

    #[test]
    fn facts_are_read_of_our_own_process_and_of_none_that_is_incomplete() {
        let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let pid = process_of(pidfd.as_fd()).unwrap();
        assert_eq!(pid, std::process::id());
        let facts = ProcessFacts::read(pid).unwrap();
        assert_eq!(facts.users[0], getuid().as_raw());
        assert_eq!(ProcessFacts::of("Name:\tx\nUid:\t1\t1\t1\t1\n", 1), None);
        let file = File::open("/proc/self/status").unwrap();
        assert_eq!(process_of(file.as_fd()), None);
    }
}
