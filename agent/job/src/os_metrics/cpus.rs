//! How many CPUs a set of processes may use: those in their affinity masks, limited by the quotas of their
//! cgroups (versions 1 and 2, including ancestors).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::PathBuf,
};

use plan::CpuList;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity},
};
use tuner::read_proc;

use super::{
    Busy,
    groups::{cpuset_of, tightest_of},
};

/// The CPUs that processes may use.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuShare {
    /// CPUs in at least one affinity mask.
    pub allowed: BTreeSet<usize>,
    /// CPU time for each second that the tightest quota grants; `None` without a quota.
    pub quota: Option<f64>,
    /// Time for which the groups with these quotas were throttled, in nanoseconds; `None` without a quota.
    pub throttled_ns: Option<u64>,
    /// Their quota periods so far; `None` without a quota.
    pub periods: Option<Periods>,
}

/// Quota periods of all groups together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// Periods in which something ran.
    pub all: u64,
    /// Periods in which the group was throttled.
    pub throttled: u64,
}

impl CpuShare {
    /// CPUs that can be kept busy.
    pub fn cpus(&self) -> f64 {
        self.cpus_beside(0.0)
    }

    /// CPUs that can be kept busy while others keep `others` of the allowed ones busy.
    pub fn cpus_beside(&self, others: f64) -> f64 {
        let left = (self.allowed.len() as f64 - others).max(0.0);
        self.quota.map_or(left, |quota| quota.min(left))
    }

    /// Idle CPUs that the processes could use: no more than the quota leaves them.
    pub fn idle(&self, busy: Busy) -> f64 {
        let left = self.quota.map(|quota| (quota - busy.by_us).max(0.0));
        left.map_or(busy.idle_granted, |left| left.min(busy.idle_granted))
    }
}

/// What the processes may use together; `None` if none of them could be read.
///
/// A quota counts once for all processes of a cgroup. Quotas of several cgroups add up, but never beyond one
/// of a common ancestor.
pub fn available(pids: &[i32]) -> Option<CpuShare> {
    RequestedCpus::of(pids, &Confined::read(pids)).map(|requested| requested.share())
}

/// Data of some processes that rarely changes.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedCpus {
    /// CPUs in at least one affinity mask.
    allowed: BTreeSet<usize>,
    /// CPUs that each process may keep busy by itself.
    pub(super) each: BTreeMap<i32, f64>,
    quota: Option<f64>,
    /// The groups with these quotas.
    groups: Vec<PathBuf>,
}

impl RequestedCpus {
    /// `None` if none of them could be read.
    pub(super) fn of(pids: &[i32], confined: &Confined) -> Option<RequestedCpus> {
        let mut requested = RequestedCpus::default();
        let mut known = HashMap::new();
        let mut quotas: Vec<(PathBuf, f64)> = Vec::new();
        let mut unlimited = false;
        for &pid in pids {
            let Some(mask) = confined.masks.get(&pid) else {
                continue;
            };
            let cpus = mask.len() as f64;
            requested.allowed.extend(mask);
            let quota = confined.tightest_quota(pid, &mut known);
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

    /// The share, with the throttled time up to now, which is read if there is a quota.
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

/// The affinity masks and cgroups of processes, each read once.
#[derive(Debug, Default)]
pub(super) struct Confined {
    /// The CPUs that the threads of a process may use together, of those that could be read.
    masks: BTreeMap<i32, BTreeSet<usize>>,
    /// Text of `/proc/PID/cgroup`; usually the same for all.
    cgroups: BTreeMap<i32, String>,
}

impl Confined {
    pub(super) fn read(pids: &[i32]) -> Confined {
        let mut confined = Confined::default();
        for &pid in &BTreeSet::from_iter(pids) {
            confined.masks.extend(mask(*pid).map(|mask| (*pid, mask)));
            let cgroup = read_proc(format!("/proc/{pid}/cgroup"));
            let text = cgroup.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            confined.cgroups.extend(text.map(|text| (*pid, text)));
        }
        confined
    }

    /// The CPUs to which at least one thread of these processes is bound.
    pub(super) fn usable(&self, pids: &[i32]) -> BTreeSet<usize> {
        let masks = pids.iter().filter_map(|pid| self.masks.get(pid));
        masks.flatten().copied().collect()
    }

    /// The CPUs that all could use if none of their threads were bound: those granted by the cpusets of their
    /// cgroups, as far as these can be read, and those to which they are bound.
    pub(super) fn granted(&self) -> BTreeSet<usize> {
        let texts: BTreeSet<&String> = self.cgroups.values().collect();
        let cpusets = texts.iter().filter_map(|text| text.lines().find_map(cpuset_of));
        cpusets.chain(self.masks.values().cloned()).flatten().collect()
    }

    /// The smallest quota from a process's cgroup up to the root, and the group that has it. Ranks usually
    /// share a group, so results are cached in `known`.
    fn tightest_quota<'a>(
        &'a self,
        pid: i32,
        known: &mut HashMap<&'a str, Option<(PathBuf, f64)>>,
    ) -> Option<(PathBuf, f64)> {
        let groups = self.cgroups.get(&pid)?;
        let tightest = || {
            let found = groups.lines().filter_map(tightest_of);
            found.min_by(|a, b| a.1.total_cmp(&b.1))
        };
        known.entry(groups).or_insert_with(tightest).clone()
    }
}

/// The CPUs to which at least one thread of the processes is bound.
pub fn usable(pids: &[i32]) -> BTreeSet<usize> {
    pids.iter().filter_map(|pid| mask(*pid)).flatten().collect()
}

/// The CPUs that the processes could use if none of their threads were bound: those granted by the cpusets of
/// their cgroups, or, if these cannot be read, those to which they are bound.
pub fn reach(pids: &[i32]) -> BTreeSet<usize> {
    Confined::read(pids).granted()
}

/// Number of online CPUs, whether or not the caller may use them; `None` if not reported by the kernel.
pub fn online() -> Option<usize> {
    listed("/sys/devices/system/cpu/online")
}

/// Number of memory nodes that are online; `None` if not reported by the kernel.
pub fn memory_nodes() -> Option<usize> {
    listed("/sys/devices/system/node/online")
}

/// How many a file lists, as `0-3`.
fn listed(file: &str) -> Option<usize> {
    let list = fs::read_to_string(file).ok()?;
    Some(list.trim().parse::<CpuList>().ok()?.cpus().len())
}

/// The CPUs that its threads may use together: each thread has its own mask.
fn mask(pid: i32) -> Option<BTreeSet<usize>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let threads = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let masks = threads.filter_map(|thread| sched_getaffinity(Some(Pid::from_raw(thread)?)).ok());
    let mut masks: Vec<CpuSet> = masks.collect();
    masks.dedup();
    let is_set = |cpu: &usize| masks.iter().any(|mask| mask.is_set(*cpu));
    let cpus: BTreeSet<usize> = (0..CpuSet::MAX_CPU).filter(is_set).collect();
    (!cpus.is_empty()).then_some(cpus)
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

/// Throttled time in nanoseconds: version 1 reports nanoseconds, version 2 microseconds.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn idle_cpus_that_a_quota_does_not_grant_are_not_there() {
        let share = |quota| CpuShare {
            allowed: (0..1).collect(),
            quota,
            throttled_ns: None,
            periods: None,
        };
        let busy = |by_us| Busy {
            by_others: 0.0,
            idle: 0.0,
            idle_granted: 3.0,
            by_us,
        };
        assert_eq!(share(None).idle(busy(1.0)), 3.0);
        assert_eq!(share(Some(1.0)).idle(busy(1.0)), 0.0);
        assert_eq!(share(Some(1.5)).idle(busy(1.0)), 0.5);
        assert_eq!(share(Some(8.0)).idle(busy(1.0)), 3.0);
        assert_eq!(
            share(Some(1.0)).idle(busy(1.1)),
            0.0,
            "sampled at different times"
        );
    }

    #[test]
    fn threads_have_masks_of_their_own_and_a_cpuset_grants_at_least_those() {
        let us = std::process::id() as i32;
        let all = usable(&[us]);
        let first: BTreeSet<usize> = all.iter().copied().take(1).collect();
        let of_thread = std::thread::spawn(move || {
            let mut one = CpuSet::new();
            first.iter().for_each(|cpu| one.set(*cpu));
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            usable(&[us])
        });
        assert_eq!(of_thread.join().unwrap(), all, "the others are not bound");
        assert!(reach(&[us]).is_superset(&all));
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
