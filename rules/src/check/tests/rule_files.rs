//! The complete language: nested windows, histories, probes and captures, changes, rules that use others.

use std::collections::BTreeMap;

use syntax::diag::render;

use super::errors;
use crate::file::tests::cases;
use crate::rule::{RunFold, Trigger};
use crate::term::{Fold, FoldRange, Term, Typed};
use crate::window::{Begin, Straddle};
use crate::{CheckedRule, Plan, RuleFile, Target};

fn effects(plan: &Plan) -> Vec<String> {
    plan.effects.iter().map(ToString::to_string).collect()
}

/// The rules of the design, each with its effects on a program.
const RULES: &[(&str, &str)] = &[
    (
        "optimal_workers",
        include_str!("../../../library/models/optimal-workers.yaml"),
    ),
    (
        "adjusting_factoring",
        include_str!("../../../tests/rules/adjusting-factoring.yaml"),
    ),
    ("factoring", include_str!("../../../tests/rules/factoring.yaml")),
    (
        "openmp_team_size",
        include_str!("../../../tests/rules/openmp-team-size.yaml"),
    ),
    (
        "barrier_imbalance",
        include_str!("../../../tests/rules/barrier-imbalance.yaml"),
    ),
    ("knobs", include_str!("../../../tests/rules/knobs.yaml")),
];

#[test]
fn the_rules_of_the_design_pass_and_say_what_they_do() {
    for (name, source) in RULES {
        let rule = CheckedRule::from_source(source).unwrap_or_else(|_| panic!("{}", errors(source)));
        assert!(rule.warnings().is_empty(), "{}", errors(source));
        insta::assert_snapshot!(format!("effects_of_{name}"), effects(rule.plan()).join("\n"));
    }
}

/// Two nested windows, with metrics.
const NESTED: &str = "\
rule: nested
about: windows in each other
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin: {role: master, entry: begin}
  end:   {role: master, return: end}
  send:  {role: master, span: send}
  work:  {role: worker, span: work}
capture:
  begin.number:  iteration
  begin.workers: nw
  send.tasks:    arg(1)
  work.number:   iteration
windows:
  iteration: {from: begin, to: end, key: number}
  batch:
    within: iteration
    from: [iteration, batch]
    until: sum(send.tasks) >= 8 * begin.workers
";

fn nested(metrics: &str) -> String {
    format!("{NESTED}metrics:\n{metrics}")
}

/// The metric `name`, which must be correct.
fn metric<'a>(rule: &'a CheckedRule, name: &str) -> (&'a Typed, usize) {
    let found = rule.metrics.iter().find(|metric| metric.name == name).unwrap();
    (&found.value, found.window)
}

fn checked(source: &str) -> CheckedRule {
    CheckedRule::from_source(source).unwrap_or_else(|_| panic!("{}", errors(source)))
}

/// The first fold in a formula.
fn fold(of: &Typed) -> Fold {
    let mut found = None;
    of.visit(&mut |term| {
        if let Term::Fold(fold) = term {
            found.get_or_insert_with(|| Fold::clone(fold));
        }
    });
    found.unwrap()
}

#[test]
fn a_chained_window_begins_with_the_one_around_it_and_again_when_it_closed() {
    let rule = checked(NESTED);
    let batch = rule.windows[1].boundaries().unwrap();
    assert_eq!(batch.from, [Begin::Enclosing(0), Begin::Itself]);
    assert_eq!((batch.within, batch.to), (Some(0), None));
    let mut reaches = Vec::new();
    batch.until.as_ref().unwrap().visit(&mut |term| {
        if let Term::Fold(fold) = term {
            reaches.push(fold.range);
        }
    });
    assert_eq!(reaches, [FoldRange::Instance, FoldRange::Enclosing(0)]);
}

#[test]
fn windows_see_of_each_other_what_is_known() {
    let rule = checked(&nested(
        "  C: {in: iteration, value: mean(work.duration)}\n  \
         n: {in: batch, value: sum(send.tasks)}\n  \
         both: {in: iteration, value: max(n) + count(batch)}\n  \
         left: {in: batch, value: begin.workers - sum(send.tasks over iteration)}\n  \
         before: {in: batch, value: \"C[-1] * iteration.index\"}\n",
    ));
    assert_eq!(metric(&rule, "both").1, 0);
    let terms = |name: &str| {
        let mut out = Vec::new();
        metric(&rule, name).0.visit(&mut |term| {
            out.push(match term {
                Term::Inner { window, .. } => format!("inner {window}"),
                Term::InnerCount(window) => format!("count {window}"),
                Term::Enclosing { window, back, .. } => format!("enclosing {window} -{back}"),
                Term::EnclosingIndex(window) => format!("index {window}"),
                Term::Fold(fold) => format!("{:?} {:?}", fold.reduction, fold.range),
                _ => return,
            });
        });
        out
    };
    assert_eq!(terms("both"), ["inner 1", "count 1"]);
    assert_eq!(terms("left"), ["Only Enclosing(0)", "Sum Enclosing(0)"]);
    assert_eq!(terms("before"), ["enclosing 0 -1", "index 0"]);
    assert_eq!(rule.windows[0].history, 1);
}

#[test]
fn a_metric_lives_in_the_innermost_window_of_what_it_names() {
    let rule = checked(&nested(
        "  a: sum(work.duration)\n  b: sum(send.tasks)\n  c: b * 2\n  d: iteration.duration\n  e: count(batch)\n  f: begin.workers\n",
    ));
    let windows = ["a", "b", "c", "d", "e", "f"].map(|name| metric(&rule, name).1);
    assert_eq!(windows, [0, 1, 1, 0, 0, 0]);
}

#[test]
fn a_history_has_a_value_in_every_window_that_uses_it() {
    let rule = checked(include_str!("../../../tests/rules/adjusting-factoring.yaml"));
    let spreads: Vec<_> = rule
        .metrics
        .iter()
        .filter(|metric| metric.name == "spread")
        .collect();
    assert_eq!(
        spreads.iter().map(|metric| metric.window).collect::<Vec<_>>(),
        [0, 1]
    );
    for spread in &spreads {
        assert_eq!(fold(&spread.value).range, FoldRange::Newest(256));
    }
    let mut workers = Vec::new();
    for spread in spreads {
        spread.value.visit(&mut |term| {
            if let Term::Fold(fold) = term
                && fold.range != FoldRange::Newest(256)
            {
                workers.push(fold.range);
            }
        });
    }
    assert_eq!(workers, [FoldRange::Instance, FoldRange::Enclosing(0)]);
}

#[test]
fn folds_over_the_run_are_kept_apart_and_in_order() {
    let rule = checked(&nested(
        "  x: {in: iteration, value: sum(work.duration)}\n  \
         y: mean(x over run) + count(work over run) * 1s\n  \
         z: ewma(x, 40% by begin.workers over run)[4] + ewma(y, 0.5)\n  \
         u: {in: iteration, value: mean(argmin(n * x for n in 1 to 3) over run)}\n",
    ));
    let weights: Vec<String> = rule
        .runs
        .iter()
        .map(|run| format!("{:?} {}", run.fold, run.by.is_some()))
        .collect();
    assert_eq!(
        weights,
        [
            "Reduce(Mean) false",
            "Ewma(0.4) true",
            "Ewma(0.5) false",
            "Reduce(Mean) false"
        ]
    );
    assert_eq!(fold(metric(&rule, "y").0).range, FoldRange::Run);
}

#[test]
fn one_end_of_a_span_is_a_boundary_and_captures_what_is_known_there() {
    let rule = checked(include_str!("../../../tests/rules/barrier-imbalance.yaml"));
    let region = rule.windows[0].boundaries().unwrap();
    assert_eq!((region.begins_at(), region.to), (Some(1), Some(0)));
    let plan = rule.plan();
    assert_eq!(plan.probes[1].name, "loop.entry");
    assert_eq!(plan.probes[1].site, crate::Site::Entry);
    assert_eq!(plan.probes[1].captures, plan.probes[0].captures);
    assert_eq!(plan.probes[0].to, Some(Target::Function("loop_stop".into())));
    let calls = fold(metric(&rule, "wait").0);
    assert_eq!(
        plan.probes[calls.probe].target,
        Target::Set(crate::FunctionSet::Mpi("*".into()))
    );
}

#[test]
fn measures_of_some_calls_are_kept_by_function_in_windows_of_time() {
    let rule = checked(
        "rule: a\nabout: b\nwindows:\n  w: {every: 1s}\nmetrics:\n  \
         x: sum(mpi.time where call in [\"MPI_Send\", \"MPI_Isend\"]) / sum(mpi.time)\n",
    );
    let mut found = 0;
    metric(&rule, "x")
        .0
        .visit(&mut |term| found += usize::from(matches!(term, Term::OfCalls { .. })));
    assert_eq!(found, 1);
}

/// A rule with marks and these captures.
fn with_marks(probe: &str, captures: &str) -> String {
    format!(
        "rule: a\nabout: b\nnames:\n  turn: one step\nprobes:\n  hit: {probe}\ncapture:\n{captures}windows:\n  i: {{from: hit}}\n\
         metrics:\n  x: sum(hit.x)\n"
    )
}

#[test]
fn a_mark_is_probed_with_its_arguments() {
    let source = with_marks(
        "{mark: app:step}",
        "  hit.x: arg(11) as f64 + *arg(1) as f64 * level\n",
    );
    let plan = checked(&source).plan().clone();
    let [probe] = plan.probes.as_slice() else {
        panic!("{} probes", plan.probes.len())
    };
    assert_eq!(
        (probe.site, &probe.target),
        (crate::Site::Entry, &Target::Mark("app:step".into()))
    );
    let sources: Vec<String> = probe
        .captures
        .iter()
        .map(|capture| capture.source.to_string())
        .collect();
    assert_eq!(sources, ["arg(11)", "*arg(1)", "level"]);
    assert_eq!(
        effects(&plan),
        ["probes mark app:step in every process, reads arg(11), *arg(1), level"]
    );
    let request = checked(&source).request();
    assert!(
        request.marks.contains("app:step")
            && request.functions.is_empty()
            && request.variables.contains("level")
    );
}

#[test]
fn a_value_that_a_mark_lacks_is_reported() {
    let wrong = [
        with_marks("{mark: turn}", "  hit.x: arg(0)\n"),
        with_marks("{mark: 'app:st*p'}", "  hit.x: arg(0)\n"),
        with_marks("{mark: app:step, entry: f}", "  hit.x: arg(0)\n"),
        with_marks("{mark: app:step}", "  hit.x: ret\n"),
        with_marks("{mark: app:step}", "  hit.x: arg(count)\n"),
        with_marks("{mark: app:step}", "  hit.x: arg(12)\n"),
        with_marks("{mark: app:step}", "  hit.x: arg(0)\n")
            .replace("sum(hit.x)", "sum(hit.duration * hit.x)"),
    ];
    insta::assert_snapshot!("marks", wrong.map(|source| errors(&source)).join("\n"));
}

#[test]
fn captures_say_the_way_to_a_value() {
    let captures = [
        ("arg(0)->count", "arg(0)->count"),
        ("arg(count)", "arg(count)"),
        ("arg(0).x", "arg(0).x"),
        ("*arg(1) as f64", "*arg(1)"),
        ("cfg.chunk", "cfg.chunk"),
        ("limits[2]", "limits[2]"),
        ("head->next->n", "head->next->n"),
        ("Class::member as u8", "Class::member"),
        ("(*ret).x", "ret->x"),
    ];
    for (written, planned) in captures {
        let source = format!(
            "rule: a\nabout: b\nprobes:\n  p: {{span: f}}\ncapture:\n  p.x: '{written}'\nwindows:\n  w: {{every: 1s}}\nmetrics:\n  x: sum(p.x)\n"
        );
        let rule = checked(&source);
        assert_eq!(rule.plan().probes[0].captures[0].source.to_string(), planned);
    }
    let text = "rule: a\nabout: b\nprobes:\n  p: {span: 'f*'}\ncapture:\n  p.name: arg(0) as str(16)\n  p.two: 2 * 1B\nwindows:\n  w: {every: 1s}\nmetrics:\n  x: count(p where name == \"a\" and function != \"fa\") * sum(p.two)\n";
    assert_eq!(checked(text).plan().probes[0].captures.len(), 2);
}

#[test]
fn a_tune_is_looked_at_at_hits_of_its_innermost_window() {
    let rule = checked(&format!(
        "{NESTED}tune:\n  - {{set: n, role: master, every: send, value: sum(send.tasks), at: {{entry: send}}}}\n"
    ));
    let [tune] = rule.tunes.as_slice() else { panic!() };
    assert_eq!(tune.trigger, Trigger::Hit { probe: 2, window: 1 });
    assert!(tune.when.is_none() && tune.at.is_some());
    let straddling = checked(&NESTED.replace("key: number}", "key: number, straddle: split}"));
    assert_eq!(
        straddling.windows[0].boundaries().unwrap().straddle,
        Straddle::Split
    );
    assert!(matches!(
        checked(&nested(
            "  x: {in: iteration, value: count(work)}\n  y: ewma(x, 1)\n"
        ))
        .runs[0]
            .fold,
        RunFold::Ewma(_)
    ));
}

/// Wrong formulas between nested windows.
#[test]
fn what_is_wrong_between_windows_is_shown_with_what_to_do() {
    for (name, metrics) in cases(include_str!("wrong-nested-formulas.txt")) {
        insta::assert_snapshot!(name, errors(&nested(metrics)));
    }
}

#[test]
fn mistakes_in_complete_rules_are_shown_with_what_to_do() {
    for (name, source) in cases(include_str!("wrong-complete-rules.txt")) {
        insta::assert_snapshot!(name, errors(source));
    }
}

#[test]
fn a_constant_outside_its_range_is_refused_and_a_range_that_is_measured_is_not_known() {
    let source = |value: &str, range: &str| {
        format!(
            "rule: a\nabout: b\nparameters: {{most: 10}}\nroles: {{rank: rank >= 0}}\nprobes:\n  sweep: {{span: sweep}}\n\
             windows:\n  pulse: {{every: 500ms}}\ntune:\n  - {{set: chunk, when: count(sweep) > 1, value: {value}, range: {range}}}\n"
        )
    };
    for (value, range) in [
        ("5", "1 <= value <= 10"),
        ("10", "1 <= value <= most"),
        ("count(sweep)", "1 <= value <= 10"),
        ("500", "1 <= value <= count(sweep)"),
        ("500", "value <= count(rank)"),
    ] {
        checked(&source(value, range));
    }
    let shown = errors(&source("50 * most", "1 <= value <= most"));
    for part in [
        "E0145",
        "rule.yaml:10:49",
        "500 is outside the range 1 <= value <= most: it would never be written",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
}

const USED: &str = "rule: iteration-time\nabout: b\nparameters:\n  slack: 10%\nroles:\n  master: rank == 0\n  other: rank > 0\nprobes:\n  begin: {role: master, entry: begin}\n  end: {role: master, return: end}\n  idle: {role: other, entry: idle}\nwindows:\n  iteration: {from: begin, to: end}\nmetrics:\n  T: iteration.duration * (1 + slack)\n  idled: count(idle)\n";

fn with_used(source: &str) -> Result<CheckedRule, String> {
    let library = |name: &str| match name {
        "iteration-time" => Some(USED.to_string()),
        "broken" => Some("rule: broken\n".to_string()),
        "round" => Some("rule: round\nabout: b\nuse: [round]\n".to_string()),
        _ => None,
    };
    let file = RuleFile::parse(source).and_then(|file| file.with_library(&library));
    file.and_then(|file| file.check(&BTreeMap::new()))
        .map_err(|wrong| render("rule.yaml", source, &wrong))
}

#[test]
fn a_rule_takes_from_another_what_it_needs_and_nothing_else() {
    let source =
        "rule: a\nabout: b\nuse: [iteration-time]\nroles:\n  worker: rank > 0\nmetrics:\n  half: T / 2\n";
    let rule = with_used(source).unwrap();
    let names: Vec<&str> = rule.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["T", "half"]);
    assert_eq!(rule.probes.len(), 2);
    assert_eq!(rule.roles.len(), 2);
    assert_eq!(rule.parameters()[0].0, "slack");
}

#[test]
fn a_rule_that_cannot_be_used_is_said_where_it_is_named() {
    for (name, uses, metrics) in [
        ("used_unknown", "nothing", "half: T / 2"),
        ("used_broken", "broken", "half: T / 2"),
        ("used_in_a_circle", "round", "half: T / 2"),
        ("used_for_nothing", "iteration-time", "half: 2"),
        ("used_with_a_clash", "iteration-time", "half: T / 2\n  slack: 3"),
    ] {
        let source = format!(
            "rule: a\nabout: b\nuse: [{uses}]\nwindows:\n  w: {{every: 1s}}\nmetrics:\n  {metrics}\n"
        );
        insta::assert_snapshot!(name, with_used(&source).map(|_| ()).unwrap_err());
    }
    let source = "rule: a\nabout: b\nuse: [x]\nwindows:\n  w: {every: 1s}\n";
    let wrong = RuleFile::parse(source)
        .unwrap()
        .check(&BTreeMap::new())
        .unwrap_err();
    insta::assert_snapshot!("used_and_not_looked_up", render("rule.yaml", source, &wrong));
}
