//! The windows of a checked rule: the boundaries of their instances, and their contents. Collects nothing.

use crate::term::Typed;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) name: String,
    /// How many windows its formulas refer back.
    pub(crate) history: usize,
    pub(crate) kind: WindowKind,
}

#[derive(Clone, Debug)]
pub(crate) enum WindowKind {
    /// The length in nanoseconds.
    Timed(u64),
    /// From one hit to another.
    Probed(Box<Boundaries>),
}

/// The begin of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// A hit of a probe, by index.
    Hit(usize),
    /// The begin of an instance of the enclosing window, by index.
    Enclosing(usize),
    /// The close of the preceding instance, within the same enclosing one.
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

/// The instance to which a span across a boundary belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Straddle {
    /// The instance in which it ends.
    #[default]
    End,
    Begin,
    /// Every instance, with its part of the duration.
    Split,
    Drop,
}

/// The boundaries of the instances of a window, and their contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boundaries {
    pub(crate) from: Vec<Begin>,
    /// Index of the end probe. Without it and `until`, each hit of `from` ends an instance and begins the
    /// next.
    pub(crate) to: Option<usize>,
    /// The instance ends with the hit at which this condition holds for its hits so far.
    pub(crate) until: Option<Typed>,
    /// Index of the enclosing window: an instance that is cut off by the end of the enclosing one is partial.
    pub(crate) within: Option<usize>,
    /// For each probe, the key capture that determines the instance of a hit; without it, the time determines
    /// it.
    pub(crate) keys: Vec<Option<usize>>,
    /// For each role, the condition on each of its processes.
    pub(crate) complete: Vec<(usize, Typed)>,
    /// How long an instance waits for what is missing, in nanoseconds.
    pub(crate) timeout: Option<u64>,
    /// Number of instances at the start that are left out.
    pub(crate) skip: u64,
    pub(crate) discard: Option<Typed>,
    pub(crate) straddle: Straddle,
}

impl Boundaries {
    /// Whether hits of a probe begin or end instances.
    pub(crate) fn are_at(&self, probe: usize) -> bool {
        self.to == Some(probe) || self.begins_at() == Some(probe)
    }

    /// The probe whose hits end instances: the end probe, or that of the next begin.
    pub(crate) fn closes_at(&self) -> Option<usize> {
        self.to.or(self.begins_at())
    }

    /// The probe whose hits begin instances, if there is one.
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
