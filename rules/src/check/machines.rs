//! Rules with measures of machines, which each machine evaluates by itself.

use super::Checker;
use crate::diag::{Diagnostic, Span};
use crate::measure::{Measure, Scope};
use crate::rule::{Metric, Tune};
use crate::term::{Term, Typed};
use crate::window::Window;

impl Checker<'_> {
    /// Refuses a measure of a machine in a rule whose windows or pairs of hits are those of the whole job: no
    /// machine has all of them.
    pub(super) fn machines_of_a_job(&mut self, windows: &[Window], metrics: &[Metric], tunes: &[Tune]) {
        let formulas = metrics.iter().map(|metric| &metric.value);
        let mut formulas = formulas.chain(tunes.iter().flat_map(Tune::formulas));
        let Some((measure, span)) = formulas.find_map(of_machine) else {
            return;
        };
        let file = self.file;
        let of_hits = windows.iter().filter(|window| window.boundaries().is_some());
        let named = |window: &Window| file.windows.iter().find(|entry| entry.name.raw == window.name);
        let window = of_hits
            .filter_map(named)
            .map(|entry| (entry.name.span, "window"))
            .next();
        let join = file
            .joins
            .iter()
            .map(|entry| (entry.name.span, "pair of hits"))
            .next();
        let Some((of_job, what)) = window.or(join) else {
            return;
        };
        let name = measure.name();
        let message = format!("`{name}` is of one machine, but this {what} is of the job");
        let wrong = Diagnostic::error("E0156", message)
            .at(span, "each machine has its own")
            .at(of_job, "of the processes of all machines");
        let help = format!(
            "put `{name}` into a rule whose windows all have a length, such as `pulse: {{every: 1s}}`"
        );
        self.wrong.push(wrong.help(help));
    }
}

/// The first measure of a machine in a formula, with its place.
fn of_machine(of: &Typed) -> Option<(Measure, Span)> {
    match &of.term {
        Term::Measure(measure) | Term::At { measure, .. } if measure.scope() == Scope::Machine => {
            Some((*measure, of.span))
        }
        _ => of.children().into_iter().find_map(of_machine),
    }
}
