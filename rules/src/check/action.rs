//! Checks the action of a tune: for each keyword its permitted keys, and the requirements on target and
//! values.

use plan::{
    Action, Affinity, Cores, Expression, FunctionName, Keyword, PatchRequest, Scalar, Set, Switch, ValueType,
};
use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};
use syntax::parser::parse;
use syntax::text::Text;
use syntax::unit::Dimension;

use super::source::{is_path, source};
use super::{Checker, optional};
use crate::change::{Change, Formula};
use crate::eval::{constant_mismatch, constant_outside};
use crate::file::{ActionEntry, TuneEntry};
use crate::read::{Base, Source};
use crate::term::{Term, Typed};
use crate::types::{Kind, Type};

/// A keyword with its own required and optional keys.
struct Form {
    keyword: Keyword,
    must: &'static [&'static str],
    may: &'static [&'static str],
}

const FORMS: &[Form] = &[
    form(Keyword::Set, &["value"], &["range", "initial", "in"]),
    form(Keyword::Call, &[], &["inverse", "was", "because"]),
    form(Keyword::Load, &[], &[]),
    form(Keyword::Replace, &["with"], &[]),
    form(Keyword::InsertCall, &["in"], &["place"]),
    form(Keyword::RemoveCall, &[], &["in"]),
    form(Keyword::SetArgument, &["value"], &["range"]),
    form(Keyword::Affinity, &[], &[]),
    form(Keyword::Enable, &[], &[]),
    form(Keyword::Disable, &[], &[]),
];

const fn form(keyword: Keyword, must: &'static [&'static str], may: &'static [&'static str]) -> Form {
    Form { keyword, must, may }
}

/// An action, with the formulas of its missing values, and the type of the value to which a range applies.
pub(super) struct Checked {
    pub(super) action: Action,
    pub(super) formulas: Vec<Formula>,
    of: Option<Type>,
}

impl Checked {
    /// An action without computed values.
    pub(super) fn plain(action: Action) -> Checked {
        Checked {
            action,
            formulas: Vec::new(),
            of: None,
        }
    }

    /// An action with one computed value.
    fn computed(action: Action, value: Typed) -> Checked {
        let of = Some(Type::single(value.type_of.kind));
        let formulas = vec![Formula { index: 0, value }];
        Checked { action, formulas, of }
    }
}

/// Keys of a change of the program; switching a probe is not a change.
const OF_A_CHANGE: &[&str] = &[
    "role",
    "guard",
    "expect",
    "at",
    "together",
    "independent",
    "stale",
    "cooldown",
];

/// Functions of OpenMP libraries (libgomp, libomp, libiomp5) that compilers and programs call: such libraries
/// come without debug information.
fn is_of_openmp(function: &str) -> bool {
    ["GOMP_", "__kmpc_", "omp_", "kmp_"]
        .iter()
        .any(|beginning| function.starts_with(beginning))
}

impl TuneEntry {
    /// Those of its keys that belong only to some kinds of tunes, each with its place.
    pub(super) fn special_keys(&self) -> Vec<(&'static str, Span)> {
        let texts = [
            ("because", &self.because),
            ("with", &self.with),
            ("in", &self.inside),
            ("place", &self.place),
            ("role", &self.role),
            ("after", &self.after),
            ("together", &self.together),
        ];
        let exprs = [
            ("value", &self.value),
            ("was", &self.was),
            ("range", &self.range),
            ("cooldown", &self.cooldown),
            ("while", &self.while_holds),
            ("initial", &self.initial),
            ("expect", &self.expect),
            ("stale", &self.stale),
            ("independent", &self.independent),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.as_ref()?.span)));
        let exprs = exprs
            .into_iter()
            .filter_map(|(key, expr)| Some((key, expr.as_ref()?.span)));
        let guard = self.guard.as_ref().map(|guard| ("guard", guard.span));
        let at = self.at.as_ref().map(|at| ("at", at.function.span));
        let inverse = self
            .inverse
            .as_ref()
            .map(|inverse| ("inverse", inverse.text.span));
        texts.chain(exprs).chain(guard).chain(at).chain(inverse).collect()
    }
}

impl Checker<'_> {
    pub(super) fn change(&mut self, entry: &TuneEntry, action: &ActionEntry, home: usize) -> Option<Change> {
        self.keys_of(entry, action);
        let probe = matches!(action.keyword, Keyword::Enable | Keyword::Disable);
        let role = match (&entry.role, probe) {
            (_, true) => Some(0),
            (Some(role), _) => self.role_named(role),
            (None, _) => self.only_role(
                entry.span,
                "a tune that changes a program",
                "which processes are changed",
            ),
        };
        let guard = match &entry.guard {
            Some(guard) => self.guard(guard, home).map(Some),
            None => Some(None),
        };
        let Checked { action, formulas, of } = self.action(entry, action, home)?;
        self.has_its_place(entry, &action)?;
        let range = match (&entry.range, of) {
            (Some(expr), Some(of)) => Some((self.range(expr, of, &formulas, home)?, expr.to_string())),
            _ => None,
        };
        let role = match &action {
            Action::Switch(switch) => self.role_of_probe(switch.probe),
            _ => role?,
        };
        Some(Change {
            role,
            action,
            formulas,
            range,
            guard: guard?,
        })
    }

    /// Checks `at` and `together`: only actions that a thread carries out itself have a place in the program,
    /// and only values are written in all processes together.
    fn has_its_place(&mut self, entry: &TuneEntry, action: &Action) -> Option<()> {
        let keyword = action.keyword().name();
        let wrong = |message: String, span| Diagnostic::wrong("E0150", span, message);
        match (action.why_nowhere(), &entry.at, &entry.together) {
            (Some(why), Some(at), _) => {
                let message = format!("`at` does not belong to `{keyword}`: {why}");
                self.report(wrong(message, at.function.span))
            }
            (_, _, Some(together)) if !matches!(action, Action::Set(_)) => {
                let message =
                    format!("`together` does not belong to `{keyword}`: only values are written together");
                self.report(wrong(message, together.span))
            }
            _ => Some(()),
        }
    }

    fn role_of_probe(&self, probe: usize) -> usize {
        self.probe_roles.get(probe).copied().unwrap_or(0)
    }

    /// Checks that the keys that the keyword requires are present, and that none belongs to another keyword.
    fn keys_of(&mut self, entry: &TuneEntry, action: &ActionEntry) {
        let Some(form) = FORMS.iter().find(|form| form.keyword == action.keyword) else {
            return;
        };
        let keyword = action.keyword.name();
        let given = entry.special_keys();
        for must in form
            .must
            .iter()
            .filter(|must| !given.iter().any(|(key, _)| key == *must))
        {
            let message = format!("`{keyword}` must have `{must}`");
            self.wrong
                .push(Diagnostic::wrong("E0111", action.target.span, message));
        }
        let switches = matches!(action.keyword, Keyword::Enable | Keyword::Disable);
        for (key, span) in given {
            let own = FORMS
                .iter()
                .any(|form| form.must.contains(&key) || form.may.contains(&key));
            let its = form.must.contains(&key) || form.may.contains(&key);
            if (own && !its) || (switches && OF_A_CHANGE.contains(&key)) {
                let message = format!("`{key}` does not belong to `{keyword}`");
                self.wrong.push(Diagnostic::wrong("E0150", span, message));
            }
        }
    }

    fn action(&mut self, entry: &TuneEntry, action: &ActionEntry, home: usize) -> Option<Checked> {
        let target = &action.target;
        let done = match action.keyword {
            Keyword::Set => return self.set(entry, target, home),
            Keyword::SetArgument => return self.set_argument(entry, action, home),
            Keyword::Call => return self.call(entry, action, home),
            Keyword::InsertCall => return self.insert_call(entry, action, home),
            Keyword::Load => Action::load(self.no_spaces(target, "a library")?),
            Keyword::Replace => Action::Patch(PatchRequest::Replace {
                function: self.function(target)?,
                with: self.function(entry.with.as_ref()?)?,
            }),
            Keyword::RemoveCall => Action::Patch(PatchRequest::RemoveCall {
                function: self.function(target)?,
                within: optional(entry.inside.as_ref(), |inside| self.function(inside))?,
            }),
            Keyword::Affinity => Action::Affinity(self.affinity(target)?),
            Keyword::Enable | Keyword::Disable => Action::Switch(Switch {
                probe: self.probe_named(target)?,
                name: target.raw.clone(),
                on: action.keyword == Keyword::Enable,
            }),
        };
        Some(Checked::plain(done))
    }

    fn set(&mut self, entry: &TuneEntry, target: &Text, home: usize) -> Option<Checked> {
        let (variable, stated) = self.variable_and_type(target).unzip();
        let everywhere = match &entry.inside {
            None => Some(false),
            Some(all) if all.raw == "all" => Some(true),
            Some(other) => {
                let message = "`in: all` writes every copy of a variable; a `set` has no other `in`";
                self.refuse("E0145", other.span, message)
            }
        };
        let value = self.value(entry.value.as_ref()?, home, false)?;
        if let Some(why) = stated.flatten().and_then(|of| constant_mismatch(&value, of)) {
            return self.refuse("E0165", value.span, why.to_string());
        }
        let is_boolean = value.type_of.kind == Kind::Boolean;
        let set = Set {
            variable: variable?.as_path(),
            value_type: stated?.or(is_boolean.then_some(ValueType::Bool)),
            everywhere: everywhere?,
            value: Scalar::Number(0.0),
        };
        Some(Checked::computed(Action::Set(set), value))
    }

    /// A variable, with its type if the rule states it: `limit as i32`.
    fn variable_and_type(&mut self, set: &Text) -> Option<(Source, Option<ValueType>)> {
        let Some((name, stated)) = set.raw.rsplit_once(" as ") else {
            return Some((self.variable(set)?, None));
        };
        let stated = self.type_of_a_variable(stated.trim(), set.span)?;
        let name = set.beginning(name.trim_end());
        Some((self.variable(&name)?, Some(stated)))
    }

    fn type_of_a_variable(&mut self, stated: &str, span: Span) -> Option<ValueType> {
        let Ok(of) = stated.parse() else {
            let known: Vec<&str> = ValueType::ALL.iter().map(|known| known.name()).collect();
            let message = format!("`{stated}` is not a type of a variable that can be written");
            let wrong = Diagnostic::wrong("E0145", span, message);
            return self.report(wrong.help(format!("there are {}", known.join(", "))));
        };
        Some(of)
    }

    /// A global variable or a part of one. A text that is not a path is used as a symbol name.
    pub(super) fn variable(&mut self, set: &Text) -> Option<Source> {
        let raw = set.raw.as_str();
        if raw.is_empty() || raw.contains(char::is_whitespace) {
            return self.refuse("E0113", set.span, "this cannot be the name of a variable");
        }
        let found = match parse(set) {
            Ok(expr) if is_path(&expr) => source(&expr, &self.file.bindings),
            _ => return Some(Source::global(self.file.bound(raw))),
        };
        match found {
            Ok(found) if matches!(found.base, Base::Global(_)) => Some(found),
            Ok(_) => {
                let message = "arguments and return values are of a call, and `set` is at no call";
                let wrong = Diagnostic::wrong("E0134", set.span, message);
                self.report(wrong.help("`set_arg: f(0)` changes an argument"))
            }
            Err(wrong) => self.report(wrong),
        }
    }

    fn set_argument(&mut self, entry: &TuneEntry, action: &ActionEntry, home: usize) -> Option<Checked> {
        let target = action.call.as_ref()?;
        let patch = match action.target.raw == PatchRequest::TEAM_SIZE {
            true => PatchRequest::SetTeamSize {
                value: Expression::Original,
            },
            false => self.argument(target)?,
        };
        let value = self.value(entry.value.as_ref()?, home, true)?;
        self.can_be_compiled(&value)?;
        Some(Checked::computed(Action::Patch(patch), value))
    }

    /// An argument of a function: `send(2) as u32`.
    fn argument(&mut self, target: &Expr) -> Option<PatchRequest> {
        let (call, stated) = match &target.node {
            ExprNode::As {
                of,
                layout,
                layout_span,
            } => (&**of, Some(self.type_of_a_variable(layout, *layout_span)?)),
            _ => (target, None),
        };
        let named = match &call.node {
            ExprNode::Call {
                function, arguments, ..
            } => match arguments.as_slice() {
                [
                    Expr {
                        node: ExprNode::Number { digits, unit: None },
                        ..
                    },
                ] => {
                    let number = digits
                        .parse()
                        .ok()
                        .filter(|number: &u8| *number < super::source::ARGUMENTS);
                    number.map(|number| (FunctionName::from(self.file.bound(function).as_str()), number))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((function, argument)) = named else {
            let message = "an argument is named as `send_block(2)`: the function, and which, from 0 to 5";
            let wrong = Diagnostic::wrong("E0153", call.span, message);
            return self.report(match call.to_string().starts_with("openmp.") {
                true => wrong.help(
                    "the size that a program states for its teams is `set_arg: openmp.size`, without a type",
                ),
                false => wrong,
            });
        };
        if stated.is_none() && is_of_openmp(&function.name) {
            let message =
                format!("the type of `{call}` is not known: libraries of OpenMP have no debug information");
            let wrong = Diagnostic::wrong("E0164", call.span, message);
            return self.report(wrong.help(format!("state it: `set_arg: {call} as u32`")));
        }
        Some(PatchRequest::SetArgument {
            function,
            index: usize::from(argument),
            value_type: stated,
            value: Expression::Original,
        })
    }

    /// Checks that a formula over the original value, which is evaluated at each call, uses only operations
    /// of trampolines.
    fn can_be_compiled(&mut self, value: &Typed) -> Option<()> {
        use syntax::ast::Operator::{Add, Divide, Multiply, Subtract};
        let mut passed = false;
        value.visit(&mut |term| passed |= matches!(term, Term::Original));
        if !passed {
            return Some(());
        }
        let can = match &value.term {
            Term::Original | Term::Negate(_) => true,
            Term::Arithmetic(operator, ..) => matches!(operator, Add | Subtract | Multiply | Divide),
            Term::Apply(function, _) => function.scalar().is_some_and(|scalar| scalar.compiled.is_some()),
            _ => false,
        };
        if can {
            return value
                .children()
                .into_iter()
                .try_for_each(|part| self.can_be_compiled(part));
        }
        let message = "this cannot be computed where the argument is passed";
        let help = "with `original` there are + - * / min max clamp; give the rest a name under `metrics`";
        self.report(Diagnostic::wrong("E0155", value.span, message).help(help))
    }

    fn affinity(&mut self, text: &Text) -> Option<Affinity> {
        let found = Cores::ALL.into_iter().find(|cores| cores.name() == text.raw);
        if let Some(cores) = found {
            return Some(Affinity::Cores(cores));
        }
        let message = format!("`affinity` is one of {}", Cores::ALL.map(Cores::name).join(", "));
        self.refuse("E0145", text.span, message)
    }

    pub(super) fn function(&mut self, text: &Text) -> Option<FunctionName> {
        let name = self.no_spaces(text, "a function")?;
        if name.contains(['*', '?', '(']) {
            return self.refuse("E0113", text.span, "one function is needed here, by its name");
        }
        Some(FunctionName::from(self.file.bound(&name).as_str()))
    }

    fn no_spaces(&mut self, text: &Text, what: &str) -> Option<String> {
        if !text.raw.is_empty() && !text.raw.contains(char::is_whitespace) {
            return Some(text.raw.clone());
        }
        self.refuse("E0113", text.span, format!("this cannot be the name of {what}"))
    }

    /// A boolean or a plain number, for all processes or for each: the program has no units. An argument may
    /// also be a number of bytes, whose unit is the same in every program.
    pub(super) fn value(&mut self, expr: &Expr, home: usize, of_argument: bool) -> Option<Typed> {
        let mut infer = self.in_window(home);
        infer.original = of_argument;
        let typed = infer.infer(expr)?;
        match typed.type_of.kind {
            Kind::Boolean | Kind::Number(Dimension::NONE) => Some(typed),
            Kind::Number(Dimension::BYTES) if of_argument => Some(typed),
            Kind::Number(dimension) => {
                let what = if of_argument { "an argument" } else { "a variable" };
                let message = format!("{what} is set to a plain number, this is {dimension}");
                let help = format!(
                    "say the unit the program counts in: `({expr}) / ({})`",
                    dimension.as_factor()
                );
                self.report(Diagnostic::wrong("E0141", typed.span, message).help(help))
            }
            Kind::Text => self.refuse("E0105", typed.span, "setting a text is not in this version"),
        }
    }

    /// The range of a value. A constant must be in it: it would never be written.
    fn range(&mut self, expr: &Expr, of: Type, formulas: &[Formula], home: usize) -> Option<Typed> {
        let mut infer = self.in_window(home);
        infer.proposed = Some(of);
        let typed = infer.infer_boolean(expr)?;
        if typed.type_of.table.is_some() {
            let message = "one condition is needed here, this has several";
            return self.report(Diagnostic::error("E0143", message).at(typed.span, "a table"));
        }
        let outside =
            |formula: &Formula| Some((constant_outside(&formula.value, &typed)?, formula.value.span));
        if let Some((value, span)) = formulas.iter().find_map(outside) {
            let message = format!("{value} is outside the range {expr}: it would never be written");
            return self.refuse("E0145", span, message);
        }
        Some(typed)
    }
}
