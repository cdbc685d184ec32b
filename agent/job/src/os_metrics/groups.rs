//! The cgroup of a process, of versions 1 and 2: the CPUs granted by its cpuset, and the smallest quota up to
//! the root.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use plan::CpuList;

/// The CPUs granted by a group's cpuset, from one line of /proc/PID/cgroup.
pub(super) fn cpuset_of(line: &str) -> Option<BTreeSet<usize>> {
    let files = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    let (group, root) = group_of(line, "cpuset")?;
    // A group without the controller has the CPUs of its parent.
    let groups = group.ancestors().take_while(|path| path.starts_with(root));
    let mut places = groups.flat_map(|group| files.map(|file| group.join(file)));
    let text = places.find_map(|file| fs::read_to_string(file).ok())?;
    Some(text.trim().parse::<CpuList>().ok()?.cpus().clone())
}

/// The smallest quota that applies to a group, and the group that has it, from one line of /proc/PID/cgroup.
pub(super) fn tightest_of(line: &str) -> Option<(PathBuf, f64)> {
    let (group, root) = group_of(line, "cpu")?;
    group
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(quota_at)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The group in the hierarchy of version 2 and its mount, from /proc/PID/cgroup.
pub(super) fn unified_of(text: &str) -> Option<(PathBuf, &'static Path)> {
    let line = text.lines().find(|line| line.starts_with("0::"))?;
    group_of(line, "memory")
}

/// The group with this controller and the mount that contains it, from one line of /proc/PID/cgroup: number
/// of the hierarchy, its controllers, the group's path.
fn group_of(line: &str, controller: &str) -> Option<(PathBuf, &'static Path)> {
    const V1: [(&str, &str); 3] = [
        ("cpu", "/sys/fs/cgroup/cpu"),
        ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
        ("cpuset", "/sys/fs/cgroup/cpuset"),
    ];
    const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let mut fields = line.splitn(3, ':');
    let (hierarchy, mut controllers) = (fields.next()?, fields.next()?.split(','));
    let is_there = |mount: &&'static str| Path::new(mount).exists();
    let mount = match hierarchy {
        "0" => V2.into_iter().find(is_there),
        _ if !controllers.any(|of| of == controller) => None,
        _ => (V1
            .into_iter()
            .filter(|(of, _)| *of == controller)
            .map(|(_, mount)| mount))
        .find(is_there),
    };
    let root = Path::new(mount?);
    let inside = fields.next()?.trim_start_matches('/');
    // In a container the path is the host's; the limits that apply to us are then at the mount itself.
    let group = Some(root.join(inside)).filter(|path| path.exists());
    Some((group.unwrap_or_else(|| root.to_owned()), root))
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
}
