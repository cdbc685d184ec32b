//! What a rule needs from its surroundings, as plain data: probes, measures, symbols, variables, effects.
//!
//! How they are obtained or written is not known here.

use std::collections::BTreeSet;

use crate::action::WAS;
use crate::deed::{Change, Deed, Given, Inverse, Invocation};
use crate::file::Site;
use crate::measure::Measure;
use crate::read::{Base, Layout, PlannedCapture, Source};
use crate::rule::{Join, Metric, Probe, Role, Run, Trigger, Tune, Window, WindowKind};
use crate::tally::PlannedTally;
use crate::target::Target;
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
    /// Measures of MPI that formulas of timed windows ask for function by function: as
    /// [`crate::Observation::CallCounter`].
    pub calls: BTreeSet<Measure>,
    /// Symbols that roles ask for with `has()`.
    pub symbols: BTreeSet<String>,
    /// File name patterns that roles ask for with `loads()`.
    pub libraries: BTreeSet<String>,
    /// What the rule would write.
    pub variables: Vec<PlannedVariable>,
    /// What else it would do to a process: the keyword and what it acts on.
    pub actions: Vec<PlannedAction>,
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
    /// The window it lies in.
    pub within: Option<String>,
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
    /// Where it sits.
    pub target: Target,
    /// Of a span between two functions, from the entry of one to the return of the other in the same thread, the latter.
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
    /// What is to be added up of its hits, where it delivers [`Delivery::Tallies`].
    pub tally: Option<PlannedTally>,
    /// Its hits are borders of a window whose hits are added up: what was added up is to be handed in with them.
    pub parts_tallies: bool,
    /// Something may fall due at its hits: they are borders of a window, a window may close with them, or a tune is looked at with them.
    /// Hits of other probes are needed no sooner than the next of these.
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
    /// [`crate::Observation::Tally`] of the hits that go together, or [`crate::Observation::Hit`] for each: every hit is handed in
    /// once, in either way.
    Tallies,
    /// [`crate::Observation::Hit`] for each hit, and the totals, by which a lost hit is noticed.
    EachHit,
}

impl Delivery {
    /// Whether hits are handed in, one by one or added up.
    pub fn are_hits(self) -> bool {
        self >= Delivery::Tallies
    }
}

/// A variable a rule would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVariable {
    /// Its symbol, or the way to a part of it.
    pub name: String,
    /// Where it lies.
    pub source: Source,
    /// Its type, where the rule states it.
    pub layout: Option<Layout>,
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
    /// It is a call of which the rule does not say how it is taken back: it stays.
    pub stays: bool,
}

impl PlannedVariable {
    /// Its type as the rule has it, for a program that does not tell; a number has many.
    pub fn type_name(&self) -> Option<String> {
        match (self.layout, self.kind) {
            (Some(layout), _) => Some(layout.name()),
            (None, VariableKind::Boolean) => Some("bool".to_string()),
            (None, VariableKind::Number) => None,
        }
    }
}

/// What is written to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// `true` or `false`.
    Boolean,
    /// A number without unit.
    Number,
}

/// What a plan is made of.
pub(crate) struct Parts<'a> {
    pub(crate) rule: &'a str,
    pub(crate) roles: &'a [Role],
    pub(crate) probes: &'a [Probe],
    pub(crate) joins: &'a [Join],
    pub(crate) windows: &'a [Window],
    pub(crate) metrics: &'a [Metric],
    pub(crate) runs: &'a [Run],
    pub(crate) tunes: &'a [Tune],
}

pub(crate) fn plan(parts: &Parts<'_>) -> Plan {
    let role_name = |role: usize| {
        parts
            .roles
            .get(role)
            .map_or(String::new(), |role| role.name.clone())
    };
    let mut plan = Plan {
        rule: parts.rule.to_string(),
        windows: parts
            .windows
            .iter()
            .map(|window| planned_window(window, parts.windows))
            .collect(),
        probes: parts
            .probes
            .iter()
            .map(|probe| planned_probe(probe, role_name(probe.role)))
            .collect(),
        measures: BTreeSet::new(),
        calls: BTreeSet::new(),
        symbols: BTreeSet::new(),
        libraries: BTreeSet::new(),
        variables: Vec::new(),
        actions: Vec::new(),
        effects: Vec::new(),
    };
    for join in parts.joins {
        plan.need_hits(join.of.0);
        plan.need_hits(join.of.1);
    }
    let formulas = parts.roles.iter().flat_map(|role| &role.conditions);
    let formulas = formulas.chain(parts.metrics.iter().map(|metric| &metric.value));
    let formulas = formulas.chain(
        parts
            .runs
            .iter()
            .flat_map(|run| std::iter::once(&run.of).chain(&run.by)),
    );
    formulas
        .chain(parts.tunes.iter().flat_map(Tune::formulas))
        .for_each(|formula| plan.need(formula));
    for borders in parts.windows.iter().filter_map(Window::borders) {
        borders
            .begins_at()
            .into_iter()
            .for_each(|probe| plan.need_hits(probe));
        borders.to.into_iter().for_each(|probe| plan.need_hits(probe));
        let conditions = borders.complete.iter().map(|(_, condition)| condition);
        conditions
            .chain(&borders.until)
            .chain(&borders.discard)
            .for_each(|condition| plan.need(condition));
    }
    for tune in parts.tunes {
        if let Trigger::Hit { probe, .. } = tune.trigger {
            plan.need_hits(probe);
        }
        if let Some(change) = &tune.action {
            plan.act(change, role_name(change.role));
        }
    }
    plan.effects = plan.describe();
    plan.effects.extend(parts.tunes.iter().filter_map(|tune| {
        let change = tune.action.as_ref()?;
        Some(effect(change, &role_name(change.role)))
    }));
    plan
}

fn planned_probe(probe: &Probe, role: String) -> PlannedProbe {
    let function = match &probe.to {
        Some(to) => format!("{} to {to}", probe.target),
        None => probe.target.to_string(),
    };
    PlannedProbe {
        name: probe.name.clone(),
        role,
        site: probe.site,
        target: probe.target.clone(),
        to: probe.to.clone(),
        function,
        off_at_first: false,
        is_switched: false,
        delivers: Delivery::Nothing,
        captures: probe.reads.clone(),
        tally: None,
        parts_tallies: false,
        decides: false,
    }
}

fn planned_window(window: &Window, all: &[Window]) -> PlannedWindow {
    let within = window.borders().and_then(|borders| all.get(borders.within?));
    PlannedWindow {
        name: window.name.clone(),
        every: match window.kind {
            WindowKind::Timed(every) => Some(every),
            WindowKind::Probed(_) => None,
        },
        within: within.map(|window| window.name.clone()),
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
            Term::Measure(measure) | Term::At { measure, .. } | Term::OfCalls { measure, .. } => {
                self.measures.insert(*measure);
                if matches!(term, Term::OfCalls { .. }) {
                    self.calls.insert(*measure);
                }
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

    fn act(&mut self, change: &Change, role: String) {
        let (target, keyword) = (change.deed.target(), change.deed.keyword().name());
        match &change.deed {
            Deed::Set {
                variable,
                layout,
                everywhere,
                value,
            } => self.variables.push(PlannedVariable {
                name: target,
                source: variable.clone(),
                layout: *layout,
                everywhere: *everywhere,
                role,
                kind: match value.of.kind {
                    Kind::Boolean => VariableKind::Boolean,
                    Kind::Number(_) | Kind::Text => VariableKind::Number,
                },
                range: change.range.as_ref().map(|(_, text)| text.clone()),
            }),
            Deed::Enable { probe, .. } | Deed::Disable { probe, .. } => {
                if let Some(probe) = self.probes.get_mut(*probe) {
                    probe.is_switched = true;
                    probe.off_at_first |= matches!(change.deed, Deed::Enable { .. });
                }
            }
            _ => self.actions.push(PlannedAction {
                keyword,
                target,
                role,
                changes_code: change.deed.changes_code(),
                stays: change.deed.stays(),
            }),
        }
    }

    fn describe(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        if !self.measures.is_empty() {
            let names: Vec<&str> = self.measures.iter().map(|measure| measure.name()).collect();
            out.push(format!("reads {}", names.join(", ")));
        }
        let armed = self
            .probes
            .iter()
            .filter(|probe| probe.delivers != Delivery::Nothing);
        out.extend(armed.map(probed));
        out
    }
}

fn probed(probe: &PlannedProbe) -> String {
    let site = match probe.site {
        Site::Entry if probe.target.is_mark() => "mark",
        Site::Entry => "entry of",
        Site::Return => "return of",
        Site::Span if probe.to.is_some() => "what runs from",
        Site::Span => "entry and return of",
    };
    let captures = probe.captures.iter().map(|capture| &capture.source);
    // What is known of a hit anyway is not read in the program.
    let captures = captures.filter(|source| !matches!(source.base, Base::Known(_)));
    let captures: Vec<String> = captures.map(Source::to_string).collect();
    let reads = match captures.is_empty() {
        true => String::new(),
        false => format!(", reads {}", captures.join(", ")),
    };
    let off = if probe.off_at_first { ", off at first" } else { "" };
    format!(
        "probes {site} {} in every {}{reads}{off}",
        probe.function, probe.role
    )
}

fn given(arguments: &[Given]) -> String {
    let given = |argument: &Given| match argument {
        Given::Value(value) => value.of.what(),
        Given::Variable(source) => source.to_string(),
        Given::Was => WAS.to_string(),
    };
    arguments.iter().map(given).collect::<Vec<_>>().join(", ")
}

fn called(call: &Invocation) -> String {
    format!("{}({})", call.function, given(&call.arguments))
}

/// How a call is taken back, in words.
fn taken_back(inverse: &Inverse) -> String {
    match inverse {
        Inverse::Unstated => "it stays".to_string(),
        Inverse::NotNeeded(why) => format!("nothing to take back: {why}"),
        Inverse::Call { reader: None, call } => format!("taken back by {}", called(call)),
        Inverse::Call {
            reader: Some(reader),
            call,
        } => format!("taken back by {}, was = {}", called(call), called(reader)),
    }
}

/// What a change does to a program, in a sentence.
fn effect(change: &Change, role: &str) -> String {
    let range = change
        .range
        .as_ref()
        .map_or(String::new(), |(_, range)| format!(", only where {range}"));
    let what = |value: &Typed| match value.of.kind {
        Kind::Boolean => "a boolean",
        Kind::Number(_) | Kind::Text => "a number",
    };
    let does = match &change.deed {
        Deed::Set {
            variable,
            everywhere,
            value,
            ..
        } => {
            let copies = if *everywhere { ", every copy of it" } else { "" };
            format!("writes {variable} ({}{range}{copies})", what(value))
        }
        Deed::Call { call, inverse } => format!("calls {} ({})", called(call), taken_back(inverse)),
        Deed::Load { library } => format!("loads {library}"),
        Deed::Replace { function, with } => format!("patches {function} so that {with} runs instead"),
        Deed::InsertCall {
            function,
            arguments,
            inside,
            place,
        } => {
            let place = if *place == Site::Return { "return" } else { "entry" };
            format!(
                "patches {inside} so that {function}({}) is called at every {place}",
                given(arguments)
            )
        }
        Deed::RemoveCall { function, inside } => match inside {
            Some(inside) => format!("patches {inside} so that {function} is not called in it"),
            None => format!("patches {function} so that no call of it does anything"),
        },
        Deed::SetArgument {
            function,
            argument,
            value,
        } => format!(
            "patches {function} so that argument {argument} becomes {}{range}",
            what(value)
        ),
        Deed::Affinity(_) => "binds the threads to cores".to_string(),
        Deed::Enable { name, .. } => format!("switches the probe {name} on"),
        Deed::Disable { name, .. } => format!("switches the probe {name} off"),
    };
    let judged = match (&change.guard, &change.deed) {
        (None, Deed::Enable { .. } | Deed::Disable { .. }) | (Some(_), _) => "",
        (None, _) => "; not guarded",
    };
    format!("{does} in every {role}{judged}")
}
