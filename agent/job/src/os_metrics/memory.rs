//! The memory limits of cgroups of version 2, and how often they were reached since a session began. Groups of version
//! 1 have other counters, which are not read.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use profile::{MemoryEvents, MemoryGroup, OutOfMemory};

use super::groups::unified_of;

/// Maximum age of counters, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000_000;

/// Maximum number of groups that are read; those of further processes are not.
const GROUPS_MAX: usize = 256;

/// The groups of the processes of a job, and those above them.
#[derive(Debug, Default)]
pub struct MemoryGroups {
    read_ns: u64,
    /// The group of each process that its memory counts in; `None` if it has no counters.
    of: BTreeMap<i32, Option<PathBuf>>,
    groups: BTreeMap<PathBuf, WatchedGroup>,
}

#[derive(Debug)]
struct WatchedGroup {
    first: MemoryEvents,
    /// As read last, with the counters since the group was made.
    last: MemoryGroup,
}

impl MemoryGroups {
    /// Reads the counters if they are old, and those of the groups of new processes.
    pub fn look(&mut self, pids: &[i32], now_ns: u64) {
        for pid in pids {
            if !self.of.contains_key(pid) {
                let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
                let group = unified_of(&text).and_then(|(group, root)| self.add(&group, root));
                self.of.insert(*pid, group);
            }
        }
        if now_ns.saturating_sub(self.read_ns) >= PERIOD_NS {
            self.read_ns = now_ns;
            self.groups.iter_mut().for_each(|(path, group)| group.read(path));
        }
    }

    /// The groups whose limits were reached since the session began, or in which processes were killed.
    pub fn reached(&self) -> Vec<MemoryGroup> {
        let groups = self.groups.values().map(WatchedGroup::grown);
        groups
            .filter(|group| group.events != MemoryEvents::default())
            .collect()
    }

    /// For a process that SIGKILL has ended: what the OOM killer did in its group since the session began, as of now;
    /// `None` if it killed none.
    pub fn out_of_memory(&mut self, pid: i32) -> Option<OutOfMemory> {
        let own = self.of.get(&pid)?.as_ref()?;
        let above: Vec<&Path> = own
            .ancestors()
            .filter(|path| self.groups.contains_key(*path))
            .collect();
        for path in &above {
            if let Some(group) = self.groups.get_mut(*path) {
                group.read(path);
            }
        }
        let mut groups = above
            .iter()
            .filter_map(|path| Some(self.groups.get(*path)?.grown()));
        let own = groups.next().filter(|own| own.events.oom_kill > 0)?;
        let (cgroup, kills) = (own.cgroup.clone(), own.events.oom_kill);
        // The limit that was reached may be of a group above. Without one, the machine has no memory left.
        let mut all = [own].into_iter().chain(groups);
        let reached = all.find_map(|group| {
            let limit = group.limit_bytes.filter(|_| group.events.oom > 0)?;
            Some((group.cgroup, limit))
        });
        Some(OutOfMemory {
            cgroup,
            kills,
            reached,
        })
    }

    /// Reads a group and those above it; returns the lowest one that has counters.
    fn add(&mut self, group: &Path, root: &Path) -> Option<PathBuf> {
        let all = group.ancestors().take_while(|path| path.starts_with(root));
        let mut lowest = None;
        for path in all {
            if !self.groups.contains_key(path) {
                let Some(last) = read(path, root).filter(|_| self.groups.len() < GROUPS_MAX) else {
                    continue;
                };
                let first = last.events;
                self.groups.insert(path.to_owned(), WatchedGroup { first, last });
            }
            lowest.get_or_insert_with(|| path.to_owned());
        }
        lowest
    }
}

impl WatchedGroup {
    /// What was read last remains if the group is gone.
    fn read(&mut self, path: &Path) {
        if let Some((limit, high, events)) = limits(path) {
            (self.last.limit_bytes, self.last.high_bytes, self.last.events) = (limit, high, events);
        }
    }

    /// With the counters since the first reading.
    fn grown(&self) -> MemoryGroup {
        MemoryGroup {
            events: self.last.events.since(&self.first),
            ..self.last.clone()
        }
    }
}

fn read(path: &Path, root: &Path) -> Option<MemoryGroup> {
    let (limit_bytes, high_bytes, events) = limits(path)?;
    let inside = path.strip_prefix(root).ok()?;
    Some(MemoryGroup {
        cgroup: format!("/{}", inside.display()),
        limit_bytes,
        high_bytes,
        events,
    })
}

/// `memory.max` and `memory.high` in bytes, and the counters; `None` without the controller.
fn limits(path: &Path) -> Option<(Option<u64>, Option<u64>, MemoryEvents)> {
    let text = |file: &str| fs::read_to_string(path.join(file)).ok();
    // Those of the group itself. Before Linux 5.2 there are only those that include the groups below.
    let events = text("memory.events.local").or_else(|| text("memory.events"))?;
    let bytes = |file| text(file)?.trim().parse().ok();
    Some((bytes("memory.max"), bytes("memory.high"), parse(&events)))
}

fn parse(text: &str) -> MemoryEvents {
    let count = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find(|(name, _)| *name == key)?.1;
        value.trim().parse().ok()
    };
    MemoryEvents {
        high: count("high").unwrap_or_default(),
        max: count("max").unwrap_or_default(),
        oom: count("oom").unwrap_or_default(),
        oom_kill: count("oom_kill").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: i32 = 7;

    fn write(path: &Path, max: &str, counts: [u64; 4]) {
        let [high, max_reached, oom, oom_kill] = counts;
        let events = format!(
            "low 0\nhigh {high}\nmax {max_reached}\noom {oom}\noom_kill {oom_kill}\noom_group_kill 0\n"
        );
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("memory.max"), max).unwrap();
        fs::write(path.join("memory.high"), "max\n").unwrap();
        fs::write(path.join("memory.events"), events).unwrap();
    }

    fn groups(root: &Path) -> MemoryGroups {
        let mut groups = MemoryGroups::default();
        let own = groups.add(&root.join("job/step/without"), root);
        groups.of.insert(PID, own);
        groups
    }

    #[test]
    fn the_limit_that_was_reached_is_that_of_the_group_or_of_one_above_or_none() {
        let no = [0; 4];
        // Limits and counters of the group and the one above, and what is said of a process of the group.
        for (own, above, reached) in [
            (
                ("4096\n", [0, 9, 2, 3]),
                ("max\n", no),
                Some(Some(("/job/step", 4096))),
            ),
            (
                ("max\n", [0, 0, 0, 1]),
                ("8192\n", [0, 4, 1, 0]),
                Some(Some(("/job", 8192))),
            ),
            (("4096\n", [0, 0, 0, 1]), ("8192\n", no), Some(None)),
            // Another group of the job had to give one up.
            (("max\n", no), ("8192\n", [0, 4, 1, 1]), None),
            (("4096\n", [5, 9, 0, 0]), ("max\n", no), None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let (job, step) = (root.path().join("job"), root.path().join("job/step"));
            write(&job, above.0, [7; 4]);
            write(&step, own.0, [1; 4]);
            // The controller is off in its own group.
            fs::create_dir(step.join("without")).unwrap();
            let mut groups = groups(root.path());
            write(&job, above.0, above.1.map(|count| count + 7));
            write(&step, own.0, own.1.map(|count| count + 1));
            let said = groups.out_of_memory(PID);
            let reached = reached.map(|reached| OutOfMemory {
                cgroup: "/job/step".to_owned(),
                kills: own.1[3],
                reached: reached.map(|(cgroup, limit)| (cgroup.to_owned(), limit)),
            });
            assert_eq!(said, reached, "{own:?} {above:?}");
        }
    }

    #[test]
    fn groups_whose_counters_grew_are_shown_also_after_they_are_gone() {
        let root = tempfile::tempdir().unwrap();
        let step = root.path().join("job/step");
        write(&step, "4096\n", [3, 3, 0, 0]);
        fs::create_dir(step.join("without")).unwrap();
        let mut groups = groups(root.path());
        assert_eq!(groups.reached(), []);
        write(&step, "4096\n", [3, 8, 0, 0]);
        groups.look(&[], PERIOD_NS);
        fs::remove_dir_all(&step).unwrap();
        groups.look(&[], 2 * PERIOD_NS);
        let [group] = &groups.reached()[..] else {
            panic!("{groups:?}")
        };
        assert_eq!(
            (group.cgroup.as_str(), group.limit_bytes),
            ("/job/step", Some(4096))
        );
        assert_eq!((group.events.max, group.events.high), (5, 0));
    }

    #[test]
    fn without_counters_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("job/step/without")).unwrap();
        let mut groups = groups(root.path());
        assert_eq!((groups.out_of_memory(PID), groups.reached()), (None, vec![]));
        assert_eq!(groups.out_of_memory(8), None);
    }
}
