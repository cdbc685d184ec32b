//! How many CPUs a set of processes may use: those that their affinity masks name, less what the quotas of their cgroups
//! (version 1 and 2, and those above) cut off.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use procfs::process::Process;
use rustix::{process::Pid, thread::sched_getaffinity};

/// CPUs that may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuShare {
    /// CPUs named by at least one affinity mask.
    pub allowed: usize,
    /// CPUs worth of time that the tightest quota grants; `None` without a quota.
    pub quota: Option<f64>,
}

impl CpuShare {
    /// CPUs that can be kept busy.
    pub fn cpus(&self) -> f64 {
        let allowed = self.allowed as f64;
        self.quota.map_or(allowed, |quota| quota.min(allowed))
    }
}

/// What the processes may use together; `None` when none of them could be asked.
///
/// A quota counts once for all processes of a cgroup. Where they sit in several with quotas of their own, the quotas add up,
/// but never beyond one that stands above them.
pub fn available(pids: &[i32]) -> Option<CpuShare> {
    let allowed = usable(pids);
    let mut quotas: Vec<(PathBuf, f64)> = Vec::new();
    let mut unlimited = false;
    for &pid in pids {
        if mask(pid).is_none() {
            continue;
        }
        match tightest_quota(pid) {
            Some(quota) => quotas.push(quota),
            None => unlimited = true,
        }
    }
    quotas.sort_by(|left, right| left.0.cmp(&right.0));
    quotas.dedup_by(|left, right| left.0 == right.0);
    let quota = (!unlimited && !quotas.is_empty()).then(|| quotas.iter().map(|(_, cpus)| cpus).sum());
    (!allowed.is_empty()).then_some(CpuShare {
        allowed: allowed.len(),
        quota,
    })
}

/// The CPUs that at least one of the processes is bound to.
pub fn usable(pids: &[i32]) -> BTreeSet<usize> {
    pids.iter().filter_map(|pid| mask(*pid)).flatten().collect()
}

fn mask(pid: i32) -> Option<Vec<usize>> {
    let mask = sched_getaffinity(Some(Pid::from_raw(pid)?)).ok()?;
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    Some(cpus.filter(|cpu| mask.is_set(*cpu)).collect())
}

/// The smallest quota on the way from a process's cgroup to the root, and where it stands.
fn tightest_quota(pid: i32) -> Option<(PathBuf, f64)> {
    let groups = Process::new(pid).ok()?.cgroups().ok()?;
    let found = groups.into_iter().filter_map(|group| {
        let is_v2 = group.hierarchy == 0;
        if !is_v2 && !group.controllers.iter().any(|controller| controller == "cpu") {
            return None;
        }
        let mounts: &[&str] = if is_v2 {
            &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        } else {
            &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        };
        let root = mounts.iter().map(Path::new).find(|mount| mount.exists())?;
        let inside = group.pathname.trim_start_matches('/');
        // In a container the path is the host's; what applies to us is then at the mount itself.
        let start = Some(root.join(inside))
            .filter(|path| path.exists())
            .unwrap_or_else(|| root.to_owned());
        start
            .ancestors()
            .take_while(|path| path.starts_with(root))
            .filter_map(quota_at)
            .min_by(|a, b| a.1.total_cmp(&b.1))
    });
    found.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn quota_at(group: &Path) -> Option<(PathBuf, f64)> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let cpus = match read("cpu.max") {
        Some(text) => quota_v2(&text)?,
        None => quota_v1(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)?,
    };
    Some((group.to_owned(), cpus))
}

fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(quota: &str, period: &str) -> Option<f64> {
    ratio(quota.trim().parse().ok()?, period.trim().parse().ok()?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_versions_are_cpus() {
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v2("150000 100000\n"), Some(1.5));
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_v1("50000\n", "100000\n"), Some(0.5));
    }

    #[test]
    fn our_own_share_is_what_the_standard_library_sees() {
        let share = available(&[std::process::id() as i32]).unwrap();
        let seen = std::thread::available_parallelism().unwrap().get() as f64;
        assert!(
            (share.cpus().floor().max(1.0) - seen).abs() < 0.5,
            "{share:?} {seen}"
        );
    }

    #[test]
    fn a_process_that_is_not_there_says_nothing() {
        assert_eq!(available(&[i32::MAX - 1]), None);
    }
}
