//! What a rule needs from its environment, as plain data: probes, measures, symbols, variables, effects. The
//! agent obtains and writes them.

use std::{collections::BTreeSet, fmt};

use ::plan::ValueType;

use crate::measure::Measure;
use crate::partial_sum::PlannedSum;
use crate::read::PlannedCapture;
use crate::target::{Site, Target};

/// The effect of a probe of the detected loop's iterations.
pub(crate) const FOLLOWS_LOOP: &str = "follows the iterations of the detected loop";

/// The requirements of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    pub rule: String,
    /// In the order of the file.
    pub windows: Vec<PlannedWindow>,
    /// In the order of the file; a [`crate::ProbeId`] is an index into it.
    pub probes: Vec<PlannedProbe>,
    /// Measures of every process that has a role, or of the node.
    pub measures: BTreeSet<Measure>,
    /// Measures of MPI that formulas of timed windows need for each function, as
    /// [`crate::Observation::CallCounter`].
    pub calls: BTreeSet<Measure>,
    /// Symbols that roles request with `has()`.
    pub symbols: BTreeSet<String>,
    /// File name patterns that roles request with `loads()`.
    pub libraries: BTreeSet<String>,
    /// The variables that the rule would write.
    pub variables: Vec<PlannedVariable>,
    /// Its other actions on processes: keyword and target.
    pub actions: Vec<PlannedAction>,
    /// The effects of the rule on a program, one sentence each.
    pub effects: Vec<PlannedEffect>,
}

/// An effect of a rule on processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEffect {
    /// For example `writes x (a number)`.
    pub does: String,
    /// The role of the affected processes; `None` for a measure of the system.
    pub role: Option<String>,
    /// The text after the processes in the sentence.
    pub more: String,
    /// It changes the program rather than only observing it.
    pub is_change: bool,
}

impl PlannedEffect {
    /// The sentence for a program with this number of processes of the role.
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
        let of = match self.role.as_deref() {
            None => String::new(),
            Some("process") => " in every process".to_owned(),
            Some(role) => format!(" in every process of the role {role}"),
        };
        write!(out, "{}{of}{}", self.does, self.more)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedWindow {
    pub name: String,
    /// Its length in nanoseconds; `None` if hits are its boundaries, in which case
    /// [`crate::Observation::Watermark`]s close it.
    pub every: Option<u64>,
    pub within: Option<String>,
}

/// A probe of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProbe {
    /// Its name in the rule.
    pub name: String,
    pub role: String,
    /// Entry, return or span.
    pub site: Site,
    pub target: Target,
    /// For a span from the entry of one function to the return of another in the same thread: the other
    /// function.
    pub to: Option<Target>,
    /// Its location, for display.
    pub function: String,
    /// It is off until a tune of the rule enables it.
    pub off_at_first: bool,
    /// A tune of the rule switches it.
    pub is_switched: bool,
    /// What it must deliver.
    pub delivers: Delivery,
    /// The values read at each [`crate::Observation::Hit`], in this order.
    pub captures: Vec<PlannedCapture>,
    /// The requested partial sums of its hits, if it delivers [`Delivery::PartialSums`].
    pub partial_sum: Option<PlannedSum>,
    /// Its hits are boundaries of a window with partial sums: the sums so far must be passed in with them.
    pub parts_sums: bool,
    /// A decision may become due at its hits: they are boundaries of a window, they may close a window, or a
    /// tune is evaluated at them. Hits of other probes can wait for the next hit of such a probe.
    pub decides: bool,
}

::plan::words! {
    /// What a probe must deliver: the cheapest sufficient form.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Delivery {
        /// No formula uses the probe, it need not be armed.
        Nothing = "nothing",
        /// [`crate::Observation::ProbeTotals`] with the count of hits.
        Count = "counts",
        /// [`crate::Observation::ProbeTotals`] with count and sum of durations.
        Durations = "counts and durations",
        /// [`crate::Observation::PartialSum`] for hits of one group, or [`crate::Observation::Hit`] for a single
        /// hit: each hit is passed in exactly once.
        PartialSums = "aggregated in the kernel",
        /// [`crate::Observation::Hit`] for each hit, and the totals, which reveal lost hits.
        EachHit = "each hit",
    }
}

impl Delivery {
    /// Whether hits are passed in, one by one or as partial sums.
    pub fn are_hits(self) -> bool {
        self >= Delivery::PartialSums
    }
}

/// A variable a rule would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVariable {
    /// Its symbol, or the path to a part of it.
    pub name: String,
    /// Its type, if the rule states it or writes `true` or `false`; `None` for a number, which may have any
    /// of several types.
    pub value_type: Option<ValueType>,
    /// In every library that has a variable of this name.
    pub everywhere: bool,
    /// The role in whose processes it is written.
    pub role: String,
    /// The kind of value that is written.
    pub kind: VariableKind,
    /// The condition on the value, as written; `value` stands for the value.
    pub range: Option<String>,
}

/// An action of a rule on a process, other than writing a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedAction {
    /// The keyword of the rule.
    pub keyword: &'static str,
    pub target: String,
    /// The role in whose processes it is done.
    pub role: String,
    /// It changes the program's code or loads a library: the rule must be named by the user.
    pub changes_code: bool,
    /// It is a call for which the rule states no inverse: it stays.
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
    /// The plan of a rule that needs nothing.
    pub(crate) fn empty(rule: &str) -> Plan {
        Plan {
            rule: rule.to_string(),
            ..Plan::default()
        }
    }
}
