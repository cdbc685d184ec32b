//! Assigns each process of a job cores of its own. A core is the set of CPUs that share one (hyper-threads);
//! a process that gets one of them gets all that the job may use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use plan::{Cores, CpuList};

/// There are fewer cores than processes.
#[derive(Debug, thiserror::Error)]
#[error("{processes} processes cannot have cores of their own: the job may use {cores}")]
pub struct TooFewCores {
    processes: usize,
    cores: usize,
}

/// The CPUs for each of the processes, in the order of `pids`.
pub fn dealt(how: Cores, pids: &[i32], cpus: &BTreeSet<usize>) -> Result<Vec<CpuList>, TooFewCores> {
    let threads: Vec<usize> = pids.iter().map(|pid| threads(*pid)).collect();
    let dealt = deal(how, &cores(cpus, &place), &threads)?;
    Ok(dealt
        .into_iter()
        .filter_map(|cpus| CpuList::new(cpus.into_iter().collect()))
        .collect())
}

/// Current number of threads of a process.
fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |entries| entries.count().max(1))
}

/// Package and core of a CPU; a CPU without that information is a core of its own.
fn place(cpu: usize) -> (usize, usize) {
    let read = |file: &str| -> Option<usize> {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}")).ok()?;
        text.trim().parse().ok()
    };
    read("physical_package_id")
        .zip(read("core_id"))
        .unwrap_or((usize::MAX, cpu))
}

/// The CPUs by core, neighbours next to each other.
fn cores(cpus: &BTreeSet<usize>, place: &dyn Fn(usize) -> (usize, usize)) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for cpu in cpus {
        cores.entry(place(*cpu)).or_default().push(*cpu);
    }
    cores.into_values().collect()
}

/// The CPUs of each process; `threads` has the number of threads of each.
fn deal(how: Cores, cores: &[Vec<usize>], threads: &[usize]) -> Result<Vec<Vec<usize>>, TooFewCores> {
    let (count, processes) = (cores.len(), threads.len());
    if processes == 0 || processes > count {
        return Err(TooFewCores {
            processes,
            cores: count,
        });
    }
    let mut next = 0;
    let mut dealt = Vec::new();
    for (number, threads) in threads.iter().enumerate() {
        let (start, end) = match how {
            Cores::Spread => (number * count / processes, (number + 1) * count / processes),
            // Each of the following processes needs at least one core.
            Cores::Compact => (
                next,
                (next + threads).clamp(next + 1, count - (processes - number - 1)),
            ),
        };
        next = end;
        dealt.push(cores.get(start..end).unwrap_or_default().concat());
    }
    Ok(dealt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(how: Cores, cpus: usize, threads: &[usize]) -> Result<Vec<Vec<usize>>, TooFewCores> {
        // Two CPUs for each core, as Linux numbers them: 0 and 4 are one core of eight CPUs.
        let place = |cpu| (0, cpu % cpus.div_ceil(2));
        deal(how, &cores(&(0..cpus).collect(), &place), threads)
    }

    #[test]
    fn spread_deals_all_cores_evenly_and_compact_as_many_as_there_are_threads() {
        let dealt = |how, threads| dealt(how, 8, threads).unwrap();
        assert_eq!(dealt(Cores::Spread, &[1, 1]), [[0, 4, 1, 5], [2, 6, 3, 7]]);
        assert_eq!(dealt(Cores::Compact, &[1, 2]), [vec![0, 4], vec![1, 5, 2, 6]]);
        let three = [vec![0, 4], vec![1, 5], vec![2, 6, 3, 7]];
        assert_eq!(dealt(Cores::Spread, &[1, 1, 1]), three);
    }

    #[test]
    fn no_process_is_left_without_a_core() {
        let compact = dealt(Cores::Compact, 6, &[9, 9, 9]).unwrap();
        assert_eq!(compact, [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(
            dealt(Cores::Spread, 2, &[1, 1]).unwrap_err().to_string(),
            "2 processes cannot have cores of their own: the job may use 1"
        );
    }

    #[test]
    fn the_cpus_of_this_machine_are_dealt_once_each() {
        let cpus: BTreeSet<usize> = super::super::usable(&[std::process::id() as i32]);
        let of = cores(&cpus, &place);
        assert_eq!(of.concat().into_iter().collect::<BTreeSet<_>>(), cpus);
    }
}
