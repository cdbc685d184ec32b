//! The whole language: windows within windows, histories, probes and captures, changes, rules that use others.

use std::collections::BTreeMap;

use super::errors;
use crate::diag::render;
use crate::rule::{RunFold, Trigger};
use crate::term::{Fold, FoldRange, Term, Typed};
use crate::window::{Begin, Straddle};
use crate::{CheckedRule, RuleFile, Target};

/// The rules of the design, each with what it does to a program.
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
        insta::assert_snapshot!(format!("effects_of_{name}"), rule.plan().effects.join("\n"));
    }
}

/// Two windows, one in the other, and what is said of them.
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

/// The metric `name`, which must be right.
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

/// A rule with marks and these captures of them.
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
        plan.effects,
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
        "{NESTED}tune:\n  - {{set: n, role: master, every: send, value: sum(send.tasks), at: {{entry: send, decide: true}}}}\n"
    ));
    let [tune] = rule.tunes.as_slice() else { panic!() };
    assert_eq!(tune.trigger, Trigger::Hit { probe: 2, window: 1 });
    assert!(tune.when.is_none() && tune.at.is_some() && tune.decide.is_some());
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

/// What is wrong with the whole language's formulas, between windows that lie in each other.
const WRONG: &[(&str, &str)] = &[
    (
        "between_windows",
        "  C: {in: iteration, value: sum(work.duration)}\n  T: {in: batch, value: sum(send.duration) by process}\n  n: {in: batch, value: sum(send.tasks)}\n  a: {in: batch, value: C * 2}\n  b: {in: iteration, value: max(T)}\n  c: {in: batch, value: iteration.duration}\n  d: {in: batch, value: count(batch)}\n  e: {in: iteration, value: sum(send.tasks over batch)}\n  f: {in: batch, value: \"n[-1] + batch\"}\n  g: max(n)\n  h: {in: iteration, value: \"n[-1]\"}\n",
    ),
    (
        "over",
        "  x: {in: iteration, value: sum(work.duration)}\n  y: {in: iteration, value: sum(work.duration) by process}\n  a: {in: iteration, value: mean(work.duration over 5)}\n  b: {in: iteration, value: mean(work.duration over 5 sends)}\n  c: {in: iteration, value: mean(work.duration over 2.5 works)}\n  d: {in: iteration, value: \"quantile(work.duration over 256 works, 50%)\"}\n  e: {in: iteration, value: mean(y over run)}\n  f: x over run\n  g: mean(x over 5 works)\n  h: {in: iteration, value: mean(y over 5)}\n  i: {in: iteration, value: sum(work.duration over nothing)}\n  j: \"quantile(x over run, 50%)\"\n  k: \"ewma(x, 2)\"\n  l: \"ewma(y, 0.5)\"\n  m: \"ewma(x, 0.5 by y)\"\n",
    ),
    (
        "at_hits",
        "  a: {in: iteration, value: sum(cpu.time at iteration.end)}\n  b: {in: iteration, value: cpu.time at work}\n  c: {in: iteration, value: work.duration at end}\n  d: {in: batch, value: cpu.time at batch.begin}\n",
    ),
    (
        "calls",
        "  a: {in: iteration, value: sum(mpi.time where call == \"MPI_Send\")}\n  b: {in: iteration, value: sum(cpu.time where call == \"MPI_Send\")}\n  c: {in: iteration, value: sum(mpi.calls where call > 3)}\n  d: {in: iteration, value: sum(mpi.bytes where peer == 3)}\n  e: {in: iteration, value: call}\n  f: {in: iteration, value: sum(mpi.bytes where call == \"MPI_Send\") + 1s}\n",
    ),
    (
        "rows",
        "  w: {in: iteration, value: sum(work.duration) by process}\n  t: {in: iteration, value: sum(send.duration) by send.tasks}\n  a: {in: iteration, value: max(w where w > 1ms and process > 0)}\n  b: {in: iteration, value: max(w where 1 > 0)}\n  c: {in: iteration, value: max(t where process > 0)}\n  d: {in: iteration, value: max(t where key > 1s)}\n  e: {in: iteration, value: max(w where t > 1ms)}\n  f: {in: iteration, value: max(t where key > 1)}\n  g: {in: iteration, value: key}\n",
    ),
    (
        "quotients",
        "  a: {in: iteration, value: sum(work.duration) / count(work) by process}\n  b: {in: iteration, value: (sum(work.duration) by process) / (count(work) by process)}\n",
    ),
    (
        "lists",
        "  a: {in: iteration, value: \"count(work where process in [1, 2])\"}\n  b: {in: iteration, value: \"count(work where process in [1, 2s])\"}\n  c: {in: iteration, value: \"factoring_x(1s, 1, 1, 1) + factoring_x(1, 1s, 1, 1)\"}\n",
    ),
];

#[test]
fn what_is_wrong_between_windows_is_shown_with_what_to_do() {
    for (name, metrics) in WRONG {
        insta::assert_snapshot!(*name, errors(&nested(metrics)));
    }
}

const WRONG_RULES: &[(&str, &str)] = &[
    (
        "nested_windows",
        "rule: a\nabout: b\nprobes:\n  p: {entry: f}\n  q: {span: g}\n  r: {return: h}\ncapture:\n  p.n: n\nwindows:\n  t: {every: 1s, within: o, until: true}\n  o: {from: p}\n  a: {within: t, from: p}\n  b: {within: b, from: p}\n  c: {within: o, from: [p, q]}\n  d: {within: o, from: [o, d]}\n  e: {from: [e], to: q}\n  f: {within: o, from: [t], to: q}\n  g: {within: o, from: [o], to: q, until: count(p) > 3}\n  h: {within: o, from: [o], until: cpu.time > 1s}\n  i: {within: o, from: [o], until: m > 1}\n  j: {within: o, from: [o], to: q, key: n}\n  k: {from: r.entry, to: q.exit}\n  l: {from: o}\nmetrics:\n  m: {in: o, value: count(q)}\n",
    ),
    (
        "targets",
        "rule: a\nabout: b\nroles:\n  r: rank == 0\n  s: rank > 0\nprobes:\n  p: {role: r, entry: openmp.regoin}\n  q: {span: f}\n  o: {role: s, span: ['f*', g]}\n  n: {role: s, entry: a b}\n  m: {role: s, span: mpi.*}\n  l: {role: s, span: openmp.region}\ncapture:\n  m.function: x\nwindows:\n  w: {every: 1s}\nmetrics:\n  a: count(m where function > 3)\n  b: max(l.threads) + max(l.bytes)\n  c: sum(m.bytes) > 1s\n",
    ),
    (
        "ways",
        "rule: a\nabout: b\nprobes:\n  p: {span: f}\n  q: {return: f}\ncapture:\n  p.a: a->b->c->d->e->f\n  p.b: limits[n]\n  p.c: limits[-1]\n  p.d: sum(x)\n  p.e: '*arg(1) as str(99)'\n  p.f: ret as f64\n  p.g: '*ret as f64'\n  p.h: (1 + x)->y\n  p.i: arg(a, b)\n  q.a: arg(0)->x\n  q.b: a\n  q.c: b\n  q.d: c\n  q.e: d\n  q.f: e\n  q.g: f\n  q.h: g\nwindows:\n  w: {every: 1s}\nmetrics:\n  a: p->x\n  b: '*q'\n",
    ),
    (
        "changes",
        "rule: a\nabout: b\nroles:\n  r: rank == 0\n  s: rank > 0\nprobes:\n  p: {role: r, entry: f}\n  q: {role: s, entry: g}\nwindows:\n  w: {from: p}\nmetrics:\n  n: count(q)\ntune:\n  - {call: f, role: r}\n  - {call: f(nn), role: r}\n  - {call: \"f(1, 2, 3, 4, 5, 6, 7)\", role: r}\n  - {call: \"g(arg(0), 1s)\", role: r, value: 3}\n  - {load: a b, role: r, in: all}\n  - {replace: 'f*', role: r}\n  - {insert_call: f(), role: r, place: middle, in: g}\n  - {set_arg: f, role: r, value: 1}\n  - {set_arg: f(9), role: r, value: 1}\n  - {set_arg: f(1), role: r, value: sqrt(original)}\n  - {set_arg: f(2), role: r, value: 1s}\n  - {affinity: wide, role: r}\n  - {enable: pp}\n  - {disable: p, role: r, guard: {minimize: n, over: 1, undo_if_worse_by: 0%}}\n  - {set: arg(0), role: r, value: 1}\n  - {set: x, value: original}\n  - {set: y, role: r, value: 1, in: some}\n  - {set: z, role: r, value: 1, with: q, place: entry}\n  - {set: v, role: r, value: 1, guard: {minimize: n, over: 1, undo_if_worse_by: 0%}}\n  - {set: u, role: r, every: p, value: n, at: {entry: f, decide: 3}}\n  - {set: t, role: r, every: p, value: count(q), at: {entry: f, decide: true}}\n  - {finding: x, when: cpu.time > 1s, with: f}\n  - {set_arg: f(1), role: r, value: 2}\n",
    ),
    (
        "inverses",
        "rule: a\nabout: b\nprobes:\n  p: {entry: f}\nwindows:\n  w: {every: 1s}\nmetrics:\n  n: count(p)\ntune:\n  - {call: a(1), when: n > 0, guard: {minimize: n, over: 1, undo_if_worse_by: 0%}}\n  - {call: b(1), while: n > 0}\n  - {call: c(1), inverse: none, because: d, while: n > 0}\n  - {call: e(1), inverse: none}\n  - {call: f(1), was: g()}\n  - {call: h(1), because: i}\n  - {call: j(1), inverse: k(was)}\n  - {call: l(1), was: m(), inverse: o(1)}\n  - {call: q(1), was: r(), inverse: none, because: s}\n  - {call: t(1), was: u(), inverse: v(was), because: x}\n  - {call: y(1), was: z(level), inverse: aa(was)}\n  - {call: ab(1), was: ac(), inverse: ad(was + 1)}\n  - {call: ae(1), was: af(), inverse: ag}\n  - {call: ah(was), inverse: ai(1s)}\n  - {set: aj, value: 1, inverse: ak(1)}\n",
    ),
    (
        "types_and_places",
        "rule: a\nabout: b\nwindows:\n  w: {every: 1s}\ntune:\n  - {set: x as char, value: 1}\n  - {set: y as long, value: 1}\n  - {set: z as str(8), value: 1}\n  - {set_arg: f(0) as long, value: 1}\n  - {set_arg: \"GOMP_parallel(2)\", value: 1}\n  - {set_arg: GOMP_parallel(2) as u32, value: \"min(original, 1)\"}\n  - {set_arg: f(9) as u32, value: 1}\n  - {set_arg: openmp.size, value: \"min(original, 1)\"}\n  - {set_arg: openmp.size as u32, value: 1}\n  - {set_arg: openmp.region, value: 1}\n  - {set: u, value: 1, at: {entry: 'step*'}}\n  - {set: v, value: 1, at: {return: mpi.MPI_Send}}\n  - {set: t, value: 1, at: {entry: openmp.region}}\n  - {set: s, value: 1, at: {entry: 'libapp.so:'}}\n  - {set: r, value: 1, at: {return: ':step'}}\n  - {load: libtuned.so, at: {entry: step}}\n  - {affinity: spread, at: {entry: step}}\n  - {replace: f, with: g, together: w}\n  - {insert_call: f(level), in: g}\n  - {set: ok as f64, value: 1, at: {entry: 'libapp.so:step'}}\n",
    ),
    (
        "one_end_of_a_hit",
        "rule: a\nabout: b\nprobes:\n  p: {entry: f}\nwindows:\n  w: {every: 1s}\ntune:\n  - {set: x, every: p, value: 1}\n",
    ),
];

#[test]
fn mistakes_in_complete_rules_are_shown_with_what_to_do() {
    for (name, source) in WRONG_RULES {
        insta::assert_snapshot!(*name, errors(source));
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
