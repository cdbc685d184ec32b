//! Process trees: descendants of a process, waiting for an end without sleeping, and ending a tree.
//!
//! MPI launchers put their ranks into separate process groups, so a signal to a group does not reach them.
//! The tree is read from /proc.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::problem::Context;
use crate::{Outcome, Problem};

/// A process by number and start time, because numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Process number in our namespace.
    pub pid: u32,
    started: u64,
}

impl Member {
    /// The current process with this number.
    pub fn of(pid: u32) -> Option<Member> {
        stat(pid).map(|(_, _, started)| Member { pid, started })
    }

    /// Whether the process exists and is not a zombie.
    pub fn is_alive(&self) -> bool {
        stat(self.pid)
            .is_some_and(|(state, _, started)| started == self.started && !matches!(state, 'Z' | 'X'))
    }

    /// Whether this is an argument of its command line.
    pub fn has_word(&self, word: &str) -> bool {
        let command = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|of| of == word.as_bytes())
    }

    /// Whether an argument of its command line contains this.
    pub fn has_part(&self, part: &str) -> bool {
        let command = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(part)
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid as i32).filter(|_| self.is_alive()) {
            // The process may have ended already.
            let _ = kill_process(pid, signal);
        }
    }
}

/// State, parent and start time. The name in parentheses may contain any character, so parsing starts after
/// the last one.
fn stat(pid: u32) -> Option<(char, u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((
        fields.first()?.chars().next()?,
        fields.get(1)?.parse().ok()?,
        fields.get(19)?.parse().ok()?,
    ))
}

/// All descendants of a process, without itself.
pub fn descendants(root: u32) -> Vec<Member> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(u32, u32, u64)> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| stat(pid).map(|(_, parent, started)| (pid, parent, started)))
        .collect();
    let mut found: Vec<Member> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for &(pid, _, started) in all.iter().filter(|(_, of, _)| *of == parent) {
            found.push(Member { pid, started });
            parents.push(pid);
        }
    }
    found
}

/// Waits for the end of a child. Returns the exit code or, as a shell does, 128 + the signal.
pub fn wait(child: &mut Child, within: Duration) -> Outcome<i32> {
    use std::os::unix::process::ExitStatusExt;
    if !ends(child.id(), within)? {
        return Err(Problem::new(format!(
            "process {} did not end within {within:?}",
            child.id()
        )));
    }
    let status = child.wait()?;
    Ok(status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// Whether the process ends in time. A pidfd becomes readable when its process ends.
fn ends(pid: u32, within: Duration) -> Outcome<bool> {
    let number = Pid::from_raw(pid as i32).ok_or("process 0 is not a child")?;
    let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else {
        return Ok(true);
    };
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("a deadline")?;
        let mut entries = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut entries, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Problem::new(format!("cannot wait for process {pid}: {error}"))),
        }
    }
}

/// Sends a signal to a child that was not yet waited for.
pub fn signal(child: &Child, signal: Signal) -> Outcome {
    let pid = Pid::from_raw(child.id() as i32).ok_or("process 0 is not a child")?;
    kill_process(pid, signal).context(format!("cannot signal process {pid:?}"))
}

/// Sends a signal to a child and all its descendants.
pub fn signal_all(child: &Child, with: Signal) -> Outcome {
    for member in descendants(child.id()) {
        member.signal(with);
    }
    signal(child, with)
}

/// Ends a child and its descendants: SIGTERM first, SIGKILL after `patience`.
pub fn end(child: &mut Child, patience: Duration) {
    end_by(child, patience, |_| ());
}

/// As `end`, but only the launcher gets SIGTERM. Open MPI gives its ranks one second to end, and no output is
/// expected.
pub fn end_launcher(child: &mut Child, patience: Duration) {
    end_by(child, patience, |ranks| ranks.iter().for_each(Member::kill));
}

fn end_by(child: &mut Child, patience: Duration, then: impl FnOnce(&[Member])) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    let family = descendants(child.id());
    let _ = signal(child, Signal::TERM);
    then(&family);
    if !ends(child.id(), patience).unwrap_or(false) {
        let _ = child.kill();
    }
    family.iter().for_each(Member::kill);
    let _ = child.wait();
    for member in family {
        // A killed process takes a moment to end; orphans have no other process that waits for them.
        let _ = ends(member.pid, Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn all_of_a_tree_ends_even_where_a_child_has_its_own_group_and_ignores_sigterm() -> Outcome {
        let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 100 & echo ready; wait' & wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = crate::lines::Lines::default();
        lines.follow(child.stdout.take().ok_or("no output")?);
        lines.wait_for_line("ready", Duration::from_secs(5))?;
        let family = descendants(child.id());
        assert!(family.len() >= 2, "{family:?}");
        end(&mut child, Duration::from_millis(50));
        lines.wait_for_end(Duration::from_secs(5))?;
        assert!(family.iter().all(|member| !member.is_alive()), "{family:?}");
        Ok(())
    }
}
