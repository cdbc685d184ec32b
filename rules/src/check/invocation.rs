//! Calls that a tune makes: function, arguments, and the inverse call.

use plan::{Action, Argument, FunctionName, Inverse, Invocation, Moment, PatchRequest, WAS};
use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span, did_you_mean};
use syntax::text::Text;

use super::action::Checked;
use super::source::{is_path, source};
use super::{Checker, optional};
use crate::change::Formula;
use crate::file::{ActionEntry, InverseEntry, TuneEntry};
use crate::read::Base;
use crate::term::Typed;

/// The arguments that are permitted in addition to values of the rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentPassing {
    /// Variables of the program.
    Variables,
    /// The value that was read just before the call that is reverted.
    Was,
    Constants,
}

/// A call of a rule, with the formulas of its arguments.
struct Called {
    call: Invocation,
    formulas: Vec<Formula>,
}

/// An argument of a call.
enum CallArgument {
    Formula(Typed),
    Known(Argument),
}

impl Called {
    fn count(&self) -> usize {
        self.call.arguments.len()
    }
}

impl Checker<'_> {
    pub(super) fn call(&mut self, entry: &TuneEntry, action: &ActionEntry, home: usize) -> Option<Checked> {
        let called = self.called(action.call.as_ref()?, home, ArgumentPassing::Variables);
        let inverse = self.inverse(entry, called.as_ref().map_or(0, Called::count), home);
        let (called, (inverse, of_inverse)) = (called?, inverse?);
        self.must_be_revertible(entry, &inverse, action.target.span)?;
        let mut checked = Checked::plain(Action::call(called.call, inverse));
        checked.formulas = called.formulas;
        checked.formulas.extend(of_inverse);
        Some(checked)
    }

    pub(super) fn insert_call(
        &mut self,
        entry: &TuneEntry,
        action: &ActionEntry,
        home: usize,
    ) -> Option<Checked> {
        // A variable would have to be read at each call.
        let Called { call, formulas } =
            self.called(action.call.as_ref()?, home, ArgumentPassing::Constants)?;
        let patch = PatchRequest::InsertCall {
            function: call.function,
            arguments: call.arguments,
            into: self.function(entry.inside.as_ref()?)?,
            place: self.place_of_call(entry.place.as_ref())?,
        };
        let mut checked = Checked::plain(Action::Patch(patch));
        checked.formulas = formulas;
        Some(checked)
    }

    /// The stated inverse of a call, with its formulas, whose indices begin at `first`.
    fn inverse(&mut self, entry: &TuneEntry, first: usize, home: usize) -> Option<(Inverse, Vec<Formula>)> {
        let lacks = |message: &str, span| Diagnostic::wrong("E0111", span, message);
        let superfluous = |message: &str, span| Diagnostic::wrong("E0150", span, message);
        let (was, because) = (entry.was.as_ref(), entry.because.as_ref());
        let Some(InverseEntry { text, call }) = &entry.inverse else {
            return match (was.map(|was| was.span), because.map(|because| because.span)) {
                (Some(span), _) => self.report(lacks("`was` must have `inverse`, which passes it", span)),
                (None, Some(span)) => self.report(lacks("`because` must have `inverse: none`", span)),
                (None, None) => Some((Inverse::Unstated, Vec::new())),
            };
        };
        let Some(call) = call else {
            if let Some(remains) = &entry.remains {
                let message = "`remains` is said of an inverse, and this call has none";
                return self.report(superfluous(message, remains.span));
            }
            return match (was, because) {
                (Some(was), _) => {
                    self.report(superfluous("with `inverse: none` nothing passes `was`", was.span))
                }
                (None, Some(because)) => {
                    let because = because.raw.trim().to_string();
                    Some((Inverse::NotNeeded(because), Vec::new()))
                }
                (None, None) => {
                    let wrong = lacks("`inverse: none` must have `because`", text.span);
                    let help =
                        "say why nothing is left to revert: `because: it writes out what was buffered`";
                    self.report(wrong.help(help))
                }
            };
        };
        if let Some(because) = because {
            let message = "`because` is said of `inverse: none`, and this call has an inverse";
            return self.report(superfluous(message, because.span));
        }
        let reader = optional(was, |was| self.called(was, home, ArgumentPassing::Constants))?;
        let inverse = self.called(call, home, ArgumentPassing::Was)?;
        let passes = inverse.call.arguments.contains(&Argument::Was);
        match (&reader, passes, was) {
            (None, true, _) => {
                let wrong = lacks(
                    "the inverse passes `was`, and nothing is read beforehand",
                    text.span,
                );
                self.report(wrong.help("`was:` is the call that reads it: `was: omp_get_max_threads()`"))
            }
            (Some(_), false, Some(was)) => {
                let message = "this is read beforehand and passed by nothing: the inverse has no `was`";
                self.report(superfluous(message, was.span))
            }
            _ => {
                let (was, mut formulas) =
                    reader.map_or((None, Vec::new()), |reader| (Some(reader.call), reader.formulas));
                let read = was.as_ref().map_or(0, |was| was.arguments.len());
                formulas.iter_mut().for_each(|formula| formula.index += first);
                formulas.extend(inverse.formulas.into_iter().map(|formula| Formula {
                    index: formula.index + first + read,
                    ..formula
                }));
                let call = inverse.call;
                let remains = entry.remains.as_ref();
                let remains = remains.map(|remains| remains.raw.trim().to_owned());
                Some((Inverse::Call { call, was, remains }, formulas))
            }
        }
    }

    /// Guards and `while` require a revertible call.
    fn must_be_revertible(&mut self, entry: &TuneEntry, inverse: &Inverse, call: Span) -> Option<()> {
        if matches!(inverse, Inverse::Call { .. }) {
            return Some(());
        }
        let taking = entry.guard.as_ref().map(|guard| ("a guard reverts", guard.span));
        let taking = taking.or_else(|| Some(("`while` reverts", entry.while_holds.as_ref()?.span)));
        let Some((who, span)) = taking else {
            return Some(());
        };
        let message = format!("{who} what was done, and this call has no inverse");
        let wrong = Diagnostic::wrong("E0159", call, message).at(span, "reverted from here");
        self.report(wrong.help("`inverse: set_level(was)` and `was: level()`: the call that reverts it"))
    }

    /// A function with its arguments.
    fn called(&mut self, call: &Expr, home: usize, passed: ArgumentPassing) -> Option<Called> {
        let ExprNode::Call {
            function, arguments, ..
        } = &call.node
        else {
            let message = "a call is written with its brackets";
            let help = format!("`{call}()`");
            return self.report(Diagnostic::wrong("E0153", call.span, message).help(help));
        };
        if arguments.len() > super::source::ARGUMENTS as usize {
            let message = format!("a call has at most {} arguments", super::source::ARGUMENTS);
            return self.refuse("E0153", call.span, message);
        }
        let given: Vec<Option<CallArgument>> = arguments
            .iter()
            .map(|argument| self.given(argument, home, passed))
            .collect();
        let (mut arguments, mut formulas) = (Vec::new(), Vec::new());
        for (index, given) in given.into_iter().enumerate() {
            arguments.push(match given? {
                CallArgument::Known(argument) => argument,
                CallArgument::Formula(value) => {
                    formulas.push(Formula { index, value });
                    Argument::Integer(0)
                }
            });
        }
        let call = Invocation {
            function: FunctionName::from(self.file.bound(function).as_str()),
            arguments,
        };
        Some(Called { call, formulas })
    }

    fn given(&mut self, argument: &Expr, home: usize, passed: ArgumentPassing) -> Option<CallArgument> {
        if passed == ArgumentPassing::Was && matches!(&argument.node, ExprNode::Name(name) if name == WAS) {
            return Some(CallArgument::Known(Argument::Was));
        }
        if is_path(argument) && self.is_of_the_program(argument, home) {
            if passed != ArgumentPassing::Variables {
                let message = "what a variable holds then is not known before: here only values of the rule can be passed";
                let wrong = Diagnostic::wrong("E0134", argument.span, message);
                return self
                    .report(wrong.help_if((passed == ArgumentPassing::Was).then(|| "or `was`".to_string())));
            }
            return match source(argument, &self.file.bindings) {
                Ok(source) if matches!(source.base, Base::Global(_)) => {
                    Some(CallArgument::Known(Argument::Variable(source.as_path())))
                }
                Ok(_) => {
                    let message = "a value of the rule or a variable of the program can be passed";
                    self.refuse("E0134", argument.span, message)
                }
                Err(wrong) => self.report(wrong),
            };
        }
        self.value(argument, home, false).map(CallArgument::Formula)
    }

    /// Whether a path does not resemble any name of the rule: then it is a variable of the program.
    fn is_of_the_program(&mut self, path: &Expr, home: usize) -> bool {
        let names = path.names();
        let Some((name, _)) = names.first() else {
            return false;
        };
        let base = name.split('.').next().unwrap_or(name).to_string();
        let declared = self.file.names().any(|(known, _)| known == base);
        let known = self.in_window(home).known();
        let bases = || known.iter().map(|name| name.split('.').next().unwrap_or(name));
        let ours = bases().chain(self.names.roles.keys().map(String::as_str));
        declared || (!ours.into_iter().any(|ours| ours == base) && did_you_mean(&base, bases()).is_none())
    }

    fn place_of_call(&mut self, place: Option<&Text>) -> Option<Moment> {
        match place.map(|text| (text.raw.as_str(), text.span)) {
            None | Some(("entry", _)) => Some(Moment::Entry),
            Some(("return", _)) => Some(Moment::Return),
            Some((_, span)) => self.refuse("E0145", span, "`place` is `entry` or `return`"),
        }
    }
}
