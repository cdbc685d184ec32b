use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Bindings, RuleFile};
use crate::diag::{line_column, render};

/// The traps of YAML and of the file's form; each has its snapshot.
const WRONG: &[(&str, &str)] = &[
    (
        "a_formula_that_begins_with_a_quote",
        "rule: a\nabout: b\nmetrics:\n  x: \"a\" == y\n",
    ),
    (
        "comma_swallowed_in_braces",
        "rule: a\nabout: b\ntune:\n  - {set: x, value: clamp(x, 1, max), when: a > 1}\n",
    ),
    (
        "comma_swallowed_in_a_guard",
        "rule: a\nabout: b\ntune:\n  - set: x\n    guard: {maximize: min(a, b), over: 5}\n",
    ),
    (
        "bracket_in_braces",
        "rule: a\nabout: b\nmetrics:\n  x: {in: w, value: y[-1]}\n",
    ),
    ("colon_and_space_in_a_plain_value", "rule: a\nabout: slow: very\n"),
    (
        "colon_and_space_in_a_finding",
        "rule: a\nabout: b\ntune:\n  - finding: ranks spin: {x} of them\n",
    ),
    (
        "switches_as_values",
        "rule: a\nabout: b\nmetrics:\n  x: yes\n  y: Off\nparameters:\n  on: 1\n",
    ),
    ("nulls", "rule: a\nabout:\nsource: ~\nparameters:\n  p: null\n"),
    (
        "duplicate_key",
        "rule: a\nabout: b\nmetrics:\n  x: 1\n  y: 2\n  x: 3\n",
    ),
    (
        "anchor_and_alias",
        "rule: a\nabout: b\nmetrics:\n  x: &one 1 + 1\n  y: *one\n",
    ),
    ("alias_of_nothing", "rule: a\nabout: b\nmetrics:\n  y: *one\n"),
    ("tag", "rule: a\nabout: !!str b\n"),
    ("merge", "rule: a\nabout: b\nmetrics:\n  <<: {x: 1}\n"),
    ("two_documents", "rule: a\nabout: b\n---\nrule: c\n"),
    ("empty", "# nothing here\n"),
    ("not_closed", "rule: a\nabout: b\nwindows: {pulse: {every: 1s}\n"),
    ("tabs", "rule: a\nroles:\n\tx: rank == 0\n"),
    ("a_list_as_the_file", "- rule: a\n- rule: b\n"),
    (
        "priority_that_is_no_number",
        "rule: a\nabout: b\npriority: first\n",
    ),
    ("unknown_keys", "rule: a\nabuot: b\nmetric: {}\nxyz: 1\n"),
    (
        "keys_of_later_versions",
        "rule: a\nabout: b\nwindows:\n  i: {detect: period}\n",
    ),
    (
        "numbers_of_other_readers",
        "rule: a\nabout: b\nmetrics:\n  time: 12:30\n  hex: 0x10\n  none: ~\n  date: 2001-01-01\n  list: [1, 2]\n",
    ),
    (
        "roles_and_probes",
        "rule: a\nabout: b\nroles:\n  r: {if: rank > 0, count: 5..2}\n  s: {count: 1..}\n  t: {if: rank > 0, count: few}\n  u: {iff: rank > 0}\nprobes:\n  p: {span: [f]}\n  q: {entry: [f, g]}\n  o: {span: [f, [g]]}\n",
    ),
    (
        "changes",
        "rule: a\nabout: b\ntune:\n  - {set: x, call: f()}\n  - {call: f(}\n  - {set: [x]}\n  - {set: x, at: {entry: f, return: g}}\n  - {set: x, at: {entry: f, decided: true}}\n",
    ),
    ("bindings_are_no_rule", "for: a\nnames: {x: y}\n"),
    (
        "metrics",
        "rule: a\nabout: b\nmetrics:\n  T(n: n\n  U(1): 1\n  V(n, m): n\n  C: {in: i}\n  D: {value: 1}\n",
    ),
    (
        "joins",
        "rule: a\nabout: b\njoin:\n  e: {of: [p], by: [p.n = q.n]}\n  f: {of: [p, q], by: [p.n]}\n  g: {of: p, by: []}\n  h: {by: []}\n",
    ),
    (
        "captures",
        "rule: a\nabout: b\ncapture:\n  plain: x\n  p.h i: x\n  p.to: arg(1)\n  p.x: [1]\n",
    ),
    (
        "wrong_shapes",
        "rule: [a]\nabout: b\nmetrics: 3\ntune: {set: x}\nroles:\n  r: [1]\n",
    ),
    (
        "missing",
        "about: b\nprobes:\n  p: {role: r}\n  q: {entry: f}\nwindows:\n  w: {}\ntune:\n  - guard: {over: 5}\n",
    ),
    (
        "bad_names",
        "rule: Busy Wait\nabout: b\nmetrics:\n  in: 1\n  2x: 1\n  a-b: 1\n",
    ),
    (
        "columns_in_formulas",
        "rule: a\nabout: b\nmetrics:\n  plain: 1 + $\n  quoted: '1 + $'\n  double: \"1 + $\"\n  escaped: \"1\\t+ $\"\n  literal: |\n    1 +\n      2 + $\n  folded: >-\n    1 +\n    2 + $\n  lines: 1 +\n    2 + $\n  wide: λ + $\n",
    ),
    (
        "templates",
        "rule: a\nabout: b\ntune:\n  - finding: \"{x\"\n  - finding: x}\n  - finding: a {1 + } b {2 $} c\n",
    ),
];

#[test]
fn what_is_wrong_with_a_file_is_shown_at_its_place_with_what_to_do() {
    for (name, source) in WRONG {
        let wrong = RuleFile::parse(source).expect_err(name);
        insta::assert_snapshot!(*name, render("rule.yaml", source, &wrong));
    }
}

#[test]
fn a_bindings_file_says_what_a_program_calls_the_names_of_a_rule() {
    let source = "for: optimal-workers\nnames:\n  nw: cfg.workers\n  begin_iteration: Master::begin\n";
    assert!(Bindings::is_bindings(source) && !Bindings::is_bindings(crate::models()[0].1));
    let bindings = Bindings::parse(source).unwrap();
    assert_eq!(bindings.rule, "optimal-workers");
    let file = RuleFile::parse(crate::models()[0].1).unwrap();
    let plan = file
        .bind(&bindings.names)
        .unwrap()
        .check(&BTreeMap::new())
        .unwrap()
        .plan()
        .clone();
    assert_eq!(plan.probes[0].function, "Master::begin");
    assert_eq!(plan.probes[0].captures[1].source.to_string(), "cfg.workers");
    for (name, source) in [
        ("bindings_with_more", "for: a\nnames: {x: y}\nmetrics: {m: 1}\n"),
        ("bindings_of_nothing", "for: a\n"),
    ] {
        let wrong = Bindings::parse(source).expect_err(name);
        insta::assert_snapshot!(name, render("bindings.yaml", source, &wrong));
    }
}

#[test]
fn an_instance_of_a_rule_has_a_name_of_its_own() {
    let file = RuleFile::parse(crate::models()[0].1).unwrap();
    let left = file.clone().instance("left").unwrap();
    assert_eq!(left.name(), "optimal-workers@left");
    let rule = left
        .check(&BTreeMap::from([("gain".to_string(), "5%".to_string())]))
        .unwrap();
    assert_eq!(
        (rule.name(), rule.plan().rule.as_str()),
        ("optimal-workers@left", "optimal-workers@left")
    );
    let wrong = file.instance("Left side").unwrap_err();
    assert_eq!(wrong[0].code, "E0113");
}

#[test]
fn every_place_in_a_formula_is_the_place_in_the_file() {
    let styles = [
        "m: a + b\n",
        "m: 'a + b'\n",
        "m: \"a + b\"\n",
        "m: |\n    a +\n      b\n",
        "m: >\n    a +\n    b\n",
        "m: a\n    + b\n",
    ];
    for style in styles {
        let source = format!("rule: é\nabout: é\nmetrics:\n  {style}");
        let source = source.replace("rule: é", "rule: e");
        let file = RuleFile::parse(&source).unwrap();
        let names = file.metrics[0].named.expr.names();
        let found: Vec<&str> = names
            .iter()
            .map(|(_, span)| &source[span.start..span.end])
            .collect();
        assert_eq!(found, ["a", "b"], "{source}");
        let lines: BTreeMap<&str, usize> = names
            .iter()
            .map(|(name, span)| (*name, line_column(&source, span.start).0))
            .collect();
        assert!(lines["a"] <= lines["b"]);
    }
}

#[test]
fn deep_and_long_files_are_refused() {
    let deep = |levels| {
        format!(
            "rule: a\nabout: b\nmetrics: {}{}",
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    let codes = |source: &str| {
        RuleFile::parse(source)
            .unwrap_err()
            .iter()
            .map(|d| d.code)
            .collect::<Vec<_>>()
    };
    assert_eq!(codes(&deep(30)), ["E0123"]);
    assert_eq!(codes(&deep(100_000)).len(), 1);
    assert_eq!(codes(&"#".repeat(300_000)), ["E0123"]);
    let many: String = (0..300).map(|i| format!("  m{i}: 1\n")).collect();
    assert_eq!(codes(&format!("rule: a\nabout: b\nmetrics:\n{many}")), ["E0123"]);
    let many = "  - {when: true, finding: x}\n".repeat(300);
    assert_eq!(codes(&format!("rule: a\nabout: b\ntune:\n{many}")), ["E0123"]);
}

#[test]
fn of_many_mistakes_the_first_are_listed_and_the_others_counted() {
    let many: String = (0..25_000).map(|i| format!("k{i}: 1\n")).collect();
    let wrong = RuleFile::parse(&format!("rule: a\nabout: b\n{many}")).unwrap_err();
    assert_eq!(wrong.len(), 101);
    assert!(wrong[..100].iter().all(|wrong| wrong.code == "E0110"));
    assert_eq!(wrong[100].message, "24900 more are not listed");
    let twice = "k: 1\n".repeat(200);
    let wrong = RuleFile::parse(&format!("rule: a\nabout: b\n{twice}")).unwrap_err();
    assert_eq!(wrong[100].message, "100 more are not listed");
}

proptest! {
    #[test]
    fn no_file_makes_the_reader_panic(source in "[a-z{}\\[\\],:&*!|>'\"%#~\\n \\-λ0-9()+]{0,120}") {
        if let Err(wrong) = RuleFile::parse(&source) {
            render("x", &source, &wrong);
        }
    }

    #[test]
    fn no_damage_to_a_rule_makes_reading_or_checking_panic(at in 0usize..2000, cut in 0usize..40, put in "[{}\\[\\]():,\"'\\n a1%-]{0,4}") {
        let page = include_str!("../../LANGUAGE.md");
        let example = page.split("```").find_map(|block| block.strip_prefix("yaml\n")).unwrap();
        let whole = [
            include_str!("../../tests/rules/adjusting-factoring.yaml"),
            include_str!("../../tests/rules/factoring.yaml"),
            include_str!("../../tests/rules/barrier-imbalance.yaml"),
            include_str!("../../tests/rules/knobs.yaml"),
        ];
        for text in whole.into_iter().chain([crate::library()[0].1, crate::models()[0].1, example]) {
            let from = text.floor_char_boundary(at.min(text.len()));
            let to = text.floor_char_boundary((from + cut).min(text.len()));
            let source = format!("{}{put}{}", &text[..from], &text[to..]);
            if let Err(wrong) = crate::CheckedRule::from_source(&source) {
                render("x", &source, &wrong);
            }
        }
    }
}
