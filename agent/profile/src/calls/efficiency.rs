//! The POP efficiencies of MPI programs, with the split that TALP adds, from how much of its time each rank
//! is outside MPI.
//!
//! Formulas: POP metrics (co-design.pop-coe.eu/metrics), TALP `compute_mpi_model`; with useful time U,
//! elapsed time E, P ranks and all sums over ranks: parallel efficiency sum U / (E P) = load balance sum U /
//! (max U P) × communication efficiency max U / E; load balance = within nodes (greatest sum U of a node ×
//! nodes) / (max U P) × between nodes sum U / (greatest sum U of a node × nodes).
//!
//! Windows of ranks are complete iterations and so not the same instants: U and E are of each rank's own
//! window, as shares U / E.

/// The efficiencies; each is 1 where nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiencies {
    /// Load balance × communication efficiency: the mean useful share.
    pub parallel: f64,
    /// The mean useful share to the greatest.
    pub load_balance: f64,
    /// The part of it within nodes.
    pub within_nodes: f64,
    /// The part of it between nodes.
    pub between_nodes: f64,
    /// The greatest useful share.
    pub communication: f64,
}

impl Efficiencies {
    /// Of the useful shares of all ranks, node by node. None without ranks, and if no rank computes at all.
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

/// How much less is computed for an iteration than in a reference with fewer ranks: POP's computation
/// scalability, from times alone. 1 is perfect, and more where caches hold what they did not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// Strong scaling, the same problem on more ranks: useful time of all ranks in the reference / here.
    pub strong: f64,
    /// Weak scaling, a problem that grows with the ranks: the same × ranks here / ranks of the reference.
    pub weak: f64,
    /// Ranks of the reference.
    pub ranks_before: usize,
}

impl Scalability {
    /// Of useful times of all ranks in an iteration, in nanoseconds, and their numbers; none where nothing is
    /// computed.
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
        /// Each is the product of its parts, and none is above 1.
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
