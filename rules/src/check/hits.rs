//! Formulas over hits: the fields of a hit, and the types of reductions over the hits of a probe.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span, did_you_mean};

use super::capture::INSTANCE;
use super::infer::{Infer, ProbeNames};
use super::optional;
use super::reduce::Call;
use super::scope::is_reduction;
use crate::folds::NOWHERE;
use crate::function::Reduction;
use crate::target::Site;
use crate::term::{Field, Fold, FoldRange, Rowed, Statistic, Term, Typed};
use crate::types::{KeyKind, Kind, Type};

/// The fields of every hit, other than its duration.
const PARTS: &[(&str, Field, Type)] = &[
    ("time", Field::Time, Type::TIME),
    ("process", Field::Process, Type::PLAIN),
    ("thread", Field::Thread, Type::PLAIN),
    ("host", Field::Host, Type::TEXT),
];

impl Infer<'_> {
    /// The probe over whose hits a formula goes, if any. Hits inside a reduction do not count, and boundaries
    /// of its window count only if there are no other hits, because they have one value.
    pub(super) fn stream_of(&self, expr: &Expr) -> Option<usize> {
        let mut streams = Vec::new();
        self.streams_of(expr, &mut streams);
        let other = streams.iter().find(|probe| !self.is_boundary(**probe));
        other.or(streams.first()).copied()
    }

    pub(super) fn is_boundary(&self, probe: usize) -> bool {
        self.range_of_boundary(probe).is_some()
    }

    fn streams_of(&self, expr: &Expr, out: &mut Vec<usize>) {
        if let ExprNode::Call {
            function, arguments, ..
        } = &expr.node
            && is_reduction(function, arguments.len())
        {
            return;
        }
        if let ExprNode::Name(name) = &expr.node {
            let base = name.split('.').next().unwrap_or(name);
            let metric = self.metric(name).flatten();
            out.extend(metric.and_then(|metric| metric.stream));
            out.extend(self.names.probes.get(base).map(|probe| probe.index));
        }
        expr.children()
            .into_iter()
            .for_each(|child| self.streams_of(child, out));
    }

    /// A metric with a value for each hit, in a formula over these hits.
    fn metric_of_hit(&self, name: &str, stream: usize, span: Span) -> Option<Typed> {
        let metric = self.metric(name)??;
        let body = metric.body.as_ref().filter(|_| metric.stream == Some(stream))?;
        Some(Typed {
            span,
            ..Typed::clone(body)
        })
    }

    pub(super) fn probe(&self, index: usize) -> Option<(&String, &ProbeNames)> {
        self.names.probes.iter().find(|(_, probe)| probe.index == index)
    }

    /// A name in a formula over the hits of a probe; the inner `None` if it is no field of a hit.
    pub(super) fn part_of_hit(&mut self, name: &str, span: Span) -> Option<Option<Typed>> {
        let stream = self.stream?;
        if let Some(metric) = self.metric_of_hit(name, stream, span) {
            return Some(Some(metric));
        }
        let (probe, names) = self.probe(stream)?;
        let (base, field) = name.split_once('.').unwrap_or(("", name));
        if base.is_empty() && names.field(field).is_none() {
            return None;
        }
        if !base.is_empty() && base != probe {
            let other = self.names.probes.get(base)?.index;
            if self.is_boundary(other) {
                return None;
            }
            let message = format!("hits of `{probe}` and of `{base}` in one formula");
            let wrong = Diagnostic::wrong("E0134", span, message);
            return Some(self.report(wrong.help("reduce each by itself first: `sum(a.x) / sum(b.x)`")));
        }
        let probe = probe.clone();
        match names.field(field) {
            Some(Some((field, of))) => Some(Some(Typed::new(of, span, Term::Field(field)))),
            Some(None) => Some(None),
            None => {
                let wrong = self.no_such_field(&probe, stream, field, span);
                Some(self.report(wrong))
            }
        }
    }

    fn no_such_field(&self, probe: &str, index: usize, field: &str, span: Span) -> Diagnostic {
        let Some((_, names)) = self.probe(index) else {
            return Diagnostic::wrong("E0130", span, format!("there is no `{field}`"));
        };
        if field == "duration" {
            let message = format!("`{probe}` is not a span, and so its hits have no duration");
            let help = format!("declare it with `span:`, or count its hits: `count({probe})`");
            return Diagnostic::wrong("E0134", span, message).help(help);
        }
        let mut known: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        let captures = names.captures.iter().map(|(name, _)| name.as_str());
        known.extend(captures.filter(|name| *name != INSTANCE));
        if names.site == Site::Span {
            known.push("duration");
        }
        let help = did_you_mean(field, known.iter().copied());
        let help =
            help.unwrap_or_else(|| format!("it has {}; more is read under `capture`", known.join(", ")));
        Diagnostic::wrong("E0130", span, format!("a hit of `{probe}` has no `{field}`")).help(help)
    }

    /// Infers a formula for each hit of a probe.
    fn of_each(&mut self, probe: usize, expr: &Expr) -> Option<Typed> {
        let outer = self.stream.replace(probe);
        let typed = self.infer(expr);
        self.stream = outer;
        let typed = typed?;
        if typed.type_of.table.is_none() {
            return Some(typed);
        }
        let message = "of each hit there is one value, this is a table";
        self.report(
            Diagnostic::wrong("E0143", typed.span, message).help("fold it first, or pick a row: `x[3]`"),
        )
    }

    /// A reduction over the hits of a probe.
    pub(super) fn hits(&mut self, call: &Call<'_>, probe: usize) -> Option<Typed> {
        let name = self
            .probe(probe)
            .map_or("", |(name, _)| name.as_str())
            .to_string();
        let folds_hits = matches!(&call.of.node, ExprNode::Name(given) if *given == name);
        let by = optional(call.by, |(key, span)| self.row_key(probe, key, span))?;
        let key = by.as_ref().map(|(_, key)| *key);
        if let Some(wrong) = self.not_foldable(call, folds_hits.then_some(name.as_str())) {
            return self.report(wrong);
        }
        let of = match folds_hits {
            true => None,
            false => Some(self.of_each(probe, call.of)?),
        };
        let mut result = match &of {
            Some(of) => self.folded(call.reduction, of)?,
            None => Type::PLAIN,
        };
        let second = optional(call.second, |expr| self.of_each(probe, expr))?;
        if let (Some(x), Reduction::Slope) = (&second, call.reduction) {
            let dimension = result.dimension().over(x.type_of.dimension());
            result = Type::number(dimension.unwrap_or_default());
        }
        if let Some(wrong) = second.iter().find(|x| !matches!(x.type_of.kind, Kind::Number(_))) {
            let message = format!("a number is needed here, this is {}", wrong.type_of.what());
            return self.refuse("E0140", wrong.span, message);
        }
        let filter = optional(call.filter, |expr| {
            self.of_each(probe, expr).and_then(|typed| self.boolean(typed))
        })?;
        let range = self.range_of_call(call, probe)?;
        let fold = Fold {
            slot: NOWHERE,
            probe,
            range,
            reduction: call.reduction,
            of,
            second,
            filter,
            by: by.map(|(by, _)| by),
            text: String::new(),
        };
        Some(Typed::new(
            Type { table: key, ..result },
            call.span,
            self.cheapest(fold),
        ))
    }

    /// The range of the hits of a formula, if a metric in it determines one.
    pub(super) fn range_inside(&self, of: &Expr) -> Option<FoldRange> {
        let mut found = None;
        self.names.outside_reductions(of, &mut |name| {
            let range = self.metric(name).flatten().and_then(|metric| metric.range);
            found = found.or(range);
        });
        found
    }

    /// The range of a reduction's hits: stated by itself, or by the metrics of each hit in it.
    fn range_of_call(&mut self, call: &Call<'_>, probe: usize) -> Option<FoldRange> {
        let mut said: Option<FoldRange> = None;
        let parts = [Some(call.of), call.second, call.filter].into_iter().flatten();
        let mut reaches = Vec::new();
        for part in parts {
            self.names.outside_reductions(part, &mut |name| {
                let range = self.metric(name).flatten().and_then(|metric| metric.range);
                reaches.push((range, part.span));
            });
        }
        for (range, span) in reaches {
            if range.is_some() && said.is_some_and(|said| Some(said) != range) {
                return self.refuse("E0134", span, "two parts of this formula are over different hits");
            }
            said = said.or(range);
        }
        if let Some(over) = call.over {
            let range = self.range(probe, over.count, over.unit, over.span)?;
            if said.is_some_and(|said| said != range) {
                let message = "what is reduced says already which hits it is over";
                return self.refuse("E0134", over.span, message);
            }
            said = Some(range);
        }
        let range = said.unwrap_or(FoldRange::Instance);
        let kept = matches!(range, FoldRange::Newest(_) | FoldRange::Run);
        if let (true, Reduction::Quantile(_)) = (kept, call.reduction) {
            let message = "a quantile cannot be carried on from instance to instance";
            let help = "mean, stddev, min, max, sum, count and the others can";
            return self.report(Diagnostic::wrong("E0144", call.span, message).help(help));
        }
        Some(range)
    }

    /// Why hits cannot be folded this way; `probe` is its name if the hits themselves are folded.
    fn not_foldable(&self, call: &Call<'_>, probe: Option<&str>) -> Option<Diagnostic> {
        if let Some(name) = probe.filter(|_| call.reduction != Reduction::Count) {
            let message = format!("the hits of `{name}` can only be counted");
            let help = format!("of their durations: `mean({name}.duration)`");
            let wrong = Diagnostic::error("E0134", message).at(call.of.span, "a probe");
            return Some(wrong.help(help));
        }
        if let Reduction::ArgMin | Reduction::ArgMax = call.reduction {
            let message = "argmin and argmax give the key of a row, and hits have none";
            let help = "make a table of them first: `argmin(sum(x.duration) by process)`";
            return Some(Diagnostic::wrong("E0134", call.of.span, message).help(help));
        }
        None
    }

    fn row_key(&mut self, probe: usize, key: &str, span: Span) -> Option<(Rowed, KeyKind)> {
        let outer = self.stream.replace(probe);
        let part = self.part_of_hit(key, span);
        self.stream = outer;
        match part {
            Some(Some(Typed {
                term: Term::Field(Field::Process),
                ..
            })) => Some((Rowed::ByProcess, KeyKind::Process)),
            Some(Some(typed)) => {
                let kind = KeyKind::Of(typed.type_of.kind);
                Some((Rowed::By(typed), kind))
            }
            Some(None) => None,
            None => {
                let name = self
                    .probe(probe)
                    .map_or("", |(name, _)| name.as_str())
                    .to_string();
                let wrong = self.no_such_field(&name, probe, key, span);
                self.report(wrong)
            }
        }
    }

    /// The boundary of a window has one hit in it, so its captures have one value.
    pub(super) fn of_boundary(&mut self, name: &str, span: Span) -> Option<Option<Typed>> {
        let (base, _) = name.split_once('.')?;
        let probe = self.names.probes.get(base)?.index;
        let range = self.range_of_boundary(probe)?;
        let outer = self.stream.replace(probe);
        let part = self.part_of_hit(name, span);
        self.stream = outer;
        let typed = match part {
            Some(Some(typed)) => typed,
            Some(None) => return Some(None),
            None => return None,
        };
        let result = typed.type_of;
        let fold = Fold {
            slot: NOWHERE,
            probe,
            range,
            reduction: Reduction::Only,
            of: Some(typed),
            second: None,
            filter: None,
            by: None,
            text: name.to_string(),
        };
        Some(Some(Typed::new(result, span, Term::Fold(Box::new(fold)))))
    }

    /// A fold that the totals of a probe contain need not observe each hit. Totals are read at arbitrary
    /// times, not at boundaries, and do not exist for pairs.
    fn cheapest(&self, fold: Fold) -> Term {
        let timed = self
            .names
            .windows
            .get(self.home)
            .is_none_or(|window| window.timed);
        if !timed || fold.probe >= self.pairs_from || fold.range != FoldRange::Instance {
            return Term::Fold(Box::new(fold));
        }
        let statistic = match (fold.reduction, fold.of.as_ref().map(|of| &of.term)) {
            (Reduction::Count, None) => Some(Statistic::Count),
            (Reduction::Count, Some(Term::Field(Field::Duration))) => Some(Statistic::Count),
            (Reduction::Sum, Some(Term::Field(Field::Duration))) => Some(Statistic::Sum),
            (Reduction::Mean, Some(Term::Field(Field::Duration))) => Some(Statistic::Mean),
            (Reduction::Min, Some(Term::Field(Field::Duration))) => Some(Statistic::Min),
            (Reduction::Max, Some(Term::Field(Field::Duration))) => Some(Statistic::Max),
            _ => None,
        };
        match (statistic, &fold.by, &fold.filter) {
            (Some(statistic), None | Some(Rowed::ByProcess), None) => Term::Hits {
                probe: fold.probe,
                statistic,
                by_process: fold.by.is_some(),
            },
            _ => Term::Fold(Box::new(fold)),
        }
    }
}

impl ProbeNames {
    /// A field of a hit with its type; the inner `None` stands for a capture with a reported error.
    pub(super) fn field(&self, name: &str) -> Option<Option<(Field, Type)>> {
        if let Some((_, field, of)) = PARTS.iter().find(|(part, ..)| *part == name) {
            return Some(Some((*field, *of)));
        }
        if name == "duration" && self.site == Site::Span {
            return Some(Some((Field::Duration, Type::TIME)));
        }
        let place = self.captures.iter().position(|(capture, _)| capture == name)?;
        let of = self.captures.get(place)?.1;
        Some(of.map(|of| (Field::Capture(place), of)))
    }

    /// Whether `name` is reserved for a field, and so not available for a capture.
    pub(super) fn is_part(name: &str) -> bool {
        name == "duration" || PARTS.iter().any(|(part, ..)| *part == name)
    }
}
