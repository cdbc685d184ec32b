//! Captures: formulas over the reads of a probe in the program. A read is a plain number unless its layout is
//! that of a boolean or a text; units are factors.

use syntax::ast::Expr;
use syntax::diag::{Diagnostic, Span, did_you_mean, names_help};
use syntax::unit::Dimension;

use super::infer::{FormulaPosition, Infer, ProbeNames};
use super::source::{ARGUMENTS, MARK_ARGUMENTS, source_of};
use super::{Checker, infer::Reads, optional};
use crate::read::{Base, IterationValue, Known, Layout, PlannedCapture, Source};
use crate::rule::CheckedProbe;
use crate::target::{FunctionSet, Site, Target};
use crate::term::{Term, Typed};
use crate::types::Type;

/// The values of an iteration of the detected loop.
const ITERATION: &[(&str, Known, Type)] = &[
    ("number", Known::Iteration(IterationValue::Number), Type::PLAIN),
    (INSTANCE, Known::Iteration(IterationValue::Instance), Type::PLAIN),
    ("threads", Known::Iteration(IterationValue::Threads), Type::PLAIN),
    ("sequential", Known::Iteration(IterationValue::Sequential), TIME),
    ("working", Known::Iteration(IterationValue::Working), TIME),
    ("overhead", Known::Iteration(IterationValue::Overhead), TIME),
    ("waiting", Known::Iteration(IterationValue::Waiting), TIME),
];
const TIME: Type = Type::number(Dimension::TIME);

/// The capture that is the key of the windows of the detected loop. No written name can be equal to it.
pub(super) const INSTANCE: &str = "loop.instance";

/// Maximum number of values that a probe reads at a hit.
pub(crate) const READS_MAX: usize = 6;

impl Checker<'_> {
    /// Adds its captures to every probe.
    pub(super) fn captures(&mut self, probes: &mut [CheckedProbe]) {
        for probe in probes.iter_mut() {
            self.known_of(probe);
        }
        let file = self.file;
        for entry in &file.captures {
            let (probe, field) = (entry.probe.raw.as_str(), entry.field.raw.as_str());
            let Some(index) = probes.iter().position(|known| known.name == probe) else {
                // An error in the probe itself has been reported.
                if !file.probes.iter().any(|known| known.name.raw == probe) {
                    let near = names_help(probe, file.probes.iter().map(|known| known.name.raw.as_str()));
                    let wrong = Diagnostic::error("E0130", format!("there is no probe `{probe}`"));
                    self.wrong.push(wrong.at(entry.probe.span, "").help_if(near));
                }
                continue;
            };
            let Some(probe) = probes.get_mut(index) else {
                continue;
            };
            if ProbeNames::is_part(field) || probe.captures.iter().any(|(known, _)| known == field) {
                let message = format!("every hit has `{field}` already");
                self.wrong
                    .push(Diagnostic::wrong("E0132", entry.field.span, message));
                continue;
            }
            if probe.target == Target::LoopIteration {
                let message = "an iteration is no function, so no value of the program is read at it";
                let wrong = Diagnostic::wrong("E0134", entry.field.span, message);
                self.wrong.push(
                    wrong.help(
                        "it has `number`, `threads`, `sequential`, `working`, `overhead` and `waiting`",
                    ),
                );
                continue;
            }
            let mut infer = self.infer(FormulaPosition::Capture);
            infer.reads = Some(Reads {
                site: probe.site,
                is_mark: probe.target.is_mark(),
                bindings: file.bindings.clone(),
                planned: std::mem::take(&mut probe.reads),
            });
            let value = infer.infer(&entry.expr);
            probe.reads = infer.reads.take().map_or_else(Vec::new, |reads| reads.planned);
            self.not_too_many(probe, entry.field.span);
            self.add_capture(probe, field, value);
        }
    }

    fn add_capture(&mut self, probe: &mut CheckedProbe, field: &str, value: Option<Typed>) {
        if let Some(names) = self.names.probes.get_mut(&probe.name) {
            let of = value.as_ref().map(|value| value.type_of);
            names.captures.push((field.to_string(), of));
        }
        if let Some(value) = value {
            probe.captures.push((field.to_string(), value));
        }
    }

    /// Adds the values that every hit of a pattern or a set has: the called function, unless they are probed
    /// as one, and other known values.
    fn known_of(&mut self, probe: &mut CheckedProbe) {
        let known: &[(&str, Known, Type)] = match &probe.target {
            Target::Function(_) | Target::Mark(_) | Target::Set(FunctionSet::Gpu(_)) => &[],
            Target::Pattern(_) | Target::Set(FunctionSet::BlasCall) => {
                &[("function", Known::Function, Type::TEXT)]
            }
            Target::Set(FunctionSet::Mpi(_)) => &[
                ("function", Known::Function, Type::TEXT),
                ("bytes", Known::Bytes, Type::number(Dimension::BYTES)),
            ],
            Target::Set(FunctionSet::OpenmpRegion) => &[
                ("function", Known::Function, Type::TEXT),
                ("threads", Known::Threads, Type::PLAIN),
            ],
            Target::Set(FunctionSet::OpenmpSize) => &[
                ("function", Known::Function, Type::TEXT),
                ("stated", Known::Stated, Type::PLAIN),
            ],
            Target::LoopIteration => ITERATION,
        };
        for (name, known, of) in known {
            let value = Typed::new(*of, Span::default(), Term::Read(probe.reads.len()));
            probe.reads.push(PlannedCapture {
                source: Source {
                    base: Base::Known(*known),
                    steps: Vec::new(),
                },
                layout: None,
            });
            self.add_capture(probe, name, Some(value));
        }
    }

    fn not_too_many(&mut self, probe: &CheckedProbe, place: Span) {
        let reads = probe.reads.iter();
        let read = reads.filter(|read| !matches!(read.source.base, Base::Known(_)));
        if read.count() == READS_MAX + 1 {
            let message = format!("a probe reads at most {READS_MAX} values at a hit");
            let help = "capture what the model needs; a second probe of the same function can read more";
            self.wrong
                .push(Diagnostic::wrong("E0154", place, message).help(help));
        }
    }
}

impl Infer<'_> {
    /// A read of the program in a capture.
    pub(super) fn read(&mut self, expr: &Expr, layout: Option<(&str, Span)>) -> Option<Typed> {
        let (site, is_mark, found) = {
            let reads = self.reads.as_ref()?;
            let arguments = if reads.is_mark { MARK_ARGUMENTS } else { ARGUMENTS };
            (
                reads.site,
                reads.is_mark,
                source_of(expr, &reads.bindings, arguments),
            )
        };
        let source = match found {
            Ok(source) => source,
            Err(wrong) => return self.report(wrong),
        };
        match is_mark {
            true => self.known_at_mark(&source, expr.span)?,
            false => self.known_at(site, &source, expr.span)?,
        }
        let layout = optional(layout, |(name, span)| self.layout(name, span, &source, is_mark))?;
        let reads = self.reads.as_mut()?;
        let planned = PlannedCapture { source, layout };
        let known = reads.planned.iter().position(|known| *known == planned);
        let place = known.unwrap_or(reads.planned.len());
        if known.is_none() {
            reads.planned.push(planned);
        }
        let of = match layout {
            Some(Layout::Bool) => Type::BOOLEAN,
            Some(Layout::Str(_)) => Type::TEXT,
            _ => Type::PLAIN,
        };
        Some(Typed::new(of, expr.span, Term::Read(place)))
    }

    /// Checks that the base of the path is available at the site.
    fn known_at(&mut self, site: Site, source: &Source, span: Span) -> Option<()> {
        let (message, help) = match (&source.base, site) {
            (Base::ReturnValue, Site::Entry) => (
                "at the entry of a function nothing is returned yet",
                "declare the probe with `return:` or `span:`",
            ),
            (Base::Argument(_) | Base::NamedArgument(_), Site::Return) => (
                "at the return of a function its arguments are no longer known",
                "declare the probe with `entry:`, or with `span:`, which keeps them",
            ),
            _ => return Some(()),
        };
        self.report(Diagnostic::wrong("E0134", span, message).help(help))
    }

    /// Checks the base of a path at a mark, which passes its values by index.
    fn known_at_mark(&mut self, source: &Source, span: Span) -> Option<()> {
        let (message, help) = match &source.base {
            Base::ReturnValue => ("a mark returns nothing", "pass the value to the mark: `arg(0)`"),
            Base::NamedArgument(_) => (
                "the arguments of a mark have no names",
                "name it by its place: the first is `arg(0)`",
            ),
            _ => return Some(()),
        };
        self.report(Diagnostic::wrong("E0134", span, message).help(help))
    }

    fn layout(&mut self, name: &str, span: Span, source: &Source, is_mark: bool) -> Option<Layout> {
        let Some(layout) = Layout::named(name) else {
            let names: Vec<&str> = Layout::ALL.iter().map(|(name, _)| *name).collect();
            let near = did_you_mean(name, names.iter().copied());
            let wrong = Diagnostic::wrong("E0153", span, format!("there is no type `{name}`"));
            let all = format!("the types are {} and str(1) to str(64)", names.join(" "));
            return self.report(wrong.help(near.unwrap_or(all)));
        };
        let in_register = !matches!(source.base, Base::Global(_) | Base::Known(_)) && source.depth() == 0;
        // A mark passes the bits of real numbers.
        if in_register && !is_mark && matches!(layout, Layout::F32 | Layout::F64) {
            let message = "a real number is passed in a register that a probe cannot read";
            let read = if source.base == Base::ReturnValue {
                "ret".to_string()
            } else {
                source.to_string()
            };
            let help = format!(
                "the ways out: a global variable that has it, a pointer to it (`*{read} as f64`), or the mark macro of \
                 `include/tuneagent.h`"
            );
            return self.report(Diagnostic::wrong("E0153", span, message).help(help));
        }
        Some(layout)
    }
}
