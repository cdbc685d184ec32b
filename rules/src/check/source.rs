//! Parses the path to a value in the program's memory: `cfg.chunk`, `arg(0)->count`, `*arg(1)`, `limits[2]`.

use std::collections::BTreeMap;

use syntax::ast::{Expr, ExprNode};
use syntax::diag::Diagnostic;

use crate::read::{Base, Source, Step};

/// Number of arguments in registers: others are not read.
pub(super) const ARGUMENTS: u8 = 6;
/// Maximum number of arguments of a mark.
pub(super) const MARK_ARGUMENTS: u8 = 12;
/// Maximum index of an element.
const INDEX_MAX: u32 = 65_535;
/// Maximum number of steps of a path, and of dereferences among them.
const STEPS_MAX: usize = 16;
pub(super) const DEPTH_MAX: usize = 4;

/// The program's names for the names that the rule declares.
pub(super) type Bindings = BTreeMap<String, String>;

/// Whether a formula has the form of a path, so that its names may be those of the program.
pub(super) fn is_path(expr: &Expr) -> bool {
    match &expr.node {
        ExprNode::Name(_) => true,
        ExprNode::Call { function, .. } => function == "arg",
        ExprNode::Member { of, .. } | ExprNode::Pointed(of) => is_path(of),
        ExprNode::Index { of, index } => is_path(of) && matches!(index.node, ExprNode::Number { .. }),
        _ => false,
    }
}

/// The path `expr`, at a function.
pub(super) fn source(expr: &Expr, bindings: &Bindings) -> Result<Source, Diagnostic> {
    source_of(expr, bindings, ARGUMENTS)
}

/// The path `expr`, with this maximum number of arguments.
pub(super) fn source_of(expr: &Expr, bindings: &Bindings, arguments_max: u8) -> Result<Source, Diagnostic> {
    let found = walk(expr, bindings, arguments_max)?;
    if found.steps.len() > STEPS_MAX || found.depth() > DEPTH_MAX {
        let message = format!("a value is read over at most {DEPTH_MAX} pointers and {STEPS_MAX} steps");
        let help = "let the program keep it in a global variable, and name that";
        return Err(Diagnostic::wrong("E0154", expr.span, message).help(help));
    }
    Ok(found)
}

fn walk(expr: &Expr, bindings: &Bindings, arguments_max: u8) -> Result<Source, Diagnostic> {
    match &expr.node {
        ExprNode::Name(name) => Ok(named(name, bindings)),
        ExprNode::Call {
            function, arguments, ..
        } if function == "arg" => argument(expr, arguments, arguments_max),
        ExprNode::Pointed(of) => {
            let mut source = walk(of, bindings, arguments_max)?;
            source.steps.push(Step::Dereference);
            Ok(source)
        }
        ExprNode::Member { of, field, arrow } => {
            let mut source = walk(of, bindings, arguments_max)?;
            source.steps.extend(arrow.then_some(Step::Dereference));
            source.steps.push(Step::Field(field.clone()));
            Ok(source)
        }
        ExprNode::Index { of, index } => {
            let mut source = walk(of, bindings, arguments_max)?;
            source.steps.push(Step::Index(element(index)?));
            Ok(source)
        }
        _ => Err(
            Diagnostic::wrong("E0134", expr.span, "this is not what a program has in its memory")
                .help("a global variable, `arg(0)`, `ret`, and from there `.x`, `->x`, `[2]`, `*`"),
        ),
    }
}

/// `ret`, or a global variable with members after dots. The binding of a name may have members too; a part
/// that begins with a digit belongs to the symbol.
fn named(name: &str, bindings: &Bindings) -> Source {
    if name == "ret" {
        return Source {
            base: Base::ReturnValue,
            steps: Vec::new(),
        };
    }
    let (first, rest) = name
        .split_once('.')
        .map_or((name, None), |(first, rest)| (first, Some(rest)));
    let bound = bindings.get(first).map_or(first, String::as_str);
    let mut symbol = String::new();
    let mut steps = Vec::new();
    for part in bound
        .split('.')
        .chain(rest.into_iter().flat_map(|rest| rest.split('.')))
    {
        let member = part.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if symbol.is_empty() {
            symbol.push_str(part);
        } else if member || !steps.is_empty() {
            steps.push(Step::Field(part.to_string()));
        } else {
            symbol.push('.');
            symbol.push_str(part);
        }
    }
    Source {
        base: Base::Global(symbol),
        steps,
    }
}

/// `arg(0)`, `arg(count)`.
fn argument(expr: &Expr, arguments: &[Expr], arguments_max: u8) -> Result<Source, Diagnostic> {
    let base = match arguments {
        [
            Expr {
                node: ExprNode::Name(name),
                ..
            },
        ] => Some(Base::NamedArgument(name.clone())),
        [
            Expr {
                node: ExprNode::Number { digits, unit: None },
                ..
            },
        ] => {
            let number = digits.parse().ok().filter(|number| *number < arguments_max);
            number.map(Base::Argument)
        }
        _ => None,
    };
    let steps = Vec::new();
    base.map(|base| Source { base, steps }).ok_or_else(|| {
        let message = format!(
            "an argument is named by its number, 0 to {}, or its name",
            arguments_max - 1
        );
        Diagnostic::wrong("E0153", expr.span, message).help("the first is `arg(0)`")
    })
}

fn element(index: &Expr) -> Result<u32, Diagnostic> {
    if let ExprNode::Number { digits, unit: None } = &index.node
        && let Some(index) = digits.parse().ok().filter(|index| *index <= INDEX_MAX)
    {
        return Ok(index);
    }
    let message = format!("the index of an element is a number, 0 to {INDEX_MAX}");
    Err(Diagnostic::wrong("E0153", index.span, message))
}
