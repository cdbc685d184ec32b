//! How soon a session has numbers to show, from its start on: in lines, and on a terminal as a person sees it.

use std::time::{Duration, Instant};

use crate::agent::{Agent, binary};
use crate::job::{Job, Mpi, Waiting};
use crate::screen::Screen;
use crate::{Outcome, programs};

/// For what comes in seconds.
const SOON: Duration = Duration::from_secs(120);

/// Ranks that sleep make a call this often, in microseconds.
const SLEEP_US: &str = "10000";

/// What the ranks do that are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ranks {
    /// They sleep, and leave the machine to us.
    Asleep,
    /// They keep every CPU busy.
    Busy,
}

/// How long it took.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Until all probes sat.
    pub armed: Duration,
    /// Until the first line with numbers.
    pub line: Duration,
    /// Until they were on the screen of a terminal.
    pub screen: Duration,
}

impl Ranks {
    /// All that there are.
    pub const ALL: [Ranks; 2] = [Ranks::Asleep, Ranks::Busy];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Ranks::Asleep => "asleep",
            Ranks::Busy => "busy",
        }
    }

    /// So many of them, under MPICH.
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
    /// Attaches twice: for lines, and on a terminal.
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
