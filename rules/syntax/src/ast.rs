//! The tree of a formula as written, before names and types are resolved.

use crate::diag::Span;

/// A formula or a part of one, with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub node: ExprNode,
    pub span: Span,
}

/// The kind of a part of a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprNode {
    /// As written, so that printing reproduces it; `value` is in seconds and bytes.
    Number {
        digits: String,
        unit: Option<&'static str>,
    },
    Text(String),
    Boolean(bool),
    Name(String),
    Call {
        function: String,
        function_span: Span,
        arguments: Vec<Expr>,
    },
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary {
        operator: Operator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `a < b`, and chains of them: `1 <= value <= max`.
    Compare {
        first: Box<Expr>,
        rest: Vec<(Comparison, Expr)>,
    },
    /// `sum(x) by process`.
    By {
        of: Box<Expr>,
        key: String,
        key_span: Span,
    },
    /// `sum(x where x > 3)`: an argument of a reduction, restricted by a condition.
    Where {
        of: Box<Expr>,
        condition: Box<Expr>,
    },
    /// `nw as i32`: the layout of a value in the program's memory.
    As {
        of: Box<Expr>,
        layout: String,
        layout_span: Span,
    },
    /// `busy[3]`.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
    },
    /// `x over 5`, `x over run`, `x over 256 chunks`: earlier values.
    Over {
        of: Box<Expr>,
        count: Box<Expr>,
        unit: Option<(String, Span)>,
    },
    /// `x at iteration.end`: the value at a hit.
    At {
        of: Box<Expr>,
        place: String,
        place_span: Span,
    },
    /// `x in [1, 2]`.
    In {
        of: Box<Expr>,
        list: Vec<Expr>,
    },
    /// `head->next` or `arg(0).x`: a member of a structure.
    Member {
        of: Box<Expr>,
        field: String,
        /// `->`: a member of the structure to which `of` points.
        arrow: bool,
    },
    /// `*arg(1)`: dereferences a pointer.
    Pointed(Box<Expr>),
    /// `T(n) for n in 1 to 8`: an argument of a reduction, for every integer of a range.
    Each {
        of: Box<Expr>,
        name: String,
        name_span: Span,
        from: Box<Expr>,
        to: Box<Expr>,
    },
}

plan::words! {
    sign:
    /// A binary operator other than comparisons.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operator {
        Or = "or",
        And = "and",
        Add = "+",
        Subtract = "-",
        Multiply = "*",
        Divide = "/",
        Remainder = "%",
        Power = "^",
    }
}

impl Operator {
    /// Its precedence; see the table in the parser.
    pub fn binding(self) -> u8 {
        match self {
            Operator::Or => binding::OR,
            Operator::And => binding::AND,
            Operator::Add | Operator::Subtract => binding::SUM,
            Operator::Multiply | Operator::Divide | Operator::Remainder => binding::PRODUCT,
            Operator::Power => binding::POWER,
        }
    }
}

/// Precedences of the operators, lowest first.
pub mod binding {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const COMPARE: u8 = 4;
    pub const SUM: u8 = 5;
    pub const PRODUCT: u8 = 6;
    pub const NEGATE: u8 = 7;
    pub const POWER: u8 = 8;
    pub const BY: u8 = 9;
    pub const PATH: u8 = 10;
    pub const ATOM: u8 = 11;
}

plan::words! {
    sign:
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Comparison {
        Equal = "==",
        Unequal = "!=",
        Less = "<",
        LessOrEqual = "<=",
        Greater = ">",
        GreaterOrEqual = ">=",
    }
}

impl Comparison {
    /// Whether two comparisons may occur in one chain: `a <= b < c`, but not `a < b > c`.
    pub fn chains_with(self, other: Comparison) -> bool {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        let down = |c| matches!(c, Less | LessOrEqual);
        let up = |c| matches!(c, Greater | GreaterOrEqual);
        (down(self) && down(other)) || (up(self) && up(other))
    }
}

impl Expr {
    pub fn new(span: Span, node: ExprNode) -> Expr {
        Expr { node, span }
    }

    pub fn children(&self) -> Vec<&Expr> {
        match &self.node {
            ExprNode::Number { .. } | ExprNode::Text(_) | ExprNode::Boolean(_) | ExprNode::Name(_) => {
                Vec::new()
            }
            ExprNode::Call { arguments, .. } => arguments.iter().collect(),
            ExprNode::Negate(of)
            | ExprNode::Not(of)
            | ExprNode::Pointed(of)
            | ExprNode::By { of, .. }
            | ExprNode::As { of, .. }
            | ExprNode::At { of, .. }
            | ExprNode::Member { of, .. } => vec![of],
            ExprNode::In { of, list } => std::iter::once(&**of).chain(list).collect(),
            ExprNode::Binary { left, right, .. } => vec![left, right],
            ExprNode::Where { of, condition } => vec![of, condition],
            ExprNode::Index { of, index } => vec![of, index],
            ExprNode::Over { of, count, .. } => vec![of, count],
            ExprNode::Each { of, from, to, .. } => vec![of, from, to],
            ExprNode::Compare { first, rest } => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, part)| part))
                .collect(),
        }
    }

    /// Every name in the formula, including called ones, with its place.
    pub fn names(&self) -> Vec<(&str, Span)> {
        let mut out: Vec<(&str, Span)> = self.children().into_iter().flat_map(Expr::names).collect();
        match &self.node {
            ExprNode::Name(name) => out.push((name, self.span)),
            ExprNode::By { key, key_span, .. } => out.push((key, *key_span)),
            ExprNode::At {
                place, place_span, ..
            } => out.push((place, *place_span)),
            ExprNode::Call {
                function,
                function_span,
                ..
            } => out.push((function, *function_span)),
            _ => {}
        }
        out
    }
}
