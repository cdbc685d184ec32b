//! A rule that passed every check, as data, with queries on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::{Action, CommonIteration, Moment, SyncPoint};
use syntax::diag::Diagnostic;

use crate::change::Change;
use crate::folds::WindowFolds;
use crate::function::Reduction;
use crate::guard::Guard;
use crate::measure::Scope;
use crate::plan::Plan;
use crate::read::PlannedCapture;
use crate::requirements::Requirements;
use crate::target::{Site, Target};
use crate::term::{Field, Term, Typed};
use crate::value::{ProcessId, Scalar, WhyUnknown};
use crate::window::{Boundaries, Window};

/// A rule that can run: every name is resolved and every unit is correct.
#[derive(Clone, Debug)]
pub struct CheckedRule {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) source: Option<String>,
    pub(crate) gained: Option<String>,
    pub(crate) must_be_named: bool,
    /// Why it must be named, or else its effect on results.
    pub(crate) risk: Option<String>,
    /// Of two rules that change the same target, the one with the higher priority acts first.
    pub(crate) priority: i64,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) roles: Vec<Role>,
    pub(crate) probes: Vec<CheckedProbe>,
    /// Pairs of hits; formulas see a join as a probe, with indices after those of the probes.
    pub(crate) joins: Vec<Join>,
    pub(crate) windows: Vec<Window>,
    /// In order of evaluation.
    pub(crate) metrics: Vec<Metric>,
    /// Folds over every instance since the beginning, in order of evaluation.
    pub(crate) runs: Vec<Run>,
    pub(crate) tunes: Vec<Tune>,
    /// For each window, its folds.
    pub(crate) folds: Vec<Arc<WindowFolds>>,
    pub(crate) plan: Plan,
    pub(crate) requirements: Requirements,
    pub(crate) warnings: Vec<Diagnostic>,
}

#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) name: String,
    /// A process has the role if one of these holds.
    pub(crate) conditions: Vec<Typed>,
    /// Minimum number of processes with the role for the rule to be evaluated.
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct CheckedProbe {
    pub(crate) name: String,
    pub(crate) role: usize,
    pub(crate) site: Site,
    pub(crate) target: Target,
    /// For a span between two functions: the function at whose return it ends.
    pub(crate) to: Option<Target>,
    /// What is read in the program at a hit.
    pub(crate) reads: Vec<PlannedCapture>,
    /// The named values computed from the reads.
    pub(crate) captures: Vec<(String, Typed)>,
}

/// Pairs of the hits of two probes.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) name: String,
    /// Indices of its probes: cause and effect.
    pub(crate) of: (usize, usize),
    /// Fields of the first and of the second hit that must be equal.
    pub(crate) by: Vec<(Field, Field)>,
    /// The fields of a pair: which of the two hits, and which field.
    pub(crate) parts: Vec<(usize, Field)>,
}

/// A fold of the values of a formula over every instance of a window since the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) window: usize,
    /// A single value in each instance.
    pub(crate) of: Typed,
    /// The kind of its row keys, if it is a table: a single value in each instance.
    pub(crate) by: Option<Typed>,
    pub(crate) fold: RunFold,
    /// As written, for display.
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) enum RunFold {
    Reduce(Reduction),
    /// The exponentially weighted mean, with this weight of the newest value.
    Ewma(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) window: usize,
    /// It has a parameter or a value for each hit, so it has no value by itself.
    pub(crate) is_called: bool,
    pub(crate) value: Typed,
}

/// A checked tune: advice, or advice and a change.
#[derive(Clone, Debug)]
pub(crate) struct Tune {
    pub(crate) trigger: Trigger,
    /// Without it, the tune acts at every evaluation at which its value differs from the last one.
    pub(crate) when: Option<Typed>,
    pub(crate) holds_for: u32,
    pub(crate) cooldown: u64,
    pub(crate) finding: Option<Filled>,
    pub(crate) next_start: Option<Filled>,
    pub(crate) action: Option<Change>,
    /// The change is reverted when the condition no longer holds.
    pub(crate) revert_after: bool,
    /// Written at the start; in force until the first window.
    pub(crate) initial: Option<Scalar>,
    pub(crate) expect: Option<Typed>,
    /// A decision that was not carried out is given up after this number of windows.
    pub(crate) stale: Option<u32>,
    /// Index of the tune that must have been applied before.
    pub(crate) after: Option<usize>,
    /// The sync point at which a change takes effect.
    pub(crate) at: Option<SyncPoint>,
    /// The window at whose begin all processes change.
    pub(crate) together: Option<String>,
    /// It may be on trial at the same time as others.
    pub(crate) independent: bool,
}

/// What triggers the evaluation of a tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The close of an instance of a window, by index.
    Window(usize),
    /// A hit of a probe, with the values of its window up to that hit.
    Hit { probe: usize, window: usize },
}

impl Trigger {
    /// The window of the formulas.
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

    /// Its change is made once while the condition holds, and is judged.
    pub(crate) fn acts_once(&self) -> bool {
        self.guard().is_some_and(|guard| guard.was.is_none())
    }

    /// Whether its action switches a probe.
    pub(crate) fn switches(&self) -> bool {
        let action = self.action.as_ref().map(|change| &change.action);
        matches!(action, Some(Action::Switch(_)))
    }

    /// Whether its condition is a finding. A tune that only switches a probe has one only if it states a
    /// text.
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

    /// Whether its trial excludes others.
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
    /// A rule that observes and changes nothing; also the remainder of a removed rule.
    pub(crate) fn empty(name: &str, about: &str) -> CheckedRule {
        CheckedRule {
            name: name.to_owned(),
            about: about.to_owned(),
            source: None,
            gained: None,
            must_be_named: false,
            risk: None,
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
            plan: Plan::empty(name),
            requirements: Requirements::default(),
            warnings: Vec::new(),
        }
    }

    /// Whether it has a metric of this name that has one value.
    pub fn has_metric(&self, name: &str) -> bool {
        let mut metrics = self.metrics.iter().filter(|metric| !metric.is_called);
        metrics.any(|metric| metric.name == name)
    }

    /// Whether it has a measure of a machine: in a job on several, each machine evaluates it by itself.
    pub fn is_of_machine(&self) -> bool {
        let mut measures = self.plan.measures.iter();
        measures.any(|measure| measure.scope() == Scope::Machine)
    }

    /// Whether a tune of it takes effect only at a place in the program.
    pub fn waits_for_places(&self) -> bool {
        let waits = |tune: &Tune| tune.at.is_some() || tune.together.is_some();
        self.tunes.iter().any(waits)
    }

    /// Where a tune has all processes change in the same iteration, if it does; or why they cannot agree on a
    /// place.
    pub(crate) fn together(&self, tune: &Tune) -> Option<Result<CommonIteration, WhyUnknown>> {
        tune.together.as_ref().map(|window| self.common_iteration(window))
    }

    /// Where a window begins in the program, and where the program counts its instances.
    fn common_iteration(&self, window: &str) -> Result<CommonIteration, WhyUnknown> {
        let known = self.windows.iter().find(|known| known.name == window);
        let boundaries = known.and_then(Window::boundaries).ok_or_else(|| {
            format!("`{window}` is a time: processes have no place in the program in common there")
        })?;
        let index = boundaries
            .begins_at()
            .ok_or_else(|| format!("`{window}` does not begin at a hit"))?;
        let probe = self
            .probes
            .get(index)
            .ok_or_else(|| format!("`{window}` begins at pairs of hits"))?;
        let Target::Function(function) = &probe.target else {
            return Err(format!(
                "`{window}` begins at {}: that is more than one function",
                probe.target
            ));
        };
        let key = boundaries.keys.get(index).copied().flatten().ok_or_else(|| {
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
        Ok(CommonIteration { at, key })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The purpose of the rule, in a sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The measured speed-up of a program by the rule, in a sentence.
    pub fn gained(&self) -> Option<&str> {
        self.gained.as_deref()
    }

    /// Whether it changes a program; switching a probe is no change of the program.
    pub fn acts(&self) -> bool {
        let mut tunes = self.tunes.iter();
        tunes.any(|tune| tune.action.is_some() && !tune.switches())
    }

    /// Whether it acts only if a user names it: because its author requires it, or because it changes code or
    /// loads libraries.
    pub fn must_be_named(&self) -> bool {
        self.must_be_named || self.plan.actions.iter().any(|action| action.changes_code)
    }

    /// What a user should know before naming it; `None` if it acts without its name.
    pub fn risk(&self) -> Option<&str> {
        self.risk.as_deref().filter(|_| self.must_be_named())
    }

    /// Its parameters with their values for display.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// What must be measured, requested and written for the rule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The objectives of its guards, as written.
    pub fn objectives(&self) -> impl Iterator<Item = &str> {
        let guards = self.tunes.iter().filter_map(Tune::guard);
        guards.map(|guard| guard.objective_text.as_str())
    }

    /// Warnings for its author; the rule can run in spite of them.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Why the rule must wait, if a role has too few or too many processes.
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

    /// For each probe and each join, in this order, the role of the processes whose hits it contains.
    pub(crate) fn probe_roles(&self) -> Vec<usize> {
        let count = self.probes.len() + self.joins.len();
        (0..count).filter_map(|probe| self.role_of(probe)).collect()
    }

    pub(crate) fn role_of(&self, probe: usize) -> Option<usize> {
        let join = probe
            .checked_sub(self.probes.len())
            .and_then(|index| self.joins.get(index));
        let probe = join.map_or(probe, |join| join.of.1);
        self.probes.get(probe).map(|probe| probe.role)
    }

    /// The role of the processes that begin instances of a window.
    pub(crate) fn role_of_begin(&self, boundaries: &Boundaries) -> Option<usize> {
        boundaries.begins_at().and_then(|probe| self.role_of(probe))
    }

    /// Whether it needs the iterations of the detected loop.
    pub fn follows_loop(&self) -> bool {
        let mut probes = self.plan.probes.iter();
        probes.any(|probe| probe.target == Target::LoopIteration && probe.delivers.are_hits())
    }

    /// Whether the instances of a window are iterations of the detected loop.
    pub(crate) fn is_bounded_by_loop(&self, boundaries: &Boundaries) -> bool {
        let begin = boundaries.begins_at().and_then(|probe| self.probes.get(probe));
        begin.is_some_and(|probe| probe.target == Target::LoopIteration)
    }

    /// Every formula of a window: its metrics, its conditions, and the formulas of the tunes that are
    /// evaluated with it.
    pub(crate) fn formulas_of(&self, index: usize) -> Vec<&Typed> {
        let metrics = self.metrics.iter().filter(|metric| metric.window == index);
        let mut out: Vec<&Typed> = metrics.map(|metric| &metric.value).collect();
        if let Some(boundaries) = self.windows.get(index).and_then(Window::boundaries) {
            out.extend(boundaries.complete.iter().map(|(_, condition)| condition));
            out.extend(boundaries.until.iter().chain(&boundaries.discard));
        }
        let tunes = self.tunes.iter().filter(|tune| tune.trigger.window() == index);
        out.extend(tunes.flat_map(Tune::formulas));
        out
    }

    /// The metrics from which `terms` are computed, directly or indirectly.
    pub(crate) fn metrics_behind(&self, terms: &[&Typed]) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Typed> = terms.to_vec();
        let mut runs = BTreeSet::new();
        while let Some(typed) = open.pop() {
            typed.visit(&mut |term| {
                if let Term::Run(run) = term
                    && runs.insert(*run)
                {
                    open.extend(self.runs.get(*run).map(|run| &run.of));
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
