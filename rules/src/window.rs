//! The windows of a checked rule: where their instances begin and end, and what belongs to them. Collects
//! nothing.

use crate::term::Typed;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) name: String,
    /// How many windows before the last its formulas look back to.
    pub(crate) history: usize,
    pub(crate) kind: WindowKind,
}

#[derive(Clone, Debug)]
pub(crate) enum WindowKind {
    /// Every so many nanoseconds.
    Timed(u64),
    /// From one hit to another.
    Probed(Box<Boundaries>),
}

/// What begins an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// A hit of a probe, by its place.
    Hit(usize),
    /// The begin of an instance of the window, by its place, that encloses it.
    Enclosing(usize),
    /// The close of the instance before, within the same enclosing one.
    Itself,
}

impl Begin {
    /// The probe whose hits begin instances.
    pub(crate) fn probe(self) -> Option<usize> {
        match self {
            Begin::Hit(probe) => Some(probe),
            Begin::Enclosing(_) | Begin::Itself => None,
        }
    }
}

/// To which instance a span belongs that goes across a boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Straddle {
    /// The one it ends in.
    #[default]
    End,
    Begin,
    /// To each with its part of the duration.
    Split,
    Drop,
}

/// Where the instances of a window begin and end, and what belongs to them.
#[derive(Clone, Debug)]
pub(crate) struct Boundaries {
    pub(crate) from: Vec<Begin>,
    /// By its place among the probes. Without it and `until` each hit of `from` ends an instance and begins
    /// the next.
    pub(crate) to: Option<usize>,
    /// It ends with the hit that makes this true of what it has so far.
    pub(crate) until: Option<Typed>,
    /// The window whose instances its own lie in, by its place: one that is cut off by its end is partial.
    pub(crate) within: Option<usize>,
    /// For each probe the capture that says to which instance a hit belongs; without it time says it.
    pub(crate) keys: Vec<Option<usize>>,
    /// For each role what must hold of each of its processes.
    pub(crate) complete: Vec<(usize, Typed)>,
    /// Nanoseconds an instance waits for what is missing.
    pub(crate) timeout: Option<u64>,
    /// How many instances at first are left out.
    pub(crate) skip: u64,
    pub(crate) discard: Option<Typed>,
    pub(crate) straddle: Straddle,
}

impl Boundaries {
    /// Whether hits of a probe begin or end instances.
    pub(crate) fn are_at(&self, probe: usize) -> bool {
        self.to == Some(probe) || self.begins_at() == Some(probe)
    }

    /// The probe whose hits end instances: of its own, or those that begin the next one.
    pub(crate) fn closes_at(&self) -> Option<usize> {
        self.to.or(self.begins_at())
    }

    /// The probe whose hits begin instances, if one does.
    pub(crate) fn begins_at(&self) -> Option<usize> {
        self.from.iter().find_map(|begin| begin.probe())
    }
}

impl Window {
    pub(crate) fn boundaries(&self) -> Option<&Boundaries> {
        match &self.kind {
            WindowKind::Probed(boundaries) => Some(boundaries),
            WindowKind::Timed(_) => None,
        }
    }
}
