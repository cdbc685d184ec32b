//! Contents: any split and order of the hits give equal contents, whose values are those of folding in order.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Content, Room};
use crate::eval::WindowData;
use crate::hit::Hit;
use crate::rule::CheckedRule;
use crate::value::{ProcessId, Scalar, Time, Value};

const RULE: &str = "\
rule: t
about: b
roles:
  r: rank >= 0
probes:
  x: {role: r, span: f}
  turn: {role: r, entry: g}
capture:
  x.a: a
  x.b: b
windows:
  w: {from: turn}
metrics:
  m_count: count(x)
  m_sum: sum(x.a)
  m_mean: mean(x.a)
  m_spread: stddev(x.duration)
  m_least: min(x.a)
  m_most: max(x.a)
  m_first: first(x.a)
  m_last: last(x.a)
  m_any: any(x.a > 2)
  m_chosen: sum(x.a where x.b > 1)
  m_above: count(x where x.a > mean(x.a))
  m_rows: sum(x.a) by x.b
  m_own: sum(x.duration) by process
  m_half: quantile(x.a, 50%)
  m_line: slope(x.a, x.b)
  m_all: product(x.a + 1)
  m_one: only(x.b)
";

fn any_hit() -> impl Strategy<Value = Hit> {
    let captured = prop_oneof![
        9 => (0i32..50).prop_map(|tenths| Ok(Scalar::Number(f64::from(tenths) / 10.0))),
        1 => prop::sample::select(vec!["z was not there", "a was not there"]).prop_map(|why| Err(why.to_string())),
    ];
    let number = (0i32..4).prop_map(|number| Ok(Scalar::Number(number.into())));
    (0u64..1000, 0u32..4, 0u64..1_000_000_007, captured, number).prop_map(
        |(time, process, duration_ns, a, b)| Hit {
            time: Time(time),
            process: ProcessId(process),
            rank: Some(process),
            host: None,
            thread: 1,
            duration_ns,
            captures: [a, b].into(),
        },
    )
}

fn content(rule: &CheckedRule, hits: &[Hit]) -> Content {
    let mut content = Content::new(Arc::clone(&rule.folds[0]), Room::default());
    hits.iter().for_each(|hit| content.take(0, hit));
    content
}

fn values(rule: &CheckedRule, content: Content) -> Vec<(String, Value)> {
    let window = WindowData {
        roles: vec![(0..4).map(ProcessId).collect()],
        probe_roles: rule.probe_roles(),
        ..WindowData::default()
    };
    rule.evaluate(
        0,
        &window.with(Arc::new(content)),
        crate::eval::called::Memory::default(),
    )
}

proptest! {
    #[test]
    fn any_split_and_order_of_the_hits_give_equal_contents_and_values(
        hits in prop::collection::vec(any_hit(), 0..90).prop_shuffle(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let rule = CheckedRule::from_source(RULE).unwrap();
        let mut ordered = hits.clone();
        ordered.sort_by(Hit::order);
        let whole = content(&rule, &ordered);
        let mut merged = Content::new(Arc::clone(&rule.folds[0]), Room::default());
        let mut rest = hits.as_slice();
        for cut in &cuts {
            let (part, others) = rest.split_at(cut.index(rest.len() + 1));
            merged.merge(&content(&rule, part));
            rest = others;
        }
        let mut last = content(&rule, rest);
        last.merge(&merged);
        prop_assert_eq!(&last, &whole);
        prop_assert_eq!(values(&rule, last), values(&rule, whole));
    }

    #[test]
    fn folds_are_what_folding_the_hits_in_their_order_gives(hits in prop::collection::vec(any_hit(), 1..60)) {
        let rule = CheckedRule::from_source(RULE).unwrap();
        let mut hits: Vec<Hit> = hits.into_iter().filter(|hit| hit.captures[0].is_ok()).collect();
        prop_assume!(!hits.is_empty());
        hits.sort_by_key(|hit| (hit.time, hit.process, hit.duration_ns));
        hits.dedup_by_key(|hit| (hit.time, hit.process, hit.duration_ns));
        let number = |hit: &Hit| match &hit.captures[0] {
            Ok(Scalar::Number(value)) => *value,
            _ => f64::NAN,
        };
        let found = values(&rule, content(&rule, &hits));
        let of = |name: &str| match &found.iter().find(|(known, _)| known.strip_prefix("m_") == Some(name)).unwrap().1 {
            Value::Single(Ok(Scalar::Number(value))) => *value,
            other => panic!("{name}: {other:?}"),
        };
        let sum: f64 = hits.iter().map(number).sum();
        let mean = sum / hits.len() as f64;
        prop_assert_eq!(of("count"), hits.len() as f64);
        prop_assert!((of("sum") - sum).abs() < 1e-9 && (of("mean") - mean).abs() < 1e-9);
        prop_assert_eq!(of("first"), number(&hits[0]));
        prop_assert_eq!(of("last"), number(&hits[hits.len() - 1]));
        prop_assert_eq!(of("least"), hits.iter().map(number).fold(f64::MAX, f64::min));
        prop_assert_eq!(of("most"), hits.iter().map(number).fold(f64::MIN, f64::max));
        let above = hits.iter().filter(|hit| number(hit) > of("mean")).count();
        prop_assert_eq!(of("above"), above as f64);
    }
}

#[test]
fn a_content_has_a_bound_that_grows_with_the_processes_and_says_when_it_was_reached() {
    let rule = CheckedRule::from_source(RULE).unwrap();
    let hit = |number: u32| Hit {
        time: Time(number.into()),
        process: ProcessId(0),
        rank: Some(0),
        host: None,
        thread: 1,
        duration_ns: 1,
        captures: [Ok(Scalar::Number(1.0)), Ok(Scalar::Number(number.into()))].into(),
    };
    let of = |room: Room| {
        let mut content = Content::new(Arc::clone(&rule.folds[0]), room);
        (0..70_000).for_each(|number| content.take(0, &hit(number)));
        content
    };
    let (small, large) = (of(Room::default()), of(Room::of(1000)));
    assert!(!small.has_room() && large.has_room());
    assert!(small.states() <= 65_600, "{}", small.states());
    assert!(small.kept[0].len() <= 65_536);
    assert_eq!((small.len(), large.len()), (70_000, 70_000));
    // A part of the hits has no values, also after it was merged into a content with more room.
    let mut merged = Content::new(Arc::clone(&rule.folds[0]), Room::of(1000));
    merged.merge(&small);
    assert!(!merged.has_room());
    for (name, value) in values(&rule, merged) {
        let expected = Value::none("it has more hits than are kept");
        assert_eq!(value, expected, "{name}");
    }
}
