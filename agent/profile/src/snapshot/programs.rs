//! Processes that executed other programs while they were watched. Each program has an entry of its own; sums over
//! processes count a process once, however many programs it had.

use std::collections::BTreeMap;

use super::{FunctionTotals, ProcessView, Rates, Snapshot};
use crate::{format::duration, os_metrics::Counters};

impl ProcessView {
    /// The time for which its time inside MPI is known, in nanoseconds.
    pub fn mpi_known_ns(&self) -> u64 {
        self.watched_ns.saturating_sub(self.mpi_unknown_ns)
    }

    /// The time to which the time in a function is compared, in nanoseconds.
    pub fn watched_ns_of(&self, function: &FunctionTotals) -> u64 {
        match function.is_of_mpi() {
            true => self.mpi_known_ns(),
            false => self.watched_ns,
        }
    }

    /// The counters of the kernel since the program of this entry began.
    pub fn program_counters(&self) -> Option<Counters> {
        let before = self.counters_before.unwrap_or_default();
        self.counters.map(|counters| counters.since(&before))
    }

    /// How a table or a sentence names it: the rank, else the process, each with its program if it had several.
    /// `noun` is the word for a process without a rank.
    pub fn name(&self, noun: &str) -> String {
        let of = match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("{noun} {}", self.pid),
        };
        match &self.program {
            Some(program) => format!("{of} ({program})"),
            None => of,
        }
    }
}

impl Snapshot {
    /// The entries of each process, in order. Those of a recording have no pids: each is taken for a process.
    pub fn by_process(&self) -> Vec<Vec<&ProcessView>> {
        let mut indices = BTreeMap::new();
        let mut all: Vec<Vec<&ProcessView>> = Vec::new();
        for process in &self.processes {
            let key = (process.host.as_deref(), process.pid, process.rank);
            let index = match process.pid {
                0 => all.len(),
                _ => *indices.entry(key).or_insert(all.len()),
            };
            match all.get_mut(index) {
                Some(entries) => entries.push(process),
                None => all.push(vec![process]),
            }
        }
        all
    }

    /// Number of processes: one that executed another program counts once.
    pub fn process_count(&self) -> usize {
        self.by_process().len()
    }

    /// The rates of each process over the time for which its programs were watched; without those that were not measured.
    pub fn overall(&self) -> Vec<Rates> {
        let all = self.by_process().into_iter();
        all.filter_map(|entries| mean(&entries)).collect()
    }

    /// The CPUs that all processes were on, and those that they waited for, in the mean over the session: a process that
    /// lived for a part of it counts for that part.
    pub fn overall_cpus(&self) -> (f64, f64) {
        let elapsed_ns = self.elapsed.as_nanos().max(1) as f64;
        let measured = self.processes.iter().filter_map(|entry| {
            // How long a process of a recording was watched is not known.
            let part = match entry.watched_ns {
                0 => 1.0,
                watched_ns => (watched_ns as f64 / elapsed_ns).min(1.0),
            };
            Some((entry.overall?, part))
        });
        measured.fold((0.0, 0.0), |(on, waiting), (rates, part)| {
            (on + part * rates.cpu, waiting + part * rates.runqueue)
        })
    }
}

/// The mean of the rates of successive programs of one process, weighted by the time for which they were watched.
fn mean(entries: &[&ProcessView]) -> Option<Rates> {
    let measured = entries
        .iter()
        .filter_map(|entry| Some((entry.overall?, entry.watched_ns as f64)));
    let measured: Vec<(Rates, f64)> = measured.collect();
    if let [(only, _)] = measured[..] {
        return Some(only);
    }
    let weighted = |of: &dyn Fn(&Rates) -> Option<f64>| {
        let known = measured.iter().filter_map(|(rates, ns)| Some((of(rates)?, ns)));
        let (sum, all_ns) = known.fold((0.0, 0.0), |(sum, all_ns), (value, ns)| {
            (sum + value * ns, all_ns + ns)
        });
        (all_ns > 0.0).then(|| sum / all_ns)
    };
    let is_sampled = measured.iter().any(|(rates, _)| rates.sampled.is_some());
    Some(Rates {
        mpi: weighted(&|rates| rates.mpi),
        mpi_waiting: weighted(&|rates| rates.mpi_waiting),
        cpu: weighted(&|rates| Some(rates.cpu))?,
        runqueue: weighted(&|rates| Some(rates.runqueue))?,
        calls_per_s: weighted(&|rates| Some(rates.calls_per_s))?,
        sent_per_s: weighted(&|rates| Some(rates.sent_per_s))?,
        switches_per_s: weighted(&|rates| Some(rates.switches_per_s))?,
        sampled: weighted(&|rates| Some(rates.sampled.unwrap_or(1.0))).filter(|_| is_sampled),
    })
}

/// Names the programs of processes that have several entries, so that these can be distinguished. `programs` has the
/// name of each entry's program, and when its first reading was, in nanoseconds since the probes were armed.
pub fn name_programs(processes: &mut [ProcessView], programs: &[(String, u64)]) {
    let mut entries: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, process) in processes
        .iter()
        .enumerate()
        .filter(|(_, process)| process.pid != 0)
    {
        entries.entry(process.pid).or_default().push(index);
    }
    for indices in entries.into_values().filter(|indices| indices.len() > 1) {
        let named: Vec<_> = indices.iter().filter_map(|index| programs.get(*index)).collect();
        for index in &indices {
            let (Some(process), Some((name, from_ns))) = (processes.get_mut(*index), programs.get(*index))
            else {
                continue;
            };
            let is_alone = named.iter().filter(|(other, _)| other == name).count() == 1;
            process.program = Some(match is_alone {
                true => name.clone(),
                false => format!("{name} from {}", duration(*from_ns as f64)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const S: u64 = 1_000_000_000;

    fn entry(pid: i32, watched_s: u64, cpu: f64) -> ProcessView {
        ProcessView {
            pid,
            watched_ns: watched_s * S,
            overall: Some(Rates {
                cpu,
                ..Rates::default()
            }),
            ..ProcessView::default()
        }
    }

    fn cpus(processes: Vec<ProcessView>) -> Vec<f64> {
        let snapshot = Snapshot {
            processes,
            ..Snapshot::default()
        };
        assert_eq!(snapshot.process_count(), snapshot.overall().len());
        snapshot.overall().iter().map(|rates| rates.cpu).collect()
    }

    #[test]
    fn a_process_that_executed_two_more_programs_used_one_cpu_and_not_three() {
        assert_eq!(
            cpus(vec![entry(7, 5, 1.0), entry(7, 3, 1.0), entry(7, 4, 1.0)]),
            [1.0]
        );
        assert_eq!(
            cpus(vec![entry(7, 3, 1.0), entry(8, 9, 0.5), entry(7, 1, 0.2)]),
            [0.8, 0.5]
        );
        // Processes of a recording have no pids.
        assert_eq!(cpus(vec![entry(0, 1, 1.0), entry(0, 1, 1.0)]), [1.0, 1.0]);
        let far = ProcessView {
            host: Some("b".to_owned()),
            ..entry(7, 1, 1.0)
        };
        assert_eq!(cpus(vec![entry(7, 1, 1.0), far]), [1.0, 1.0]);
    }

    #[test]
    fn what_was_not_measured_of_one_program_is_of_the_others() {
        let shell = entry(7, 8, 0.5);
        let mut rank = entry(7, 2, 1.0);
        rank.overall = rank.overall.map(|rates| Rates {
            mpi: Some(0.4),
            sampled: Some(0.5),
            ..rates
        });
        let refused = ProcessView {
            pid: 7,
            ..ProcessView::default()
        };
        let snapshot = Snapshot {
            processes: vec![shell, rank, refused],
            ..Snapshot::default()
        };
        let [rates] = snapshot.overall()[..] else {
            panic!("{:?}", snapshot.overall())
        };
        assert_eq!((rates.mpi, rates.sampled), (Some(0.4), Some(0.9)));
        assert!((rates.cpu - 0.6).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn programs_are_named_where_a_process_had_several_and_the_time_is_added_if_they_have_one_name() {
        let mut processes = [7, 8, 7, 7].map(|pid| entry(pid, 1, 1.0));
        let programs = [("bash", 0), ("other", 0), ("python3", 4 * S), ("python3", 9 * S)];
        name_programs(&mut processes, &programs.map(|(name, at)| (name.to_owned(), at)));
        let names = processes.map(|process| process.program.unwrap_or_default());
        assert_eq!(names, ["bash", "", "python3 from 4 s", "python3 from 9 s"]);
    }

    #[test]
    fn the_counters_of_a_program_begin_with_it() {
        let counters = |cpu_ns| Counters {
            cpu_ns,
            runqueue_ns: cpu_ns / 2,
            resident_bytes: 5,
            ..Counters::default()
        };
        let second = ProcessView {
            counters: Some(counters(10)),
            counters_before: Some(counters(4)),
            ..ProcessView::default()
        };
        let own = second
            .program_counters()
            .map(|own| (own.cpu_ns, own.runqueue_ns, own.resident_bytes));
        assert_eq!(own, Some((6, 3, 5)));
        assert_eq!(entry(7, 1, 1.0).program_counters(), None);
    }
}
