//! A tree back to text: with as few brackets as the grammar permits and one space around operators.

use std::fmt;

use super::ast::{Expr, Node, Operator, binding};

impl Expr {
    fn binding(&self) -> u8 {
        match &self.node {
            Node::Binary { operator, .. } => operator.binding(),
            Node::Compare { .. } => binding::COMPARE,
            Node::Not(_) => binding::NOT,
            Node::Negate(_) => binding::NEGATE,
            Node::In { .. } => binding::COMPARE,
            Node::By { .. } | Node::As { .. } | Node::Over { .. } | Node::At { .. } | Node::Pointed(_) => {
                binding::BY
            }
            Node::Index { .. } | Node::Member { .. } => binding::PATH,
            Node::Where { .. } | Node::Each { .. } => binding::OR,
            _ => binding::ATOM,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        if self.binding() < least {
            write!(f, "(")?;
            self.write_bare(f)?;
            return write!(f, ")");
        }
        self.write_bare(f)
    }

    /// Writes the suffixes that bind tightest.
    fn write_keyed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::By { of, key, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " by {key}")
            }
            Node::As { of, layout, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " as {layout}")
            }
            Node::Over { of, count, unit } => {
                of.write(f, binding::BY)?;
                write!(f, " over ")?;
                count.write(f, binding::ATOM)?;
                match unit {
                    Some((unit, _)) => write!(f, " {unit}"),
                    None => Ok(()),
                }
            }
            Node::At { of, place, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " at {place}")
            }
            Node::Index { of, index } => {
                of.write(f, binding::PATH)?;
                write!(f, "[{index}]")
            }
            Node::Member { of, field, arrow } => {
                // With a dot after it, a number, a boolean or a name would absorb the member.
                let swallows = match of.node {
                    Node::Number { .. } | Node::Boolean(_) => true,
                    Node::Name(_) => !*arrow,
                    _ => false,
                };
                of.write(
                    f,
                    if swallows {
                        binding::ATOM + 1
                    } else {
                        binding::PATH
                    },
                )?;
                write!(f, "{}{field}", if *arrow { "->" } else { "." })
            }
            Node::Pointed(of) => {
                write!(f, "*")?;
                match of.node {
                    Node::Pointed(_) => of.write_bare(f),
                    _ => of.write(f, binding::PATH),
                }
            }
            _ => self.write_bare(f),
        }
    }

    fn write_bare(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::Number { digits, unit } => write!(f, "{digits}{}", unit.unwrap_or("")),
            Node::Text(text) => write!(f, "\"{text}\""),
            Node::Boolean(value) => write!(f, "{value}"),
            Node::Name(name) => f.write_str(name),
            Node::Call {
                function, arguments, ..
            } => {
                write!(f, "{function}(")?;
                listed(arguments, f)?;
                write!(f, ")")
            }
            Node::Negate(of) => {
                write!(f, "-")?;
                of.write(f, binding::NEGATE)
            }
            Node::Not(of) => {
                write!(f, "not ")?;
                of.write(f, binding::NOT)
            }
            Node::Binary {
                operator: Operator::Power,
                left,
                right,
            } => {
                left.write(f, binding::POWER + 1)?;
                write!(f, "^")?;
                right.write(f, binding::NEGATE)
            }
            Node::Binary {
                operator,
                left,
                right,
            } => {
                left.write(f, operator.binding())?;
                write!(f, " {} ", operator.sign())?;
                right.write(f, operator.binding() + 1)
            }
            Node::Compare { first, rest } => {
                first.write(f, binding::COMPARE + 1)?;
                for (comparison, part) in rest {
                    write!(f, " {} ", comparison.sign())?;
                    part.write(f, binding::COMPARE + 1)?;
                }
                Ok(())
            }
            Node::In { of, list } => {
                of.write(f, binding::COMPARE + 1)?;
                write!(f, " in [")?;
                listed(list, f)?;
                write!(f, "]")
            }
            Node::By { .. }
            | Node::As { .. }
            | Node::Over { .. }
            | Node::At { .. }
            | Node::Index { .. }
            | Node::Member { .. }
            | Node::Pointed(_) => self.write_keyed(f),
            Node::Where { of, condition } => write!(f, "{of} where {condition}"),
            Node::Each {
                of, name, from, to, ..
            } => write!(f, "{of} for {name} in {from} to {to}"),
        }
    }
}

fn listed(parts: &[Expr], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        part.write_bare(f)?;
    }
    Ok(())
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_bare(f)
    }
}
