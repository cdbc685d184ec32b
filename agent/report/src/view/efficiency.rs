//! The efficiencies of the ranks, as text.

use profile::format::{count, percent, plural, significant};
use profile::{EfficienciesView, Rates, Scalability, Snapshot, Split};

/// If ranks need a CPU for a smaller part of their time outside MPI, they are reported as sleeping, and without
/// an efficiency: POP counts all of that time as useful, and it is not known what they wait for.
const AWAKE: f64 = 0.5;
/// If ranks are outside MPI for less of their time, sleep is not reported.
const OUTSIDE_SHOWN: f64 = 0.2;

/// The share of the time outside MPI that the ranks sleep at least, if that is most of it: all of their CPU time counts as
/// outside.
fn asleep(rates: &[Rates]) -> Option<f64> {
    let (mut outside, mut awake, mut ranks) = (0.0, 0.0, 0.0);
    for rates in rates {
        outside += 1.0 - rates.mpi?;
        // Waiting for a CPU inside MPI says nothing about the time outside.
        awake += rates.cpu + (rates.runqueue - rates.mpi_waiting.unwrap_or_default()).max(0.0);
        ranks += 1.0;
    }
    (outside > OUTSIDE_SHOWN * ranks && awake < AWAKE * outside).then(|| 1.0 - awake / outside)
}

/// From this part on, waiting for a CPU is reported: a rank that waits for one counts as useful.
const WAITING_SHOWN: f64 = 0.1;

/// The part of the time outside MPI in which the ranks wait for a CPU, if it is known and large enough to report. Without
/// MPI, and of ranks with several threads, the part of the time in which the threads want a CPU.
pub(super) fn waiting(rates: &[Rates]) -> Option<f64> {
    let (mut all, mut waiting) = (0.0, 0.0);
    for rates in rates {
        let inside = match rates.mpi {
            Some(_) => rates.mpi_waiting?,
            None => 0.0,
        };
        let wanted = rates.cpu + rates.runqueue;
        all += rates.mpi.map_or(wanted, |mpi| wanted.max(1.0) - mpi);
        waiting += (rates.runqueue - inside).max(0.0);
    }
    (waiting > WAITING_SHOWN * all).then(|| (waiting / all).min(1.0))
}

/// The efficiencies over the session; `None` also if the ranks sleep.
pub fn efficiencies(snapshot: &Snapshot) -> Option<&EfficienciesView> {
    let known = snapshot.sequence.efficiencies.as_ref();
    known.filter(|_| asleep(&snapshot.overall()).is_none())
}

/// The efficiencies, their factors and the scalability, in lines, of ranks with `rates`.
pub(super) fn lines(view: &EfficienciesView, rates: &[Rates]) -> Vec<String> {
    let not_measured = asleep(rates).map(|share| {
        format!(
            " parallel efficiency not measured: outside MPI the ranks sleep at least {} of the time, which is neither work nor \
             waiting for other ranks",
            percent(share)
        )
    });
    let scalability = view.scalability.as_ref();
    let scalability = scalability.map(|of| scalability_line(of, view.ranks));
    let split = view.split.as_ref().filter(|_| not_measured.is_none());
    let split = split.map(split_line);
    let waits = waiting(rates).filter(|_| not_measured.is_none() && view.is_balance_known());
    let waits = waits.map(|share| {
        format!(
            "    {} of the time outside MPI, which counts as useful, waited for a CPU",
            percent(share)
        )
    });
    [not_measured.unwrap_or_else(|| factors(view))]
        .into_iter()
        .chain(waits)
        .chain(split)
        .chain(scalability)
        .collect()
}

/// The efficiency of ranks that all wait must differ from 0, and the factors must multiply to the product.
pub fn efficiency(efficiency: f64) -> String {
    match efficiency < 0.0995 {
        true => significant(efficiency, 2),
        false => format!("{efficiency:.2}"),
    }
}

fn factors(view: &EfficienciesView) -> String {
    let over = if view.over_iterations {
        "over complete steps"
    } else {
        "not over complete steps"
    };
    let parts = match view.between_nodes {
        None => "; of the ranks here: others, if any, are not seen",
        Some(_) => "",
    };
    if !view.is_balance_known() {
        return format!(
            " parallel efficiency {}   ({over}{parts}; no rank computes for 1 % of its time: too little for a load balance)",
            efficiency(view.of.parallel),
        );
    }
    let nodes = match view.between_nodes {
        Some(between) if view.nodes > 1 => format!(
            " (within nodes {}, between {} nodes {})",
            efficiency(view.of.within_nodes),
            view.nodes,
            efficiency(between),
        ),
        _ => String::new(),
    };
    format!(
        " parallel efficiency {}  =  load balance {}{nodes}  x  communication {}   ({over}{parts})",
        efficiency(view.of.parallel),
        efficiency(view.of.load_balance),
        efficiency(view.of.communication),
    )
}

fn scalability_line(view: &Scalability, ranks: usize) -> String {
    format!(
        " computation scalability {:.2} from {} to {ranks}   (by useful time of a step; if the problem grew with the ranks {:.2})",
        view.strong,
        plural(view.ranks_before, "rank"),
        view.weak,
    )
}

fn split_line(split: &Split) -> String {
    format!(
        " serialisation {}  x  transfer {}   (between {} collectives of all ranks: {} of the time waiting for the last, {} transfer)",
        efficiency(split.serialisation),
        efficiency(split.transfer),
        count(split.collectives as f64),
        percent(split.waiting),
        percent(split.transferring),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn ranks_that_sleep_outside_mpi_are_said_to_and_those_that_compute_are_not() {
        let rank = |mpi, cpu| Rates {
            mpi: Some(mpi),
            cpu,
            ..Rates::default()
        };
        let shown = lines(
            &example::efficiencies([1.0, 1.0]),
            &[rank(0.0, 0.02), rank(0.0, 0.0)],
        );
        assert_eq!(
            shown,
            [
                " parallel efficiency not measured: outside MPI the ranks sleep at least 99 % of the time, which is neither work nor waiting for other ranks"
            ]
        );
        // Ranks that sleep outside MPI, and wait for a CPU inside it.
        let waits = Rates {
            runqueue: 0.6,
            mpi_waiting: Some(0.6),
            ..rank(0.65, 0.05)
        };
        assert_eq!(asleep(&[waits]).map(percent).as_deref(), Some("86 %"));
        assert_eq!(asleep(&[rank(0.3, 0.9), rank(0.5, 0.8)]), None);
        // Nearly always inside MPI: the remaining time is too small to report.
        assert_eq!(asleep(&[rank(0.95, 0.0)]), None);
        assert_eq!(asleep(&[]), None);
    }

    #[test]
    fn ranks_that_wait_for_a_cpu_are_no_imbalance_of_their_work() {
        let rank = |cpu, runqueue| Rates {
            mpi: Some(0.2),
            mpi_waiting: Some(0.1),
            cpu,
            runqueue,
            ..Rates::default()
        };
        let shown = |rates: [Rates; 2]| lines(&example::efficiencies([0.9, 0.7]), &rates);
        let line = shown([rank(0.5, 0.5), rank(0.9, 0.1)]).swap_remove(1);
        insta::assert_snapshot!(line, @"    25 % of the time outside MPI, which counts as useful, waited for a CPU");
        assert_eq!(shown([rank(0.9, 0.1), rank(0.9, 0.1)]).len(), 1);
        // Two threads in each rank that share the CPUs: 0.9 of the 1.1 that they want outside MPI.
        let line = shown([rank(0.3, 1.0), rank(0.3, 1.0)]).swap_remove(1);
        assert!(line.contains("82 % of the time outside MPI"), "{line}");
        // Where the waiting was, the kernel does not report.
        let unknown = Rates {
            mpi_waiting: None,
            ..rank(0.5, 0.5)
        };
        assert_eq!(shown([unknown, unknown]).len(), 1);
    }

    #[test]
    fn efficiencies_of_ranks_that_all_wait_multiply_to_what_is_shown() {
        let line = factors(&example::efficiencies([0.02, 0.01, 0.01, 0.02]));
        let numbers: Vec<f64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [parallel, balance, communication] = numbers[..] else {
            panic!("{line}")
        };
        assert!((balance * communication / parallel - 1.0).abs() < 0.05, "{line}");
    }

    #[test]
    fn the_load_balance_of_ranks_on_several_nodes_is_that_within_times_that_between_them() {
        let mut view = example::efficiencies([0.8, 0.8, 0.4, 0.4]);
        (view.nodes, view.between_nodes, view.of.within_nodes) = (2, Some(0.75), 1.0);
        assert!(factors(&view).contains("load balance 0.75 (within nodes 1.00, between 2 nodes 0.75)"));
    }

    #[test]
    fn of_ranks_that_hardly_compute_no_load_balance_is_shown() {
        let line = factors(&example::efficiencies([0.002, 0.001, 0.001, 0.002]));
        insta::assert_snapshot!(line, @" parallel efficiency 0.0015   (over complete steps; no rank computes for 1 % of its time: too little for a load balance)");
    }
}
