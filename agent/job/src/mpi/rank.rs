//! The rank of a process, from the environment that its launcher set.

/// Rank and size of the world communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The first rank is 0.
    pub number: u32,
    /// `None` if no variable states it. It cannot be derived: the world may have ranks on other nodes.
    pub size: Option<u32>,
}

/// Variables that contain the rank, the most specific first: a job of Open MPI inside a Slurm step has both.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
];

/// Variables that contain the size, each with the rank to which it belongs. SLURM_NTASKS is not among them:
/// it is the size with which the job was submitted, not that of the step.
const SIZES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

impl Rank {
    /// Reads it from `NAME=VALUE` lines. The size may come from another row than the rank, if the ranks of
    /// both rows are equal.
    pub(crate) fn from_environment(environment: &[String]) -> Option<Rank> {
        let number = RANKS.iter().find_map(|name| parsed(environment, name))?;
        let fits = |(rank, size): &(&str, &str)| {
            let is_of_step = || *size != "SLURM_STEP_NUM_TASKS" || step_is_world(environment);
            parsed(environment, rank) == Some(number) && is_of_step()
        };
        let sizes = SIZES.iter().filter(|row| fits(row));
        let mut sizes = sizes.filter_map(|(_, size)| parsed(environment, size));
        Some(Rank {
            number,
            size: sizes.next().filter(|size| *size > number),
        })
    }
}

/// Whether the tasks of the Slurm step are the world: the namespace of PMIx, if there is one, is Slurm's own
/// (another launcher runs its daemons as a step), and the step is not one component of several.
fn step_is_world(environment: &[String]) -> bool {
    let namespace = value(environment, "PMIX_NAMESPACE");
    namespace.is_none_or(|name| name.starts_with("slurm.")) && value(environment, "SLURM_HET_SIZE").is_none()
}

fn parsed(environment: &[String], name: &str) -> Option<u32> {
    value(environment, name)?.parse().ok()
}

fn value<'a>(environment: &'a [String], name: &str) -> Option<&'a str> {
    let mut values = environment
        .iter()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_rank_decides_and_the_size_is_that_of_a_row_with_the_same_rank() {
        let of_slurm = "SLURM_PROCID=3 SLURM_NTASKS=10 SLURM_STEP_NUM_TASKS=4";
        for (environment, expected) in [
            (
                "SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=10 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3"
                    .to_owned(),
                Some((3, Some(4))),
            ),
            ("PMI_RANK=1 PMI_SIZE=2".to_owned(), Some((1, Some(2)))),
            ("PMI_RANK=x PMI_RANKS=1".to_owned(), None),
            // srun --mpi=pmix
            (
                format!("PMIX_RANK=3 PMIX_NAMESPACE=slurm.pmix.7.0 {of_slurm}"),
                Some((3, Some(4))),
            ),
            // srun without PMI
            (of_slurm.to_owned(), Some((3, Some(4)))),
            // The size at submission is not the size of a step.
            ("SLURM_PROCID=3 SLURM_NTASKS=10".to_owned(), Some((3, None))),
            (
                "PMIX_RANK=3 SLURM_PROCID=3 SLURM_NTASKS=10".to_owned(),
                Some((3, None)),
            ),
            // The daemons of another launcher are the tasks of the step.
            (
                format!("PMIX_RANK=3 PMIX_NAMESPACE=prterun-node1-77@1 {of_slurm}"),
                Some((3, None)),
            ),
            (format!("PMI_RANK=2 {of_slurm}"), Some((2, None))),
            // One of several components of a job.
            (
                format!("PMIX_RANK=3 PMIX_NAMESPACE=slurm.pmix.7.0 SLURM_HET_SIZE=2 {of_slurm}"),
                Some((3, None)),
            ),
            // A rank must be less than the size.
            ("PMI_RANK=4 PMI_SIZE=4".to_owned(), Some((4, None))),
        ] {
            let lines: Vec<String> = environment.split(' ').map(String::from).collect();
            let found = Rank::from_environment(&lines).map(|rank| (rank.number, rank.size));
            assert_eq!(found, expected, "{environment}");
        }
    }
}
