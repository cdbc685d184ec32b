//! What a rule needs from its surroundings, as plain data: probes, measures, symbols, variables, effects.
//!
//! How they are obtained or written is not known here.

use std::{collections::BTreeSet, fmt};

use ::plan::ValueType;

use crate::measure::Measure;
use crate::partial_sum::PlannedSum;
use crate::read::PlannedCapture;
use crate::target::{Site, Target};

/// What a rule needs before it can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub rule: String,
    /// In the order of the file.
    pub windows: Vec<PlannedWindow>,
    /// In the order of the file; [`crate::ProbeId`] counts them from 0.
    pub probes: Vec<PlannedProbe>,
    /// Of every process that has a role, or of the node.
    pub measures: BTreeSet<Measure>,
    /// Measures of MPI that formulas of timed windows need function by function: as
    /// [`crate::Observation::CallCounter`].
    pub calls: BTreeSet<Measure>,
    /// Symbols that roles request with `has()`.
    pub symbols: BTreeSet<String>,
    /// File name patterns that roles request with `loads()`.
    pub libraries: BTreeSet<String>,
    /// What the rule would write.
    pub variables: Vec<PlannedVariable>,
    /// What else it would do to a process: the keyword and what it acts on.
    pub actions: Vec<PlannedAction>,
    /// What the rule does to a program, a sentence each.
    pub effects: Vec<PlannedEffect>,
}

/// Something that a rule does to processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEffect {
    /// As `writes x (a number)`.
    pub does: String,
    /// The role whose processes it is done to; none for what is read of the system.
    pub role: Option<String>,
    /// What follows the processes in the sentence.
    pub more: String,
    /// It changes the program, and does not only look at it.
    pub is_change: bool,
}

impl PlannedEffect {
    /// The sentence for a program in which so many processes have its role.
    pub fn on(&self, processes: usize) -> String {
        let of = match processes {
            1 => String::new(),
            several => format!(" in {several} processes"),
        };
        format!("{}{of}{}", self.does, self.more)
    }
}

/// The sentence for any program.
impl fmt::Display for PlannedEffect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self
            .role
            .as_ref()
            .map_or(String::new(), |role| format!(" in every {role}"));
        write!(out, "{}{of}{}", self.does, self.more)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedWindow {
    pub name: String,
    /// Its length in nanoseconds; none where hits are its boundaries: then [`crate::Observation::Watermark`]s
    /// close it.
    pub every: Option<u64>,
    /// The window it lies in.
    pub within: Option<String>,
}

/// A place to be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProbe {
    /// Its name in the rule.
    pub name: String,
    pub role: String,
    /// Entry, return or span.
    pub site: Site,
    pub target: Target,
    /// Of a span between two functions, from the entry of one to the return of the other in the same thread,
    /// the latter.
    pub to: Option<Target>,
    /// Where it sits, for people.
    pub function: String,
    /// It is off until a tune of the rule switches it on.
    pub off_at_first: bool,
    /// A tune of the rule switches it.
    pub is_switched: bool,
    /// What it must deliver.
    pub delivers: Delivery,
    /// What each [`crate::Observation::Hit`] brings along, in this order.
    pub captures: Vec<PlannedCapture>,
    /// What is to be added up of its hits, where it delivers [`Delivery::PartialSums`].
    pub partial_sum: Option<PlannedSum>,
    /// Its hits are boundaries of a window whose hits are added up: what was added up is to be handed in with
    /// them.
    pub parts_sums: bool,
    /// A decision may fall due at its hits: they are boundaries of a window, a window may close with them, or
    /// a tune is evaluated with them. Hits of other probes are needed no sooner than the next of these.
    pub decides: bool,
}

/// What a probe must deliver, the cheapest that is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// Nothing: no formula uses it, it need not be armed.
    Nothing,
    /// [`crate::Observation::ProbeTotals`] with the count of hits.
    Count,
    /// [`crate::Observation::ProbeTotals`] with count and sum of durations.
    Durations,
    /// [`crate::Observation::PartialSum`] of the hits that go together, or [`crate::Observation::Hit`] for
    /// each: every hit is handed in once, in either way.
    PartialSums,
    /// [`crate::Observation::Hit`] for each hit, and the totals, by which a lost hit is noticed.
    EachHit,
}

impl Delivery {
    /// Whether hits are handed in, one by one or added up.
    pub fn are_hits(self) -> bool {
        self >= Delivery::PartialSums
    }
}

/// A variable a rule would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVariable {
    /// Its symbol, or the way to a part of it.
    pub name: String,
    /// Its type, where the rule states it or sets `true` or `false`; a number has many.
    pub value_type: Option<ValueType>,
    /// In every library that has a variable of this name.
    pub everywhere: bool,
    /// The role in whose processes it is written.
    pub role: String,
    /// What is written to it.
    pub kind: VariableKind,
    /// The condition on the value, as written, with `value` for the value.
    pub range: Option<String>,
}

/// What a rule would do to a process, writing a variable apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedAction {
    /// The keyword of the rule.
    pub keyword: &'static str,
    /// What it acts on.
    pub target: String,
    /// The role in whose processes it is done.
    pub role: String,
    /// It changes the program's code or loads a library: only a rule that is named may do it.
    pub changes_code: bool,
    /// It is a call of which the rule does not say how it is reverted: it stays.
    pub stays: bool,
}

/// What is written to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// `true` or `false`.
    Boolean,
    /// A number without unit.
    Number,
}

impl Plan {
    /// Of a rule that needs nothing.
    pub(crate) fn empty(rule: &str) -> Plan {
        Plan {
            rule: rule.to_string(),
            windows: Vec::new(),
            probes: Vec::new(),
            measures: BTreeSet::new(),
            calls: BTreeSet::new(),
            symbols: BTreeSet::new(),
            libraries: BTreeSet::new(),
            variables: Vec::new(),
            actions: Vec::new(),
            effects: Vec::new(),
        }
    }
}
