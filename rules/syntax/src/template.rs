//! Texts with formulas in braces: `{count(rank)} ranks share {cpus} CPUs, {in_mpi:%} of their time in MPI`.
//!
//! `{{` and `}}` are literal braces. `:%` after a formula displays a share in percent.

use crate::ast::Expr;
use crate::diag::Diagnostic;
use crate::parser::parse;
use crate::text::Text;

/// A text with formulas.
#[derive(Clone, Debug)]
pub struct FormulaText {
    pub parts: Vec<Part>,
}

/// A piece of a [`FormulaText`].
#[derive(Clone, Debug)]
pub enum Part {
    Literal(String),
    Formula { expr: Expr, percent: bool },
}

/// Parses a template; every formula that cannot be parsed is added to `wrong`.
pub fn parse_template(text: &Text, wrong: &mut Vec<Diagnostic>) -> FormulaText {
    let raw = text.raw.trim_end();
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(c) = raw[at..].chars().next() {
        let rest = &raw[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            at += 2;
        } else if c == '{' {
            let Some(length) = rest.find('}') else {
                let place = text.place(at, at + 1);
                wrong.push(
                    Diagnostic::wrong("E0122", place, "this brace is never closed")
                        .help("write `{{` for a brace"),
                );
                return FormulaText { parts };
            };
            parts.push(Part::Literal(std::mem::take(&mut literal)));
            placeholder(text, at + 1, at + length, &mut parts, wrong);
            at += length + 1;
        } else if c == '}' {
            let place = text.place(at, at + 1);
            wrong.push(
                Diagnostic::wrong("E0122", place, "this brace closes nothing").help("write `}}` for a brace"),
            );
            at += 1;
        } else {
            literal.push(c);
            at += c.len_utf8();
        }
    }
    parts.push(Part::Literal(literal));
    FormulaText { parts }
}

fn placeholder(text: &Text, start: usize, end: usize, parts: &mut Vec<Part>, wrong: &mut Vec<Diagnostic>) {
    let percent = text.raw[start..end].ends_with(":%");
    let formula = text.part(start, if percent { end - 2 } else { end });
    match parse(&formula) {
        Ok(expr) => parts.push(Part::Formula { expr, percent }),
        Err(diagnostic) => wrong.push(diagnostic),
    }
}
