//! The shipped models, for benchmarks.

use rules::CheckedRule;

/// A shipped model.
pub(crate) fn model(name: &str) -> CheckedRule {
    let mut models = rules::models().iter();
    let (_, text) = models.find(|(known, _)| *known == name).expect("it is shipped");
    CheckedRule::from_source(text).expect("it checks")
}
