//! What a rule needs from its surroundings, as plain data: probes, measures, symbols, variables, effects.
//!
//! How they are obtained or written is not known here.

use std::collections::BTreeSet;

use crate::file::Site;
use crate::measure::Measure;
use crate::rule::{Join, Metric, Probe, Role, Tune, Window, WindowKind};
use crate::term::{Kind, Statistic, Term, Typed};

/// What a rule needs before it can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rule's name.
    pub rule: String,
    /// In the order of the file.
    pub windows: Vec<PlannedWindow>,
    /// In the order of the file; [`crate::ProbeId`] counts them from 0.
    pub probes: Vec<PlannedProbe>,
    /// Of every process that has a role, or of the node.
    pub measures: BTreeSet<Measure>,
    /// Symbols that roles ask for with `has()`.
    pub symbols: BTreeSet<String>,
    /// File name patterns that roles ask for with `loads()`.
    pub libraries: BTreeSet<String>,
    /// What the rule would write.
    pub variables: Vec<PlannedVariable>,
    /// What the rule does to a program, a sentence each.
    pub effects: Vec<String>,
}

/// A window of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedWindow {
    /// Its name.
    pub name: String,
    /// Its length in nanoseconds; none where hits are its borders: then [`crate::Observation::Watermark`]s close it.
    pub every: Option<u64>,
}

/// A place to be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProbe {
    /// Its name in the rule.
    pub name: String,
    /// The role whose processes are probed.
    pub role: String,
    /// Entry, return or span.
    pub site: Site,
    /// The function.
    pub function: String,
    /// What it must deliver.
    pub delivers: Delivery,
    /// What each [`crate::Observation::Hit`] brings along, in this order.
    pub captures: Vec<PlannedCapture>,
}

/// A value to be read in the program at a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCapture {
    /// Where it is read.
    pub source: Source,
    /// How it lies there; none is for the program's debug information to say.
    pub layout: Option<Layout>,
}

/// Where a capture is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An argument of the function, the first is 0.
    Argument(u8),
    /// What the function returns.
    ReturnValue,
    /// A global variable.
    Global(String),
}

macro_rules! layouts {
    ($($variant:ident $name:literal;)*) => {
        /// How a value lies in memory, little-endian.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Layout {
            $(#[doc = concat!("As ", $name, ".")] $variant,)*
        }

        impl Layout {
            /// Every layout with its name.
            pub const ALL: &'static [(&'static str, Layout)] = &[$(($name, Layout::$variant),)*];
        }
    };
}

layouts! {
    I8 "i8"; I16 "i16"; I32 "i32"; I64 "i64"; U8 "u8"; U16 "u16"; U32 "u32"; U64 "u64"; F32 "f32"; F64 "f64";
    Bool "bool"; Char "char";
}

impl Layout {
    /// What rules call it.
    pub fn name(self) -> &'static str {
        let found = Layout::ALL.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// The layout called `name`.
    pub fn named(name: &str) -> Option<Layout> {
        let found = Layout::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, layout)| *layout)
    }
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
    /// [`crate::Observation::Hit`] for each hit, and the totals, by which a lost hit is noticed.
    EachHit,
}

/// A variable a rule would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVariable {
    /// Its symbol.
    pub name: String,
    /// The role in whose processes it is written.
    pub role: String,
    /// What is written to it.
    pub kind: VariableKind,
    /// The condition on the value, as written, with `value` for the value.
    pub range: Option<String>,
}

/// What is written to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// `true` or `false`.
    Boolean,
    /// A number without unit.
    Number,
}

impl PlannedCapture {
    fn describe(&self) -> String {
        match &self.source {
            Source::Argument(number) => format!("arg({number})"),
            Source::ReturnValue => "what it returns".to_string(),
            Source::Global(name) => name.clone(),
        }
    }
}

pub(crate) fn plan(
    rule: &str,
    roles: &[Role],
    (probes, joins): (&[Probe], &[Join]),
    windows: &[Window],
    metrics: &[Metric],
    tunes: &[Tune],
) -> Plan {
    let role_name = |role: usize| roles.get(role).map_or(String::new(), |role| role.name.clone());
    let planned = |probe: &Probe| PlannedProbe {
        name: probe.name.clone(),
        role: role_name(probe.role),
        site: probe.site,
        function: probe.function.clone(),
        delivers: Delivery::Nothing,
        captures: probe.reads.clone(),
    };
    let mut plan = Plan {
        rule: rule.to_string(),
        windows: windows.iter().map(planned_window).collect(),
        probes: probes.iter().map(planned).collect(),
        measures: BTreeSet::new(),
        symbols: BTreeSet::new(),
        libraries: BTreeSet::new(),
        variables: Vec::new(),
        effects: Vec::new(),
    };
    for join in joins {
        plan.need_hits(join.of.0);
        plan.need_hits(join.of.1);
    }
    let formulas = roles
        .iter()
        .map(|role| &role.condition)
        .chain(metrics.iter().map(|metric| &metric.value));
    formulas
        .chain(tunes.iter().flat_map(Tune::formulas))
        .for_each(|formula| plan.need(formula));
    for borders in windows.iter().filter_map(Window::borders) {
        plan.need_hits(borders.from);
        borders.to.into_iter().for_each(|probe| plan.need_hits(probe));
        borders
            .complete
            .iter()
            .for_each(|(_, condition)| plan.need(condition));
        borders.discard.iter().for_each(|condition| plan.need(condition));
    }
    for action in tunes.iter().filter_map(|tune| tune.action.as_ref()) {
        let kind = match action.value.of.kind {
            Kind::Boolean => VariableKind::Boolean,
            Kind::Number(_) | Kind::Text => VariableKind::Number,
        };
        let range = action.range.as_ref().map(|(_, text)| text.clone());
        plan.variables.push(PlannedVariable {
            name: action.variable.clone(),
            role: role_name(action.role),
            kind,
            range,
        });
    }
    plan.effects = plan.describe();
    plan
}

fn planned_window(window: &Window) -> PlannedWindow {
    PlannedWindow {
        name: window.name.clone(),
        every: match window.kind {
            WindowKind::Timed(every) => Some(every),
            WindowKind::Probed(_) => None,
        },
    }
}

impl Plan {
    fn need_hits(&mut self, probe: usize) {
        if let Some(probe) = self.probes.get_mut(probe) {
            probe.delivers = Delivery::EachHit;
        }
    }

    fn need(&mut self, formula: &Typed) {
        formula.visit(&mut |term| match term {
            Term::Measure(measure) => {
                self.measures.insert(*measure);
            }
            Term::Has(symbol) => {
                self.symbols.insert(symbol.clone());
            }
            Term::Loads(glob) => {
                self.libraries.insert(glob.clone());
            }
            Term::Hits { probe, statistic, .. } => {
                let needed = match statistic {
                    Statistic::Count => Delivery::Count,
                    Statistic::Sum | Statistic::Mean => Delivery::Durations,
                    Statistic::Min | Statistic::Max => Delivery::EachHit,
                };
                if let Some(probe) = self.probes.get_mut(*probe) {
                    probe.delivers = probe.delivers.max(needed);
                }
            }
            Term::Fold(fold) => self.need_hits(fold.probe),
            _ => {}
        });
    }

    fn describe(&self) -> Vec<String> {
        let probe = |probe: &PlannedProbe| {
            let site = match probe.site {
                Site::Entry => "entry",
                Site::Return => "return",
                Site::Span => "entry and return",
            };
            let captures: Vec<String> = probe.captures.iter().map(PlannedCapture::describe).collect();
            let reads = match captures.is_empty() {
                true => String::new(),
                false => format!(", reads {}", captures.join(", ")),
            };
            format!(
                "probes {site} of {} in every {}{reads}",
                probe.function, probe.role
            )
        };
        let variable = |variable: &PlannedVariable| {
            let kind = match variable.kind {
                VariableKind::Boolean => "a boolean",
                VariableKind::Number => "a number",
            };
            let range = variable
                .range
                .as_ref()
                .map_or(String::new(), |range| format!(", only where {range}"));
            format!(
                "writes {} ({kind}{range}) in every {}",
                variable.name, variable.role
            )
        };
        let mut out: Vec<String> = Vec::new();
        if !self.measures.is_empty() {
            let names: Vec<&str> = self.measures.iter().map(|measure| measure.name()).collect();
            out.push(format!("reads {}", names.join(", ")));
        }
        let armed = self
            .probes
            .iter()
            .filter(|probe| probe.delivers != Delivery::Nothing);
        out.extend(armed.map(probe));
        out.extend(self.variables.iter().map(variable));
        out
    }
}
