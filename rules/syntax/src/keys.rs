//! The permitted keys of each mapping.
//!
//! The parser of rule files, the JSON Schema and the language's reference share this table. A new key is a
//! line in `keys!`: `"name" => Shape, "One sentence.";`, followed by `required` if every such mapping must
//! have it.

/// The keys of one kind of mapping.
#[derive(Debug)]
pub struct KeyTable {
    /// The name of the mapping in messages.
    pub place: &'static str,
    pub known: &'static [KeyDeclaration],
    /// Exactly one key of each group must be present.
    pub one_of: &'static [&'static [&'static str]],
}

impl KeyTable {
    pub fn names(&self) -> Vec<&'static str> {
        self.known.iter().map(|key| key.name).collect()
    }
}

/// A key, with the shape of its value and its purpose.
#[derive(Debug)]
pub struct KeyDeclaration {
    pub name: &'static str,
    pub shape: Shape,
    pub doc: &'static str,
    pub required: bool,
    /// Keys that must be present in addition to it.
    pub beside: &'static [&'static str],
}

pub const fn key(name: &'static str, shape: Shape, doc: &'static str) -> KeyDeclaration {
    KeyDeclaration {
        name,
        shape,
        doc,
        required: false,
        beside: &[],
    }
}

impl KeyDeclaration {
    pub const fn required(mut self) -> KeyDeclaration {
        self.required = true;
        self
    }

    pub const fn beside(mut self, others: &'static [&'static str]) -> KeyDeclaration {
        self.beside = others;
        self
    }
}

/// The shape of a value.
#[derive(Debug)]
pub enum Shape {
    Text,
    /// Text for display with formulas in braces.
    Template,
    Formula,
    /// A name of the rule: a role, a probe, a window.
    Name,
    /// A name of the program: a function, a variable.
    Symbol,
    Words(&'static [&'static str]),
    Mapping(&'static KeyTable),
    /// Names chosen by the author, each with a value of this shape.
    Entries(NameForm, &'static Shape),
    List(&'static Shape),
    Either(&'static [Shape]),
}

/// The form of names chosen by the author.
#[derive(Clone, Copy, Debug)]
pub enum NameForm {
    /// `step`
    Plain,
    /// `step.rows`
    Captured,
    /// `pace` or `T(n)`
    Metric,
    /// `pictures` or `render.pictures`
    PlainOrEnd,
}

/// Each mapping with its name in messages, followed by a line for each key.
#[macro_export]
macro_rules! keys {
    ($($(#[$about:meta])* $name:ident $place:literal $(one_of [$($one_of:tt)*])? {
        $($key:literal => $shape:expr, $doc:literal $(, $flag:ident $(($others:expr))?)?;)*
    })*) => {
        $($(#[$about])* pub(crate) const $name: $crate::keys::KeyTable = $crate::keys::KeyTable {
            place: $place,
            known: &[$($crate::keys::key($key, $shape, $doc)$(.$flag($($others)?))?,)*],
            one_of: &[$($($one_of)*)?],
        };)*
    };
}

pub use crate::keys;
