//! Measures the time from the start of a session until its first numbers are shown, on a pipe and on a
//! terminal.

use std::time::{Duration, Instant};

use crate::agent::{Agent, binary};
use crate::job::{Job, Mpi, Waiting};
use crate::screen::Screen;
use crate::{Outcome, programs};

/// Maximum wait for something that takes seconds.
const SOON: Duration = Duration::from_secs(120);

/// Time between two calls of a sleeping rank, in microseconds.
const SLEEP_US: &str = "10000";

/// Behaviour of the watched ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ranks {
    /// They sleep and leave the CPUs idle.
    Asleep,
    /// They keep every CPU busy.
    Busy,
}

/// Times since the start of a session.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Until all probes are attached.
    pub armed: Duration,
    /// Until the first line with numbers.
    pub line: Duration,
    /// Until the numbers are on the screen of a terminal.
    pub screen: Duration,
}

impl Ranks {
    /// All kinds of ranks.
    pub const ALL: [Ranks; 2] = [Ranks::Asleep, Ranks::Busy];

    /// Name for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Ranks::Asleep => "asleep",
            Ranks::Busy => "busy",
        }
    }

    /// Starts `count` ranks under MPICH.
    pub fn start(self, count: usize) -> Outcome<Job> {
        let (program, event, events) = match self {
            Ranks::Asleep => ("sleepers", "ready", count),
            Ranks::Busy => ("allreduce", "pace", 1),
        };
        let program = programs::mpi(program, Mpi::Mpich)?;
        let job = Job::mpi(Mpi::Mpich, Waiting::Spinning, count, &program, |folder| {
            let mut words = vec![folder.to_string_lossy().into_owned()];
            words.extend((self == Ranks::Asleep).then(|| SLEEP_US.to_owned()));
            words
        })?;
        job.events(event, events, SOON)?;
        Ok(job)
    }
}

impl Sight {
    /// Attaches twice: with line output, and on a terminal.
    pub fn of(job: &Job) -> Outcome<Sight> {
        let began = Instant::now();
        let mut agent = Agent::attach(job.pid(), &[])?;
        let armed = agent.lines.wait_for_line("armed", SOON)?.at;
        let line = agent.lines.wait_for_line(" MPI calls/s", SOON)?.at;
        agent.stop()?;
        let screen = Screen::start(80, 24)?;
        let command = format!("{} attach {}", binary()?.display(), job.pid());
        let typed = Instant::now();
        screen.enter(&command)?;
        screen.see(" MPI calls/s")?;
        let seen = typed.elapsed();
        screen.press("q")?;
        screen.see("detached")?;
        Ok(Sight {
            armed: armed.duration_since(began),
            line: line.duration_since(began),
            screen: seen,
        })
    }
}
