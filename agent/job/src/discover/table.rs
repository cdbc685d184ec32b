//! A snapshot of all processes and their parents.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    pub parent: i32,
    /// Short name, truncated at 15 bytes by the kernel.
    pub name: String,
    pub is_kernel_thread: bool,
}

/// The flag of kernel threads in /proc/PID/stat (include/linux/sched.h).
const PF_KTHREAD: u32 = 0x0020_0000;

/// All processes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTable {
    entries: BTreeMap<i32, ProcessEntry>,
}

impl ProcessTable {
    /// Reads /proc. Processes that end meanwhile are omitted.
    pub fn read() -> ProcessTable {
        let Ok(processes) = procfs::process::all_processes() else {
            return ProcessTable::default();
        };
        let entries = processes.filter_map(|process| {
            let stat = process.ok()?.stat().ok()?;
            let is_kernel_thread = stat.flags & PF_KTHREAD != 0;
            Some((
                stat.pid,
                ProcessEntry {
                    parent: stat.ppid,
                    name: stat.comm,
                    is_kernel_thread,
                },
            ))
        });
        ProcessTable {
            entries: entries.collect(),
        }
    }

    pub fn get(&self, pid: i32) -> Option<&ProcessEntry> {
        self.entries.get(&pid)
    }

    /// All processes, ordered by pid.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &ProcessEntry)> {
        self.entries.iter().map(|(pid, entry)| (*pid, entry))
    }

    /// The process itself, its parent, and so on.
    pub fn lineage(&self, pid: i32) -> impl Iterator<Item = (i32, &ProcessEntry)> {
        // Processes have no cycles, but two reads may disagree: the number of entries bounds the walk.
        let start = self.entries.get_key_value(&pid);
        std::iter::successors(start, |(_, entry)| self.entries.get_key_value(&entry.parent))
            .take(self.entries.len())
            .map(|(pid, entry)| (*pid, entry))
    }

    /// All descendants of the process, nearest first, without itself.
    pub fn descendants(&self, pid: i32) -> Vec<i32> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (child, entry) in &self.entries {
            children.entry(entry.parent).or_default().push(*child);
        }
        let mut found = Vec::new();
        let mut waiting = VecDeque::from([pid]);
        while let Some(parent) = waiting.pop_front() {
            // Removed, so that no process is visited twice.
            for child in children.remove(&parent).unwrap_or_default() {
                found.push(child);
                waiting.push_back(child);
            }
        }
        found
    }

    #[cfg(test)]
    pub(super) fn of(lines: &[(i32, i32, &str)]) -> ProcessTable {
        let entry = |(pid, parent, name): &(i32, i32, &str)| {
            (
                *pid,
                ProcessEntry {
                    parent: *parent,
                    name: (*name).into(),
                    is_kernel_thread: false,
                },
            )
        };
        ProcessTable {
            entries: lines.iter().map(entry).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lineage_and_descendants_survive_a_cycle() {
        let table = ProcessTable::of(&[(10, 20, "a"), (20, 10, "b"), (30, 20, "c")]);
        assert_eq!(table.lineage(30).count(), 3);
        assert_eq!(table.descendants(10), [20, 10, 30]);
    }

    #[test]
    fn we_are_in_the_table_under_our_parent() {
        let us = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        assert_eq!(
            ProcessTable::read().get(us).map(|entry| entry.parent),
            Some(parent)
        );
    }
}
