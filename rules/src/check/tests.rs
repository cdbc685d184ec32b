use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use syntax::diag::render;

use crate::eval::called::Memory;
use crate::eval::partial::{Content, Room};
use crate::eval::{HitsInWindow, WindowData};
use crate::facts::ProcessFacts;
use crate::file::{RuleFile, tests::cases};
use crate::function::FUNCTIONS;
use crate::hit::Hit;
use crate::measure::Measure;
use crate::value::{Key, ProcessId, Scalar, Time, Value};
use crate::{CheckedRule, Delivery};

mod rule_files;

const FRAME: &str = "\
rule: test
about: a frame for formulas
parameters:
  gain: 3%
roles:
  master: rank == 0
  worker: rank > 0
probes:
  send: {role: master, span: send_task}
  step: {role: worker, entry: do_step}
capture:
  send.to: arg(1)
  send.size: arg(2) as i32 * 1B
  send.last: done as bool
windows:
  pulse: {every: 500ms}
metrics:
";

fn with_metrics(metrics: &str) -> String {
    format!("{FRAME}{metrics}")
}

fn errors(source: &str) -> String {
    match CheckedRule::from_source(source) {
        Ok(rule) => render("rule.yaml", source, rule.warnings()),
        Err(wrong) => render("rule.yaml", source, &wrong),
    }
}

/// Wrong formulas, several at a time; each list has its snapshot.
#[test]
fn what_is_wrong_with_formulas_is_shown_with_what_to_do() {
    for (name, metrics) in cases(include_str!("tests/wrong-formulas.txt")) {
        insta::assert_snapshot!(name, errors(&with_metrics(metrics)));
    }
}

#[test]
fn what_is_wrong_with_rules_is_shown_with_what_to_do() {
    for (name, source) in cases(include_str!("tests/wrong-rules.txt")) {
        insta::assert_snapshot!(name, errors(source));
    }
}

#[test]
fn the_example_of_every_function_checks() {
    for function in FUNCTIONS {
        let in_role = matches!(function.name, "loads" | "has");
        let source = if in_role {
            FRAME
                .replace("rank == 0", &format!("'{}'", function.example))
                .replace("metrics:\n", "")
        } else {
            with_metrics(&format!("  x: '{}'\n", function.example))
        };
        let rule = CheckedRule::from_source(&source);
        assert!(rule.is_ok(), "{}: {}", function.name, errors(&source));
        assert!(function.example.starts_with(function.name));
    }
}

#[test]
fn a_parameter_can_be_overridden_and_a_wrong_override_is_reported_at_its_place() {
    let file = RuleFile::parse(&with_metrics("  x: gain * 2\n")).unwrap();
    let check =
        |name: &str, value: &str| file.check(&BTreeMap::from([(name.to_string(), value.to_string())]));
    assert_eq!(
        check("gain", "5%").unwrap().parameters(),
        [("gain".to_string(), "5 %".to_string())]
    );
    for (value, code, what) in [
        ("abc", "E0130", "no value"),
        ("3ms", "E0141", "a time"),
        ("true", "E0141", "a boolean"),
    ] {
        let wrong = check("gain", value).unwrap_err();
        let expected =
            format!("`{value}` is {what}, and the parameter `gain` is a plain number, such as 3 %");
        assert_eq!(
            (wrong[0].code, &wrong[0].message, wrong.len()),
            (code, &expected, 1)
        );
    }
    for (name, value, code) in [
        ("gian", "5%", "E0130"),
        ("gain", "5 +", "E0120"),
        ("gain", "sum(mpi.time)", "E0134"),
    ] {
        let wrong = check(name, value).unwrap_err();
        assert_eq!((wrong[0].code, wrong.len()), (code, 1), "{name} = {value}");
    }
}

/// Three processes: 0 is the master, with two sends; 1 and 2 are workers.
fn window(rule: &CheckedRule) -> WindowData {
    let table = |values: [f64; 3]| {
        let rows = values
            .iter()
            .zip(0..)
            .map(|(value, id)| (Key::Process(ProcessId(id)), Ok(Scalar::Number(*value))));
        Value::Table(rows.collect())
    };
    let mut lost = table([1.0, 2.0, 3.0]);
    if let Value::Table(rows) = &mut lost {
        rows.insert(
            Key::Process(ProcessId(1)),
            Err("faults.minor of rank 1 was not observed in the window".into()),
        );
    }
    let hits = |count, seconds: f64, ends| {
        let sum_ns = (seconds * 1e9) as u64;
        Ok(HitsInWindow { count, sum_ns, ends })
    };
    let sends = (ProcessId(0), hits(2, 0.006, Some((0.002, 0.004))));
    let steps = [(1, 0), (2, 3)].map(|(process, count)| (ProcessId(process), hits(count, 0.0, None)));
    let mut content = Content::new(rule.folds[0].clone(), Room::default());
    content.take(0, &sent(2, 4, 2, 1024.0));
    content.take(0, &sent(1, 2, 1, 512.0));
    WindowData {
        index: 7,
        duration: Some(Ok(0.5)),
        roles: vec![[ProcessId(0)].into(), [ProcessId(1), ProcessId(2)].into()],
        measures: BTreeMap::from([
            (Measure::CpuTime, table([0.1, 0.2, 0.3])),
            (Measure::RunqueueTime, table([0.4, 0.2, 0.1])),
            (Measure::CpusAvailable, table([2.0, 2.0, 2.0])),
            (Measure::FaultsMinor, lost),
            (Measure::CpusOnline, Value::number(4.0)),
        ]),
        probes: vec![("send".into(), [sends].into()), ("step".into(), steps.into())],
        probe_roles: vec![0, 1],
        ranks: (0..3).map(|id| (ProcessId(id), id)).collect(),
        ..WindowData::default()
    }
    .with(Arc::new(content))
}

fn sent(ms: u64, duration_ms: u64, to: u32, size: f64) -> Hit {
    Hit {
        time: Time(ms * 1_000_000),
        process: ProcessId(0),
        rank: Some(0),
        host: None,
        thread: 7,
        duration_ns: duration_ms * 1_000_000,
        captures: [
            Ok(Scalar::Number(to.into())),
            Ok(Scalar::Number(size)),
            Ok(Scalar::Boolean(to == 2)),
        ]
        .into_iter()
        .collect(),
    }
}

fn value_of(formula: &str) -> String {
    let called = "  T(n): n * 2ms + 50ms / n\n  U(m): T(m) + sum(send.duration) * m\n";
    let source = with_metrics(&format!("  V: sum(faults.minor)\n{called}  x: '{formula}'\n"));
    let rule = CheckedRule::from_source(&source).unwrap_or_else(|_| panic!("{}", errors(&source)));
    let values = rule.evaluate(0, &window(&rule), Memory::default());
    let place = rule.metrics.iter().position(|metric| metric.name == "x").unwrap();
    values[place].1.show(rule.metrics[place].value.type_of)
}

/// Formulas, and their values as computed on paper.
const FORMULAS: [(&str, &str); 70] = [
    ("sum(cpu.time + runqueue.time) / pulse.duration", "2.6"),
    ("sum(cpu.time)", "600 ms"),
    ("mean(cpu.time) / max(cpu.time)", "0.667"),
    ("cpu.time / pulse.duration", "0.2 to 0.6 over 3 processes"),
    ("sum(cpu.time) by process", "100 ms to 300 ms over 3 processes"),
    ("max(cpus.available)", "2"),
    ("count(worker)", "2"),
    ("count(cpu.time)", "3"),
    ("count(send) / pulse.duration", "4/s"),
    ("mean(send.duration)", "3 ms"),
    ("min(send.duration) + max(send.duration)", "6 ms"),
    ("count(step) by process", "0 to 3 over 2 processes"),
    (
        "cpu.time * count(step) by process",
        "0 s to 900 ms over 2 processes",
    ),
    ("min(3, 1, 2)", "1"),
    ("max(cpu.time, 150ms)", "150 ms to 300 ms over 3 processes"),
    ("clamp(9, 1, 8)", "8"),
    ("floor(2.7) + ceil(0.2) + round(0.5) + abs(-1)", "5"),
    ("-2^2", "-4"),
    ("7 % 4", "3"),
    ("sum(send.size)", "1.5 KiB"),
    ("sum(send.size * 2 / 1KiB)", "3"),
    ("mean(send.duration / send.size) * 1KiB", "4 ms"),
    ("sum(send.size where send.to == 1)", "512 B"),
    ("sum(send.size where send.to == 1 or process > 0)", "512 B"),
    ("count(send where send.size > 1MiB)", "0"),
    ("count(send where last)", "1"),
    ("sum(send.size) by send.to", "512 B to 1 KiB over 2 rows"),
    (
        "(sum(send.size) by send.to) / (sum(send.duration) by send.to)",
        "250 KiB/s over 2 rows",
    ),
    ("sum(send.size) by process", "1.5 KiB over 1 process"),
    ("max(sum(send.size) by send.to)", "1 KiB"),
    ("argmax(sum(send.size) by send.to)", "2"),
    ("argmin(sum(send.size) by send.to) + argmax(cpu.time)", "3"),
    ("last(send.time) - first(send.time)", "1 ms"),
    ("first(send.to) + last(send.to)", "3"),
    ("product(send.to + 1)", "6"),
    ("stddev(send.duration)", "1 ms"),
    ("quantile(send.duration, 25%)", "2.5 ms"),
    ("slope(send.duration, send.size) * 512B", "2 ms"),
    ("intercept(send.duration, send.size) + 1s", "1 s"),
    ("any(send.to == 2) and not all(send.last)", "true"),
    ("changed(send.to) and not changed(cpus.available)", "true"),
    ("changed(send.to where send.to in [1, 3])", "false"),
    ("max(cpu.time where cpu.time < 250ms)", "200 ms"),
    ("sum(cpu.time where process > 0)", "500 ms"),
    ("count(sum(send.size) by send.to where key == 2)", "1"),
    ("factoring_x(0, 10, 5, 8) + factoring_x(3, 10, 5, 8)", "5"),
    ("only(send.size where send.to == 2)", "1 KiB"),
    ("only(send.thread)", "7"),
    ("sum(send.duration * count(worker))", "12 ms"),
    ("count(send where send.duration > mean(send.duration))", "1"),
    ("any(cpu.time > 250ms) and all(cpu.time > 50ms)", "true"),
    ("sqrt(4s * 1s)", "2 s"),
    ("T(2)", "29 ms"),
    ("U(count(worker))", "41 ms"),
    ("argmin(T(n) for n in 1 to 8)", "5"),
    ("argmin(max(n, 3) for n in 1 to 8)", "1"),
    ("argmax(min(n, 3) for n in 1 to 8)", "3"),
    (
        "min(T(n) for n in 1 to count(worker)) + T(argmin(T(k) for k in 1 to 9))",
        "49 ms",
    ),
    ("sum(sum(n * k for n in 1 to k) for k in 1 to 3)", "25"),
    ("sum(sum(send.duration * n) for n in 1 to 3)", "36 ms"),
    ("sum(T(send.to))", "81 ms"),
    ("cpu.time[2] - cpu.time[count(worker) - 1]", "100 ms"),
    ("(sum(send.size) by send.to)[last(send.to)]", "1 KiB"),
    ("sum(cpu.time[send.to])", "500 ms"),
    ("gain", "3 %"),
    ("pulse.index", "7"),
    ("cpus.online > 3 and not (1 < 0)", "true"),
    ("1 <= 2 <= 3", "true"),
    ("4KiB / 1s", "4 KiB/s"),
    ("(2s)^2 / 1s", "4 s"),
];

#[test]
fn formulas_have_the_values_that_paper_gives() {
    for (formula, expected) in FORMULAS {
        assert_eq!(value_of(formula), expected, "{formula}");
    }
}

#[test]
fn what_is_not_known_is_none_with_its_reason_and_spreads() {
    let lost = "faults.minor of rank 1 was not observed in the window";
    let because = format!("V has no value because {lost}");
    for (formula, reason) in [
        ("sum(faults.minor)", lost),
        ("V + 1", &because),
        ("V > 1 or true", &because),
        ("1 / 0", "its divisor is 0"),
        ("10^400", "the result is not a finite number"),
        ("clamp(1, 8, 2)", "clamp has its low bound above its high"),
        ("sum(mpi.time)", "mpi.time was not observed"),
        ("only(send.to)", "there is not one value, but 1 and 2"),
        (
            "mean(send.size where send.to > 2)",
            "send was hit 0 times in the window",
        ),
        ("any(send.host == \"a\")", "the host is not known"),
        ("sqrt(0 - 1)", "it is the root of a negative number"),
        ("cpu.time[7]", "it has no row 7"),
        ("argmin(T(n) for n in 1 to 0)", "its range has no numbers"),
        ("argmin(T(n) for n in 0 to 3)", "its divisor is 0"),
        ("sum(n for n in 1 to 20000)", "a range has at most 10000 numbers"),
        (
            "slope(send.duration where send.to == 1, send.size)",
            "a line needs two different x",
        ),
    ] {
        assert_eq!(value_of(formula), format!("none ({reason})"), "{formula}");
    }
}

#[test]
fn a_probe_that_was_not_hit_has_a_count_and_no_mean() {
    let rule =
        CheckedRule::from_source(&with_metrics("  n: count(send)\n  m: mean(send.duration)\n")).unwrap();
    let mut window = window(&rule);
    window.probes[0]
        .1
        .insert(ProcessId(0), Ok(HitsInWindow::default()));
    let shown: Vec<String> = rule
        .evaluate(0, &window, Memory::default())
        .iter()
        .zip(&rule.metrics)
        .map(|((_, v), m)| v.show(m.value.type_of))
        .collect();
    assert_eq!(shown, ["0", "none (send was hit 0 times in the window)"]);
}

#[test]
fn the_plan_asks_for_the_least_that_is_enough() {
    let probe = |metric: &str| {
        CheckedRule::from_source(&with_metrics(metric))
            .unwrap()
            .plan()
            .probes[0]
            .delivers
    };
    assert_eq!(probe("  x: 1\n"), Delivery::Nothing);
    assert_eq!(probe("  x: count(send)\n"), Delivery::Count);
    assert_eq!(
        probe("  x: count(send) * mean(send.duration)\n"),
        Delivery::Durations
    );
    assert_eq!(
        probe("  x: count(send) * max(send.duration)\n"),
        Delivery::EachHit
    );
    insta::assert_debug_snapshot!(
        "plan",
        CheckedRule::from_source(crate::library()[0].1).unwrap().plan()
    );
}

#[test]
fn a_role_chooses_by_facts_and_an_unknown_fact_never_gives_one() {
    let rule = CheckedRule::from_source(crate::library()[0].1).unwrap();
    let mut facts = ProcessFacts {
        exe: "lmp".into(),
        mpi: Some("Open MPI".into()),
        ..ProcessFacts::default()
    };
    assert!(rule.roles_of(&facts).is_empty());
    facts.symbols.insert("opal_progress_yield_when_idle".into());
    assert_eq!(rule.roles_of(&facts), ["rank"]);
    facts.mpi = None;
    assert!(rule.roles_of(&facts).is_empty());
}

#[test]
fn the_page_of_the_language_has_every_function_every_measure_the_grammar_and_a_rule_that_checks() {
    let page = include_str!("../../LANGUAGE.md");
    for function in FUNCTIONS {
        let row = format!(
            "| `{}` | {} | `{}` |",
            function.usage, function.doc, function.example
        );
        assert!(page.contains(&row), "{row}");
    }
    for &measure in Measure::ALL {
        let kind = format!("{:?} | {:?}", measure.kind(), measure.scope()).to_lowercase();
        assert!(
            page.contains(&format!("| `{}` | {kind} | ", measure.name())),
            "{}",
            measure.name()
        );
        assert!(
            page.contains(&format!(" | {} |", measure.doc())),
            "{}",
            measure.doc()
        );
    }
    let block = |text: &'static str, language: &str| {
        let start = text
            .split_once(&format!("```{language}\n"))
            .map(|(_, rest)| rest)?;
        start.split_once("```").map(|(block, _)| block)
    };
    let source = include_str!("../../syntax/src/parser.rs");
    let grammar = block(page, "ebnf").unwrap();
    for line in grammar.lines() {
        assert!(source.contains(&format!("//! {line}\n")), "{line}");
    }
    let rule = block(page, "yaml").unwrap();
    assert_eq!(errors(rule), "");
}

/// Random formulas, most of them invalid.
fn any_formula() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "2ms",
        "3KiB",
        "50%",
        "true",
        "\"t\"",
        "cpu.time",
        "cpus.online",
        "faults.minor",
        "gain",
        "count(worker)",
        "mean(send.duration)",
        "pulse.duration",
        "send.size",
        "send.to",
        "send.last",
        "n",
        "V over 2",
        "V[-1]",
        "0",
        "key",
        "process",
        "send.time over 3 sends",
        "send.size over run",
        "ewma(V, 50%)",
        "cpu.time at pulse.end",
        "factoring_x(1, V, V, V)",
    ]);
    leaf.prop_map(String::from).prop_recursive(4, 24, 2, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", " % ", "^", "<", "==", "and", "or"]);
        let call = prop::sample::select(vec![
            "sum", "mean", "min", "abs", "floor", "not", "-", "last", "argmin", "stddev", "only", "sqrt", "T",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, o, b)| format!("({a}) {o} ({b})")),
            (call, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("sum({a} where {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a} for n in 1 to {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) in [{b}]")),
            inner.prop_map(|a| format!("sum({a}) by send.to")),
        ]
    })
}

proptest! {
    #[test]
    fn what_checks_evaluates_to_a_value_of_its_type(formula in any_formula()) {
        let Ok(rule) = CheckedRule::from_source(&with_metrics(&format!("  T(m): m + 1\n  V: cpus.online\n  x: '{formula}'\n"))) else { return Ok(()) };
        let place = rule.metrics.iter().position(|metric| metric.name == "x").unwrap();
        let typed = &rule.metrics[place].value;
        if rule.metrics[place].is_called {
            return Ok(());
        }
        let window = window(&rule);
        let value = rule.evaluate(0, &window, Memory::default()).swap_remove(place).1;
        prop_assert!(value.is_a(typed.type_of), "{value:?}");
    }
}
