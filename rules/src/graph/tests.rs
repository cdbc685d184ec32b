use super::*;

fn rule(source: &str) -> CheckedRule {
    CheckedRule::from_source(source)
        .unwrap_or_else(|wrong| panic!("{}", crate::render("rule.yaml", source, &wrong)))
}

const TIMED: &str = "\
rule: timed
about: parts at every place
probes:
  send: {span: send}
  open: {entry: 'open*'}
capture:
  send.to:    arg(1)
  send.size:  arg(2) * 1B
  send.ratio: '*arg(3) as f64'
windows:
  w: {every: 500ms}
parameters:
  half: 1 / 2
metrics:
  a: count(send) * 1s + max(send.duration)
  b: sum(send.size) by send.to
  c: sum(send.ratio) * 1B + sum(send.size where send.to > 1)
  d: max(cpu.time / w.duration) * half * 2
  e: 'quantile(send.duration, 95%)'
  f: count(open where function == \"openat\")
tune:
  - {set: n, value: floor(max(b) / 1B), when: a > 3s and count(send) > 1 or f > half + 1}
";

#[test]
fn parts_are_shared_folded_and_placed_as_low_as_they_can_go() {
    let graph = graph(&[rule(TIMED)]);
    let place = |label: &str| {
        let node = graph.nodes.iter().find(|node| node.label == label);
        node.unwrap_or_else(|| panic!("{label}: {}", graph.text())).place
    };
    for (label, expected) in [
        ("count(send)", Placement::Kernel),
        ("sum(send.size) by send.to", Placement::Node),
        ("sum(send.ratio)", Placement::Node),
        ("sum(send.size where send.to > 1)", Placement::Node),
        ("cpu.time", Placement::Node),
        ("quantile(send.duration, 95%)", Placement::Node),
    ] {
        assert_eq!(place(label), Some(expected), "{label}");
    }
    assert_eq!(place("1.5"), None, "half + 1 is a constant");
    let counts = graph.nodes.iter().filter(|node| node.label == "count(send)");
    assert_eq!(counts.count(), 1, "it is used twice");
    insta::assert_snapshot!("timed", graph.text());
}

#[test]
fn a_function_is_probed_once_with_all_that_its_rules_capture() {
    let both = [
        rule(TIMED),
        rule(
            "rule: other\nabout: b\nprobes:\n  mine: {entry: send}\ncapture:\n  mine.n: steps\nwindows:\n  w: {every: 1s}\nmetrics:\n  n: sum(mine.n)\n",
        ),
    ];
    let graph = graph(&both);
    let send = &graph.probes[0];
    assert_eq!(
        (send.function.as_str(), send.entry, send.returns),
        ("send", true, true)
    );
    assert_eq!(send.captures.len(), 4);
    assert_eq!(send.used_by, ["timed.send", "other.mine"]);
    assert_eq!(send.reads_too_many(), 0);
}

#[test]
fn the_plan_of_a_model_is_shown_as_text_and_for_graphviz() {
    let models = [
        (
            "optimal_workers",
            include_str!("../../library/models/optimal-workers.yaml"),
        ),
        (
            "adjusting_factoring",
            include_str!("../../tests/rules/adjusting-factoring.yaml"),
        ),
        ("factoring", include_str!("../../tests/rules/factoring.yaml")),
        (
            "barrier_imbalance",
            include_str!("../../tests/rules/barrier-imbalance.yaml"),
        ),
    ];
    for (name, source) in models {
        let graph = graph(&[rule(source)]);
        insta::assert_snapshot!(name, graph.text());
        for (place, node) in graph.nodes.iter().enumerate() {
            assert!(node.parts.iter().all(|part| *part < place), "parts come first");
        }
    }
    insta::assert_snapshot!("dot", graph(&[rule(models[3].1)]).dot());
}
