//! The types of formulas: kind, unit, and whether the value is a table.

use crate::unit::Dimension;

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
