//! The size of recordings.

use super::*;

/// A job of 16 ranks with two threads each: 10 000 hits a second, durations around a millisecond, an
/// iteration's number and a size in bytes captured. Deterministic.
fn typical(count: u64) -> Vec<Record> {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = rules::pseudo_random::mixed(state);
        state % below
    };
    let mut time = 86_400_000_000_000_u64;
    let hit = |number: u64| {
        time += random(200_000);
        Record::Hit(RecordedHit {
            probe: ProbeKey(3),
            process: ProcessId(u32::try_from(number % 16).unwrap()),
            thread: u32::try_from(4_000_000 + number % 32).unwrap(),
            // Hits of several CPUs are slightly out of order.
            time: Time(time - random(20_000)),
            duration_ns: Some(500_000 + random(1_000_000)),
            captures: vec![
                Captured::Signed(i64::try_from(number / 32).unwrap()),
                Captured::Unsigned(65_536 + random(1_000_000)),
            ],
        })
    };
    (0..count).map(hit).collect()
}

#[test]
fn a_typical_hit_costs_at_most_14_bytes() {
    let records = typical(100_000);
    let bytes = written(&Header::default(), &records);
    let each = bytes.len() as f64 / records.len() as f64;
    println!("{each:.2} bytes a hit");
    assert!(each <= 14.0, "{each}");
    assert_eq!(read(&bytes), (records, None));
}

#[test]
fn a_counter_that_is_read_each_second_costs_at_most_2_bytes() {
    let reading = |number: u64| Record::Counter {
        process: Some(ProcessId(u32::try_from(number % 16).unwrap())),
        measure: Measure::CpuTime,
        time: Time(number / 16 * 1_000_000_000),
        total: 1_000_000_000_000 + number / 16 * 987_654_321,
    };
    let records: Vec<Record> = (0..16_000).map(reading).collect();
    let bytes = written(&Header::default(), &records);
    let each = bytes.len() as f64 / records.len() as f64;
    println!("{each:.2} bytes a reading");
    assert!(each <= 2.0, "{each}");
}

#[test]
fn blocks_come_out_as_they_fill_and_little_is_kept_back() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    for record in typical(10_000) {
        writer.write(&record).unwrap();
        assert!(writer.unflushed() < BLOCK_TARGET);
        assert!(writer.take().len() < BLOCK_TARGET + 100);
    }
}
