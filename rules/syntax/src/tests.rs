use proptest::prelude::*;

use super::ast::{Comparison, Expr, ExprNode, Operator};
use super::parser::parse;
use super::text::Text;
use crate::diag::Span;

fn text(raw: &str) -> Text {
    Text::locate(raw, raw, Span::new(0, raw.len()), 0)
}

/// The tree with explicit brackets.
fn bracketed(expr: &Expr) -> String {
    match &expr.node {
        ExprNode::Binary {
            operator,
            left,
            right,
        } => {
            format!("({} {} {})", bracketed(left), operator.sign(), bracketed(right))
        }
        ExprNode::Compare { first, rest } => {
            let rest: String = rest
                .iter()
                .map(|(c, e)| format!(" {} {}", c.sign(), bracketed(e)))
                .collect();
            format!("({}{rest})", bracketed(first))
        }
        ExprNode::Negate(of) => format!("(-{})", bracketed(of)),
        ExprNode::Not(of) => format!("(not {})", bracketed(of)),
        ExprNode::By { of, key, .. } => format!("({} by {key})", bracketed(of)),
        _ => expr.to_string(),
    }
}

fn check(formula: &str, expected: &str) {
    match parse(&text(formula)) {
        Ok(tree) => assert_eq!(bracketed(&tree), expected, "{formula}"),
        Err(wrong) => assert_eq!(format!("{} {}", wrong.code, wrong.message), expected, "{formula}"),
    }
}

#[test]
fn every_pair_of_operators_groups_by_the_table() {
    let levels: &[&[&str]] = &[
        &["or"],
        &["and"],
        &["<", "=="],
        &["+", "-"],
        &["*", "/", "%"],
        &["^"],
    ];
    for (i, looser) in levels.iter().enumerate() {
        for (j, tighter) in levels.iter().enumerate() {
            for a in *looser {
                for b in *tighter {
                    let formula = format!("x {a} y {b} z");
                    let left = format!("((x {a} y) {b} z)");
                    let right = format!("(x {a} (y {b} z))");
                    let chain = i == 2 && j == 2;
                    let expected = match (i, j) {
                        _ if chain && *a == "<" && *b == "<" => "(x < y < z)".to_string(),
                        _ if chain => "E0120 comparisons in a row must all run one way".to_string(),
                        (5, 5) => right,
                        _ if j > i => right,
                        _ => left,
                    };
                    check(&formula, &expected);
                }
            }
        }
    }
}

#[test]
fn prefixes_and_keys_group_by_the_table() {
    check("not x and y", "((not x) and y)");
    check("not x < y", "(not (x < y))");
    check("not not x", "(not (not x))");
    check("-x^2", "(-(x ^ 2))");
    check("x^-2", "(x ^ (-2))");
    check("-x * y", "((-x) * y)");
    check("x - -y", "(x - (-y))");
    check("sum(x) by process / 2", "((sum(x) by process) / 2)");
    check("2 * sum(x) by process", "(2 * (sum(x) by process))");
    check("sum(x) by process ^ 2", "((sum(x) by process) ^ 2)");
    check("1 <= value <= 8", "(1 <= value <= 8)");
    check("(a or b) and c", "((a or b) and c)");
    check("-x as i32 * 2", "((-x as i32) * 2)");
    check("x[y + 1]^2", "(x[y + 1] ^ 2)");
    check("mean(x over 5 / 2)", "mean(x over 5 / 2)");
    check("x over 5 * x over (n + 1)", "(x over 5 * x over (n + 1))");
    check("sum(x where x > 1 or y)", "sum(x where x > 1 or y)");
    check("not x in [1, 2] and y", "((not x in [1, 2]) and y)");
    check("x + 1 in [y * 2, -3] or z", "(x + 1 in [y * 2, -3] or z)");
    check("x at w.end - x at w.begin", "(x at w.end - x at w.begin)");
    check("x over 256 chunks / 2", "(x over 256 chunks / 2)");
    check("x over run by k", "(x over run by k)");
    check("*arg(1) as f64 * 2", "(*arg(1) as f64 * 2)");
    check("x * *p->q", "(x * *p->q)");
    check("arg(0).a[2]->b", "arg(0).a[2]->b");
    check("(*p).x + A::b", "((*p).x + A::b)");
    check("-*p^2", "(-(*p ^ 2))");
    check(
        "argmin(T(n) for n in 1 to m + 1) + 1",
        "(argmin(T(n) for n in 1 to m + 1) + 1)",
    );
}

#[test]
fn numbers_take_their_units() {
    check("50us + 4KiB", "(50us + 4KiB)");
    check("10% + 1", "(10% + 1)");
    check("10 % 3", "(10 % 3)");
    check("1e3 + 1.5e-3s", "(1e3 + 1.5e-3s)");
    check("1_000", "1000");
    check("5 ms", "E0121 the unit `ms` is separated from its number");
    check("5sec", "E0121 there is no unit `sec`");
}

#[test]
fn syntax_errors_are_reported_at_their_place() {
    check("", "E0120 expected a value, but the formula ends");
    check("1 +", "E0120 expected a value, but the formula ends");
    check("(1", "E0120 expected `)`, but the formula ends");
    check(
        "1 2",
        "E0120 expected an operator or the end, but `2` stands here",
    );
    check("a && b", "E0120 `&&` is not part of the language");
    check("a = b", "E0120 `=` is not part of the language");
    check("\"a", "E0122 this text has no closing quote");
    check(
        "x where y",
        "E0120 expected an operator or the end, but `where` stands here",
    );
    check("x[1", "E0120 expected `]`, but the formula ends");
    check(
        "f(x for 3)",
        "E0120 expected a name after `for`, but `3` stands here",
    );
    check("f(x for n 3)", "E0120 expected `in`, but `3` stands here");
    check(
        "x as 3",
        "E0120 expected a type such as `i32` after `as`, but `3` stands here",
    );
    check(
        "x at 3",
        "E0120 expected a probe or a boundary such as `iteration.end` after `at`, but `3` stands here",
    );
    check("x in 3", "E0120 expected `[`, but `3` stands here");
    check("x in []", "E0120 expected a value, but `]` stands here");
    check(
        "x in [1] < 2",
        "E0120 `in` and other comparisons do not stand in a row",
    );
    check(
        "x < 2 in [1]",
        "E0120 `in` and other comparisons do not stand in a row",
    );
    check("x->3", "E0120 expected the name of a member, but `3` stands here");
    check(
        "x as str(y)",
        "E0120 expected the longest length of a text: `str(32)`, but `y` stands here",
    );
    check("x over", "E0120 expected a value, but the formula ends");
    check(
        "a by 3",
        "E0120 expected a key such as `process` after `by`, but `3` stands here",
    );
    let long = format!("1{}", " + 1".repeat(300));
    check(
        &long,
        "E0123 a formula may have at most 256 parts, this one has 602",
    );
    let deep = "(".repeat(100_000);
    check(
        &deep,
        "E0123 a formula may have at most 256 parts, this one has 100001",
    );
}

/// The tree as text, without the places of its parts.
fn without_places(expr: &Expr) -> String {
    let tree = format!("{expr:?}");
    let behind = |part: &str| {
        part.split_once('}')
            .map_or(String::new(), |(_, rest)| rest.to_string())
    };
    let mut parts = tree.split("Span {");
    let first = parts.next().unwrap_or_default().to_string();
    std::iter::once(first).chain(parts.map(behind)).collect()
}

/// An argument of a call: a formula, possibly with a condition or a range.
fn argument(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let at = |node| Expr::new(Span::default(), node);
    let boxed = || inner.clone().prop_map(Box::new);
    prop_oneof![
        inner.clone(),
        (boxed(), boxed()).prop_map(move |(of, condition)| at(ExprNode::Where { of, condition })),
        (boxed(), boxed(), boxed()).prop_map(move |(of, from, to)| at(ExprNode::Each {
            of,
            name: "n".into(),
            name_span: Span::default(),
            from,
            to
        })),
    ]
}

fn any_leaf() -> impl Strategy<Value = ExprNode> {
    prop_oneof![
        (
            0u32..1000,
            prop::sample::select(vec![None, Some("ms"), Some("%"), Some("KiB")])
        )
            .prop_map(|(n, unit)| ExprNode::Number {
                digits: n.to_string(),
                unit
            }),
        prop::sample::select(vec!["x", "mpi.time", "send.duration"]).prop_map(|n| ExprNode::Name(n.into())),
        any::<bool>().prop_map(ExprNode::Boolean),
        "[a-z *.]{0,6}".prop_map(ExprNode::Text),
    ]
}

fn comparisons(up: bool) -> impl Strategy<Value = Comparison> {
    let all = if up {
        vec![Comparison::Greater, Comparison::GreaterOrEqual]
    } else {
        vec![Comparison::Less, Comparison::LessOrEqual]
    };
    prop::sample::select(all)
}

fn any_expr() -> impl Strategy<Value = Expr> {
    let at = |node| Expr::new(Span::default(), node);
    any_leaf().prop_map(at).prop_recursive(5, 40, 3, move |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let chain = |up: bool| {
            (
                boxed(),
                prop::collection::vec((comparisons(up), inner.clone()), 1..3),
            )
                .prop_map(|(first, rest)| ExprNode::Compare { first, rest })
        };
        prop_oneof![
            (prop::sample::select(Operator::ALL.to_vec()), boxed(), boxed()).prop_map(
                |(operator, left, right)| ExprNode::Binary {
                    operator,
                    left,
                    right
                }
            ),
            chain(true),
            chain(false),
            boxed().prop_map(ExprNode::Negate),
            boxed().prop_map(ExprNode::Not),
            boxed().prop_map(|of| ExprNode::By {
                of,
                key: "process".into(),
                key_span: Span::default()
            }),
            boxed().prop_map(|of| ExprNode::As {
                of,
                layout: "str(8)".into(),
                layout_span: Span::default()
            }),
            (boxed(), boxed()).prop_map(|(of, index)| ExprNode::Index { of, index }),
            (boxed(), boxed(), any::<bool>()).prop_map(|(of, count, hits)| ExprNode::Over {
                of,
                count,
                unit: hits.then(|| ("chunks".to_string(), Span::default()))
            }),
            boxed().prop_map(|of| ExprNode::At {
                of,
                place: "w.end".into(),
                place_span: Span::default()
            }),
            boxed().prop_map(ExprNode::Pointed),
            (boxed(), any::<bool>()).prop_map(|(of, arrow)| ExprNode::Member {
                of,
                field: "next".into(),
                arrow
            }),
            (boxed(), prop::collection::vec(inner.clone(), 1..3))
                .prop_map(|(of, list)| ExprNode::In { of, list }),
            prop::collection::vec(argument(inner.clone()), 0..3).prop_map(|arguments| ExprNode::Call {
                function: "min".into(),
                function_span: Span::default(),
                arguments
            }),
        ]
        .prop_map(at)
    })
}

proptest! {
    #[test]
    fn a_printed_formula_is_read_as_the_same_tree(expr in any_expr()) {
        let printed = expr.to_string();
        let parsed = parse(&text(&printed)).map_err(|wrong| TestCaseError::fail(format!("{printed}: {wrong:?}")))?;
        prop_assert_eq!(without_places(&parsed), without_places(&expr), "{}", printed);
    }

    #[test]
    fn no_text_makes_the_parser_panic(raw in ".{0,60}") {
        let _ = parse(&text(&raw));
    }

    #[test]
    fn no_row_of_tokens_makes_the_parser_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "x", "1", "5ms", "(", ")", "by", "process", "^", "-", "not", "and", "<", "==", ",", "f(", "where", "\"", "%",
            "at", "over", "in", "[", "]", "*", "->", ".", "as", "str(", "::",
        ]), 0..20)
    ) {
        let _ = parse(&text(&parts.join(" ")));
    }
}
