//! The POP efficiencies of MPI programs, with TALP's split of the load balance, from each rank's share of
//! time outside MPI.
//!
//! Formulas: POP metrics (co-design.pop-coe.eu/metrics) and TALP `compute_mpi_model`. With useful time U,
//! elapsed time E and P ranks, all sums over ranks: parallel efficiency sum U / (E P) = load balance sum U /
//! (max U P) × communication efficiency max U / E; load balance = within nodes (greatest sum U of a node ×
//! nodes) / (max U P) × between nodes sum U / (greatest sum U of a node × nodes).
//!
//! The windows of ranks are complete iterations and therefore differ in time: U and E are of each rank's own
//! window, used as the share U / E.

/// The efficiencies; 1 means no loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Efficiencies {
    /// Load balance × communication efficiency: the mean useful share.
    pub parallel: f64,
    /// The mean useful share divided by the greatest.
    pub load_balance: f64,
    /// The factor of load balance within nodes.
    pub within_nodes: f64,
    /// The factor of load balance between nodes.
    pub between_nodes: f64,
    /// The greatest useful share.
    pub communication: f64,
}

impl Efficiencies {
    /// From the useful shares of all ranks, by node. `None` without ranks, and if no rank computes.
    pub fn of(nodes: &[Vec<f64>]) -> Option<Efficiencies> {
        let shares = || nodes.iter().flatten().copied();
        let (ranks, count) = (shares().count() as f64, nodes.len() as f64);
        let (sum, greatest) = (shares().sum::<f64>(), shares().fold(0.0, f64::max));
        if ranks == 0.0 || greatest <= 0.0 {
            return None;
        }
        let of_node = nodes.iter().map(|node| node.iter().sum::<f64>());
        let greatest_node = of_node.fold(0.0, f64::max);
        Some(Efficiencies {
            parallel: sum / ranks,
            load_balance: sum / (greatest * ranks),
            within_nodes: greatest_node * count / (greatest * ranks),
            between_nodes: sum / (greatest_node * count),
            communication: greatest,
        })
    }
}

/// POP's computation scalability, from times alone: the useful time of an iteration compared with a reference
/// run with fewer ranks. 1 is perfect; caches that hold more of the data can give more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// Strong scaling, the same problem on more ranks: useful time of all ranks in the reference / in this
    /// run.
    pub strong: f64,
    /// Weak scaling, the problem grows with the ranks: `strong` × ranks in this run / ranks of the reference.
    pub weak: f64,
    /// Ranks of the reference.
    pub ranks_before: usize,
}

impl Scalability {
    /// From the useful times of all ranks in an iteration, in nanoseconds, and the numbers of ranks; `None`
    /// if one of the times is zero.
    pub fn of((before_ns, ranks_before): (f64, usize), (now_ns, ranks): (f64, usize)) -> Option<Scalability> {
        let strong = before_ns / now_ns;
        (now_ns > 0.0 && before_ns > 0.0 && ranks_before > 0).then(|| Scalability {
            strong,
            weak: strong * ranks as f64 / ranks_before as f64,
            ranks_before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rank_that_computes_twice_as_long_is_seen_in_load_balance_alone() {
        let found = Efficiencies::of(&[vec![1.0, 0.5, 0.5, 0.5]]).unwrap();
        assert_eq!((found.load_balance, found.communication), (0.625, 1.0));
        assert_eq!((found.parallel, found.between_nodes), (0.625, 1.0));
        let found = Efficiencies::of(&[vec![0.5; 4]]).unwrap();
        assert_eq!((found.load_balance, found.communication), (1.0, 0.5));
    }

    #[test]
    fn a_node_that_computes_longer_is_seen_between_nodes() {
        let found = Efficiencies::of(&[vec![0.8, 0.8], vec![0.4, 0.4]]).unwrap();
        assert!((found.within_nodes - 1.0).abs() < 1e-12);
        assert!((found.between_nodes - 0.75).abs() < 1e-12);
    }

    #[test]
    fn computation_scalability_is_the_ratio_of_useful_times_and_in_weak_scaling_of_those_a_rank() {
        // Twice the ranks compute a quarter more for the same problem.
        let found = Scalability::of((100.0, 4), (125.0, 8)).unwrap();
        assert_eq!((found.strong, found.weak, found.ranks_before), (0.8, 1.6, 4));
        assert_eq!(Scalability::of((100.0, 4), (0.0, 8)), None);
    }

    #[test]
    fn without_ranks_and_without_useful_time_there_are_none() {
        assert_eq!(Efficiencies::of(&[]), None);
        assert_eq!(Efficiencies::of(&[vec![0.0, 0.0]]), None);
    }

    proptest! {
        /// Each efficiency is the product of its factors, and none is above 1.
        #[test]
        fn factors_multiply(nodes in prop::collection::vec(prop::collection::vec(0.01f64..1.0, 3), 1..5)) {
            let found = Efficiencies::of(&nodes).unwrap();
            prop_assert!((found.parallel - found.load_balance * found.communication).abs() < 1e-9);
            prop_assert!((found.load_balance - found.within_nodes * found.between_nodes).abs() < 1e-9);
            for efficiency in [found.parallel, found.load_balance, found.within_nodes, found.between_nodes] {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&efficiency));
            }
        }
    }
}
