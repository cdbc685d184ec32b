//! The state of a rule that an engine evaluates.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use plan::Mode;

use super::advance::Awaiting;
use super::capture::Captures;
use super::join::Joiner;
use super::keyed_intake::{ByKey, KeyedIntake};
use super::nest::Nesting;
use super::pending_sums::PendingSums;
use super::retained::Retained;
use super::stream::Stream;
use super::timed::AwaitedWindow;
use super::timed_plan::TimedPlan;
use super::track::Track;
use super::tune::TuneState;
use crate::eval::partial::{Content, Room};
use crate::folds::WindowFolds;
use crate::rule::CheckedRule;
use crate::value::{ProcessId, Time};
use crate::window::{Window, WindowKind};

/// A rule with its state.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Immutable: copies of an engine share it.
    pub(super) rule: Arc<CheckedRule>,
    pub(super) mode: Mode,
    /// Earlier hits do not count for this rule.
    pub(super) since: Time,
    pub(super) is_removed: bool,
    pub(super) probes: Vec<ProbeState>,
    pub(super) intake: HitIntake,
    /// The open part of each window.
    pub(super) windows: Vec<Open>,
    pub(super) nesting: Nesting,
    pub(super) parts: NodeParts,
    pub(super) retained: Retained,
    /// For each role, its processes.
    pub(super) roles: Vec<BTreeSet<ProcessId>>,
    pub(super) tunes: Vec<TuneState>,
    pub(super) progress: RuleProgress,
}

/// A probe of a rule.
#[derive(Clone, Debug)]
pub(super) struct ProbeState {
    pub(super) captures: Captures,
    /// Whether a hit of it was observed.
    pub(super) was_hit: bool,
    /// Why it exists in no process, for display: values from its hits are none.
    pub(super) absent: Option<String>,
}

/// The hits that wait for their windows.
#[derive(Clone, Debug)]
pub(super) struct HitIntake {
    /// Whether the rule has windows of a fixed length.
    pub(super) has_timed: bool,
    /// Whether it has windows from probe to probe, or pairs of hits.
    pub(super) has_probed: bool,
    /// Its hits include iterations of the detected loop, which are known later than other hits.
    pub(super) follows_loop: bool,
    /// Hits that wait until all earlier ones are known.
    pub(super) stream: Stream,
    /// Hits that need no order.
    pub(super) keyed: KeyedIntake,
    pub(super) by_key: ByKey,
    /// Partial sums that wait for their instances.
    pub(super) partial_sums: PendingSums,
    /// For each join, the hits that wait for their second hit.
    pub(super) joiners: Vec<Joiner>,
}

/// What waits for the partial results of nodes. Without nodes, nothing waits.
#[derive(Clone, Debug)]
pub(super) struct NodeParts {
    /// What nodes compute of its windows of a length.
    pub(super) plan: TimedPlan,
    /// Ended windows of a length.
    pub(super) windows: VecDeque<AwaitedWindow>,
    /// Ended instances of windows from probe to probe.
    pub(super) instances: VecDeque<Awaiting>,
}

/// What became of the windows until now, for display.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleProgress {
    /// Windows that closed and were evaluated.
    pub(super) closed: u64,
    /// The processes that were left out of the last one, with the reason.
    pub(super) left_out: Vec<String>,
    /// Whether any of them had a process.
    pub(super) had_processes: bool,
    /// Whether the last one had none, as before the first.
    pub(super) saw_no_process: bool,
    /// When a change of the rule was made or reverted last; the window after it is still to come.
    pub(super) switched: Option<(Time, bool)>,
}

impl Running {
    pub(super) fn new(rule: Arc<CheckedRule>, room: Room, now: Time) -> Running {
        let windows = rule.windows.iter().zip(&rule.folds);
        let probe = |captures| ProbeState {
            captures,
            was_hit: false,
            absent: None,
        };
        Running {
            mode: Mode::default(),
            since: now,
            is_removed: false,
            probes: rule.probes.iter().map(Captures::of).map(probe).collect(),
            intake: HitIntake::of(&rule),
            windows: windows
                .map(|(window, folds)| Open::new(window, folds, room, now))
                .collect(),
            nesting: Nesting::of(&rule),
            parts: NodeParts {
                plan: TimedPlan::of(&rule),
                windows: VecDeque::new(),
                instances: VecDeque::new(),
            },
            retained: Retained::of(&rule),
            roles: vec![BTreeSet::new(); rule.roles.len()],
            tunes: rule.tunes.iter().map(|_| TuneState::new()).collect(),
            progress: RuleProgress {
                saw_no_process: true,
                ..RuleProgress::default()
            },
            rule,
        }
    }

    /// Why probes exist in no process, for display, in the order of the probes.
    pub(super) fn absent(&self) -> impl Iterator<Item = &str> {
        self.probes.iter().filter_map(|probe| probe.absent.as_deref())
    }
}

impl HitIntake {
    fn of(rule: &CheckedRule) -> HitIntake {
        let is_probed = |window: &Window| window.boundaries().is_some();
        HitIntake {
            has_timed: !rule.windows.iter().all(is_probed),
            has_probed: rule.windows.iter().any(is_probed) || !rule.joins.is_empty(),
            follows_loop: rule.follows_loop(),
            stream: Stream::default(),
            keyed: KeyedIntake::default(),
            by_key: ByKey::of(rule),
            partial_sums: PendingSums::of(rule),
            joiners: vec![Joiner::default(); rule.joins.len()],
        }
    }
}

/// The open part of a window.
#[derive(Clone, Debug)]
pub(super) enum Open {
    Timed {
        since: Time,
        index: u64,
        /// Aggregates of the pairs of hits that became known in it.
        pairs: Arc<Content>,
        /// Why pairs may be missing.
        incomplete: Option<String>,
    },
    Probed(Box<Track>),
    /// Temporarily taken out for processing.
    Busy,
}

impl Open {
    fn new(window: &Window, folds: &Arc<WindowFolds>, room: Room, now: Time) -> Open {
        match window.kind {
            WindowKind::Timed(_) => Open::Timed {
                since: now,
                index: 0,
                pairs: Arc::new(Content::new(Arc::clone(folds), room)),
                incomplete: None,
            },
            WindowKind::Probed(_) => Open::Probed(Box::new(Track::new(Arc::clone(folds)))),
        }
    }

    pub(super) fn track(&mut self) -> Option<&mut Track> {
        match self {
            Open::Probed(track) => Some(track),
            Open::Timed { .. } | Open::Busy => None,
        }
    }
}
