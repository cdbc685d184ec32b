//! The displayed label of a part of a checked formula: its text in the rule, for parts that are not nodes
//! themselves.

use crate::rule::CheckedRule;
use crate::term::{Term, Typed};

/// The label of a part in a window of a rule.
pub(super) fn label(rule: &CheckedRule, window: usize, of: &Typed) -> String {
    let metric = |index: usize| rule.metrics.get(index).map_or("", |metric| metric.name.as_str());
    let window_name = |index: usize| rule.windows.get(index).map_or("", |window| window.name.as_str());
    let probe = |index: usize| {
        let names = rule.probes.iter().map(|probe| probe.name.as_str());
        let mut names = names.chain(rule.joins.iter().map(|join| join.name.as_str()));
        names.nth(index).unwrap_or_default()
    };
    match &of.term {
        Term::Fold(fold) => fold.text.clone(),
        Term::Each { text, .. } | Term::OfCalls { text, .. } => text.clone(),
        Term::Run(index) => rule
            .runs
            .get(*index)
            .map_or_else(String::new, |run| run.text.clone()),
        Term::Metric(index) | Term::Call { metric: index, .. } => metric(*index).to_string(),
        Term::Inner {
            metric: index,
            window,
        } => format!("{} of each {}", metric(*index), window_name(*window)),
        Term::Measure(measure) => measure.name().to_string(),
        Term::WindowDuration => format!("{}.duration", window_name(window)),
        Term::WindowIndex => format!("{}.index", window_name(window)),
        Term::EnclosingIndex(window) => format!("{}.index", window_name(*window)),
        Term::RoleCount(role) => format!("count({})", rule.roles.get(*role).map_or("", |role| &role.name)),
        Term::InnerCount(window) => format!("count({})", window_name(*window)),
        Term::Hits {
            probe: index,
            statistic,
            by_process,
        } => {
            format!(
                "{}{}",
                statistic.of(probe(*index)),
                if *by_process { " by process" } else { "" }
            )
        }
        Term::Over { metric: index, count } => format!("{} over {count}", metric(*index)),
        Term::Earlier { metric: index, back }
        | Term::Enclosing {
            metric: index, back, ..
        } => {
            format!("{}[-{back}]", metric(*index))
        }
        Term::At {
            measure,
            probe: index,
        } => format!("{} at {}", measure.name(), probe(*index)),
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
