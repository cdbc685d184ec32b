//! Visits of team sizes: the best one is found, within the budget.

use std::collections::BTreeMap;

use super::super::visits::next_size;
use super::*;

/// Time between two readings, in nanoseconds.
const READING_NS: u64 = 500_000_000;

/// The shapes of SelfAnalyzer's experiments: times in microseconds, and the share of the work that is left with two
/// threads and with more (`tests/e2e/shapes.rs`).
const SHAPES: [(&str, u64, u64, [u64; 2]); 5] = [
    ("tomcatv", 1_000, 64_000, [100, 100]),
    ("hydro2d", 4_000, 60_000, [100, 100]),
    ("bt", 10_000, 400_000, [100, 100]),
    ("swim", 1_000, 64_000, [80, 60]),
    ("apsi", 18_000, 2_000, [100, 100]),
];

fn program((_, sequential, work, left): (&str, u64, u64, [u64; 2]), threads: u32) -> Program {
    let percent = match threads {
        1 => 100,
        2 => left[0],
        _ => left[1],
    };
    Program {
        sequential,
        work: work * percent / 100,
        starting: 0,
        ending: 0,
        ..PROGRAM
    }
}

/// Watches a program for this time and makes the visits that stay within the share. Returns the visited sizes,
/// and the lost share of the time.
fn visited(of: impl Fn(u32) -> Program, own: u32, (share, until_s): (f64, u64)) -> (Watched, Vec<u32>, f64) {
    let mut watched = Watched::default();
    let (mut at, mut sizes, mut lost_ns) = (own, Vec::new(), 0.0);
    let own_ns = Watched::time_ns(of(own), own);
    while watched.now_ns < until_s * 1_000_000_000 {
        let begin_ns = watched.now_ns;
        while watched.now_ns - begin_ns < READING_NS {
            watched.run(of(at), u64::from(at), 1);
        }
        lost_ns +=
            (watched.now_ns - begin_ns) as f64 * (1.0 - own_ns / Watched::time_ns(of(at), at)).max(0.0);
        let visit = watched.scaling.visit().unwrap();
        let is_within = visit.loss_ns <= share * watched.now_ns as f64;
        at = visit.threads.filter(|_| is_within).unwrap_or(own);
        if at != own && sizes.last() != Some(&at) {
            sizes.push(at);
        }
    }
    assert_eq!(at, own, "its own size is restored");
    let lost = lost_ns / watched.now_ns as f64;
    (watched, sizes, lost)
}

#[test]
fn the_best_size_of_the_five_shapes_is_found_within_one_step_and_within_the_budget() {
    for shape in SHAPES {
        for own in [8_u32, 16, 48] {
            // Beyond 8 threads each one costs 1 % more work, so that 48 are not the best.
            let of = |threads: u32| {
                let program = program(shape, threads);
                let work = program.work * u64::from(100 + 4 * threads.saturating_sub(8)) / 100;
                Program { work, ..program }
            };
            let (watched, sizes, lost) = visited(of, own, (0.05, 600));
            let name = shape.0;
            assert_eq!(sizes[0], 4, "{name}: the reference first");
            assert!(lost < 0.051, "{name} with {own}: {lost} is lost for {sizes:?}");
            let time = |threads: u32| Watched::time_ns(of(threads), threads);
            let best = (1..=own)
                .min_by(|one, other| time(*one).total_cmp(&time(*other)))
                .unwrap();
            let view = watched.scaling.view(watched.now_ns).unwrap();
            let found = view
                .sizes
                .iter()
                .min_by(|one, other| one.time_ns.total_cmp(&other.time_ns))
                .unwrap();
            let steps = (f64::from(found.threads) / f64::from(best)).log2().abs();
            assert!(
                steps <= 1.0,
                "{name} with {own}: {} and not {best}: {sizes:?}",
                found.threads
            );
            assert!(sizes.len() <= 5, "{name} with {own}: {sizes:?}");
        }
    }
}

#[test]
fn a_visit_that_would_cost_more_than_the_budget_is_not_made() {
    let long = Program {
        work: 40_000_000,
        ..PROGRAM
    };
    let (_, sizes, lost) = visited(|_| long, 8, (0.01, 600));
    assert_eq!((sizes, lost), (vec![], 0.0));
}

#[test]
fn sizes_that_occur_by_themselves_are_not_visited() {
    let mut watched = Watched::default();
    for threads in [8, 4, 2, 1, 8] {
        watched.run(PROGRAM, threads, 40);
    }
    assert_eq!(watched.scaling.visit().unwrap().threads, None);
    let mut single = Watched::default();
    single.run(PROGRAM, 1, 40);
    assert_eq!(single.scaling.visit().unwrap().threads, None);
}

#[test]
fn the_next_size_halves_the_range_of_the_best_one() {
    let next = |own, baseline, times: &[(u32, f64)]| {
        next_size(
            own,
            Baseline(baseline),
            &times.iter().copied().collect::<BTreeMap<_, _>>(),
        )
    };
    assert_eq!(next(8, 2, &[(8, 1.0)]), Some(2));
    // At most its own size (S4-7).
    assert_eq!(next(2, 4, &[(2, 1.0)]), Some(1));
    for (own, times, expected) in [
        (8, &[(8, 1.0)][..], Some(4)),
        (2, &[(2, 1.0)], Some(1)),
        (1, &[(1, 1.0)], None),
        // The best one is between 4 and 48, or below 4.
        (48, &[(48, 1.0), (4, 2.0)], Some(12)),
        (48, &[(48, 1.0), (4, 2.0), (12, 0.9)], Some(24)),
        (48, &[(48, 1.0), (24, 0.7), (12, 0.9)], Some(4)),
        (8, &[(8, 2.0), (4, 1.0)], Some(2)),
        (8, &[(8, 2.0), (4, 1.0), (2, 1.5)], None),
        (8, &[(8, 1.0), (4, 2.0)], None),
    ] {
        assert_eq!(next(own, 4, times), expected, "{own} {times:?}");
    }
}
