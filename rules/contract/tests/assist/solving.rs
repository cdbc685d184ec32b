//! Systems of equations: degrees of freedom, deadlocks, repairs, components.

use contract::{Arithmetic, Raise, Specification};

use super::{assessed, has, refused};

const PIPELINE: &str = "
contract: pipeline
streams:
  ab: {from: A, to: B}
  bc: {from: B, to: C}
  cd: {from: C, to: D}
modules:
  A: {gives: {ab: 1}}
  B: {takes: [ab], gives: {bc: 1}}
  C: {takes: [bc], gives: {cd: 1}}
  D: {takes: [cd]}
";

#[test]
fn s3_5_5_a_pipeline_has_one_degree_of_freedom_and_one_rate() {
    for requirement in ["A", "ab", "C.bc", "cd", "D"] {
        let source = format!("{PIPELINE}require: [{requirement} >= 3/s]\n");
        let assessed = assessed(&source);
        assert_eq!(assessed.degrees_of_freedom, 1);
        assert_eq!(assessed.specification, Specification::Exact);
        assert_eq!(assessed.arithmetic, Arithmetic::ExactFractions);
        assert_eq!(assessed.features.len(), 10);
        assert!(
            assessed.features.iter().all(|one| one.rate == 3.0),
            "{assessed:?}"
        );
    }
}

#[test]
fn s3_15_nothing_is_chosen_where_requirements_are_insufficient() {
    // The merge of §8.3: o1 + o2 = i3, and only i3 = 5 is required.
    let merge = "
contract: merge
streams:
  s: {from: [P1, P2], to: M}
modules:
  P1: {gives: {s: 1}}
  P2: {gives: {s: 1}}
  M: {takes: [s]}
require:
  - M >= 5/s
";
    let text = refused(merge);
    has(
        &text,
        &[
            "E0176",
            "1 more is needed",
            "P1.s",
            "P2.s",
            "P1,",
            "P2,",
            "contract.yaml:10:5",
        ],
    );
    let one_more = format!("{merge}  - P1 >= 2/s\n");
    let solved = assessed(&one_more);
    assert_eq!((solved.rate("P2"), solved.rate("M.s")), (Some(3.0), Some(5.0)));
    let none = refused(PIPELINE);
    has(&none, &["E0176", "nothing is required"]);
}

#[test]
fn s3_11_a_component_is_reduced_to_its_interfaces_and_its_inner_rates_are_projected() {
    // Fig. 10: two stages between i_z and o_z, inside a program.
    let source = "
contract: outer
streams:
  first: {from: A, to: Z}
  second: {from: Z, to: D}
modules:
  A: {gives: {first: 1}}
  Z: {contract: two_stages, map: {first: i_z, second: o_z}}
  D: {takes: [second]}
contracts:
  two_stages:
    streams:
      i_z: {to: B}
      inner: {from: B, to: C}
      o_z: {from: C}
    modules:
      B: {takes: [i_z], gives: {inner: 1}}
      C: {takes: [inner], gives: {o_z: 1}}
require:
  - second >= 4/s
";
    let outer = assessed(source);
    // The black box is i_z = o_z.
    assert_eq!(
        (outer.degrees_of_freedom, outer.rate("A"), outer.rate("Z.first")),
        (1, Some(4.0), Some(4.0))
    );
    let inner = &outer.parts["Z"];
    assert_eq!(inner.features.len(), 8);
    for feature in ["i_z", "B.i_z", "B", "B.inner", "C.inner", "C", "C.o_z", "o_z"] {
        assert_eq!(inner.rate(feature), Some(4.0), "{feature}");
    }
    // Level by level: the coefficients of the component are seen outside, and its rates inside.
    let halved = assessed(&source.replace("{inner: 1}", "{inner: 1/2}"));
    assert_eq!(halved.rate("A"), Some(8.0));
    assert_eq!(
        (halved.parts["Z"].rate("B"), halved.parts["Z"].rate("C")),
        (Some(8.0), Some(4.0))
    );
    // A requirement of the component that its interfaces cannot give.
    let more = source.replace("{o_z: 1}}\n", "{o_z: 1}}\n    require: [B >= 5/s, C >= 1/s]\n");
    let text = refused(&more);
    has(&text, &["E0178", "B >= 5/s", "i_z = 4/s"]);
    assert_eq!(
        text.matches("required").count(),
        1,
        "C >= 1/s contradicts nothing: {text}"
    );
}

/// Fig. 11: C sends two items for each of B, and D takes one of each.
const DEADLOCK: &str = "
contract: deadlock
streams:
  a: {from: A, to: [B, C]}
  b: {from: B, to: D}
  c: {from: C, to: D}
modules:
  A: {gives: {a: 1}}
  B: {takes: [a], gives: {b: 1}}
  C: {takes: [a], gives: {c: 2}}
  D: {takes: [b, c]}
require:
  - D >= 1/s
";

#[test]
fn s3_10_no_degree_of_freedom_is_a_deadlock_and_its_join_is_named() {
    let text = refused(DEADLOCK);
    has(
        &text,
        &[
            "E0177",
            "no rate is above 0",
            "`D` takes one item of",
            "contract.yaml:11:3",
        ],
    );
    let sound = assessed(&DEADLOCK.replace("{c: 2}", "{c: 1}"));
    assert_eq!(sound.rate("C"), Some(1.0));
}

#[test]
fn s3_5_6_a_cycle_with_a_gain_of_one_or_more_is_a_deadlock_and_is_named() {
    let cycle = |gain: &str| {
        let source = "
contract: cycle
streams:
  inflow: {from: S, to: A}
  back: {from: B, to: A}
  forth: {from: A, to: B}
  out: {from: A, to: E}
modules:
  S: {gives: {inflow: 1}}
  A:
    computations:
      first: {takes: [inflow], gives: {forth: 1, out: 1}}
      again: {takes: [back], gives: {forth: GAIN, out: 1}}
  B: {takes: [forth], gives: {back: 1}}
  E: {takes: [out]}
require:
  - S >= 1/s
";
        source.replace("GAIN", gain)
    };
    let sound = assessed(&cycle("9/10"));
    assert_eq!((sound.rate("B"), sound.rate("E")), (Some(10.0), Some(11.0)));
    for gain in ["1", "11/10"] {
        let text = refused(&cycle(gain));
        has(&text, &["E0177", "the cycle", "returns at least as many"]);
    }
}

#[test]
fn a_join_that_waits_for_what_it_sends_itself_is_a_deadlock() {
    let source = "
contract: round
streams:
  inp: {from: S, to: A}
  forth: {from: A, to: B}
  back: {from: B, to: A}
modules:
  S: {gives: {inp: 1}}
  A: {takes: [inp, back], gives: {forth: 1}}
  B: {takes: [forth], gives: {back: 1/2}}
require: [S >= 1/s]
";
    has(
        &refused(source),
        &["E0177", "`A` takes one item of", "comes back to it: B -> A -> B"],
    );
    assert_eq!(assessed(&source.replace("1/2", "1")).rate("B"), Some(1.0));
}

/// Fig. 12, with the coefficients of the reference.
pub(super) const THREE_CASES: &str = "
contract: three-cases
streams:
  s31: {from: N1, to: N3}
  s32: {from: N2, to: N3}
  s43: {from: N4, to: N3}
  s34: {from: N3, to: N4}
  s35: {from: N3, to: N5}
modules:
  N1: {gives: {s31: 1}}
  N2: {gives: {s32: 1}}
  N3:
    computations:
      a: {takes: [s31], gives: {s34: 3/4, s35: 1/4}}
      b: {takes: [s32], gives: {s34: 4/5, s35: 1/5}}
      c: {takes: [s43], gives: {s34: 9/10, s35: 1/10}}
  N4: {takes: [s34], gives: {s43: 1}}
  N5: {takes: [s35]}
require:
";

fn raise(feature: &str, from: f64, to: f64) -> Raise {
    Raise {
        feature: feature.to_string(),
        from,
        to,
    }
}

#[test]
fn s3_14_the_first_of_three_cases_is_insufficient_and_has_a_relation() {
    let text = refused(&format!("{THREE_CASES}  - N3.c >= 1/s\n  - N4 >= 1/s\n"));
    has(&text, &["E0176", "N5", "N3.a", "N3.b", "N3.c - N4 = 0"]);
}

#[test]
fn s3_16_the_second_of_three_cases_is_exact_and_repaired_where_a_rate_would_be_negative() {
    let met = assessed(&format!("{THREE_CASES}  - N3.a >= 1/s\n  - N5 >= 2/s\n"));
    assert_eq!((met.features.len(), met.degrees_of_freedom), (17, 2));
    assert_eq!(met.specification, Specification::Exact);
    assert!(met.raised.is_empty());
    // e3b = -e3a + e5, e3c = e4 = -0.5 e3a + 8 e5.
    assert_eq!(
        (met.rate("N3.b"), met.rate("N3.c"), met.rate("N4")),
        (Some(1.0), Some(15.5), Some(15.5))
    );
    let repaired = assessed(&format!("{THREE_CASES}  - N3.a >= 2/s\n  - N5 >= 1/s\n"));
    assert_eq!(repaired.raised, [raise("N5", 1.0, 2.0)]);
    assert!(repaired.alternatives.is_empty());
    assert_eq!(
        (repaired.rate("N3.b"), repaired.rate("N4")),
        (Some(0.0), Some(15.0))
    );
    assert_eq!(repaired.arithmetic, Arithmetic::ExactFractions);
}

#[test]
fn s3_17_the_third_of_three_cases_is_over_specified_and_repaired_by_the_least_raise() {
    let source = format!("{THREE_CASES}  - N3.a >= 1/s\n  - N3.b >= 1/s\n  - N5 >= 1/s\n");
    let repaired = assessed(&source);
    assert_eq!(repaired.specification, Specification::OverSpecified);
    assert_eq!(repaired.relations, ["N3.a + N3.b - N5 = 0"]);
    assert_eq!(repaired.raised, [raise("N5", 1.0, 2.0)]);
    assert_eq!(
        (repaired.rate("N3.c"), repaired.rate("N4")),
        (Some(15.5), Some(15.5))
    );
    // Requirements that are consistent are kept as stated.
    let consistent = assessed(&source.replace("N5 >= 1/s", "N5 >= 2/s"));
    assert!(consistent.raised.is_empty());
}

#[test]
fn where_the_least_repair_is_not_unique_the_others_are_named() {
    let source = "
contract: two-ways
streams:
  s: {from: [P1, P2], to: M}
modules:
  P1: {gives: {s: 1}}
  P2: {gives: {s: 1}}
  M: {takes: [s]}
require: [M >= 5/s, P1 >= 1/s, P2 >= 1/s]
";
    let assessed = assessed(source);
    let mut all: Vec<_> = assessed
        .alternatives
        .iter()
        .map(|raised| raised[0].clone())
        .collect();
    all.extend(assessed.raised);
    all.sort_by(|a, b| a.feature.cmp(&b.feature));
    assert_eq!(all, [raise("P1", 1.0, 4.0), raise("P2", 1.0, 4.0)]);
}

#[test]
fn s3_2_all_patterns_have_any_number_of_ends() {
    let source = |kind: &str| {
        format!(
            "
contract: patterns
streams:
  s: {{from: [A, B], to: [C, D, E]{kind}}}
modules:
  A: {{gives: {{s: 2}}}}
  B: {{gives: {{s: 1}}}}
  C: {{takes: [s]}}
  D: {{takes: [s]}}
  E: {{takes: [s]}}
require: [A >= 2/s, B >= 3/s"
        )
    };
    // Merged and broadcast: 2 * 2 + 3 to each.
    let broadcast = assessed(&format!("{}]\n", source("")));
    assert_eq!(
        (broadcast.degrees_of_freedom, broadcast.rate("D")),
        (2, Some(7.0))
    );
    let on_demand = assessed(&format!("{}, C >= 1/s, D >= 2/s]\n", source(", kind: on-demand")));
    assert_eq!(
        (on_demand.degrees_of_freedom, on_demand.rate("E")),
        (4, Some(4.0))
    );
}

#[test]
fn fractions_that_grow_too_large_are_solved_in_floating_point_with_a_residual() {
    let mut source = String::from("contract: growing\nstreams:\n");
    for at in 1..=30 {
        source.push_str(&format!("  s{at}: {{from: M{}, to: M{at}}}\n", at - 1));
    }
    source.push_str("modules:\n  M0: {gives: {s1: 1}}\n");
    for at in 1..30 {
        source.push_str(&format!(
            "  M{at}: {{takes: [s{at}], gives: {{s{}: 1.0{at:02}37}}}}\n",
            at + 1
        ));
    }
    source.push_str("  M30: {takes: [s30]}\nrequire: [M0 >= 1/s]\n");
    let assessed = assessed(&source);
    let expected: f64 = (1..30)
        .map(|at| 1.0 + (f64::from(at) * 100.0 + 37.0) / 1e5)
        .product();
    let Arithmetic::FloatingPoint { residual } = assessed.arithmetic else {
        panic!("{:?}", assessed.arithmetic)
    };
    assert!(residual < 1e-12, "{residual}");
    near!(assessed.rate("M30").unwrap() => expected, 9, "the product of the coefficients");
}
