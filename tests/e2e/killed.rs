//! SIGKILL of the agent at many different times; the program must not be affected.
//!
//! After SIGKILL the agent cannot clean up, so these tests cover every crash.

use std::time::Duration;

use rustix::process::Signal;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, require};

use crate::expected::{SOON, finish_pingpong, start_pingpong};

const KILLED: i32 = 128 + 9;

fn kill(mut agent: Agent) -> Outcome {
    agent.signal(Signal::KILL)?;
    assert_eq!(agent.wait(SOON)?, KILLED, "{}", agent.lines.text());
    Ok(())
}

/// The program continues, stops at the gate, and has the result of an unwatched run.
fn goes_on(job: Job, ranks: u64) -> Outcome {
    job.open("stop")?;
    finish_pingpong(job, ranks).map(drop)
}

#[test]
fn killed_at_any_moment_of_attaching_the_program_goes_on() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let job = start_pingpong(Mpi::Mpich, Waiting::Yielding, 2, 0)?;
    job.open("go")?;
    // Attaching takes some tens of milliseconds, and these times cover all of it. The sleep sets the time of
    // the kill and is not a synchronisation.
    for moment in [1, 3, 6, 10, 15, 20, 30, 40, 60, 80, 120, 200] {
        let mut agent = Agent::attach(job.pid(), &[])?;
        if agent.wait(Duration::from_millis(moment)).is_err() {
            kill(agent)?;
        }
    }
    goes_on(job, 2)
}

#[test]
fn killed_while_it_watches_the_program_goes_on_and_another_agent_can_attach() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let job = start_pingpong(mpi, Waiting::Yielding, 2, 0)?;
        job.open("go")?;
        let agent = Agent::attach_armed(job.pid(), &[])?;
        kill(agent)?;
        let mut next = Agent::attach_armed(job.pid(), &[])?;
        let report = next.stop()?;
        assert_eq!(
            report["completeness"]["status"], "complete",
            "{}",
            report["completeness"]
        );
        goes_on(job, 2)?;
    }
    Ok(())
}
