//! Programs on which models are tested have the same result for any distribution of work. Otherwise a test
//! could not distinguish a wrong result from another order of operations.

use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};

/// Checksum at the end of a run with these arguments.
fn checksum(program: &std::path::Path, ranks: usize, arguments: &[&str]) -> Outcome<String> {
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, program, |folder| {
        with_folder(folder, arguments.iter().map(|word| (*word).to_owned()).collect())
    })?;
    job.events("ready", ranks, SOON)?;
    job.open("go")?;
    let result = job.events("result", 1, SOON)?;
    job.finish(SOON)?;
    Ok(result[0]["checksum"].as_str().ok_or("no checksum")?.to_owned())
}

#[test]
fn the_programs_of_the_models_compute_the_same_however_the_work_is_shared() -> Outcome {
    let _machine = require!(shared: Mpich);
    let (nbody, quadrature) = (
        programs::master_worker("nbody", Mpi::Mpich)?,
        programs::master_worker("quadrature", Mpi::Mpich)?,
    );
    let (wildfire, stencil) = (
        programs::mpi("wildfire", Mpi::Mpich)?,
        programs::mpi("stencil", Mpi::Mpich)?,
    );
    let few = ["iterations=12", "work_us=2000", "latency_us=100"];
    let front = ["iterations=12", "point_us=1", "points=2000"];
    let ring = ["steps=200", "cells=256"];
    for (program, common, shares) in [
        (
            &nbody,
            &few[..],
            [["workers=1", "factor=1"], ["workers=3", "factor=0.5"]],
        ),
        (
            &quadrature,
            &few[..],
            [["workers=1", "factor=1"], ["workers=3", "factor=0.5"]],
        ),
        (
            &wildfire,
            &front[..],
            [["original=1", "heavy=0"], ["f0=0.7", "heavy=1"]],
        ),
        (
            &stencil,
            &ring[..],
            [["block=1", "slow=1"], ["block=7", "slow_rank=1"]],
        ),
    ] {
        let of = |share: &[&str]| checksum(program, 4, &[common, share].concat());
        assert_eq!(of(&shares[0])?, of(&shares[1])?, "{}", program.display());
    }
    Ok(())
}
