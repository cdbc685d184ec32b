//! The options of a session. Nothing is decided here.

use std::time::Duration;

use tuner::Process;

use job::{Job, Member};
use probe::kernel::{FamilyRoot, ProbeLoader};
use profile::cost::BudgetShare;
use profile::progress::ProgressSource;
use profile::streams::ContractFollower;
use profile::{Baseline, SpeedupHint};
use report::Reference;

/// The command of a session, before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// The process that will execute it.
    pub process: Process,
    /// What the kernel side must know about it.
    pub root: FamilyRoot,
    /// The expected processes, as far as known.
    pub expected: Vec<Member>,
    pub no_member: Member,
}

impl Started {
    /// The expected job, used to assign numbers and attach.
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
    /// Another session or process may write into the program when this session begins.
    pub is_locked: bool,
    /// Confirmed changes stay at the end.
    pub keep: bool,
    pub duration: Option<Duration>,
    pub plain: bool,
    /// The rights are lent by the program's file, for the caller's own programs.
    pub is_lent: bool,
    /// Show the state of each rule, too.
    pub is_verbose: bool,
    pub reference: Option<Reference>,
    /// The reference of all speedups.
    pub baseline: Baseline,
    /// Speedups that the user states.
    pub speedup_hints: Vec<SpeedupHint>,
    /// The contract that the job is watched against.
    pub contract: Option<ContractFollower>,
    /// The variables that say how far the program is.
    pub progress: Option<ProgressSource>,
    /// Functions whose calls are counted.
    pub probe: Vec<String>,
    /// Who loads the kernel side.
    pub loader: ProbeLoader,
    pub budget: BudgetShare,
    /// Poll for hits without sleeping, on dedicated CPUs.
    pub busy_poll: bool,
    /// There are at least two such CPUs.
    pub has_second_cpu: bool,
    /// Why this session may not probe; then it only has the data of /proc.
    pub cannot_probe: Option<String>,
    /// Messages to print at the start.
    pub notes: Vec<String>,
    /// Another session shows the numbers: this one prints them at its end.
    pub is_node: bool,
    /// The command that this session was started with.
    pub started: Option<Started>,
}
