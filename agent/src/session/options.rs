//! The options of a session. Nothing is decided here.

use std::time::Duration;

use tuner::Process;

use job::{Job, Member};
use probe::kernel::{FamilyRoot, LinkChoice};
use profile::cost::BudgetShare;
use report::Reference;

/// The command that a session is started with, before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// The process that will execute it.
    pub process: Process,
    /// What the kernel side must know of it.
    pub root: FamilyRoot,
    /// What its processes will be, as far as that is known.
    pub expected: Vec<Member>,
    pub no_member: Member,
}

impl Started {
    /// The job as it will be, to number and attach by.
    pub(super) fn job(&self) -> Job {
        let mut job = Job::of_command(self.process.clone());
        job.members.clone_from(&self.expected);
        job
    }
}

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The target as it was typed.
    pub typed: String,
    /// The flags with which rules were loaded, as they are typed, each after a space.
    pub loads: String,
    pub applies: bool,
    /// What the guard confirmed stays at the end.
    pub keep: bool,
    pub duration: Option<Duration>,
    pub plain: bool,
    /// What each rule observed is shown, too.
    pub is_verbose: bool,
    pub reference: Option<Reference>,
    /// Functions whose calls are counted.
    pub probe: Vec<String>,
    pub links: LinkChoice,
    pub budget: BudgetShare,
    /// Hits are looked for without sleeping, on CPUs that are there for it.
    pub busy_poll: bool,
    /// There are two of them at least.
    pub has_second_cpu: bool,
    /// Why this session may not probe; it then has only what /proc shows.
    pub cannot_probe: Option<String>,
    /// To be said at the start.
    pub notes: Vec<String>,
    /// The command that this session was started with.
    pub started: Option<Started>,
}
