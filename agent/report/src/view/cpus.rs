//! CPU use of a program without MPI, as text: the most informative values are the CPUs that it may use and
//! needs.

use profile::format::{count, percent};
use profile::{CpusView, Rates, Snapshot};

/// Number of all threads; 0 if unknown.
fn threads(snapshot: &Snapshot) -> u64 {
    let counters = snapshot.running().filter_map(|process| process.counters.as_ref());
    counters.map(|counters| counters.threads).sum()
}

/// CPUs that processes with these rates are on, and those that they wait for.
pub(super) fn sum(rates: &[Rates]) -> (f64, f64) {
    let add = |(on, waiting), rates: &Rates| (on + rates.cpu, waiting + rates.runqueue);
    rates.iter().fold((0.0, 0.0), add)
}

/// The same in the mean over the session, or now, with the rates of now.
pub(super) fn mean(snapshot: &Snapshot, rates: &[Rates], is_over: bool) -> (f64, f64) {
    match is_over {
        true => snapshot.overall_cpus(),
        false => sum(rates),
    }
}

/// CPUs that the threads are on, and CPUs that they wait for. The sum is limited to the number of threads,
/// because a wait may be counted in full when it ends.
fn used(snapshot: &Snapshot, (on, waiting): (f64, f64)) -> (f64, f64) {
    match threads(snapshot) {
        0 => (on, waiting),
        threads => (on, waiting.min((threads as f64 - on).max(0.0))),
    }
}

/// The time of the processes, in CPUs.
pub(super) fn spent(snapshot: &Snapshot, cpus: (f64, f64)) -> String {
    let (on, waiting) = used(snapshot, cpus);
    format!("on {on:.1} CPUs   waiting for {waiting:.1}")
}

/// One line; `None` for MPI programs, and if the CPUs could not be read.
pub(super) fn line(snapshot: &Snapshot, used_cpus: (f64, f64)) -> Option<String> {
    let cpus = snapshot.cpus.as_ref().filter(|_| snapshot.job.mpi.is_none())?;
    let (on, waiting) = used(snapshot, used_cpus);
    let wanted = on + waiting;
    let throttled = match cpus.throttled {
        Some((throttled, all)) if all > 0 => {
            format!(
                "   throttled in {} of {} periods",
                count(throttled as f64),
                count(all as f64)
            )
        }
        _ => String::new(),
    };
    let threads = match threads(snapshot) {
        0 => String::new(),
        threads => format!(" (of {})", profile::format::plural(threads as usize, "thread")),
    };
    Some(format!(
        " CPUs allowed {}   wanted {wanted:.1}{threads}{throttled}",
        allowed(cpus)
    ))
}

fn allowed(cpus: &CpusView) -> String {
    let of = cpus.online.filter(|online| cpus.allowed < *online as f64);
    let why = match (cpus.is_quota, of) {
        (true, Some(online)) => format!(" (a quota; the machine has {online})"),
        (true, None) => " (a quota)".to_owned(),
        (false, Some(online)) => format!(" (of {online})"),
        (false, None) => String::new(),
    };
    format!("{:.1}{why}", cpus.allowed)
}

/// A wait is counted in full when it ends, so the sum for a short period may exceed 1 by this much.
const LATE: f64 = 0.1;

/// The share of a rank's time that it waited for a CPU, limited by the share that it was on one.
pub(super) fn waited(cpu: f64, wait: f64) -> f64 {
    match cpu + wait {
        all if all > 1.0 + LATE => wait,
        _ => wait.min((1.0 - cpu).max(0.0)),
    }
}

/// The time of a rank in parts that add up, or the reason why they do not.
pub(super) fn rank_time(cpu: f64, wait: f64) -> String {
    let wait = waited(cpu, wait);
    let rest = match cpu + wait {
        all if all > 1.0 + LATE => "(over 100 %: of several threads)".to_owned(),
        all => format!("asleep {}", percent((1.0 - all).max(0.0))),
    };
    format!(
        "on a CPU {}   waiting for a CPU {}   {rest}",
        percent(cpu),
        percent(wait)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Counters, JobView, ProcessView};

    /// Four workers of 32 threads in a container of two CPUs.
    #[test]
    fn the_cpus_that_a_program_without_mpi_may_use_and_wants_are_shown() {
        let rates = Rates {
            cpu: 0.5,
            runqueue: 31.5,
            ..Rates::default()
        };
        let mut snapshot = Snapshot {
            job: JobView {
                program: "python3".into(),
                user: "ana".into(),
                size: Some(4),
                ..JobView::default()
            },
            elapsed: std::time::Duration::from_secs(2),
            processes: (0..4)
                .map(|number| ProcessView {
                    pid: 100 + number,
                    rates: Some(rates),
                    counters: Some(Counters {
                        threads: 33,
                        ..Counters::default()
                    }),
                    ..ProcessView::default()
                })
                .collect(),
            cpus: Some(CpusView {
                allowed: 2.0,
                is_quota: true,
                online: Some(32),
                memory_nodes: None,
                throttled: Some((20, 20)),
            }),
            ..Snapshot::default()
        };
        let text = [
            vec![crate::view::header(&snapshot)],
            crate::view::summary(&snapshot),
        ]
        .concat()
        .join("\n");
        insta::assert_snapshot!(text, @"
        python3: 4 processes (pids 100-103), no MPI, user ana, this node only
         after 2 s
         time of the 4 processes   on 2.0 CPUs   waiting for 126.0
         CPUs allowed 2.0 (a quota; the machine has 32)   wanted 128.0 (of 132 threads)   throttled in 20 of 20 periods
        ");
        snapshot.job.mpi = Some(("MPICH".into(), None));
        assert_eq!(line(&snapshot, sum(&[rates])), None);
    }

    #[test]
    fn the_parts_of_the_time_of_a_rank_add_up_or_it_is_said_why_they_do_not() {
        for (cpu, wait, said) in [
            (0.27, 0.73, "on a CPU 27 %   waiting for a CPU 73 %   asleep 0 %"),
            (0.2, 0.3, "on a CPU 20 %   waiting for a CPU 30 %   asleep 50 %"),
            (0.05, 1.02, "on a CPU 5 %   waiting for a CPU 95 %   asleep 0 %"),
            (
                0.9,
                0.5,
                "on a CPU 90 %   waiting for a CPU 50 %   (over 100 %: of several threads)",
            ),
        ] {
            assert_eq!(rank_time(cpu, wait), said);
        }
    }
}
