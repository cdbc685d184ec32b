//! What a session is asked to do. Nothing is decided here.

use std::time::Duration;

use super::Started;
use crate::{cost::BudgetShare, report::reference::Reference};

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target as it was typed.
    pub typed: String,
    /// Rules may write.
    pub applies: bool,
    /// What the guard confirmed stays at the end.
    pub keep: bool,
    /// Ends by itself.
    pub duration: Option<Duration>,
    /// Lines, no screen.
    pub plain: bool,
    /// What each rule saw is told, too.
    pub is_verbose: bool,
    /// Another run to compare with.
    pub reference: Option<Reference>,
    /// Functions whose calls are counted.
    pub probe: Vec<String>,
    /// Attach with tracefs.
    pub force_tracefs: bool,
    /// What watching may cost.
    pub budget: BudgetShare,
    /// Hits are looked for without sleeping, on CPUs that are there for it.
    pub busy_poll: bool,
    /// There are two of them at least.
    pub has_second_cpu: bool,
    /// Why this session may not probe; it then has what /proc tells, and nothing else.
    pub cannot_probe: Option<String>,
    /// To be said at the start.
    pub notes: Vec<String>,
    /// The command that this session was started with.
    pub started: Option<Started>,
}
