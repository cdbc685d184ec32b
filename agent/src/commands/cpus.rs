//! `--agent-cpus` binds tuneagent itself to CPUs, and no other process. `--keep-awake` prevents idle CPUs
//! from sleeping.

use std::io;

use plan::CpuList;
use probe::awake::{self, Awake, DEVICE};
use rustix::{
    io::Errno,
    process::geteuid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::{exit::Failure, hint::as_root_again};

/// Binds this thread, and all threads and processes that it starts later.
pub(super) fn bind(cpus: &CpuList) -> Result<(), Failure> {
    let refused = |why: String| Failure::invalid(format!("--agent-cpus {cpus}: {why}"));
    let mut wanted = CpuSet::new();
    cpus.cpus().iter().for_each(|cpu| wanted.set(*cpu));
    sched_setaffinity(None, &wanted).map_err(|error| {
        refused(match error {
            Errno::INVAL => "none of these CPUs may be used here (nproc shows how many may)".to_owned(),
            error => error.to_string(),
        })
    })?;
    let got = sched_getaffinity(None).map_err(|error| refused(error.to_string()))?;
    // The kernel silently ignores CPUs that may not be used.
    match cpus.cpus().iter().find(|cpu| !got.is_set(**cpu)) {
        Some(cpu) => Err(refused(format!("CPU {cpu} may not be used here"))),
        None => Ok(()),
    }
}

/// The request, which holds until it is dropped, and a note about it.
pub(super) fn keep_awake() -> Result<(Awake, String), Failure> {
    let refused = |error: io::Error| {
        let instead = match geteuid().is_root() {
            true => String::new(),
            false => format!(", or run\n  {}", as_root_again()),
        };
        Failure::not_permitted(format!("--keep-awake: {DEVICE}: {error}: leave it out{instead}"))
    };
    let awake = Awake::open().map_err(refused)?;
    awake.set(true).map_err(refused)?;
    let said = match awake::is_heeded() {
        true => "CPUs that have nothing to do are kept awake until this session ends",
        false => "--keep-awake changes nothing here: this kernel has no driver for CPUs that sleep",
    };
    Ok((awake, said.to_owned()))
}
