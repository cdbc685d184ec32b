//! How many CPUs a set of processes may use: those that their affinity masks name, less what the quotas of their cgroups
//! (version 1 and 2, and those above) cut off.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use plan::CpuList;
use rustix::{process::Pid, thread::sched_getaffinity};

/// CPUs that may be used.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuShare {
    /// CPUs named by at least one affinity mask.
    pub allowed: BTreeSet<usize>,
    /// CPUs worth of time that the tightest quota grants; `None` without a quota.
    pub quota: Option<f64>,
    /// Time that the groups with these quotas were kept from running, in nanoseconds; `None` without a quota.
    pub throttled_ns: Option<u64>,
    /// Their periods so far; `None` without a quota.
    pub periods: Option<Periods>,
}

/// Periods over which quotas are counted, of all groups together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// All in which something ran.
    pub all: u64,
    /// Those at whose end the group had been kept from running.
    pub throttled: u64,
}

impl CpuShare {
    /// CPUs that can be kept busy.
    pub fn cpus(&self) -> f64 {
        self.cpus_beside(0.0)
    }

    /// CPUs that can be kept busy while others do so with some of those that are allowed.
    pub fn cpus_beside(&self, others: f64) -> f64 {
        let left = (self.allowed.len() as f64 - others).max(0.0);
        self.quota.map_or(left, |quota| quota.min(left))
    }
}

/// What the processes may use together; `None` when none of them could be asked.
///
/// A quota counts once for all processes of a cgroup. Where they sit in several with quotas of their own, the quotas add up,
/// but never beyond one that stands above them.
pub fn available(pids: &[i32]) -> Option<CpuShare> {
    RequestedCpus::of(pids).map(|requested| requested.share())
}

/// What was asked of some processes and seldom changes.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedCpus {
    /// CPUs named by at least one affinity mask.
    allowed: BTreeSet<usize>,
    /// CPUs that each may keep busy for itself.
    pub(super) each: BTreeMap<i32, f64>,
    quota: Option<f64>,
    /// The groups with these quotas.
    groups: Vec<PathBuf>,
}

impl RequestedCpus {
    /// None when none of them could be asked.
    pub(super) fn of(pids: &[i32]) -> Option<RequestedCpus> {
        let mut requested = RequestedCpus::default();
        let mut known = HashMap::new();
        let mut quotas: Vec<(PathBuf, f64)> = Vec::new();
        let mut unlimited = false;
        for &pid in pids {
            let Some(mask) = mask(pid) else { continue };
            let cpus = mask.len() as f64;
            requested.allowed.extend(mask);
            let quota = tightest_quota(pid, &mut known);
            let own = quota.as_ref().map_or(cpus, |(_, quota)| quota.min(cpus));
            requested.each.insert(pid, own);
            match quota {
                Some(quota) => quotas.push(quota),
                None => unlimited = true,
            }
        }
        quotas.sort_by(|left, right| left.0.cmp(&right.0));
        quotas.dedup_by(|left, right| left.0 == right.0);
        if !unlimited && !quotas.is_empty() {
            requested.quota = Some(quotas.iter().map(|(_, cpus)| cpus).sum());
            requested.groups = quotas.into_iter().map(|(group, _)| group).collect();
        }
        (!requested.allowed.is_empty()).then_some(requested)
    }

    /// With what was kept from running up to now, which is read where there is a quota.
    pub(super) fn share(&self) -> CpuShare {
        let groups = self.groups.iter();
        let groups = groups.filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
        let groups: Vec<String> = groups.collect();
        let has_quota = self.quota.is_some();
        let periods = groups.iter().map(|stat| periods(stat));
        CpuShare {
            allowed: self.allowed.clone(),
            quota: self.quota,
            throttled_ns: has_quota.then(|| groups.iter().filter_map(|stat| throttled(stat)).sum()),
            periods: periods.sum::<Option<Periods>>().filter(|_| has_quota),
        }
    }
}

/// The CPUs that at least one of the processes is bound to.
pub fn usable(pids: &[i32]) -> BTreeSet<usize> {
    pids.iter().filter_map(|pid| mask(*pid)).flatten().collect()
}

/// CPUs that the machine has online, whoever may use them; none where it does not say.
pub fn online() -> Option<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    Some(list.trim().parse::<CpuList>().ok()?.cpus().len())
}

fn mask(pid: i32) -> Option<Vec<usize>> {
    let mask = sched_getaffinity(Some(Pid::from_raw(pid)?)).ok()?;
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    Some(cpus.filter(|cpu| mask.is_set(*cpu)).collect())
}

/// The smallest quota on the way from a process's cgroup to the root, and where it stands. Ranks are mostly in one group: what was
/// found for it is `known`.
fn tightest_quota(pid: i32, known: &mut HashMap<String, Option<(PathBuf, f64)>>) -> Option<(PathBuf, f64)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    if let Some(found) = known.get(&groups) {
        return found.clone();
    }
    let found = groups.lines().filter_map(tightest_of);
    let found = found.min_by(|a, b| a.1.total_cmp(&b.1));
    known.insert(groups, found.clone());
    found
}

/// Of one line of /proc/PID/cgroup: number of the hierarchy, its controllers, the group's path.
fn tightest_of(line: &str) -> Option<(PathBuf, f64)> {
    let mut fields = line.splitn(3, ':');
    let (hierarchy, mut controllers) = (fields.next()?, fields.next()?.split(','));
    let is_v2 = hierarchy == "0";
    if !is_v2 && !controllers.any(|controller| controller == "cpu") {
        return None;
    }
    let mounts: &[&str] = if is_v2 {
        &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
    } else {
        &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
    };
    let root = mounts.iter().map(Path::new).find(|mount| mount.exists())?;
    let inside = fields.next()?.trim_start_matches('/');
    // In a container the path is the host's; what applies to us is then at the mount itself.
    let start = Some(root.join(inside))
        .filter(|path| path.exists())
        .unwrap_or_else(|| root.to_owned());
    start
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(quota_at)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

fn quota_at(group: &Path) -> Option<(PathBuf, f64)> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let cpus = match read("cpu.max") {
        Some(text) => quota_v2(&text)?,
        None => quota_v1(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)?,
    };
    Some((group.to_owned(), cpus))
}

impl std::iter::Sum for Periods {
    fn sum<I: Iterator<Item = Periods>>(all: I) -> Periods {
        all.fold(Periods::default(), |sum, periods| Periods {
            all: sum.all + periods.all,
            throttled: sum.throttled + periods.throttled,
        })
    }
}

/// A number of cpu.stat.
fn number(stat: &str, name: &str) -> Option<u64> {
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

/// Nanoseconds in version 1, microseconds in version 2.
fn throttled(stat: &str) -> Option<u64> {
    let of_v2 = || number(stat, "throttled_usec").map(|us| us.saturating_mul(1000));
    number(stat, "throttled_time").or_else(of_v2)
}

fn periods(stat: &str) -> Option<Periods> {
    Some(Periods {
        all: number(stat, "nr_periods")?,
        throttled: number(stat, "nr_throttled")?,
    })
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
    fn throttled_time_of_both_versions_is_nanoseconds() {
        assert_eq!(
            throttled("nr_periods 9\nnr_throttled 2\nthrottled_time 1500\n"),
            Some(1500)
        );
        assert_eq!(throttled("usage_usec 4\nthrottled_usec 7\n"), Some(7000));
        assert_eq!(throttled("usage_usec 4\n"), None);
        let stat = "usage_usec 4\nnr_periods 20\nnr_throttled 19\nthrottled_usec 7\n";
        let (all, throttled) = (20, 19);
        assert_eq!(periods(stat), Some(Periods { all, throttled }));
        assert_eq!(periods("usage_usec 4\n"), None);
    }

    #[test]
    fn a_machine_has_cpus_online() {
        assert!(online() > Some(0));
    }

    #[test]
    fn others_take_from_what_is_allowed_and_not_from_a_quota() {
        let share = |quota| CpuShare {
            allowed: (0..8).collect(),
            quota,
            throttled_ns: None,
            periods: None,
        };
        assert_eq!(share(None).cpus_beside(3.0), 5.0);
        assert_eq!(share(Some(2.0)).cpus_beside(3.0), 2.0);
        assert_eq!(share(Some(2.0)).cpus_beside(7.5), 0.5);
        assert_eq!(share(None).cpus_beside(9.0), 0.0);
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
