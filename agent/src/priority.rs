//! Raises the priority of the session so that it can act although ranks keep every CPU busy: its own niceness
//! for its life, and that of its group while it begins. It uses no real-time priority, which is for sync
//! points only.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    time::Duration,
};

use rustix::process::{getpid, setpriority_process};

/// Above busy ranks, below what keeps the machine alive.
const NICE: i32 = -15;

/// The name and the niceness of this process's autogroup, if the kernel distributes CPUs by login sessions.
const GROUP: &str = "/proc/self/autogroup";

/// Users other than root may change it once within this time.
const RETRY_AFTER: Duration = Duration::from_millis(110);

/// Gives this process priority over busy ranks of its own group.
pub(crate) fn raise() -> io::Result<()> {
    Ok(setpriority_process(Some(getpid()), NICE)?)
}

/// Raises the priority of our login session over other groups. mpirun may give each rank a separate group,
/// among which ours would be one of many regardless of our niceness within it. Dropping this restores the old
/// value, because the terminal's other processes must not keep the priority.
#[derive(Debug)]
pub(crate) struct RaisedPriority {
    /// Open from the start, because nothing can be opened for writing later.
    group: File,
    before: i32,
}

impl RaisedPriority {
    /// `None` if the kernel does not use autogroups, or if it is not permitted.
    pub(crate) fn begin() -> Option<RaisedPriority> {
        let mut group = OpenOptions::new().read(true).write(true).open(GROUP).ok()?;
        let mut text = String::new();
        group.read_to_string(&mut text).ok()?;
        let before = nice_in(&text)?;
        if before <= NICE {
            return None;
        }
        // A single write, because a partial number is refused.
        group.write_all(NICE.to_string().as_bytes()).ok()?;
        Some(RaisedPriority { group, before })
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        let before = self.before.to_string();
        let back = self.group.write_all(before.as_bytes());
        if back.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            std::thread::sleep(RETRY_AFTER);
            let _ = self.group.write_all(before.as_bytes());
        }
    }
}

/// Parses a line such as `/autogroup-2480 nice 0`.
fn nice_in(text: &str) -> Option<i32> {
    text.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_before_others_as_root_until_the_hurry_is_over() {
        let now = || {
            std::fs::read_to_string(GROUP)
                .ok()
                .and_then(|text| nice_in(&text))
        };
        let before = now();
        let hurry = RaisedPriority::begin();
        match before {
            Some(before) if before > NICE => {
                assert_eq!(now(), Some(NICE));
                drop(hurry);
            }
            // A kernel without such groups.
            _ => assert!(hurry.is_none()),
        }
        assert_eq!(now(), before);
    }

    #[test]
    fn the_kernels_text_about_a_group_is_parsed() {
        assert_eq!(nice_in("/autogroup-2480 nice 0\n"), Some(0));
        assert_eq!(nice_in("/autogroup-7 nice -15\n"), Some(-15));
        assert_eq!(nice_in("/autogroup-7\n"), None);
    }
}
