//! Cost of the loop detector for a second of a program with 50 000 calls: each call is passed on. A loop is
//! searched for once in it, although sessions search for a known one every 2 to 8 s only.
//!
//! `cargo bench -p tuneagent-rules --bench period`. docs/performance.md has the figures; the target is 0.5 % of a
//! core, 5 ms.

use divan::Bencher;
use divan::counter::ItemsCount;
use rules::period::Detector;

const CALLS: u64 = 50_000;

fn main() {
    divan::main();
}

/// The sites of a step of molecular dynamics: twelve calls, and forty in every twentieth step.
fn of_a_loop(call: u64) -> u64 {
    let (steps, call) = (call / 268, call % 268);
    match call {
        ..228 => call % 12,
        _ => 12 + (call - 228) + steps % 2,
    }
}

/// Sites without a loop.
fn of_no_loop(call: u64) -> u64 {
    let mixed = call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)) % 97
}

fn second(detector: &mut Detector, site: fn(u64) -> u64) -> usize {
    let mut begins = 0;
    for call in 0..CALLS {
        begins += usize::from(detector.push(site(call)));
    }
    divan::black_box(detector.look());
    begins
}

fn bench(bencher: Bencher<'_, '_>, site: fn(u64) -> u64, has_loop: bool) {
    let mut detector = Detector::default();
    second(&mut detector, site);
    assert_eq!(detector.known().is_some(), has_loop);
    let counter = ItemsCount::new(CALLS);
    bencher
        .counter(counter)
        .bench_local(|| second(&mut detector, site));
}

#[divan::bench(sample_count = 40, sample_size = 1)]
fn a_second_of_a_known_loop(bencher: Bencher<'_, '_>) {
    bench(bencher, of_a_loop, true);
}

#[divan::bench(sample_count = 40, sample_size = 1)]
fn a_second_without_a_loop(bencher: Bencher<'_, '_>) {
    bench(bencher, of_no_loop, false);
}
