//! Hits: their contents, and losses of hits that are not read.

use std::time::Instant;

use abi::{Durations, HitKind, SpecFlags};
use probe::kernel::{is_filling, read_hit};

use crate::target::{FUNCTIONS, Probed, for_every_way, rows};

#[test]
fn hits_carry_the_captures_and_the_duration() {
    for_every_way(|way| {
        let flags = SpecFlags::SPAN | SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;
        let mut probed = Probed::new(flags, way);
        let since = Instant::now();
        probed.target.run("outer");
        let took_ns = since.elapsed().as_nanos() as u64;
        let hits: Vec<_> =
            std::iter::from_fn(|| probed.ring.take().map(|item| read_hit(item).unwrap())).collect();
        let of_outer = |kind: HitKind| {
            hits.iter()
                .filter(move |hit| hit.probe == 0 && hit.kind == kind as u16)
                .collect::<Vec<_>>()
        };
        let (entries, returns) = (of_outer(HitKind::Entry), of_outer(HitKind::Return));
        assert_eq!((entries.len(), returns.len()), (100, 100));
        assert!(
            entries
                .iter()
                .enumerate()
                .all(|(i, hit)| hit.captures[0] == 40 + i as u64)
        );
        let ordinal = |hits: &[&abi::HitRecord], index: usize| {
            hits.iter().map(|hit| hit.captures[index]).collect::<Vec<_>>()
        };
        assert_eq!(
            ordinal(&entries, 2),
            (0..100).collect::<Vec<u64>>(),
            "the variable at entry"
        );
        assert_eq!(
            ordinal(&returns, 2),
            (0..100).collect::<Vec<u64>>(),
            "the variable at entry, told at return"
        );
        assert_eq!(
            ordinal(&returns, 3),
            (1..=100).collect::<Vec<u64>>(),
            "the variable at return"
        );
        assert!(
            entries.iter().all(|hit| hit.valid == 0b00101) && returns.iter().all(|hit| hit.valid == 0b01111)
        );
        assert_eq!(ordinal(&returns, 1), [3; 100], "what was captured");
        let durations: Vec<u64> = returns.iter().map(|hit| hit.duration_ns).collect();
        assert!(
            durations.iter().all(|ns| *ns <= took_ns),
            "{durations:?} of {took_ns}"
        );
        // The timestamp of a hit is taken after its place in the ring is reserved, shortly after the call
        // began or ended.
        let between = returns
            .iter()
            .zip(&entries)
            .map(|(end, start)| end.time_ns - start.time_ns);
        let mut off: Vec<u64> = between
            .zip(&returns)
            .map(|(between, end)| between.abs_diff(end.duration_ns))
            .collect();
        off.sort_unstable();
        assert!(off[50] < 100_000, "{off:?} ns beside the duration");
    });
}

#[test]
fn calls_are_counted_by_the_very_durations_that_hits_carry() {
    for_every_way(|way| {
        let flags = SpecFlags::SPAN | SpecFlags::SEND_RETURN | SpecFlags::DURATIONS;
        let mut probed = Probed::new(flags, way);
        let mut expected = vec![vec![0; Durations::BUCKETS]; FUNCTIONS.len()];
        for what in ["outer", "threads", "jump"] {
            probed.target.run(what);
            while let Some(hit) = probed.ring.take().map(|item| read_hit(item).unwrap()) {
                expected[hit.probe as usize][Durations::bucket(hit.duration_ns)] += 1;
            }
        }
        let counted =
            (0..FUNCTIONS.len() as u32).map(|probe| probed.kernel.histogram(2, rows(probe)).unwrap());
        let counted: Vec<Vec<u64>> = counted.collect();
        assert_eq!(counted, expected, "{way:?}");
        // All recursive calls are included; calls left by longjmp are not.
        let sums: Vec<u64> = counted.iter().map(|counts| counts.iter().sum()).collect();
        assert_eq!(sums, [4101, 16_401, 1]);
        assert_eq!(
            probed.kernel.histogram(1, rows(0)).unwrap(),
            [0; Durations::BUCKETS]
        );
        assert_eq!(probed.kernel.histogram(2, rows(FUNCTIONS.len() as u32)), None);
        assert!(probed.kernel.losses().iter().all(|(_, count)| *count == 0));
    });
}

#[test]
fn every_hit_that_does_not_fit_into_the_ring_is_counted() {
    for_every_way(|way| {
        let flags = SpecFlags::SPAN | SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;
        let mut probed = Probed::new(flags, way);
        // No hit is read meanwhile: two hits for each call of each function.
        (0..3).for_each(|_| probed.target.run("flood"));
        let taken = std::iter::from_fn(|| probed.ring.take().map(|_| ())).count() as u64;
        let losses = probed.kernel.losses();
        let lost = losses.iter().find(|(kind, _)| *kind == "ring_full").unwrap().1;
        let calls: u64 = probed
            .kernel
            .totals(2)
            .unwrap()
            .iter()
            .map(|totals| totals.calls)
            .sum();
        assert_eq!(calls, 3 * 80_000);
        assert!(lost > 0, "{taken} hits fit");
        assert_eq!(taken + lost, 2 * calls);
    });
}

#[test]
fn a_sleeper_on_a_half_full_ring_of_calls_is_woken_once() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN | SpecFlags::SEQUENCE, way);
        let mut woken_after = |times: u32| {
            (0..times).for_each(|_| probed.target.run("outer"));
            std::iter::from_fn(|| probed.ring.take().map(|item| assert!(is_filling(item)))).count()
        };
        // Each run has 200 calls.
        let half = abi::RING_CALLS / 2 / 200;
        assert_eq!(woken_after(half + 1), 0, "nobody sleeps yet");
        let next = probed.kernel.calls_so_far(2).unwrap();
        assert_eq!(probed.kernel.calls(2, 0).unwrap().1.len() as u64, next);
        probed.kernel.sleep_until_half_full();
        assert_eq!(
            (woken_after(half), woken_after(1), woken_after(half)),
            (0, 1, 0),
            "{way:?}"
        );
        probed.kernel.sleep_until_half_full();
        assert_eq!(woken_after(1), 1, "it sleeps though it has read nothing");
    });
}
