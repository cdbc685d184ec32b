//! Constructed sequences: one loop, nested loops, noise, alternative paths through a loop, and no loop.

use proptest::prelude::*;

use super::*;
use crate::pseudo_random::mixed;

/// Passes in the calls, with a search now and then; returns the detector and the calls that began iterations
/// of the final loop.
fn watch(calls: &[u64], look_every: usize) -> (Detector, Vec<usize>) {
    let mut detector = Detector::default();
    let mut begins = Vec::new();
    for (index, site) in calls.iter().enumerate() {
        if detector.push(*site) {
            begins.push(index);
        }
        if (index + 1).is_multiple_of(look_every) {
            match detector.look() {
                Look::Same => {}
                Look::Found(ago) => begins = ago.into_iter().map(|ago| index - ago).collect(),
                Look::Left => begins.clear(),
            }
        }
    }
    (detector, begins)
}

fn distances(begins: &[usize]) -> Vec<usize> {
    begins.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_single_call_in_a_loop_is_an_iteration() {
    let (detector, begins) = watch(&[5; 40], 10);
    assert_eq!(detector.known().map(|known| known.calls), Some(1.0));
    assert!(begins.len() >= 39);
}

#[test]
fn of_nested_loops_the_outermost_is_found_once_it_came_round() {
    // for { for 20 { 1 2 } 3 }
    let outer: Vec<u64> = [[1, 2].repeat(20), vec![3]].concat();
    let (detector, _) = watch(&outer[..30], 10);
    assert_eq!(detector.known().map(|known| known.calls), Some(2.0));
    let (detector, begins) = watch(&outer.repeat(6), 10);
    assert_eq!(detector.known().map(|known| known.calls), Some(41.0));
    assert!(distances(&begins).iter().all(|calls| *calls == 41), "{begins:?}");
}

#[test]
fn inner_loops_may_go_round_another_number_of_times_each_time() {
    let rounds = [7, 9, 8, 11, 6, 8, 10, 9, 7, 8, 9, 12, 8, 7];
    let calls: Vec<u64> = rounds
        .iter()
        .flat_map(|rounds| [vec![1], [2, 3].repeat(*rounds), vec![4, 5]].concat())
        .collect();
    let (_, begins) = watch(&calls, 5);
    let found = distances(&begins);
    let made: Vec<usize> = rounds.iter().map(|rounds| 2 * rounds + 3).collect();
    assert!(
        found.len() >= 8 && made.windows(found.len()).any(|made| *made == found),
        "{found:?}"
    );
}

/// A step of molecular dynamics: exchanges of positions and of forces, six messages each. Every 20th step
/// rebuilds neighbour lists instead of the first exchange.
fn step(builds: bool) -> Vec<u64> {
    let exchange = if builds {
        [[31, 32, 33].repeat(3), [41, 42, 43, 44].repeat(6)].concat()
    } else {
        [11, 12, 13].repeat(6)
    };
    [exchange, [21, 22, 23].repeat(6)].concat()
}

#[test]
fn an_iteration_that_takes_another_way_is_one_and_makes_no_loop_around() {
    let calls: Vec<u64> = (1..=200).flat_map(|number| step(number % 20 == 0)).collect();
    let (detector, begins) = watch(&calls, 500);
    let (short, long) = (step(false).len(), step(true).len());
    let found = distances(&begins);
    assert!(found.len() > 150, "{:?} {found:?}", detector.known());
    // An iteration begins within a step, so those around a rebuild consist of parts of both.
    let steps = found.iter().filter(|calls| **calls == short).count();
    assert!(steps as f64 >= 0.85 * found.len() as f64, "{found:?}");
    assert!(found.iter().all(|calls| *calls <= short.max(long)), "{found:?}");
}

#[test]
fn a_check_before_some_steps_is_part_of_them() {
    let calls: Vec<u64> = (1..=300)
        .flat_map(|number| {
            let checks = if number % 15 > 10 { vec![77] } else { vec![] };
            [checks, step(number % 15 == 0)].concat()
        })
        .collect();
    let (detector, begins) = watch(&calls, 500);
    let short = step(false).len();
    let steps = distances(&begins)
        .iter()
        .filter(|calls| calls.abs_diff(short) <= 1)
        .count();
    assert!(steps > 80, "{:?} {:?}", detector.known(), distances(&begins));
}

#[test]
fn after_calls_that_were_not_seen_iterations_are_still_detected() {
    let body = [1, 2, 3, 4];
    let (mut detector, _) = watch(&body.repeat(10), 8);
    detector.gap();
    let begins = body.repeat(5).iter().filter(|site| detector.push(**site)).count();
    assert!(begins >= 4);
}

#[test]
fn a_loop_that_was_left_is_forgotten_and_the_next_one_found() {
    let calls = [[1, 2, 3].repeat(50), [7, 8].repeat(200)].concat();
    let (detector, begins) = watch(&calls, 10);
    assert_eq!(detector.known().map(|known| known.calls), Some(2.0));
    assert!(begins.iter().all(|begin| *begin >= 150));
}

#[test]
fn calls_that_happened_once_are_no_loop() {
    let calls: Vec<u64> = (0..500).collect();
    let (detector, begins) = watch(&calls, 10);
    assert_eq!((detector.known(), begins.len()), (None, 0));
}

/// Deterministic pseudo-random numbers.
fn random(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(mixed(seed)), |number| Some(mixed(*number)))
}

/// The window grows until three iterations fit, and no further.
#[test]
fn a_long_loop_is_found_once_the_window_has_grown() {
    for length in [1500, 10_000] {
        let body: Vec<u64> = (0..length as u64).collect();
        let (detector, begins) = watch(&body.repeat(1 + 3 * WINDOW_MAX / length), WINDOW);
        assert_eq!(detector.known().map(|known| known.calls), Some(length as f64));
        assert!(
            distances(&begins).iter().all(|calls| *calls == length),
            "{length}"
        );
        assert!(detector.capacity() <= (8 * length).min(WINDOW_MAX), "{length}");
    }
}

#[test]
fn five_random_calls_of_one_site_are_no_loop_and_three_iterations_of_one_call_are() {
    let random: Vec<u64> = [7]
        .into_iter()
        .chain(100..131)
        .chain([7; 5])
        .chain(131..151)
        .collect();
    assert_eq!(watch(&random, random.len()).0.known(), None);
    let iterations: Vec<u64> = (100..131).chain([7; 4]).collect();
    let (detector, _) = watch(&iterations, iterations.len());
    assert_eq!(detector.known().map(|known| known.calls), Some(1.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Random calls have no loop, for any number of sites.
    #[test]
    fn calls_at_random_are_no_loop(seed in 1u64.., sites in 4u64..40, length in 50usize..3000) {
        let calls: Vec<u64> = random(seed).map(|number| number % sites).take(length).collect();
        let (detector, _) = watch(&calls, 97);
        prop_assert_eq!(detector.known(), None);
    }

    /// The detected length is that of the loop's body, or of a part of it whose repetition gives the body.
    #[test]
    fn a_loop_of_distinct_calls_is_found_with_its_length(length in 1usize..300, look in 20usize..400) {
        let body: Vec<u64> = (0..length as u64).collect();
        let (detector, begins) = watch(&body.repeat(4 + 2000 / length), look);
        prop_assert_eq!(detector.known().map(|known| known.calls), Some(length as f64));
        prop_assert!(distances(&begins).iter().all(|calls| *calls == length));
    }

    /// In three nested loops with any counts, the outermost is found.
    #[test]
    fn the_outermost_of_three_loops_wins(
        inner in 1usize..6, middle in 1usize..6, rounds in 2usize..8, times in 2usize..8, own in 1usize..4,
    ) {
        let a: Vec<u64> = (0..inner as u64).map(|site| 100 + site).collect();
        let b: Vec<u64> = (0..middle as u64).map(|site| 200 + site).collect();
        let c: Vec<u64> = (0..own as u64).map(|site| 300 + site).collect();
        let around = [a.repeat(rounds), b].concat();
        let outer = [around.repeat(times), c].concat();
        let (detector, begins) = watch(&outer.repeat(4 + 1500 / outer.len()), 50);
        prop_assert_eq!(detector.known().map(|known| known.calls.round() as usize), Some(outer.len()));
        prop_assert!(distances(&begins).iter().all(|calls| *calls == outer.len()), "{:?}", begins);
    }

    /// An occasional call from outside the loop does not hide it.
    #[test]
    fn noise_does_not_hide_a_loop(seed in 1u64.., length in 4usize..40, rare in 150u64..600) {
        let mut chance = random(seed);
        let mut calls = Vec::new();
        for number in 0..4000u64 {
            if chance.next().unwrap_or_default().is_multiple_of(rare) {
                calls.push(1000 + number);
            }
            calls.push(number % length as u64);
        }
        let (detector, _) = watch(&calls, 100);
        let calls = detector.known().map(|known| known.calls);
        prop_assert!(calls.is_some_and(|calls| (calls - length as f64).abs() < 1.0), "{:?}", calls);
    }

    /// No input causes an error, and the window is bounded.
    #[test]
    fn any_calls_are_taken(calls in proptest::collection::vec(0u64..6, 0..600), gap in 0usize..600) {
        let mut detector = Detector::default();
        for (index, site) in calls.iter().enumerate() {
            if index == gap { detector.gap(); }
            detector.push(*site);
            if index.is_multiple_of(7) { detector.look(); }
        }
        prop_assert!(detector.seen() <= WINDOW_MAX);
    }
}
