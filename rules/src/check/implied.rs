//! Probes that a rule needs without stating them: the entry of a span that is a boundary, the iterations of
//! the detected loop, and the MPI calls behind `where call == …` in windows from probe to probe.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::Span;
use syntax::text::Text;

use super::capture::INSTANCE;
use crate::file::{CaptureEntry, KeyEntry, ProbeEntry, RuleFile};
use crate::target::{LOOP_ITERATION, Site};

/// The name of the implied probe of MPI calls. No written name can be equal to it.
pub(super) const MPI: &str = "mpi.*";

impl RuleFile {
    /// The rule with its implied probes.
    pub(super) fn with_implied(&self) -> RuleFile {
        let mut file = self.clone();
        file.bound_by_loop();
        let boundaries = file
            .windows
            .iter()
            .flat_map(|window| window.from.iter().chain(&window.to));
        let mut entries: Vec<Text> = boundaries
            .filter(|boundary| boundary.raw.ends_with(".entry"))
            .cloned()
            .collect();
        entries.dedup_by(|one, two| one.raw == two.raw);
        for boundary in &entries {
            file.add_entry(boundary);
        }
        let probed = self.windows.iter().any(|window| window.every.is_none());
        if probed && self.all_formulas().into_iter().any(chooses_calls) {
            file.probes.push(implied_span(MPI, self.name.span));
        }
        file
    }

    /// Gives windows of the detected loop their boundaries: those of the rule's probe of its iterations, or of
    /// an implied one. The entry gets a later index than the span: of the two at one instant, the end of an
    /// iteration comes before the begin of the next.
    fn bound_by_loop(&mut self) {
        let is_loop = |probe: &&ProbeEntry| probe.function.raw == LOOP_ITERATION && probe.site == Site::Span;
        for place in 0..self.windows.len() {
            let Some(detect) = self.windows[place].detect.clone() else {
                continue;
            };
            let probe = self
                .probes
                .iter()
                .find(is_loop)
                .map(|probe| probe.name.raw.clone());
            let probe = probe.unwrap_or_else(|| {
                self.probes.push(implied_span(LOOP_ITERATION, detect.span));
                LOOP_ITERATION.to_owned()
            });
            let named = |name: &str| Text::elsewhere(name, detect.span);
            let (begin, end) = (named(&format!("{probe}.entry")), named(&probe));
            let window = &mut self.windows[place];
            window.key = Some(KeyEntry::Each(vec![
                (begin.clone(), named(INSTANCE)),
                (end.clone(), named(INSTANCE)),
            ]));
            window.from = vec![begin];
            window.to = Some(end);
        }
    }

    /// Adds a probe at the entry of a span, with the captures that are available there.
    fn add_entry(&mut self, boundary: &Text) {
        let base = boundary.raw.trim_end_matches(".entry");
        let span = self.probes.iter().find(|probe| probe.name.raw == base);
        let Some(span) = span.filter(|probe| probe.site == Site::Span) else {
            return;
        };
        if self.probes.iter().any(|probe| probe.name.raw == boundary.raw) {
            return;
        }
        let entry = ProbeEntry {
            name: boundary.clone(),
            site: Site::Entry,
            to: None,
            implied: true,
            ..span.clone()
        };
        let captured = self.captures.iter().filter(|capture| capture.probe.raw == base);
        let known =
            captured.filter(|capture| !capture.expr.names().iter().any(|(name, _)| is_returned(name)));
        let known: Vec<CaptureEntry> = known
            .map(|capture| CaptureEntry {
                probe: boundary.clone(),
                ..capture.clone()
            })
            .collect();
        self.probes.push(entry);
        self.captures.extend(known);
    }

    fn all_formulas(&self) -> Vec<&Expr> {
        let metrics = self.metrics.iter().map(|metric| &metric.named.expr);
        let windows = self.windows.iter().flat_map(|window| {
            let complete = window.complete.iter().map(|named| &named.expr);
            complete.chain(&window.discard)
        });
        let tunes = self.tunes.iter().flat_map(|tune| tune.exprs());
        metrics.chain(windows).chain(tunes).collect()
    }
}

/// A probe that is not written in the file, at all calls of `target`.
fn implied_span(target: &str, span: Span) -> ProbeEntry {
    ProbeEntry {
        name: Text::elsewhere(target, span),
        role: None,
        site: Site::Span,
        is_mark: false,
        function: Text::elsewhere(target, span),
        to: None,
        implied: true,
    }
}

fn is_returned(name: &str) -> bool {
    name.split('.').next() == Some("ret")
}

/// Whether a condition in the formula depends on the called MPI function.
fn chooses_calls(expr: &Expr) -> bool {
    let condition = match &expr.node {
        ExprNode::Where { condition, .. } => depends_on_calls(condition),
        _ => false,
    };
    condition || expr.children().into_iter().any(chooses_calls)
}

/// Whether a condition depends on the called MPI function.
pub(super) fn depends_on_calls(condition: &Expr) -> bool {
    condition.names().iter().any(|(name, _)| *name == "call")
}
