//! How many CPUs other processes keep busy: the load of the CPUs that some processes may use, less their own.
//!
//! The other processes need not be visible: the kernel's sum covers the entire machine, also inside a
//! container. It is sampled by the kernel's tick, so it is measured over seconds, not over one window.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::File,
    io::Read,
    time::Duration,
};

use super::CpuLimits;

/// Approximate time over which rates are measured.
const PERIOD: Duration = Duration::from_secs(2);

/// Over a shorter time, one tick would be a tenth of a CPU.
const SPAN_MIN: Duration = Duration::from_millis(400);

/// Once there are rates, the kernel's sum is read at this interval: the file also contains the counters of
/// every interrupt of every CPU. Half as often if the processes have done nothing since.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The size of the kernel's file on a machine with hundreds of CPUs; a smaller buffer needs several reads.
const STAT_BYTES: usize = 64 << 10;

/// Recent use of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    /// CPUs that others kept busy among the allowed ones.
    pub by_others: f64,
    /// Idle CPUs among those that the processes or their launcher may use.
    pub idle: f64,
    /// Idle CPUs among those that their cgroups grant.
    pub idle_granted: f64,
    /// CPUs that the processes kept busy.
    pub by_us: f64,
}

/// Samples the use of CPUs repeatedly.
#[derive(Debug, Default)]
pub struct Others {
    looks: VecDeque<CpuSample>,
}

#[derive(Clone, Debug)]
struct CpuSample {
    at_ns: u64,
    /// Time for which each CPU was busy since the machine started.
    busy_ns: BTreeMap<usize, u64>,
    own_ns: u64,
}

impl Others {
    /// CPUs that others kept busy recently among `allowed`, and idle CPUs around them, given that the
    /// processes have used `own_ns` of CPU time since they started. `None` at first, and if the kernel does
    /// not report it.
    pub fn look(
        &mut self,
        allowed: &BTreeSet<usize>,
        limits: &CpuLimits,
        own_ns: u64,
        now_ns: u64,
    ) -> Option<Busy> {
        let ends = self.looks.front().zip(self.looks.back());
        let is_known = ends.is_some_and(|(first, last)| {
            let (length, age) = (last.at_ns - first.at_ns, now_ns.saturating_sub(last.at_ns));
            let again = if last.own_ns == own_ns {
                2 * READ_INTERVAL
            } else {
                READ_INTERVAL
            };
            length >= nanos(SPAN_MIN) && age < nanos(again)
        });
        if !is_known {
            let mut stat = String::with_capacity(STAT_BYTES);
            File::open("/proc/stat").ok()?.read_to_string(&mut stat).ok()?;
            self.looks.push_back(CpuSample {
                at_ns: now_ns,
                busy_ns: busy_ns(&stat, procfs::ticks_per_second()),
                own_ns,
            });
        }
        while self
            .looks
            .get(1)
            .is_some_and(|second| now_ns.saturating_sub(second.at_ns) >= nanos(PERIOD))
        {
            self.looks.pop_front();
        }
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let own = last.own_ns.saturating_sub(first.own_ns) as f64;
        let elapsed = last.at_ns.checked_sub(first.at_ns)? as f64;
        let idle = |cpus: &BTreeSet<usize>| Some((cpus.len() as f64 - busy(first, last, cpus)?).max(0.0));
        Some(Busy {
            by_others: (busy(first, last, allowed)? - own / elapsed).max(0.0),
            idle: idle(&limits.launched)?,
            idle_granted: idle(&limits.granted)?,
            by_us: own / elapsed,
        })
    }

    /// Drops the samples after a process joined or ended: the sums before and after cannot be compared.
    pub fn forget(&mut self) {
        self.looks.clear();
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Busy time of each online CPU (offline ones have no line): all but idle time. Time stolen by a hypervisor
/// is not available to us either, so it counts as busy.
fn busy_ns(stat: &str, ticks_per_s: u64) -> BTreeMap<usize, u64> {
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; time of guests is part of user and nice.
        let idle = ticks.get(3..5)?.iter().sum::<u64>();
        let busy = ticks.iter().take(8).sum::<u64>() - idle;
        Some((cpu, busy.saturating_mul(1_000_000_000 / ticks_per_s.max(1))))
    };
    // The line of all CPUs together has no number.
    stat.lines()
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(cpu)
        .collect()
}

/// CPUs of a set that were kept busy between two samples.
fn busy(first: &CpuSample, last: &CpuSample, cpus: &BTreeSet<usize>) -> Option<f64> {
    let elapsed = last.at_ns.checked_sub(first.at_ns)?;
    if elapsed < nanos(SPAN_MIN) {
        return None;
    }
    let since = |cpu: &usize| Some(last.busy_ns.get(cpu)?.saturating_sub(*first.busy_ns.get(cpu)?));
    let all: u64 = cpus.iter().map(since).sum::<Option<u64>>()?;
    Some(all as f64 / elapsed as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_ms: u64, busy_ms: [u64; 3]) -> CpuSample {
        let busy_ns = (0..).zip(busy_ms).map(|(cpu, ms)| (cpu, ms * 1_000_000));
        CpuSample {
            at_ns: at_ms * 1_000_000,
            busy_ns: busy_ns.collect(),
            own_ns: 0,
        }
    }

    #[test]
    fn a_cpu_that_is_offline_has_no_line_and_shifts_no_other() {
        let stat =
            "cpu  30 0 0 70 0 0 0 0 0 0\ncpu0 10 1 2 50 9 3 4 5 7 0\ncpu3 20 0 0 20 0 0 0 0 0 0\nintr 7\n";
        let expected = BTreeMap::from([(0, 250_000_000), (3, 200_000_000)]);
        assert_eq!(busy_ns(stat, 100), expected);
    }

    #[test]
    fn only_the_requested_cpus_count_and_only_over_long_enough() {
        let (first, last) = (look(0, [500, 500, 0]), look(2000, [2500, 1500, 2000]));
        let on = |cpus: &[usize]| busy(&first, &last, &cpus.iter().copied().collect());
        assert_eq!(on(&[0, 1]), Some(1.5));
        assert_eq!(on(&[1]), Some(0.5));
        assert_eq!(on(&[7]), None, "a CPU that the kernel does not tell of");
        assert_eq!(
            busy(&first, &look(100, [600, 500, 0]), &BTreeSet::from([0])),
            None,
            "too short"
        );
    }

    #[test]
    fn our_own_cpu_time_is_not_that_of_others() {
        let here: BTreeSet<usize> = std::thread::available_parallelism()
            .map(|n| (0..n.get()).collect())
            .unwrap();
        let mut others = Others::default();
        let limits = CpuLimits {
            launched: here.clone(),
            granted: here.clone(),
            ..CpuLimits::default()
        };
        assert_eq!(others.look(&here, &limits, 0, 1), None, "nothing to compare with");
        let seen = others.look(&here, &limits, u64::MAX, 1 + nanos(PERIOD)).unwrap();
        assert_eq!(seen.by_others, 0.0);
    }
}
