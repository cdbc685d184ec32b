//! The differences between the processes over the entire session, as text: minimum, mean and maximum.

use profile::format::{bytes, percent};
use profile::{ProcessView, Rates, Snapshot};

use super::parts;

/// A compared quantity, and its text format for values up to a greatest one.
type Quantity = (
    &'static str,
    fn(&ProcessView) -> Option<f64>,
    fn(f64, f64) -> String,
);

/// Columns of the name of a process at least.
const NAME_MIN: usize = 13;

/// The quantity that is an estimate if MPI functions are sampled.
const INSIDE_MPI: &str = "inside MPI";

const QUANTITIES: [Quantity; 4] = [
    (
        INSIDE_MPI,
        |process| overall(process)?.mpi,
        |share, _| percent(share),
    ),
    ("on a CPU", |process| Some(overall(process)?.cpu), cpus),
    (
        "waiting for a CPU",
        |process| Some(overall(process)?.runqueue),
        cpus,
    ),
    (
        "memory, at its most",
        |process| Some(process.counters.as_ref()?.resident_peak_bytes? as f64),
        |amount, _| bytes(amount),
    ),
];

/// One thread wants at most so many CPUs: a wait is counted in full when it ends.
const ONE_THREAD_MAX: f64 = 1.1;

/// If a process has several threads that want a CPU, none is shown as a share of the time: both rows have one unit.
fn cpus(number: f64, most_wanted: f64) -> String {
    match most_wanted > ONE_THREAD_MAX {
        true => format!("{number:.2} CPUs"),
        false => percent(number),
    }
}

fn overall(process: &ProcessView) -> Option<&Rates> {
    process.overall.as_ref()
}

/// A line for each quantity; empty if there is no other process to compare with.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let names = snapshot
        .processes
        .iter()
        .filter(|process| process.program.is_some());
    let names = names.map(|process| who(0, process).chars().count());
    let name = names.fold(NAME_MIN, usize::max);
    let rows: Vec<String> = QUANTITIES
        .iter()
        .filter_map(|quantity| row(snapshot, quantity, name))
        .collect();
    if rows.is_empty() {
        return rows;
    }
    let noun = if snapshot.job.mpi.is_some() {
        "ranks"
    } else {
        "processes"
    };
    let head = format!(
        " {:<20} {:>9} {:<name$} {:>8} {:>9}",
        format!("of the {noun}"),
        "least",
        "",
        "mean",
        "most"
    );
    [vec![String::new(), head], rows].concat()
}

/// Processes of a recording have no process ids.
fn who(number: usize, process: &ProcessView) -> String {
    let of = match (process.rank, process.pid) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, 0) => format!("process {number}"),
        (None, pid) => format!("pid {pid}"),
    };
    match &process.program {
        Some(program) => format!("({of}, {program})"),
        None => format!("({of})"),
    }
}

/// `columns` are those of the names of processes.
fn row(snapshot: &Snapshot, (name, of, show): &Quantity, columns: usize) -> Option<String> {
    // Launchers and shells of a command are not ranks.
    let is_one = |process: &&ProcessView| snapshot.job.mpi.is_none() || process.rank.is_some();
    let compared = (1..).zip(snapshot.processes.iter().filter(is_one));
    let mut values: Vec<(f64, String)> = compared
        .filter_map(|(number, process)| Some((of(process)?, who(number, process))))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [least, .., most] = values.as_slice() else {
        return None;
    };
    let mean = values.iter().map(|(value, _)| value).sum::<f64>() / values.len() as f64;
    let about = match *name == INSIDE_MPI {
        true => parts::mpi_mark(snapshot),
        false => "",
    };
    let rates = snapshot.processes.iter().filter_map(overall);
    let most_wanted = rates.map(|rates| rates.cpu + rates.runqueue).fold(0.0, f64::max);
    let show = |value: f64| format!("{about}{}", show(value, most_wanted));
    Some(format!(
        " {:<20} {:>9} {:<columns$} {:>8} {:>9} {}",
        name,
        show(least.0),
        least.1,
        show(mean),
        show(most.0),
        most.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Counters, JobView};

    fn rank(number: u32) -> ProcessView {
        let share = f64::from(number + 1) / 10.0;
        ProcessView {
            pid: 8120 + number as i32,
            rank: Some(number),
            counters: Some(Counters {
                resident_peak_bytes: Some(u64::from(number + 1) << 28),
                ..Counters::default()
            }),
            overall: Some(Rates {
                mpi: Some(share),
                cpu: 1.0 - share,
                ..Rates::default()
            }),
            ..ProcessView::default()
        }
    }

    #[test]
    fn the_processes_with_least_and_most_are_named_and_one_alone_is_not_compared() {
        let mut snapshot = Snapshot {
            job: JobView {
                mpi: Some(("Open MPI".into(), None)),
                ..JobView::default()
            },
            processes: (0..4).map(rank).collect(),
            ..Snapshot::default()
        };
        // The shell that started them.
        snapshot.processes.push(ProcessView {
            pid: 77,
            rank: None,
            ..rank(7)
        });
        insta::assert_snapshot!(over_all(&snapshot).join("\n"), @"

        of the ranks             least                   mean      most
        inside MPI                10 % (rank 0)          25 %      40 % (rank 3)
        on a CPU                  60 % (rank 3)          75 %      90 % (rank 0)
        waiting for a CPU          0 % (rank 0)           0 %       0 % (rank 3)
        memory, at its most    256 MiB (rank 0)       640 MiB     1 GiB (rank 3)
        ");
        // Without MPI all processes are compared, named by their ids.
        snapshot.job.mpi = None;
        snapshot.processes.drain(..3);
        snapshot.processes[0].rank = None;
        let lines = over_all(&snapshot);
        assert!(lines[1].starts_with(" of the processes "), "{lines:?}");
        assert!(
            lines[2].contains("(pid 8123)") && lines[2].ends_with("(pid 77)"),
            "{lines:?}"
        );
        // Processes of a recording have no process ids.
        for process in &mut snapshot.processes {
            (process.pid, process.rank) = (0, None);
        }
        let line = over_all(&snapshot).swap_remove(2);
        assert!(
            line.contains("(process 1)") && line.ends_with("(process 2)"),
            "{line}"
        );
        snapshot.processes.truncate(1);
        assert!(over_all(&snapshot).is_empty());
        assert_eq!(
            [cpus(0.016, 1.653), cpus(1.653, 1.653), cpus(0.016, 0.9)],
            ["0.02 CPUs", "1.65 CPUs", "1.6 %"]
        );
    }
}
