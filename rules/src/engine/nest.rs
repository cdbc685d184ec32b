//! Nested windows: the instance that encloses a hit, and its data at that moment.

use super::instance::{Frame, Instance, InstanceEnvironment};
use super::running::Open;
use super::stream::Arrived;
use super::track::Track;
use crate::eval::EnclosingInstance;
use crate::rule::CheckedRule;
use crate::term::{FoldRange, Term};
use crate::window::{Boundaries, Window};

/// The nesting of a rule's windows.
#[derive(Clone, Debug)]
pub(super) struct Nesting {
    /// Indices of the windows, each after its enclosing window.
    pub(super) order: Vec<usize>,
    looks_out: Vec<bool>,
    /// For each probe, then each join, whether its hits may begin or end instances.
    moves: Vec<bool>,
    /// Whether instances may be over because time has passed.
    pub(super) times_out: bool,
}

impl Nesting {
    pub(super) fn of(rule: &CheckedRule) -> Nesting {
        let indices = 0..rule.windows.len();
        let probes = 0..rule.probes.len() + rule.joins.len();
        let boundaries = || rule.windows.iter().filter_map(Window::boundaries);
        Nesting {
            order: outer_first(&rule.windows),
            looks_out: indices.map(|index| looks_out(rule, index)).collect(),
            moves: probes
                .map(|probe| boundaries().any(|boundaries| may_move(boundaries, probe)))
                .collect(),
            times_out: boundaries().any(|boundaries| boundaries.timeout.is_some()),
        }
    }

    /// Whether a hit of a probe can end an instance.
    pub(super) fn moves(&self, probe: usize) -> bool {
        self.moves.get(probe) != Some(&false)
    }

    /// Whether formulas of a window read the data of enclosing instances.
    pub(super) fn looks_out(&self, window: usize) -> bool {
        self.looks_out.get(window) == Some(&true)
    }
}

/// A window with the other windows of its rule. `tracks` has all windows except this one.
pub(super) struct Nest<'a> {
    pub(super) tracks: &'a [Open],
    pub(super) around: &'a InstanceEnvironment<'a>,
    pub(super) window: usize,
    /// Whether its formulas read the data of enclosing instances.
    pub(super) looks_out: bool,
}

impl<'a> Nest<'a> {
    fn boundaries_of(&self, window: usize) -> Option<&'a Boundaries> {
        self.around.rule.windows.get(window)?.boundaries()
    }

    pub(super) fn boundaries(&self) -> Option<&'a Boundaries> {
        self.boundaries_of(self.window)
    }

    fn outer(&self) -> Option<(usize, &'a Track, &'a Boundaries)> {
        let window = self.boundaries()?.within?;
        match self.tracks.get(window) {
            Some(Open::Probed(track)) => Some((window, track, self.boundaries_of(window)?)),
            _ => None,
        }
    }

    pub(super) fn is_nested(&self) -> bool {
        self.boundaries()
            .is_some_and(|boundaries| boundaries.within.is_some())
    }

    /// The open enclosing instance to which a hit belongs.
    pub(super) fn enclosing(&self, arrived: &Arrived) -> Option<&'a Instance> {
        let (_, track, boundaries) = self.outer()?;
        track.holding(arrived, boundaries, self.around)
    }

    /// An enclosing instance and those around it, the innermost first.
    pub(super) fn frames(&self, enclosing: &Instance) -> Vec<Frame> {
        let mut frames = vec![enclosing.frame];
        frames.extend(&enclosing.outer);
        frames
    }

    /// The present data of the enclosing instances, as far as formulas read them.
    pub(super) fn so_far(&self, frames: &[Frame]) -> Vec<EnclosingInstance> {
        if !self.looks_out {
            return Vec::new();
        }
        let held = |frame: &Frame| {
            let Some(Open::Probed(track)) = self.tracks.get(frame.window) else {
                return None;
            };
            let data = track.numbered(frame.number)?.data(self.around);
            Some(EnclosingInstance {
                window: frame.window,
                data,
            })
        };
        frames.iter().filter_map(held).collect()
    }
}

fn may_move(boundaries: &Boundaries, probe: usize) -> bool {
    boundaries.are_at(probe) || boundaries.until.is_some()
}

/// Indices of the windows, each after its enclosing window.
fn outer_first(windows: &[Window]) -> Vec<usize> {
    let within = |index: usize| {
        windows
            .get(index)
            .and_then(Window::boundaries)
            .and_then(|boundaries| boundaries.within)
    };
    let depth = |index: usize| {
        std::iter::successors(within(index), |outer| within(*outer))
            .take(windows.len())
            .count()
    };
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|index| depth(*index));
    order
}

fn looks_out(rule: &CheckedRule, index: usize) -> bool {
    let mut found = false;
    rule.formulas_of(index).into_iter().for_each(|formula| {
        formula.visit(&mut |term| {
            found |= matches!(term, Term::Fold(fold) if matches!(fold.range, FoldRange::Enclosing(_)));
        });
    });
    found
}
