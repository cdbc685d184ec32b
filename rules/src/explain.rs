//! Why a condition is true, false or none: its comparisons with the values of both sides.

use syntax::ast::Comparison;

use crate::eval::Context;
use crate::rule::CheckedRule;
use crate::term::{Term, Typed};
use crate::types::Type;
use crate::value::Scalar;

/// A comparison as written, with both sides and their values: `wanted > 2`, `1.9` and `> 2`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared {
    pub(crate) written: String,
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) holds: Option<bool>,
    /// It stands below a `not`.
    is_negated: bool,
}

impl Compared {
    /// Whether it makes the condition false by itself.
    fn fails(&self) -> bool {
        self.holds == Some(self.is_negated)
    }
}

/// The comparisons in a condition, including those of boolean metrics, in the order in which they are
/// written.
pub(crate) fn comparisons(rule: &CheckedRule, condition: &Typed, context: Context<'_>) -> Vec<Compared> {
    match &condition.term {
        Term::Compare {
            comparison,
            left,
            right,
            text,
        } => vec![compared(*comparison, left, right, text, context)],
        Term::Not(of) => {
            let mut inside = comparisons(rule, of, context);
            inside.iter_mut().for_each(|one| one.is_negated = !one.is_negated);
            inside
        }
        Term::Metric(index) => match rule.metrics.get(*index) {
            Some(metric) if metric.value.type_of == Type::BOOLEAN => {
                comparisons(rule, &metric.value, context)
            }
            _ => Vec::new(),
        },
        _ => condition
            .children()
            .into_iter()
            .flat_map(|part| comparisons(rule, part, context))
            .collect(),
    }
}

fn compared(
    comparison: Comparison,
    left: &Typed,
    right: &Typed,
    text: &str,
    context: Context<'_>,
) -> Compared {
    // A number that is compared with a percentage is displayed in percent too.
    let percent = left.type_of.percent || right.type_of.percent;
    let shown = |side: &Typed| {
        context.eval(side).show(Type {
            percent,
            ..side.type_of
        })
    };
    let (a, b) = (context.eval(left), context.eval(right));
    let holds = a
        .zip(b, |a, b| {
            crate::eval::compare(comparison, &a, &b).map(Scalar::Boolean)
        })
        .single();
    Compared {
        written: text.to_string(),
        left: shown(left),
        right: format!("{} {}", comparison.sign(), shown(right)),
        holds: match holds {
            Ok(Scalar::Boolean(holds)) => Some(holds),
            _ => None,
        },
        is_negated: false,
    }
}

/// Why `condition` is false: the comparisons that fail. If none fails by itself, as where earlier windows decide,
/// those that hold are shown as such.
pub(crate) fn why_false(rule: &CheckedRule, condition: &Typed, context: Context<'_>) -> String {
    let all = comparisons(rule, condition, context);
    let (failing, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(Compared::fails);
    let said = |one: &Compared| {
        let Compared {
            written, left, right, ..
        } = one;
        match (one.fails(), one.is_negated) {
            (true, false) => format!("{written} ({left} is not {right})"),
            (true, true) => format!("{written} holds ({left} {right})"),
            (false, _) => format!("{written} ({left} {right})"),
        }
    };
    let list = |some: &[Compared]| some.iter().map(said).collect::<Vec<_>>().join("; ");
    match (failing.as_slice(), rest.as_slice()) {
        ([], []) => "condition false".to_owned(),
        ([], holding) => format!("condition false, though {}", list(holding)),
        (failing, _) => format!("condition false: {}", list(failing)),
    }
}
