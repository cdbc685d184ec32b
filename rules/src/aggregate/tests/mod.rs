//! The laws of every aggregate, and the data on which they are tested.

mod bounds;
mod golden;
mod mixed;
mod naive;
mod numbers;
mod product;
mod rounding;
mod sound;

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Merge;

/// The values in the order of a single evaluator, and their distribution over nodes.
#[derive(Clone, Debug)]
struct Split<V> {
    values: Vec<V>,
    /// Each value's index, in the order of arrival, with its node.
    arrivals: Vec<(usize, usize)>,
    nodes: usize,
    /// The two remaining parts that are merged next.
    merges: Vec<(usize, usize)>,
}

/// Up to 40 values, in any order over 1 to 16 nodes, merged in any tree.
fn split<V: Clone + Debug>(value: impl Strategy<Value = V>) -> impl Strategy<Value = Split<V>> {
    (vec(value, 0..40), 1..=16_usize).prop_flat_map(|(values, nodes)| {
        let order = Just((0..values.len()).collect::<Vec<_>>()).prop_shuffle();
        let places = vec(0..nodes, values.len());
        let merges = vec((any::<usize>(), any::<usize>()), nodes);
        (Just(values), order, places, merges).prop_map(move |(values, order, places, merges)| Split {
            values,
            arrivals: order.into_iter().zip(places).collect(),
            nodes,
            merges,
        })
    })
}

/// The state of a single evaluator that gets all values in order, after all laws were tested.
fn lawful<A, V>(split: &Split<V>, add: impl Fn(&mut A, &V)) -> A
where
    A: Merge + Default + Clone + PartialEq + Debug,
{
    let mut central = A::default();
    for value in &split.values {
        add(&mut central, value);
    }
    let mut parts = vec![A::default(); split.nodes];
    for (index, node) in &split.arrivals {
        add(&mut parts[*node], &split.values[*index]);
    }
    let merged = |a: &A, b: &A| {
        let mut both = a.clone();
        both.merge(b);
        both
    };
    let empty = A::default();
    for a in &parts {
        assert_eq!(merged(a, &empty), *a, "the empty one changes nothing");
        assert_eq!(merged(&empty, a), *a, "the empty one becomes the other");
    }
    for three in parts.windows(3) {
        let [a, b, c] = three else { unreachable!() };
        assert_eq!(merged(a, b), merged(b, a), "commutative");
        assert_eq!(merged(&merged(a, b), c), merged(a, &merged(b, c)), "associative");
    }
    for (one, other) in &split.merges {
        if parts.len() > 1 {
            let taken = parts.swap_remove(one % parts.len());
            let index = other % parts.len();
            parts[index].merge(&taken);
        }
    }
    assert_eq!(parts, [central.clone()], "any split and order");
    central
}

/// Doubles of every kind: all bit patterns, subnormal numbers, extremes, and values that nearly cancel.
fn doubles() -> impl Strategy<Value = f64> {
    let ends = [
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        1e300,
        -1e300,
        1.0,
        -1.0,
        1.0 + f64::EPSILON,
        1.0 - f64::EPSILON / 2.0,
        0.1,
        1e16,
        -1e16,
    ];
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (0..1_u64 << 53).prop_map(f64::from_bits),
        proptest::sample::select(ends.to_vec()),
        (-1000..1000_i32).prop_map(f64::from),
        (-1000..1000_i32).prop_map(|n| 1e9 + f64::from(n) * 1e-6),
        0.0..1.0,
    ]
}

/// Any finite double, of every kind.
fn finite() -> impl Strategy<Value = f64> {
    doubles().prop_filter("finite", |x| x.is_finite())
}

/// How often a value is added, up to beyond the bound.
fn times() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(1),
        1 => 0..1000_u64,
        1 => proptest::sample::select(vec![1 << 58, 1 << 62, 1 << 63, u64::MAX]),
    ]
}
