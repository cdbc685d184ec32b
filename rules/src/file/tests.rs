pub(crate) mod schemas;

use std::collections::BTreeMap;

use proptest::prelude::*;
use syntax::diag::{line_column, render};

use super::{Bindings, RuleFile};

/// The cases of a file: `### NAME`, then the text of each.
pub(crate) fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let cases = text.split("### ").skip(1);
    cases.map(|case| case.split_once('\n').expect("a name, then the text"))
}

/// Frequent errors in YAML and in the structure of the file; each has its snapshot.
#[test]
fn what_is_wrong_with_a_file_is_shown_at_its_place_with_what_to_do() {
    for (name, source) in cases(include_str!("tests/wrong.txt")) {
        let wrong = RuleFile::parse(source).expect_err(name);
        insta::assert_snapshot!(name, render("rule.yaml", source, &wrong));
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
