//! Derives the requirements of a checked rule from its formulas and tunes.

use ::plan::{Action, Keyword, Set};

use crate::change::Change;
use crate::read::{Base, Source};
use crate::rule::{CheckedProbe, CheckedRule, Trigger};
use crate::target::{Site, Target};
use crate::term::{Statistic, Term, Typed};
use crate::types::Kind;
use crate::value::Scalar;
use crate::window::{Window, WindowKind};

use crate::plan::{
    Delivery, FOLLOWS_LOOP, Plan, PlannedAction, PlannedEffect, PlannedProbe, PlannedVariable, PlannedWindow,
    VariableKind,
};

pub(crate) fn plan(rule: &CheckedRule) -> Plan {
    let role_name = |role: usize| {
        let role = rule.roles.get(role);
        role.map_or(String::new(), |role| role.name.clone())
    };
    let windows = rule.windows.iter();
    let probes = rule.probes.iter();
    let mut plan = Plan {
        windows: windows
            .map(|window| planned_window(window, &rule.windows))
            .collect(),
        probes: probes
            .map(|probe| planned_probe(probe, role_name(probe.role)))
            .collect(),
        ..Plan::empty(&rule.name)
    };
    for join in &rule.joins {
        plan.need_hits(join.of.0);
        plan.need_hits(join.of.1);
    }
    let conditions = rule.roles.iter().flat_map(|role| &role.conditions);
    let runs = rule
        .runs
        .iter()
        .flat_map(|run| std::iter::once(&run.of).chain(&run.by));
    let of_windows = (0..rule.windows.len()).flat_map(|place| rule.formulas_of(place));
    let formulas = conditions.chain(runs).chain(of_windows);
    formulas.for_each(|formula| plan.need(formula));
    for boundaries in rule.windows.iter().filter_map(Window::boundaries) {
        let ends = boundaries.begins_at().into_iter().chain(boundaries.to);
        ends.for_each(|probe| plan.need_hits(probe));
    }
    for tune in &rule.tunes {
        if let Trigger::Hit { probe, .. } = tune.trigger {
            plan.need_hits(probe);
        }
        if let Some(change) = &tune.action {
            plan.act(change, role_name(change.role));
        }
    }
    plan.effects = plan.describe();
    plan.effects.extend(rule.tunes.iter().filter_map(|tune| {
        let change = tune.action.as_ref()?;
        Some(effect(change, role_name(change.role)))
    }));
    plan
}

fn planned_probe(probe: &CheckedProbe, role: String) -> PlannedProbe {
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
        partial_sum: None,
        parts_sums: false,
        decides: false,
    }
}

fn planned_window(window: &Window, all: &[Window]) -> PlannedWindow {
    let within = window
        .boundaries()
        .and_then(|boundaries| all.get(boundaries.within?));
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
        let (target, keyword) = (change.action.target(), change.action.keyword().name());
        match &change.action {
            Action::Set(Set {
                value_type,
                everywhere,
                ..
            }) => self.variables.push(PlannedVariable {
                name: target,
                value_type: *value_type,
                everywhere: *everywhere,
                role,
                kind: match change.formulas().any(|value| value.type_of.kind == Kind::Boolean) {
                    true => VariableKind::Boolean,
                    false => VariableKind::Number,
                },
                range: change.range.as_ref().map(|(_, text)| text.clone()),
            }),
            Action::Switch(switch) => {
                if let Some(probe) = self.probes.get_mut(switch.probe) {
                    probe.is_switched = true;
                    probe.off_at_first |= switch.on;
                }
            }
            action => self.actions.push(PlannedAction {
                keyword,
                target,
                role,
                changes_code: action.changes_code(),
                stays: action.stays(),
            }),
        }
    }

    fn describe(&self) -> Vec<PlannedEffect> {
        let mut out = Vec::new();
        if !self.measures.is_empty() {
            let names: Vec<&str> = self.measures.iter().map(|measure| measure.name()).collect();
            out.push(PlannedEffect {
                does: format!("reads {}", names.join(", ")),
                role: None,
                more: String::new(),
                is_change: false,
            });
        }
        let armed = self
            .probes
            .iter()
            .filter(|probe| probe.delivers != Delivery::Nothing);
        out.extend(armed.map(probed));
        // Both ends of an iteration are followed by one effect.
        out.dedup();
        out
    }
}

fn probed(probe: &PlannedProbe) -> PlannedEffect {
    if probe.target == Target::LoopIteration {
        return PlannedEffect {
            does: FOLLOWS_LOOP.to_owned(),
            role: Some(probe.role.clone()),
            more: String::new(),
            is_change: false,
        };
    }
    let site = match probe.site {
        Site::Entry if probe.target.is_mark() => "mark",
        Site::Entry => "entry of",
        Site::Return => "return of",
        Site::Span if probe.to.is_some() => "what runs from",
        Site::Span => "entry and return of",
    };
    let captures = probe.captures.iter().map(|capture| &capture.source);
    // Known values of a hit are not read in the program.
    let captures = captures.filter(|source| !matches!(source.base, Base::Known(_)));
    let captures: Vec<String> = captures.map(Source::to_string).collect();
    let reads = match captures.is_empty() {
        true => String::new(),
        false => format!(", reads {}", captures.join(", ")),
    };
    let off = if probe.off_at_first { ", off at first" } else { "" };
    PlannedEffect {
        does: format!("probes {site} {}", probe.function),
        role: Some(probe.role.clone()),
        more: reads + off,
        is_change: false,
    }
}

/// The effect of a change on a program, in a sentence.
fn effect(change: &Change, role: String) -> PlannedEffect {
    let range = change
        .range
        .as_ref()
        .map_or(String::new(), |(_, range)| format!(", only where {range}"));
    let is_call = matches!(change.action.keyword(), Keyword::Call | Keyword::InsertCall);
    let what = |value: &Typed| match value.type_of.kind {
        // Computed values differ between decisions.
        _ if is_call => match &value.term {
            Term::Constant(Scalar::Number(number)) => number.to_string(),
            Term::Constant(Scalar::Boolean(is_set)) => is_set.to_string(),
            _ => "…".to_string(),
        },
        Kind::Boolean => "a boolean".to_string(),
        Kind::Number(_) | Kind::Text => "a number".to_string(),
    };
    let computed = |place| {
        let formula = change.formulas.iter().find(|formula| formula.index == place);
        formula.map(|formula| what(&formula.value))
    };
    let judged = match (&change.guard, &change.action) {
        (None, Action::Switch(_)) | (Some(_), _) => "",
        (None, _) => "; not guarded",
    };
    PlannedEffect {
        does: change.action.effect(computed, &range),
        role: Some(role),
        more: judged.to_owned(),
        is_change: !matches!(change.action, Action::Switch(_)),
    }
}
