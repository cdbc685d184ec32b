//! The types of formulas: kind, unit, and whether the value is a table.

use syntax::diag::{Diagnostic, Span};
use syntax::unit::Dimension;

/// The kind of a value, without regard to tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Text,
    Number(Dimension),
}

/// The kind of a table's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Process,
    Of(Kind),
}

impl KeyKind {
    pub(crate) fn what(self) -> String {
        match self {
            KeyKind::Process => "by process".to_string(),
            KeyKind::Of(kind) => format!("by {}", Type::single(kind).what()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// The kind of its keys, if it is a table.
    pub(crate) table: Option<KeyKind>,
    /// Written in percent; affects only the display.
    pub(crate) percent: bool,
}

impl Type {
    pub(crate) const BOOLEAN: Type = Type::single(Kind::Boolean);
    pub(crate) const TEXT: Type = Type::single(Kind::Text);
    pub(crate) const PLAIN: Type = Type::number(Dimension::NONE);
    pub(crate) const TIME: Type = Type::number(Dimension::TIME);

    pub(crate) const fn single(kind: Kind) -> Type {
        Type {
            kind,
            table: None,
            percent: false,
        }
    }

    pub(crate) const fn number(dimension: Dimension) -> Type {
        Type::single(Kind::Number(dimension))
    }

    /// The type with these rows, or without rows.
    pub(crate) fn by(self, table: Option<KeyKind>) -> Type {
        Type { table, ..self }
    }

    /// The dimension of a number; other values have none.
    pub(crate) fn dimension(self) -> Dimension {
        match self.kind {
            Kind::Number(dimension) => dimension,
            Kind::Boolean | Kind::Text => Dimension::NONE,
        }
    }

    pub(crate) fn what(self) -> String {
        match self.kind {
            Kind::Boolean => "a boolean".to_string(),
            Kind::Text => "a text".to_string(),
            Kind::Number(dimension) => dimension.to_string(),
        }
    }
}

/// A part of a formula, as type rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) type_of: Type,
    pub(crate) span: Span,
    /// A literal 0, which may lack a unit only.
    pub(crate) is_zero: bool,
}

impl Operand {
    /// The row keys of two combined parts: both must have the same kind, or one is a single value.
    pub(crate) fn rows(self, other: Operand) -> Result<Option<KeyKind>, Diagnostic> {
        match (self.type_of.table, other.type_of.table) {
            (Some(one), Some(two)) if one != two => {
                let message = "two tables meet whose rows have different keys";
                let wrong = Diagnostic::error("E0146", message)
                    .at(self.span, one.what())
                    .at(other.span, two.what());
                Err(wrong.help("fold one of them, or make both by the same key"))
            }
            (one, two) => Ok(one.or(two)),
        }
    }

    /// The error for two parts that do not fit: names both and, for numbers, the missing factor.
    pub(crate) fn different(self, verb: &str, other: Operand, span: Span) -> Diagnostic {
        let (a, b) = (self.type_of.what(), other.type_of.what());
        let message = format!("cannot {verb} {a} and {b}");
        let wrong = |code| {
            Diagnostic::error(code, message)
                .at(self.span, a)
                .at(other.span, b)
        };
        let (Kind::Number(l), Kind::Number(r)) = (self.type_of.kind, other.type_of.kind) else {
            return wrong("E0140");
        };
        let wrong = wrong("E0141");
        let zero = |factor: String| factor.replacen('1', "0", 1);
        match (r.over(l), l.over(r)) {
            (Some(missing), _) if self.is_zero => {
                wrong.help(format!("write `{}` on the left side", zero(missing.as_factor())))
            }
            (_, Some(missing)) if other.is_zero => {
                wrong.help(format!("write `{}` on the right side", zero(missing.as_factor())))
            }
            (Some(missing), Some(other)) => wrong.help(format!(
                "multiply the left side by {missing}, such as `{}`, or the right side by {other}, such as `{}`",
                missing.as_factor(),
                other.as_factor()
            )),
            _ => wrong.at(span, ""),
        }
    }
}
