//! `--agent-cpus`: where tuneagent itself runs. Binds nobody else.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{cli::Cpus, exit::Failure};

/// Binds this thread and all that it starts from now on.
pub(super) fn bind(cpus: &Cpus) -> Result<(), Failure> {
    let refused = |why: String| Failure::not_there(format!("--agent-cpus {cpus}: {why}"));
    let mut wanted = CpuSet::new();
    cpus.0.iter().for_each(|cpu| wanted.set(*cpu));
    sched_setaffinity(None, &wanted)
        .map_err(|_| refused("none of these CPUs may be used here (nproc tells how many may)".to_owned()))?;
    let got = sched_getaffinity(None).map_err(|error| refused(error.to_string()))?;
    // The kernel takes what there is of them.
    match cpus.0.iter().find(|cpu| !got.is_set(**cpu)) {
        Some(cpu) => Err(refused(format!("CPU {cpu} may not be used here"))),
        None => Ok(()),
    }
}
