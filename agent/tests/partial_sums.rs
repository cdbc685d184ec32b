//! Aggregation in the kernel on a real kernel: each hit is in exactly one sum or is sent, while several
//! threads hit and the agent reads. Needs root; otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use std::{collections::BTreeMap, thread};

use abi::{Capture, CaptureKind, HitRecord, ProbeSpec, SpecFlags, SumSpec, SumValue};
use job::monotonic_ns;
use probe::kernel::{
    CallMoment, Kernel, Link, LinkRequest, LoadOptions, ProbeSite, Ring, SumReadings, read_hit, read_sum_cell,
};
use running::Running;
use tuneagent_e2e::require_or_return;

/// Value and key of the aggregation in the kernel.
#[derive(Clone, Copy)]
struct Wanted {
    value: SumValue,
    key: SumValue,
    /// The value that the kernel aggregates for a passed argument.
    as_value: fn(i64) -> i64,
    as_key: fn(i64) -> i64,
}

/// Both arguments in full.
const ALL: Wanted = Wanted {
    value: SumValue {
        is_signed: 1,
        ..SumValue::plain(0)
    },
    key: SumValue::plain(1),
    as_value: |value| value,
    as_key: |key| key,
};

const THREADS: i64 = 4;
const CALLS: i64 = 5000;

/// The cell of the only process and aggregate.
const CELLS: [(u32, u16); 1] = [(0, 1)];

/// Each input line is the number of keys that the calls of its threads cycle through.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
volatile long sink;
static long keys;
__attribute__((noinline)) void work(long value, long key) { sink += value + key; }
static void *run(void *unused) { for (long i = 0; i < 5000; i++) work(i % 1000 - 700, i % keys); return unused; }
int main(void) {
    char line[64];
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        pthread_t threads[4];
        keys = atol(line);
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        puts("done"); fflush(stdout);
    }
    return 0;
}
"#;

/// Expected aggregate of hits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sum {
    count: u64,
    sum: i128,
    squares: u128,
    least: i64,
    greatest: i64,
}

impl Sum {
    fn of(value: i64) -> Sum {
        Sum {
            count: 1,
            sum: value.into(),
            squares: u128::from(value.unsigned_abs()).pow(2),
            least: value,
            greatest: value,
        }
    }

    fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }
}

/// Expected aggregates by key.
type Sums = BTreeMap<u64, Sum>;

fn add(sums: &mut Sums, key: u64, more: Sum) {
    sums.entry(key).and_modify(|sum| sum.add(more)).or_insert(more);
}

fn add_partial_sum(sums: &mut Sums, partial_sum: &abi::SumCell) {
    let of = &partial_sum.sums[0];
    let joined = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
    let more = Sum {
        count: partial_sum.count,
        sum: joined(of.sum_low, of.sum_high) as i128,
        squares: joined(of.squares_low, of.squares_high),
        least: of.least,
        greatest: of.greatest,
    };
    add(sums, partial_sum.key, more);
}

/// The aggregates of the program's calls.
fn expected(keys: i64, resolved: Wanted) -> Sums {
    let mut sums = Sums::new();
    for call in (0..THREADS).flat_map(|_| 0..CALLS) {
        let (key, value) = (
            (resolved.as_key)(call % keys),
            (resolved.as_value)(call % 1000 - 700),
        );
        add(&mut sums, key as u64, Sum::of(value));
    }
    sums
}

fn armed(target: &Running, partial_sums: u32, resolved: Wanted) -> (Kernel, Link) {
    let options = LoadOptions {
        partial_sums,
        ..LoadOptions::ONE_PROBE
    };
    let mut kernel = Kernel::load(options).unwrap();
    let argument = |index| Capture {
        kind: CaptureKind::Argument as u8,
        index,
        width: 8,
        ..Capture::default()
    };
    let mut spec = ProbeSpec {
        flags: SpecFlags::SEND_ENTRY | SpecFlags::SUM_ENTRY,
        partial_sum: SumSpec {
            number: 1,
            values: 1,
            key: resolved.key,
            of: [SumValue::plain(SumValue::NOTHING); abi::SUMMED_MAX],
        },
        ..ProbeSpec::default()
    };
    spec.captures[..2].copy_from_slice(&[argument(0), argument(1)]);
    spec.partial_sum.of[0] = resolved.value;
    kernel.set_spec(0, spec).unwrap();
    let image = tuner::Image::read(std::fs::File::open(&target.path).unwrap()).unwrap();
    let offset = image.functions(&["work"]).unwrap()[0].offset.0;
    kernel
        .set_address(target.pid(), target.base() + offset, 0)
        .unwrap();
    kernel.watch(target.pid(), 0).unwrap();
    let site = ProbeSite::new(offset, 0);
    let request = LinkRequest::new(
        target.path.clone(),
        vec![site],
        CallMoment::Entry,
        Some(target.pid()),
    );
    let link = kernel.attach(&request).unwrap();
    (kernel, link)
}

/// Reads the ring. Returns the number of hits that were sent individually.
fn drain(ring: &mut Ring, partial_sums: &mut SumReadings, sums: &mut Sums, resolved: Wanted) -> u64 {
    let mut alone = 0;
    while let Some(item) = ring.take() {
        if let Some(partial_sum) = read_sum_cell(item) {
            partial_sums
                .hand_over(partial_sum)
                .iter()
                .for_each(|more| add_partial_sum(sums, more));
        } else {
            let HitRecord { captures, .. } = read_hit(item).unwrap();
            let (key, value) = (
                (resolved.as_key)(captures[1] as i64),
                (resolved.as_value)(captures[0] as i64),
            );
            add(sums, key as u64, Sum::of(value));
            alone += 1;
        }
    }
    alone
}

#[test]
fn each_hit_is_in_one_sum_or_sent_while_threads_hit_and_it_is_read() {
    require_or_return!(Root);
    // One key; two keys with a cell each; more keys than cells.
    for keys in [1, 2, 5] {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Running::built(directory.path(), PROGRAM, &["-pthread"]);
        let (mut kernel, _link) = armed(&target, 1, ALL);
        let (mut ring, mut partial_sums) = (kernel.take_hits().unwrap(), SumReadings::default());
        let (mut sums, mut alone, mut reads, mut looked_ns) = (Sums::new(), 0, 0, 0);
        thread::scope(|scope| {
            let runs = scope.spawn(|| assert_eq!(target.answers(&keys.to_string()), "done"));
            while !runs.is_finished() {
                let now_ns = monotonic_ns();
                let is_read = partial_sums.read(&kernel, now_ns, CELLS, |partial_sum| {
                    assert!(
                        partial_sum.last_ns >= looked_ns,
                        "what was known whole by then was not"
                    );
                    add_partial_sum(&mut sums, &partial_sum);
                });
                if is_read {
                    (reads, looked_ns) = (reads + 1, now_ns);
                }
                alone += drain(&mut ring, &mut partial_sums, &mut sums, ALL);
            }
        });
        assert!(
            partial_sums.read(&kernel, monotonic_ns(), CELLS, |partial_sum| add_partial_sum(
                &mut sums,
                &partial_sum
            ))
        );
        alone += drain(&mut ring, &mut partial_sums, &mut sums, ALL);
        assert_eq!(sums, expected(keys, ALL), "{keys} keys");
        assert_eq!(kernel.sent_alone(), alone);
        assert!(
            alone < (THREADS * CALLS / 2) as u64 && reads > 0,
            "{alone}, {reads}"
        );
        println!(
            "{keys} keys: {alone} of {} hits sent, {reads} looks",
            THREADS * CALLS
        );
    }
}

#[test]
fn a_hit_without_a_cell_is_sent_and_counted() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let mut target = Running::built(directory.path(), PROGRAM, &["-pthread"]);
    let (mut kernel, _link) = armed(&target, 0, ALL);
    let (mut ring, mut partial_sums, mut sums) =
        (kernel.take_hits().unwrap(), SumReadings::default(), Sums::new());
    assert_eq!(target.answers("3"), "done");
    assert!(
        partial_sums.read(&kernel, monotonic_ns(), CELLS, |partial_sum| panic!(
            "{partial_sum:?}"
        ))
    );
    let alone = drain(&mut ring, &mut partial_sums, &mut sums, ALL);
    assert_eq!((alone, kernel.sent_alone()), (20_000, 20_000));
    assert_eq!(sums, expected(3, ALL));
}

#[test]
fn of_what_is_passed_only_the_bits_that_have_a_meaning_are_aggregated() {
    require_or_return!(Root);
    type Case = (SumValue, fn(i64) -> i64);
    let of = |place, bits: u8, is_signed| SumValue {
        shift: 64 - bits,
        is_signed,
        ..SumValue::plain(place)
    };
    // Most of the program's values are negative; without the sign they are large numbers.
    let values: [Case; 4] = [
        (of(0, 16, 1), |value| i64::from(value as i16)),
        (of(0, 8, 1), |value| i64::from(value as i8)),
        (of(0, 8, 0), |value| i64::from(value as u8)),
        (of(0, 32, 0), |value| i64::from(value as u32)),
    ];
    let directory = tempfile::tempdir().unwrap();
    let mut target = Running::built(directory.path(), PROGRAM, &["-pthread"]);
    for (value, as_value) in values {
        let resolved = Wanted {
            value,
            key: of(1, 1, 0),
            as_value,
            as_key: |key| key & 1,
        };
        let (mut kernel, _link) = armed(&target, 1, resolved);
        let (mut ring, mut partial_sums, mut sums) =
            (kernel.take_hits().unwrap(), SumReadings::default(), Sums::new());
        assert_eq!(target.answers("5"), "done");
        assert!(
            partial_sums.read(&kernel, monotonic_ns(), CELLS, |partial_sum| add_partial_sum(
                &mut sums,
                &partial_sum
            ))
        );
        drain(&mut ring, &mut partial_sums, &mut sums, resolved);
        assert_eq!(sums, expected(5, resolved), "{value:?}");
    }
}

#[test]
fn a_partial_sum_has_the_times_of_its_hits_and_none_before_the_last_reading() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let mut target = Running::built(directory.path(), PROGRAM, &["-pthread"]);
    let (kernel, _link) = armed(&target, 1, ALL);
    let mut partial_sums = SumReadings::default();
    // The second read pretends to be an hour later.
    let (began_ns, late_ns) = (monotonic_ns(), monotonic_ns() + 3_600_000_000_000);
    assert_eq!(target.answers("1"), "done");
    let ended_ns = monotonic_ns();
    let mut reported = Vec::new();
    assert!(partial_sums.read(&kernel, late_ns, CELLS, |partial_sum| reported.push(partial_sum)));
    assert_eq!(target.answers("1"), "done");
    assert!(partial_sums.read(&kernel, late_ns, CELLS, |partial_sum| reported.push(partial_sum)));
    let [before, after] = reported.as_slice() else {
        panic!("{reported:?}")
    };
    let times = [began_ns, before.first_ns, before.last_ns, ended_ns];
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    assert_eq!((after.first_ns, after.last_ns), (before.first_ns, late_ns));
}
