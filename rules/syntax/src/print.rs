//! A tree back to text: with as few brackets as the grammar permits and one space around operators.

use std::fmt;

use super::ast::{Expr, ExprNode, Operator, binding};

impl Expr {
    fn binding(&self) -> u8 {
        match &self.node {
            ExprNode::Binary { operator, .. } => operator.binding(),
            ExprNode::Compare { .. } => binding::COMPARE,
            ExprNode::Not(_) => binding::NOT,
            ExprNode::Negate(_) => binding::NEGATE,
            ExprNode::In { .. } => binding::COMPARE,
            ExprNode::By { .. }
            | ExprNode::As { .. }
            | ExprNode::Over { .. }
            | ExprNode::At { .. }
            | ExprNode::Pointed(_) => binding::BY,
            ExprNode::Index { .. } | ExprNode::Member { .. } => binding::PATH,
            ExprNode::Where { .. } | ExprNode::Each { .. } => binding::OR,
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
            ExprNode::By { of, key, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " by {key}")
            }
            ExprNode::As { of, layout, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " as {layout}")
            }
            ExprNode::Over { of, count, unit } => {
                of.write(f, binding::BY)?;
                write!(f, " over ")?;
                count.write(f, binding::ATOM)?;
                match unit {
                    Some((unit, _)) => write!(f, " {unit}"),
                    None => Ok(()),
                }
            }
            ExprNode::At { of, place, .. } => {
                of.write(f, binding::BY)?;
                write!(f, " at {place}")
            }
            ExprNode::Index { of, index } => {
                of.write(f, binding::PATH)?;
                write!(f, "[{index}]")
            }
            ExprNode::Member { of, field, arrow } => {
                // With a dot after it, a number, a boolean or a name would absorb the member.
                let swallows = match of.node {
                    ExprNode::Number { .. } | ExprNode::Boolean(_) => true,
                    ExprNode::Name(_) => !*arrow,
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
            ExprNode::Pointed(of) => {
                write!(f, "*")?;
                match of.node {
                    ExprNode::Pointed(_) => of.write_bare(f),
                    _ => of.write(f, binding::PATH),
                }
            }
            _ => self.write_bare(f),
        }
    }

    fn write_bare(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            ExprNode::Number { digits, unit } => write!(f, "{digits}{}", unit.unwrap_or("")),
            ExprNode::Text(text) => write!(f, "\"{text}\""),
            ExprNode::Boolean(value) => write!(f, "{value}"),
            ExprNode::Name(name) => f.write_str(name),
            ExprNode::Call {
                function, arguments, ..
            } => {
                write!(f, "{function}(")?;
                listed(arguments, f)?;
                write!(f, ")")
            }
            ExprNode::Negate(of) => {
                write!(f, "-")?;
                of.write(f, binding::NEGATE)
            }
            ExprNode::Not(of) => {
                write!(f, "not ")?;
                of.write(f, binding::NOT)
            }
            ExprNode::Binary {
                operator: Operator::Power,
                left,
                right,
            } => {
                left.write(f, binding::POWER + 1)?;
                write!(f, "^")?;
                right.write(f, binding::NEGATE)
            }
            ExprNode::Binary {
                operator,
                left,
                right,
            } => {
                left.write(f, operator.binding())?;
                write!(f, " {} ", operator.sign())?;
                right.write(f, operator.binding() + 1)
            }
            ExprNode::Compare { first, rest } => {
                first.write(f, binding::COMPARE + 1)?;
                for (comparison, part) in rest {
                    write!(f, " {} ", comparison.sign())?;
                    part.write(f, binding::COMPARE + 1)?;
                }
                Ok(())
            }
            ExprNode::In { of, list } => {
                of.write(f, binding::COMPARE + 1)?;
                write!(f, " in [")?;
                listed(list, f)?;
                write!(f, "]")
            }
            ExprNode::By { .. }
            | ExprNode::As { .. }
            | ExprNode::Over { .. }
            | ExprNode::At { .. }
            | ExprNode::Index { .. }
            | ExprNode::Member { .. }
            | ExprNode::Pointed(_) => self.write_keyed(f),
            ExprNode::Where { of, condition } => write!(f, "{of} where {condition}"),
            ExprNode::Each {
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
