//! A process's number in its job, from the environment that its launcher gave it.

/// Rank and size of the world communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The number, from 0.
    pub number: u32,
    /// How many there are, where the launcher says so.
    pub size: Option<u32>,
}

/// Variables that hold the rank and the size, the most specific first: a job of Open MPI inside a Slurm step has both.
const VARIABLES: &[(&str, Option<&str>)] = &[
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("PMIX_RANK", None),
    ("PMI_RANK", Some("PMI_SIZE")),
    ("MV2_COMM_WORLD_RANK", Some("MV2_COMM_WORLD_SIZE")),
    ("SLURM_PROCID", Some("SLURM_NTASKS")),
];

impl Rank {
    /// Reads it out of `NAME=VALUE` lines.
    pub fn from_environment(environment: &[String]) -> Option<Rank> {
        let value = |name: &str| {
            let line = environment
                .iter()
                .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))?;
            line[name.len() + 1..].parse::<u32>().ok()
        };
        VARIABLES.iter().find_map(|(rank, size)| {
            Some(Rank {
                number: value(rank)?,
                size: size.and_then(value),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_variable_decides() {
        let environment = [
            "SLURM_PROCID=9",
            "SLURM_NTASKS=10",
            "OMPI_COMM_WORLD_SIZE=4",
            "OMPI_COMM_WORLD_RANK=3",
        ]
        .map(String::from);
        assert_eq!(
            Rank::from_environment(&environment),
            Some(Rank {
                number: 3,
                size: Some(4)
            })
        );
        assert_eq!(
            Rank::from_environment(&environment[..2]),
            Some(Rank {
                number: 9,
                size: Some(10)
            })
        );
        assert_eq!(
            Rank::from_environment(&["PMI_RANK=x".into(), "PMI_RANKS=1".into()]),
            None
        );
    }
}
