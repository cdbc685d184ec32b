//! A control group whose processes together get so much and no more, of CPU time or of threads: what a container is to the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::problem::Context;
use crate::{Outcome, Problem};

/// Where groups are made, and the file of a quota there.
const PLACES: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

/// The same for how many processes and threads there are.
const TASKS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/pids", "pids.max"),
    ("/sys/fs/cgroup", "pids.max"),
];

const PERIOD_US: f64 = 100_000.0;

/// Processes that have just ended may be in it for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// A group with a bound; removed when dropped, its processes having ended before.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    bound: PathBuf,
}

impl Group {
    /// Of so many CPUs, if this machine lets us make one.
    pub fn with_quota(cpus: f64) -> Outcome<Group> {
        Group::with("quota", &PLACES, &quota(cpus))
    }

    /// Of so many processes and threads, if this machine lets us make one.
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

    /// Where the kernel has put the file of the quota into the new folder.
    fn made(folder: &Path, file: &str) -> Option<Group> {
        fs::create_dir(folder).ok()?;
        let folder = folder.to_owned();
        let bound = folder.join(file);
        let group = Group { folder, bound };
        group.bound.exists().then_some(group)
    }

    /// Of so many CPUs from now on, as a container is resized in place.
    pub fn set_quota(&self, cpus: f64) -> Outcome {
        self.set(&quota(cpus))
    }

    fn set(&self, bound: &str) -> Outcome {
        fs::write(&self.bound, bound).context(self.bound.display())
    }

    /// The file into which the number of a process is written that joins.
    pub fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Takes a process in, with all its threads.
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
        let given_up = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < given_up {
            std::thread::yield_now();
        }
    }
}
