//! Control groups with a limit on CPU time or on the number of threads, as the kernel uses for containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::problem::Context;
use crate::wait::wait_until;
use crate::{Outcome, Problem};

/// Parent folders for groups, and the file of the CPU quota (cgroup v1, v2).
const PLACES: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

/// Parent folders, and the file of the limit on processes and threads.
const TASKS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/pids", "pids.max"),
    ("/sys/fs/cgroup", "pids.max"),
];

const PERIOD_US: f64 = 100_000.0;

/// Maximum time until ended processes have left the group.
const PATIENCE: Duration = Duration::from_secs(5);

/// A group with a limit. It is removed on drop; its processes must have ended.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    bound: PathBuf,
}

impl Group {
    /// A group with a quota of `cpus` CPUs. Fails if this machine does not permit groups.
    pub fn with_quota(cpus: f64) -> Outcome<Group> {
        Group::with("quota", &PLACES, &quota(cpus))
    }

    /// A group of at most `most` processes and threads. Fails if this machine does not permit groups.
    pub fn with_tasks(most: usize) -> Outcome<Group> {
        Group::with("tasks", &TASKS, &most.to_string())
    }

    fn with(what: &str, places: &[(&str, &str)], bound: &str) -> Outcome<Group> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tuneagent-test-{what}-{}-{number}", std::process::id());
        let made = places
            .iter()
            .find_map(|(root, file)| Group::made(&Path::new(root).join(&name), file));
        let group =
            made.ok_or_else(|| Problem::new(format!("no group with a bound on {what} can be made here")))?;
        group.set(bound)?;
        Ok(group)
    }

    /// The new group, if the kernel has created the file of the limit in it.
    fn made(folder: &Path, file: &str) -> Option<Group> {
        fs::create_dir(folder).ok()?;
        let folder = folder.to_owned();
        let bound = folder.join(file);
        let group = Group { folder, bound };
        group.bound.exists().then_some(group)
    }

    /// Changes the quota, as if a container were resized in place.
    pub fn set_quota(&self, cpus: f64) -> Outcome {
        self.set(&quota(cpus))
    }

    fn set(&self, bound: &str) -> Outcome {
        fs::write(&self.bound, bound).context(self.bound.display())
    }

    /// File to which a process writes its number to join.
    pub fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Moves a process with all its threads into the group.
    pub fn take(&self, pid: &str) -> Outcome {
        let file = self.members();
        fs::write(&file, pid).context(file.display())
    }
}

fn quota(cpus: f64) -> String {
    format!("{:.0}", cpus * PERIOD_US)
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group is removed once its processes have ended.
        let _ = wait_until("its end", PATIENCE, || Ok(fs::remove_dir(&self.folder).is_ok()));
    }
}
