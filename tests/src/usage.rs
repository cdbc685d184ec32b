//! Resources of a process from /proc: CPU time in nanoseconds, wake-ups, reads, memory.

use std::fs;

use crate::Outcome;

/// Totals of all threads since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Number of voluntary context switches.
    pub waits: u64,
    /// System calls that read.
    pub reads: u64,
    /// Current resident memory in KiB.
    pub resident_kib: u64,
    /// The part of it that is private and not backed by a file, in KiB.
    pub private_kib: u64,
}

impl Usage {
    /// Current totals of a process.
    pub fn of(pid: u32) -> Outcome<Usage> {
        let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let mut usage = Usage {
            private_kib: number(&maps, "Private_Dirty:")?,
            reads: number(&fs::read_to_string(format!("/proc/{pid}/io"))?, "syscr:")?,
            resident_kib: number(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS:")?,
            ..Usage::default()
        };
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = thread?.path();
            let read = |name| fs::read_to_string(folder.join(name));
            let (Ok(times), Ok(status)) = (read("schedstat"), read("status")) else {
                // The thread has ended since it was listed.
                continue;
            };
            let ran = times.split_whitespace().next().ok_or("no schedstat")?;
            usage.cpu_ns += ran.parse::<u64>().map_err(|error| format!("{ran}: {error}"))?;
            usage.waits += number(&status, "voluntary_ctxt_switches:")?;
        }
        Ok(usage)
    }

    /// Difference to an earlier reading; memory is the current value.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waits: self.waits.saturating_sub(before.waits),
            reads: self.reads.saturating_sub(before.reads),
            resident_kib: self.resident_kib,
            private_kib: self.private_kib,
        }
    }
}

/// The number in a line of the form `key: number`.
fn number(text: &str, key: &str) -> Outcome<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(number.ok_or_else(|| format!("the kernel does not tell {key}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_counted_and_takes_time() -> Outcome {
        let before = Usage::of(std::process::id())?;
        for _ in 0..100 {
            fs::read_to_string("/proc/self/stat")?;
        }
        let after = Usage::of(std::process::id())?;
        let took = after.since(before);
        // The time of threads that end is no longer in the sum, and other tests end theirs meanwhile.
        assert!(
            took.reads >= 100 && after.cpu_ns > 0 && took.resident_kib > took.private_kib,
            "{took:?}"
        );
        Ok(())
    }
}
