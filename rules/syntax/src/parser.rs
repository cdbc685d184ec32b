//! Tokens to a tree.
//!
//! ```ebnf
//! formula    = or ;
//! or         = and , { "or" , and } ;
//! and        = not , { "and" , not } ;
//! not        = "not" , not | comparison ;
//! comparison = sum , ( { ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) , sum } | "in" , list ) ;
//! list       = "[" , formula , { "," , formula } , "]" ;
//! sum        = product , { ( "+" | "-" ) , product } ;
//! product    = negation , { ( "*" | "/" | "%" ) , negation } ;
//! negation   = "-" , negation | power ;
//! power      = keyed , [ "^" , negation ] ;
//! keyed      = path , { "by" , NAME | "as" , LAYOUT | "at" , NAME | "over" , atom , [ NAME ] | "[" , formula , "]" } ;
//! path       = "*" , path | atom , { "[" , formula , "]" | ( "->" | "." ) , NAME } ;
//! atom       = NUMBER | TEXT | "true" | "false" | NAME | call | "(" , formula , ")" ;
//! call       = NAME , "(" , [ argument , { "," , argument } ] , ")" ;
//! argument   = formula , [ "where" , formula | "for" , NAME , "in" , formula , "to" , formula ] ;
//! NUMBER     = digits , [ "." , digits ] , [ "e" , [ "+" | "-" ] , digits ] , [ UNIT ] ;   (* no space before UNIT *)
//! UNIT       = "%" | "ns" | "us" | "ms" | "s" | "min" | "B" | "KB" | "MB" | "GB" | "KiB" | "MiB" | "GiB"
//!            | "bit" | "kbit" | "Mbit" | "Gbit" | "Mibit" ;
//! TEXT       = '"' , { any character but '"' } , '"' ;
//! NAME       = word , { ( "." | "::" ) , word } ;
//! LAYOUT     = "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "f32" | "f64" | "bool" | "char"
//!            | "str" , "(" , digits , ")" ;
//! ```
//! A comparison of more than two values must run one way: `1 <= value <= 8`. A `%` straight after a number is
//! the percent sign; the remainder has a space before it. Bracketed: `by` binds tighter than `^`, which binds
//! tighter than a minus before it: `-2^2` is −4.

use super::ast::{Comparison, Expr, ExprNode, Operator, binding};
use super::lexer::{Token, tokens};
use super::text::Text;
use crate::diag::{Diagnostic, Span};
use crate::unit::unit_named;

/// Maximum number of parts of a formula, because traversals recurse once for each level.
const PARTS_MAX: usize = 256;

pub fn parse(text: &Text) -> Result<Expr, Diagnostic> {
    let tokens = tokens(text)?;
    if tokens.len() > PARTS_MAX {
        let message = format!(
            "a formula may have at most {PARTS_MAX} parts, this one has {}",
            tokens.len()
        );
        let help = "give parts of it names under `metrics`";
        return Err(Diagnostic::wrong("E0123", text.span, message).help(help));
    }
    let mut parser = Parser { tokens, at: 0 };
    let expr = parser.expression(binding::OR)?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn span(&self) -> Span {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(Span::default(), |(_, span)| *span)
    }

    fn previous_span(&self) -> Span {
        let previous = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        previous.map_or(Span::default(), |(_, span)| *span)
    }

    fn advance(&mut self) -> (Token, Span) {
        let taken = self.tokens.get(self.at).cloned();
        self.at += 1;
        taken.unwrap_or((Token::End, self.span()))
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        self.at += usize::from(found);
        found
    }

    /// A value, followed by every operator that binds at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Expr, Diagnostic> {
        let mut left = self.prefix(least)?;
        loop {
            let Token::Sign(sign) = *self.peek() else {
                return Ok(left);
            };
            if sign == "by" {
                left = self.by(left)?;
            } else if sign == "as" {
                left = self.layout(left)?;
            } else if sign == "over" {
                left = self.over(left)?;
            } else if sign == "at" {
                left = self.at_hit(left)?;
            } else if sign == "[" {
                left = self.index(left)?;
            } else if sign == "in" && least <= binding::COMPARE {
                left = self.member_of(left)?;
                self.end_of_comparison()?;
            } else if let Some(operator) = Operator::ALL.into_iter().find(|o| o.sign() == sign) {
                if operator.binding() < least {
                    return Ok(left);
                }
                self.at += 1;
                // The right operand of `^` may begin with a minus, and `^` is right-associative; the other
                // operators are left-associative.
                let right_least = if operator == Operator::Power {
                    binding::NEGATE
                } else {
                    operator.binding() + 1
                };
                let right = Box::new(self.expression(right_least)?);
                let span = left.span.to(right.span);
                left = Expr::new(
                    span,
                    ExprNode::Binary {
                        operator,
                        left: Box::new(left),
                        right,
                    },
                );
            } else if comparison(sign).is_some() && least <= binding::COMPARE {
                left = self.comparison(left)?;
                self.end_of_comparison()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn prefix(&mut self, least: u8) -> Result<Expr, Diagnostic> {
        let start = self.span();
        if least <= binding::NOT && self.accept("not") {
            let of = self.expression(binding::NOT)?;
            let span = start.to(of.span);
            return Ok(Expr::new(span, ExprNode::Not(Box::new(of))));
        }
        if least <= binding::NEGATE && self.accept("-") {
            let of = self.expression(binding::NEGATE)?;
            let span = start.to(of.span);
            return Ok(Expr::new(span, ExprNode::Negate(Box::new(of))));
        }
        self.path()
    }

    fn path(&mut self) -> Result<Expr, Diagnostic> {
        let start = self.span();
        if self.accept("*") {
            let of = self.path()?;
            let span = start.to(of.span);
            let node = ExprNode::Pointed(Box::new(of));
            return Ok(Expr { node, span });
        }
        let mut of = self.atom()?;
        loop {
            let arrow = match self.peek() {
                Token::Sign("[") => {
                    of = self.index(of)?;
                    continue;
                }
                Token::Sign("->") => true,
                Token::Sign(".") => false,
                _ => return Ok(of),
            };
            self.at += 1;
            let (Token::Name(field), place) = self.advance() else {
                self.at -= 1;
                return Err(self.unexpected("the name of a member"));
            };
            let span = of.span.to(place);
            // A name includes its dots: each part is a separate member.
            for (i, field) in field.split('.').enumerate() {
                let node = ExprNode::Member {
                    of: Box::new(of),
                    field: field.to_string(),
                    arrow: arrow && i == 0,
                };
                of = Expr { node, span };
            }
        }
    }

    /// `x in [1, 2]`.
    fn member_of(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        self.at += 1;
        let opened = self.span();
        self.expect("[")?;
        let mut list = Vec::new();
        loop {
            list.push(self.expression(binding::OR)?);
            if !self.accept(",") {
                break;
            }
        }
        self.close("]", opened)?;
        let span = of.span.to(self.previous_span());
        let of = Box::new(of);
        let node = ExprNode::In { of, list };
        Ok(Expr { node, span })
    }

    /// `x at iteration.end`.
    fn at_hit(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        self.at += 1;
        let (Token::Name(place), place_span) = self.advance() else {
            self.at -= 1;
            return Err(self.unexpected("a probe or a boundary such as `iteration.end` after `at`"));
        };
        let span = of.span.to(place_span);
        let of = Box::new(of);
        let node = ExprNode::At {
            of,
            place,
            place_span,
        };
        Ok(Expr { node, span })
    }

    fn comparison(&mut self, first: Expr) -> Result<Expr, Diagnostic> {
        let mut rest: Vec<(Comparison, Expr)> = Vec::new();
        let mut span = first.span;
        while let Token::Sign(sign) = *self.peek() {
            let Some(next) = comparison(sign) else { break };
            let place = self.span();
            if rest.iter().any(|(before, _)| !before.chains_with(next)) {
                return Err(
                    Diagnostic::error("E0120", "comparisons in a row must all run one way")
                        .at(place, "turns here")
                        .help("join two comparisons with `and`"),
                );
            }
            self.at += 1;
            let part = self.expression(binding::COMPARE + 1)?;
            span = span.to(part.span);
            rest.push((next, part));
        }
        Ok(Expr::new(
            span,
            ExprNode::Compare {
                first: Box::new(first),
                rest,
            },
        ))
    }

    /// No further comparison may follow a comparison.
    fn end_of_comparison(&self) -> Result<(), Diagnostic> {
        match self.peek() {
            Token::Sign(sign) if *sign == "in" || comparison(sign).is_some() => Err(Diagnostic::wrong(
                "E0120",
                self.span(),
                "`in` and other comparisons do not stand in a row",
            )
            .help("join two comparisons with `and`")),
            _ => Ok(()),
        }
    }

    fn by(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        self.at += 1;
        let (Token::Name(key), key_span) = self.advance() else {
            self.at -= 1;
            return Err(self.unexpected("a key such as `process` after `by`"));
        };
        let span = of.span.to(key_span);
        Ok(Expr::new(
            span,
            ExprNode::By {
                of: Box::new(of),
                key,
                key_span,
            },
        ))
    }

    fn layout(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        self.at += 1;
        let (Token::Name(mut layout), mut layout_span) = self.advance() else {
            self.at -= 1;
            return Err(self.unexpected("a type such as `i32` after `as`"));
        };
        if layout == "str" && self.accept("(") {
            let opened = self.previous_span();
            let (Token::Number { digits, unit: None }, _) = self.advance() else {
                self.at -= 1;
                return Err(self.unexpected("the longest length of a text: `str(32)`"));
            };
            self.close(")", opened)?;
            layout = format!("str({digits})");
            layout_span = layout_span.to(self.previous_span());
        }
        let span = of.span.to(layout_span);
        let of = Box::new(of);
        let node = ExprNode::As {
            of,
            layout,
            layout_span,
        };
        Ok(Expr { node, span })
    }

    fn over(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        self.at += 1;
        let count = Box::new(self.atom()?);
        let unit = match self.peek() {
            Token::Name(unit) => Some((unit.clone(), self.span())),
            _ => None,
        };
        self.at += usize::from(unit.is_some());
        let span = of.span.to(self.previous_span());
        let of = Box::new(of);
        Ok(Expr::new(span, ExprNode::Over { of, count, unit }))
    }

    fn index(&mut self, of: Expr) -> Result<Expr, Diagnostic> {
        let opened = self.span();
        self.at += 1;
        let index = Box::new(self.expression(binding::OR)?);
        self.close("]", opened)?;
        let span = of.span.to(self.previous_span());
        let of = Box::new(of);
        Ok(Expr::new(span, ExprNode::Index { of, index }))
    }

    /// An argument of a call: a formula with an optional condition or range, which occur nowhere else.
    fn argument(&mut self) -> Result<Expr, Diagnostic> {
        let of = self.expression(binding::OR)?;
        if self.accept("where") {
            let condition = self.expression(binding::OR)?;
            let span = of.span.to(condition.span);
            let (of, condition) = (Box::new(of), Box::new(condition));
            return Ok(Expr::new(span, ExprNode::Where { of, condition }));
        }
        if !self.accept("for") {
            return Ok(of);
        }
        let (Token::Name(name), name_span) = self.advance() else {
            self.at -= 1;
            return Err(self.unexpected("a name after `for`"));
        };
        self.expect("in")?;
        let from = Box::new(self.expression(binding::OR)?);
        self.expect("to")?;
        let to = Box::new(self.expression(binding::OR)?);
        let span = of.span.to(to.span);
        let of = Box::new(of);
        let node = ExprNode::Each {
            of,
            name,
            name_span,
            from,
            to,
        };
        Ok(Expr { node, span })
    }

    fn expect(&mut self, sign: &str) -> Result<(), Diagnostic> {
        if self.accept(sign) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{sign}`")))
    }

    fn atom(&mut self) -> Result<Expr, Diagnostic> {
        let (token, span) = self.advance();
        let node = match token {
            Token::Number { digits, unit } => {
                self.no_space_before_a_unit(&digits, span)?;
                ExprNode::Number { digits, unit }
            }
            Token::Text(text) => ExprNode::Text(text),
            Token::Sign("true") => ExprNode::Boolean(true),
            Token::Sign("false") => ExprNode::Boolean(false),
            Token::Name(name) if self.accept("(") => return self.call(name, span),
            Token::Name(name) => ExprNode::Name(name),
            Token::Sign("(") => {
                let inside = self.expression(binding::OR)?;
                self.close(")", span)?;
                return Ok(Expr {
                    span: span.to(self.previous_span()),
                    ..inside
                });
            }
            Token::Sign(_) | Token::End => {
                self.at -= 1;
                return Err(self.unexpected("a value"));
            }
        };
        Ok(Expr { node, span })
    }

    fn call(&mut self, function: String, function_span: Span) -> Result<Expr, Diagnostic> {
        let open = self.previous_span();
        let mut arguments = Vec::new();
        if !self.accept(")") {
            loop {
                arguments.push(self.argument()?);
                if !self.accept(",") {
                    break;
                }
            }
            self.close(")", open)?;
        }
        let span = function_span.to(self.previous_span());
        Ok(Expr::new(
            span,
            ExprNode::Call {
                function,
                function_span,
                arguments,
            },
        ))
    }

    fn close(&mut self, sign: &str, opened: Span) -> Result<(), Diagnostic> {
        if self.accept(sign) {
            return Ok(());
        }
        let wrong = self.unexpected(&format!("`{sign}`"));
        Err(if wrong.code == "E0120" {
            wrong.at(opened, "opened here")
        } else {
            wrong
        })
    }

    fn no_space_before_a_unit(&self, digits: &str, number: Span) -> Result<(), Diagnostic> {
        match self.peek() {
            Token::Name(name) if unit_named(name).is_some() => Err(Diagnostic::wrong(
                "E0121",
                number.to(self.span()),
                format!("the unit `{name}` is separated from its number"),
            )
            .help(format!("write {digits}{name}"))),
            _ => Ok(()),
        }
    }

    fn unexpected(&self, wanted: &str) -> Diagnostic {
        let span = self.span();
        let found = match self.peek() {
            Token::End => "the formula ends".to_string(),
            Token::Sign(sign) => format!("`{sign}` stands here"),
            Token::Name(name) => format!("`{name}` stands here"),
            Token::Text(text) => format!("\"{text}\" stands here"),
            Token::Number { digits, unit } => format!("`{digits}{}` stands here", unit.unwrap_or("")),
        };
        Diagnostic::wrong("E0120", span, format!("expected {wanted}, but {found}"))
    }
}

fn comparison(sign: &str) -> Option<Comparison> {
    Comparison::ALL
        .into_iter()
        .find(|comparison| comparison.sign() == sign)
}
