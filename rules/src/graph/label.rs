//! The displayed label of a part of a checked formula: its text in the rule, for parts that are not nodes
//! themselves.

use crate::rule::CheckedRule;
use crate::term::{Term, Typed};

/// The label of a part in a window of a rule.
pub(super) fn label(rule: &CheckedRule, window: usize, of: &Typed) -> String {
    let metric = |place: usize| rule.metrics.get(place).map_or("", |metric| metric.name.as_str());
    let window_name = |place: usize| rule.windows.get(place).map_or("", |window| window.name.as_str());
    let probe = |place: usize| {
        let names = rule.probes.iter().map(|probe| probe.name.as_str());
        let mut names = names.chain(rule.joins.iter().map(|join| join.name.as_str()));
        names.nth(place).unwrap_or_default()
    };
    match &of.term {
        Term::Fold(fold) => fold.text.clone(),
        Term::Each { text, .. } | Term::OfCalls { text, .. } => text.clone(),
        Term::Run(place) => rule
            .runs
            .get(*place)
            .map_or_else(String::new, |run| run.text.clone()),
        Term::Metric(place) | Term::Call { metric: place, .. } => metric(*place).to_string(),
        Term::Inner {
            metric: place,
            window,
        } => format!("{} of each {}", metric(*place), window_name(*window)),
        Term::Measure(measure) => measure.name().to_string(),
        Term::WindowDuration => format!("{}.duration", window_name(window)),
        Term::WindowIndex => format!("{}.index", window_name(window)),
        Term::EnclosingIndex(window) => format!("{}.index", window_name(*window)),
        Term::RoleCount(role) => format!("count({})", rule.roles.get(*role).map_or("", |role| &role.name)),
        Term::InnerCount(window) => format!("count({})", window_name(*window)),
        Term::Hits {
            probe: place,
            statistic,
            by_process,
        } => {
            format!(
                "{}{}",
                statistic.of(probe(*place)),
                if *by_process { " by process" } else { "" }
            )
        }
        Term::Over { metric: place, count } => format!("{} over {count}", metric(*place)),
        Term::Earlier { metric: place, back }
        | Term::Enclosing {
            metric: place, back, ..
        } => {
            format!("{}[-{back}]", metric(*place))
        }
        Term::At {
            measure,
            probe: place,
        } => format!("{} at {}", measure.name(), probe(*place)),
        // The one variable outside of a range and of a metric with a parameter is that of a guard.
        Term::Variable(_) => "was".to_string(),
        Term::Original => "original".to_string(),
        Term::Negate(_) => "-".to_string(),
        Term::Not(_) => "not".to_string(),
        Term::Arithmetic(operator, ..) => operator.sign().to_string(),
        Term::Both(..) => "and".to_string(),
        Term::Either(..) => "or".to_string(),
        Term::Compare { comparison, .. } => comparison.sign().to_string(),
        Term::Reduce(reduction, _) => reduction.name().to_string(),
        Term::Apply(function, _) => function.name.to_string(),
        Term::Row { .. } => "[ ]".to_string(),
        Term::Chosen { .. } => "where".to_string(),
        Term::Keys(_) => "keys".to_string(),
        _ => "?".to_string(),
    }
}
