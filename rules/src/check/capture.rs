//! Captures: formulas over what a probe reads in the program. What a read yields is a plain number unless its layout
//! says that it is a boolean; units come in as factors.

use super::infer::{Infer, Place, ProbeNames};
use super::{Checker, infer::Reads};
use crate::diag::{Diagnostic, Span, did_you_mean};
use crate::file::Site;
use crate::lang::ast::{Expr, Node};
use crate::plan::{Layout, PlannedCapture, Source};
use crate::rule::Probe;
use crate::term::{Term, Type, Typed};

/// Arguments that are passed in registers: the others are not read.
const ARGUMENTS: u8 = 6;

impl Checker<'_> {
    /// Adds to every probe what is captured at it.
    pub(super) fn captures(&mut self, probes: &mut [Probe]) {
        let file = self.file;
        for entry in &file.captures {
            let (probe, field) = (entry.probe.raw.as_str(), entry.field.raw.as_str());
            let Some(index) = probes.iter().position(|known| known.name == probe) else {
                // A probe that is wrong itself has been reported.
                if !file.probes.iter().any(|known| known.name.raw == probe) {
                    let near = did_you_mean(probe, file.probes.iter().map(|known| known.name.raw.as_str()));
                    let wrong = Diagnostic::error("E0130", format!("there is no probe `{probe}`"));
                    self.wrong.push(wrong.at(entry.probe.span, "").help_if(near));
                }
                continue;
            };
            if ProbeNames::is_part(field) {
                let message = format!("every hit has `{field}` already");
                self.wrong
                    .push(Diagnostic::error("E0132", message).at(entry.field.span, ""));
                continue;
            }
            let Some(probe) = probes.get_mut(index) else {
                continue;
            };
            let mut infer = self.infer(Place::Capture);
            infer.reads = Some(Reads {
                site: probe.site,
                bindings: file.bindings.clone(),
                planned: std::mem::take(&mut probe.reads),
            });
            let value = infer.infer(&entry.expr);
            probe.reads = infer.reads.take().map_or_else(Vec::new, |reads| reads.planned);
            if let Some(names) = self.names.probes.get_mut(&probe.name) {
                names
                    .captures
                    .push((field.to_string(), value.as_ref().map(|value| value.of)));
            }
            if let Some(value) = value {
                probe.captures.push((field.to_string(), value));
            }
        }
    }
}

impl Infer<'_> {
    /// A read of the program in a capture.
    pub(super) fn read(&mut self, expr: &Expr, layout: Option<(&str, Span)>) -> Option<Typed> {
        let site = self.reads.as_ref()?.site;
        let source = match &expr.node {
            Node::Name(name) if name == "ret" => self.returned(site, expr.span)?,
            Node::Name(name) if name.contains('.') => {
                let message = "reading a field is not in this version";
                let wrong = Diagnostic::error("E0105", message).at(expr.span, "");
                return self.report(wrong.help("name a global variable of the program, `arg(0)`, or `ret`"));
            }
            Node::Name(name) => {
                let reads = self.reads.as_ref()?;
                Source::Global(reads.bindings.get(name).cloned().unwrap_or_else(|| name.clone()))
            }
            Node::Call {
                function, arguments, ..
            } if function == "arg" => self.argument(site, arguments, expr.span)?,
            _ => {
                let message = "only what is read has a type in memory";
                let help = "write it behind what is read: `arg(1) as i32 * 1B`";
                return self.report(Diagnostic::error("E0134", message).at(expr.span, "").help(help));
            }
        };
        let layout = match layout {
            Some((name, span)) => Some(self.layout(name, span, &source)?),
            None => None,
        };
        let reads = self.reads.as_mut()?;
        let planned = PlannedCapture { source, layout };
        let known = reads.planned.iter().position(|known| *known == planned);
        let place = known.unwrap_or(reads.planned.len());
        if known.is_none() {
            reads.planned.push(planned);
        }
        let of = if layout == Some(Layout::Bool) {
            Type::BOOLEAN
        } else {
            Type::PLAIN
        };
        Some(Typed {
            term: Term::Read(place),
            of,
            span: expr.span,
        })
    }

    fn returned(&mut self, site: Site, span: Span) -> Option<Source> {
        if site != Site::Entry {
            return Some(Source::ReturnValue);
        }
        let message = "at the entry of a function nothing is returned yet";
        let wrong = Diagnostic::error("E0134", message).at(span, "");
        self.report(wrong.help("declare the probe with `return:` or `span:`"));
        None
    }

    fn argument(&mut self, site: Site, arguments: &[Expr], span: Span) -> Option<Source> {
        if site == Site::Return {
            let message = "at the return of a function its arguments are no longer known";
            let wrong = Diagnostic::error("E0134", message).at(span, "");
            self.report(wrong.help("declare the probe with `entry:`, or with `span:`, which keeps them"));
            return None;
        }
        if let [argument] = arguments
            && let Node::Number { digits, unit: None } = &argument.node
            && let Some(number) = digits.parse::<u8>().ok().filter(|number| *number < ARGUMENTS)
        {
            return Some(Source::Argument(number));
        }
        let message = format!("an argument is named by its number, 0 to {}", ARGUMENTS - 1);
        self.report(
            Diagnostic::error("E0153", message)
                .at(span, "")
                .help("the first is `arg(0)`"),
        );
        None
    }

    fn layout(&mut self, name: &str, span: Span, source: &Source) -> Option<Layout> {
        let Some(layout) = Layout::named(name) else {
            let names: Vec<&str> = Layout::ALL.iter().map(|(name, _)| *name).collect();
            let near = did_you_mean(name, names.iter().copied());
            let wrong = Diagnostic::error("E0153", format!("there is no type `{name}`")).at(span, "");
            self.report(wrong.help(near.unwrap_or_else(|| format!("the types are {}", names.join(" ")))));
            return None;
        };
        let register = !matches!(source, Source::Global(_));
        if register && matches!(layout, Layout::F32 | Layout::F64) {
            let message = "a real number is passed in a register that a probe cannot read";
            let help = "let the program keep it in a global variable, and name that";
            self.report(Diagnostic::error("E0153", message).at(span, "").help(help));
            return None;
        }
        Some(layout)
    }
}
