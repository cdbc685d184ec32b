//! A rule that passed every check, as data, and queries on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::{Action, Meeting, Moment, SyncPoint};

use crate::change::Change;
use crate::diag::{Diagnostic, Span};
use crate::folds::WindowFolds;
use crate::function::Reduction;
use crate::guard::Guard;
use crate::plan::Plan;
use crate::read::PlannedCapture;
use crate::requirements::Requirements;
use crate::target::Site;
use crate::target::Target;
use crate::term::{Field, Term, Typed};
use crate::value::{ProcessId, Reason, Scalar};
use crate::window::{Boundaries, Window};

/// A rule that can run: every name means something and every unit is right.
#[derive(Clone, Debug)]
pub struct CheckedRule {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) source: Option<String>,
    pub(crate) gained: Option<String>,
    pub(crate) must_be_named: bool,
    /// Of two rules that change the same, the one with the higher goes first.
    pub(crate) priority: i64,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) roles: Vec<Role>,
    pub(crate) probes: Vec<Probe>,
    /// Pairs of hits; to formulas a join is one more probe behind the last.
    pub(crate) joins: Vec<Join>,
    pub(crate) windows: Vec<Window>,
    /// In an order of evaluation.
    pub(crate) metrics: Vec<Metric>,
    /// Folds over every instance since the beginning, each after those it uses.
    pub(crate) runs: Vec<Run>,
    pub(crate) tunes: Vec<Tune>,
    /// For each window its folds.
    pub(crate) folds: Vec<Arc<WindowFolds>>,
    pub(crate) plan: Plan,
    pub(crate) requirements: Requirements,
    pub(crate) warnings: Vec<Diagnostic>,
}

#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) name: String,
    /// A process has the role if one of them holds.
    pub(crate) conditions: Vec<Typed>,
    /// How many processes must have it for the rule to be evaluated.
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) role: usize,
    pub(crate) site: Site,
    pub(crate) target: Target,
    /// Of a span between two functions the one at whose return it ends.
    pub(crate) to: Option<Target>,
    /// What is read in the program at a hit.
    pub(crate) reads: Vec<PlannedCapture>,
    /// What is made of it, with names.
    pub(crate) captures: Vec<(String, Typed)>,
}

/// Pairs of the hits of two probes.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) name: String,
    /// Its probes: what comes first, and what it causes.
    pub(crate) of: (usize, usize),
    /// Parts of the first and of the second that are equal.
    pub(crate) by: Vec<(Field, Field)>,
    /// What a pair has: of which of the two, and which part.
    pub(crate) parts: Vec<(usize, Field)>,
}

/// A fold of the values of a formula over every instance of a window since the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) window: usize,
    /// A single value in each instance.
    pub(crate) of: Typed,
    /// The kind of its rows' keys, if it is a table: a single value in each instance.
    pub(crate) by: Option<Typed>,
    pub(crate) fold: RunFold,
    /// As written, for people.
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) enum RunFold {
    Reduce(Reduction),
    /// The exponentially weighted mean with this weight of the newest.
    Ewma(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) window: usize,
    /// It has a parameter or a value for each hit, and none by itself.
    pub(crate) is_called: bool,
    pub(crate) value: Typed,
}

/// A checked tune: advice, or advice and a change.
#[derive(Clone, Debug)]
pub(crate) struct Tune {
    pub(crate) trigger: Trigger,
    /// Without it the tune acts at every look at which its value differs from the last one.
    pub(crate) when: Option<Typed>,
    pub(crate) holds_for: u32,
    pub(crate) cooldown: u64,
    pub(crate) finding: Option<Filled>,
    pub(crate) next_start: Option<Filled>,
    pub(crate) action: Option<Change>,
    /// What was done is reverted when the condition no longer holds.
    pub(crate) revert_after: bool,
    /// Written at the start, until its first window.
    pub(crate) initial: Option<Scalar>,
    pub(crate) expect: Option<Typed>,
    /// After so many windows a decision that was not carried out is given up.
    pub(crate) stale: Option<u32>,
    /// The tune that must have been applied before, by its place.
    pub(crate) after: Option<usize>,
    /// Where a change takes effect.
    pub(crate) at: Option<SyncPoint>,
    /// Where the rule requires that a process waits there for the decision.
    pub(crate) decide: Option<Span>,
    /// The window at whose begin all processes change.
    pub(crate) together: Option<String>,
    /// It is on trial beside others.
    pub(crate) independent: bool,
}

/// What makes a tune be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The close of an instance of a window, by its place.
    Window(usize),
    /// A hit of a probe, with the values that its window has so far, up to that hit.
    Hit { probe: usize, window: usize },
}

impl Trigger {
    /// The window that the formulas live in.
    pub(crate) fn window(self) -> usize {
        match self {
            Trigger::Window(window) | Trigger::Hit { window, .. } => window,
        }
    }
}

impl Tune {
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.action.as_ref().and_then(|change| change.guard.as_ref())
    }

    /// Its change is made once while the condition holds, and judged.
    pub(crate) fn acts_once(&self) -> bool {
        self.guard().is_some_and(|guard| guard.was.is_none())
    }

    /// It switches a probe.
    pub(crate) fn switches(&self) -> bool {
        let action = self.action.as_ref().map(|change| &change.action);
        matches!(action, Some(Action::Switch(_)))
    }

    /// Whether its condition is a finding. Where it only switches a probe, that is so with a text of its own.
    pub(crate) fn has_finding(&self) -> bool {
        self.finding.is_some() || (self.when.is_some() && !self.switches())
    }

    pub(crate) fn formulas(&self) -> Vec<&Typed> {
        let mut out: Vec<&Typed> = self.when.iter().chain(&self.expect).collect();
        for template in [&self.finding, &self.next_start].into_iter().flatten() {
            out.extend(template.0.iter().filter_map(|part| match part {
                FilledPart::Value(typed) => Some(typed),
                FilledPart::Literal(_) => None,
            }));
        }
        if let Some(change) = &self.action {
            out.extend(change.formulas());
            out.extend(change.guard.iter().flat_map(Guard::formulas));
            out.extend(change.range.iter().map(|(condition, _)| condition));
        }
        out
    }

    /// Whether it is judged beside no other change.
    pub(crate) fn occupies_the_trial(&self) -> bool {
        self.guard().is_some() && !self.independent
    }
}

/// A template whose formulas are checked.
#[derive(Clone, Debug)]
pub(crate) struct Filled(pub(crate) Vec<FilledPart>);

#[derive(Clone, Debug)]
pub(crate) enum FilledPart {
    Literal(String),
    Value(Typed),
}

impl CheckedRule {
    /// What is left of a rule that was removed: its name.
    pub(crate) fn emptied(&self) -> CheckedRule {
        CheckedRule {
            name: self.name.clone(),
            about: self.about.clone(),
            source: None,
            gained: None,
            must_be_named: false,
            priority: 0,
            parameters: Vec::new(),
            roles: Vec::new(),
            probes: Vec::new(),
            joins: Vec::new(),
            windows: Vec::new(),
            metrics: Vec::new(),
            runs: Vec::new(),
            tunes: Vec::new(),
            folds: Vec::new(),
            plan: Plan::empty(&self.name),
            requirements: Requirements::default(),
            warnings: Vec::new(),
        }
    }

    /// Some tune of it takes effect at a place in the program only.
    pub fn waits_for_places(&self) -> bool {
        let waits = |tune: &Tune| tune.at.is_some() || tune.together.is_some();
        self.tunes.iter().any(waits)
    }

    /// What a session that acts cannot do, each with its place in the file: a process is not held until a
    /// decision is made.
    pub fn held_decisions(&self) -> Vec<Diagnostic> {
        let held = |span: Span| {
            let message =
                "a process cannot be held until the decision is made: it takes longer than it may be held";
            let help = "without `decide` the change takes effect at the next hit after the decision";
            Diagnostic::wrong("E0158", span, message).help(help)
        };
        self.tunes
            .iter()
            .filter_map(|tune| tune.decide)
            .map(held)
            .collect()
    }

    /// Where a tune has all processes change at the same iteration, if it does; or why they cannot agree on
    /// one.
    pub(crate) fn together(&self, tune: &Tune) -> Option<Result<Meeting, Reason>> {
        tune.together.as_ref().map(|window| self.meeting(window))
    }

    /// Where a window begins in the program, and where the program itself says which instance of it begins.
    fn meeting(&self, window: &str) -> Result<Meeting, Reason> {
        let known = self.windows.iter().find(|known| known.name == window);
        let boundaries = known.and_then(Window::boundaries).ok_or_else(|| {
            format!("`{window}` is a time: processes have no place in the program in common there")
        })?;
        let place = boundaries
            .begins_at()
            .ok_or_else(|| format!("`{window}` does not begin at a hit"))?;
        let probe = self
            .probes
            .get(place)
            .ok_or_else(|| format!("`{window}` begins at pairs of hits"))?;
        let Target::Function(function) = &probe.target else {
            return Err(format!(
                "`{window}` begins at {}: that is more than one function",
                probe.target
            ));
        };
        let key = boundaries.keys.get(place).copied().flatten().ok_or_else(|| {
            format!("`{window}` has no key: without one it is not known that two processes are at the same instance of it")
        })?;
        let of_program = probe.captures.get(key).and_then(|(_, typed)| match typed.term {
            Term::Read(read) => probe.reads.get(read),
            _ => None,
        });
        let key = of_program.ok_or_else(|| {
            format!("the key of `{window}` is computed: it must be a number as the program has it")
        })?;
        let key = key.as_key().ok_or_else(|| {
            format!(
                "the key of `{window}` is {}: it must be an integer argument or an integer global variable",
                key.source
            )
        })?;
        let moment = match probe.site {
            Site::Return => Moment::Return,
            Site::Entry | Site::Span => Moment::Entry,
        };
        let at = SyncPoint::new(moment, function).map_err(|error| error.to_string())?;
        Ok(Meeting { at, key })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the rule is for, in a sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// How much faster it made a program where that was measured, in a sentence.
    pub fn gained(&self) -> Option<&str> {
        self.gained.as_deref()
    }

    /// Whether it changes a program; a probe that is switched is no change of it.
    pub fn acts(&self) -> bool {
        let mut tunes = self.tunes.iter();
        tunes.any(|tune| tune.action.is_some() && !tune.switches())
    }

    /// Whether it acts only where a user names it: its author wants that, or it changes code or loads
    /// libraries.
    pub fn must_be_named(&self) -> bool {
        self.must_be_named || self.plan.actions.iter().any(|action| action.changes_code)
    }

    /// Its parameters with their values as people write them.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// What must be measured, requested and written for it.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The objectives of its guards, as they are written.
    pub fn objectives(&self) -> impl Iterator<Item = &str> {
        let guards = self.tunes.iter().filter_map(Tune::guard);
        guards.map(|guard| guard.objective_text.as_str())
    }

    /// What its author should look at; the rule can run in spite of it.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Why the rule must wait, if a role has too few processes or too many.
    pub(crate) fn lacks_processes(&self, roles: &[BTreeSet<ProcessId>]) -> Option<String> {
        let lacking = |(role, members): (&Role, &BTreeSet<ProcessId>)| {
            let (name, count) = (&role.name, members.len());
            let few = count < role.least as usize;
            let many = role.most.filter(|most| count > *most as usize);
            match (few, many) {
                (true, _) => Some(format!(
                    "waits for processes: {count} of at least {} have the role {name}",
                    role.least
                )),
                (false, Some(most)) => Some(format!(
                    "waits: {count} processes have the role {name}, it is for at most {most}"
                )),
                (false, None) => None,
            }
        };
        self.roles.iter().zip(roles).find_map(lacking)
    }

    /// For each probe, and each join behind them, the role of the processes whose hits it has.
    pub(crate) fn probe_roles(&self) -> Vec<usize> {
        let count = self.probes.len() + self.joins.len();
        (0..count).filter_map(|probe| self.role_of(probe)).collect()
    }

    pub(crate) fn role_of(&self, probe: usize) -> Option<usize> {
        let join = probe
            .checked_sub(self.probes.len())
            .and_then(|place| self.joins.get(place));
        let probe = join.map_or(probe, |join| join.of.1);
        self.probes.get(probe).map(|probe| probe.role)
    }

    /// The role of the processes that begin instances of a window.
    pub(crate) fn role_of_begin(&self, boundaries: &Boundaries) -> Option<usize> {
        boundaries.begins_at().and_then(|probe| self.role_of(probe))
    }

    /// Every formula of a window: its metrics, its conditions, and those of the tunes that are looked at with
    /// it.
    pub(crate) fn formulas_of(&self, place: usize) -> Vec<&Typed> {
        let metrics = self.metrics.iter().filter(|metric| metric.window == place);
        let mut out: Vec<&Typed> = metrics.map(|metric| &metric.value).collect();
        if let Some(boundaries) = self.windows.get(place).and_then(Window::boundaries) {
            out.extend(boundaries.complete.iter().map(|(_, condition)| condition));
            out.extend(boundaries.until.iter().chain(&boundaries.discard));
        }
        let tunes = self.tunes.iter().filter(|tune| tune.trigger.window() == place);
        out.extend(tunes.flat_map(Tune::formulas));
        out
    }
}

impl CheckedRule {
    /// The metrics that `terms` are computed from, their metrics included.
    pub(crate) fn metrics_behind(&self, terms: &[&Typed]) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Typed> = terms.to_vec();
        let mut runs = BTreeSet::new();
        while let Some(typed) = open.pop() {
            typed.visit(&mut |term| {
                if let Term::Run(place) = term
                    && runs.insert(*place)
                {
                    open.extend(self.runs.get(*place).map(|run| &run.of));
                }
                if let Term::Metric(index)
                | Term::Call { metric: index, .. }
                | Term::Over { metric: index, .. }
                | Term::Earlier { metric: index, .. }
                | Term::Inner { metric: index, .. }
                | Term::Enclosing { metric: index, .. } = term
                    && found.insert(*index)
                {
                    open.extend(self.metrics.get(*index).map(|metric| &metric.value));
                }
            });
        }
        let has_value = |index: &usize| self.metrics.get(*index).is_some_and(|metric| !metric.is_called);
        found.into_iter().filter(has_value).collect()
    }
}
