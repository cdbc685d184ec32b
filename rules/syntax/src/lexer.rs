//! Characters to tokens. A number includes its unit, and a name its dots.

use super::text::Text;
use crate::diag::{Diagnostic, Span, did_you_mean};
use crate::unit::{UNITS, Unit, unit_named};

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// In base units: seconds, bytes.
    Number {
        digits: String,
        unit: Option<&'static str>,
    },
    Text(String),
    /// With its dots: `send.duration`.
    Name(String),
    /// An operator, a bracket, a comma or a keyword of the grammar.
    Sign(&'static str),
    End,
}

/// Keywords of the grammar.
pub const WORDS: &[&str] = &[
    "or", "and", "not", "by", "where", "in", "at", "over", "for", "to", "as", "true", "false",
];

/// Longest first, so that `<=` is never split into `<` and `=`.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "->", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]",
    ",", ".", "=", "!",
];

/// The tokens of `text`, each with its place in the file; the last is always [`Token::End`].
pub fn tokens(text: &Text) -> Result<Vec<(Token, Span)>, Diagnostic> {
    let mut lexer = Lexer { text, at: 0 };
    let mut out = Vec::new();
    loop {
        let (token, span) = lexer.next()?;
        let end = token == Token::End;
        out.push((token, span));
        if end {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    text: &'a Text,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.raw.get(self.at..).unwrap_or("")
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn next(&mut self) -> Result<(Token, Span), Diagnostic> {
        self.take(char::is_whitespace);
        let start = self.at;
        let token = match self.rest().chars().next() {
            None => Token::End,
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some('"') => self.quoted()?,
            Some(c) if c.is_alphabetic() || c == '_' => self.name(),
            Some(c) => self.sign(c)?,
        };
        Ok((token, self.text.place(start, self.at)))
    }

    fn number(&mut self) -> Result<Token, Diagnostic> {
        let start = self.at;
        self.take(|c| c.is_ascii_digit() || c == '_');
        let fraction = self
            .rest()
            .strip_prefix('.')
            .is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
        if fraction {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        self.exponent();
        let digits = self.text.raw[start..self.at].replace('_', "");
        let unit_start = self.at;
        let name = if self.rest().starts_with('%') {
            self.at += 1;
            "%"
        } else {
            self.take(|c| c.is_alphanumeric() || c == '_')
        };
        match unit_named(name) {
            Some(Unit { name, .. }) => Ok(Token::Number {
                digits,
                unit: Some(name),
            }),
            None if name.is_empty() => Ok(Token::Number { digits, unit: None }),
            None => Err(unknown_unit(name, self.text.place(unit_start, self.at))),
        }
    }

    /// `1e3` and `1e-3`; any other `e` belongs to the unit.
    fn exponent(&mut self) {
        let Some(after) = self.rest().strip_prefix(['e', 'E']) else {
            return;
        };
        let sign = usize::from(after.starts_with(['+', '-']));
        if after[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            self.at += 1 + sign;
            self.take(|c| c.is_ascii_digit());
        }
    }

    fn quoted(&mut self) -> Result<Token, Diagnostic> {
        let start = self.at;
        self.at += 1;
        let inside = self.take(|c| c != '"');
        if !self.rest().starts_with('"') {
            let place = self.text.place(start, self.at);
            return Err(Diagnostic::error("E0122", "this text has no closing quote").at(place, "opened here"));
        }
        self.at += 1;
        Ok(Token::Text(inside.to_string()))
    }

    /// The length of `.` or `::` if it is followed by a word of the name.
    fn joint(&self) -> Option<usize> {
        let begins = |after: &str| after.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let joints = [".", "::"].into_iter();
        let mut joints = joints.filter(|joint| self.rest().strip_prefix(joint).is_some_and(begins));
        joints.next().map(str::len)
    }

    fn name(&mut self) -> Token {
        let start = self.at;
        self.take(|c| c.is_alphanumeric() || c == '_');
        while let Some(joint) = self.joint() {
            self.at += joint;
            self.take(|c| c.is_alphanumeric() || c == '_');
        }
        let name = &self.text.raw[start..self.at];
        match WORDS.iter().find(|word| **word == name) {
            Some(word) => Token::Sign(word),
            None => Token::Name(name.to_string()),
        }
    }

    fn sign(&mut self, first: char) -> Result<Token, Diagnostic> {
        let start = self.at;
        let found = SIGNS.iter().find(|sign| self.rest().starts_with(**sign));
        self.at += found.map_or(first.len_utf8(), |sign| sign.len());
        let place = self.text.place(start, self.at);
        let other = match found.copied() {
            Some("&&") => "write `and`",
            Some("||") => "write `or`",
            Some("!") => "write `not`",
            Some("=") => "to compare, write `==`",
            Some(sign) => return Ok(Token::Sign(sign)),
            None if first == '\'' => "texts in formulas are in double quotes: \"…\"",
            None if first == '×' || first == '·' => "write `*`",
            None if first == '÷' => "write `/`",
            None => "this character has no meaning in a formula",
        };
        let shown = &self.text.raw[start..self.at];
        Err(Diagnostic::wrong("E0120", place, format!("`{shown}` is not part of the language")).help(other))
    }
}

/// The error for an unknown unit.
pub fn unknown_unit(name: &str, place: Span) -> Diagnostic {
    let names: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
    let help = did_you_mean(name, names.iter().copied());
    Diagnostic::wrong("E0121", place, format!("there is no unit `{name}`"))
        .help(help.unwrap_or_else(|| format!("the units are {}", names.join(" "))))
}
