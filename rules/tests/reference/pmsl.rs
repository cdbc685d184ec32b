//! S2, PMSL and G-PM (2009): values of intervals and regions, and of calls whose progress cannot be observed.

use crate::bench::Bench;

/// Metrics on the CPU time of a rank.
const INTERVALS: &str = "\
rule: intervals
about: One counter, read at two intervals.
roles:
  rank: rank >= 0
windows:
  short: {every: 100ms}
  long:  {every: 300ms}
metrics:
  part:  {in: short, value: sum(cpu.time)}
  rate:  {in: short, value: sum(cpu.time) / short.duration}
  parts: {in: short, value: sum(part over 3)}
  since: {in: short, value: sum(part over run)}
  took:  {in: short, value: short.duration}
  since_rate: {in: short, value: since / sum(took over run)}
  whole: {in: long, value: sum(cpu.time)}
  mean_rate: {in: long, value: sum(cpu.time) / long.duration}
";

#[test]
fn s2_3_2_1_what_is_accumulated_over_intervals_adds_up() {
    // V at 0, 100, … 600 ms: S2 §3.2.1, V(t0,t2) = V(t0,t1) + V(t1,t2).
    let totals = [0, 20, 70, 75, 75, 160, 250];
    let mut bench = Bench::new(INTERVALS, 1);
    for (step, total) in (0_u64..).zip(totals) {
        bench.cpu_time(0, step * 100, total);
        bench.tick(step as f64 * 100.0);
    }
    let shut = bench.shut();
    let all = |window: &str, metric: &str| -> Vec<f64> {
        let of = shut.iter().filter(|shut| shut.window == window);
        of.map(|shut| (shut.value(metric) * 1e9).round() / 1e6).collect()
    };
    // SINCE_LAST_READ of both readers (§6.4): each window has its own start, and a read does not affect the
    // other.
    assert_eq!(all("short", "part"), [20.0, 50.0, 5.0, 0.0, 85.0, 90.0]);
    assert_eq!(all("long", "whole"), [75.0, 175.0]);
    let parts = all("short", "parts");
    assert_eq!([parts[2], parts[5]], [75.0, 175.0], "S2 §3.2.1 additivity");
    // S2 §3.2.1, M' = M(t_last, t_cur) / (t_cur - t_last), SINCE_LAST_READ_DIVIDE_BY_TIME of §6.4.
    for (shut, expected) in shut
        .iter()
        .filter(|shut| shut.window == "short")
        .zip([0.2, 0.5, 0.05, 0.0, 0.85, 0.9])
    {
        near!(shut.value("rate") => expected, 9, "S2 §3.2.1 M'");
    }
    // SINCE_START and SINCE_START_DIVIDE_BY_TIME of §6.4: M(ts, now), M(ts, now) / (now - ts).
    assert_eq!(all("short", "since"), [20.0, 70.0, 75.0, 75.0, 160.0, 250.0]);
    for (shut, expected) in
        shut.iter()
            .filter(|shut| shut.window == "short")
            .zip([0.2, 0.35, 0.25, 0.1875, 0.32, 250.0 / 600.0])
    {
        near!(shut.value("since_rate") => expected, 9, "S2 §6.4 since the start, by time");
    }
    let whole = shut.iter().find(|shut| shut.window == "long").unwrap();
    near!(whole.value("mean_rate") => 0.25, 9, "S2 §3.2.1 M'");
}

/// Regions of each rank, with the change of a counter in them.
const REGIONS: &str = "\
rule: regions
about: What a counter gains between two events.
roles:
  rank: rank >= 0
probes:
  begin: {role: rank, entry: region_begin_event}
  end:   {role: rank, entry: region_end_event}
capture:
  begin.vt: arg(0)
  end.vt:   arg(0)
windows:
  region: {from: begin, to: end, key: vt}
metrics:
  gain:  cpu.time
  total: sum(cpu.time)
  ever:  sum(total over 100)
";

#[test]
fn s2_3_2_2_values_of_regions_are_the_end_less_the_begin_and_add_up() {
    let mut bench = Bench::new(REGIONS, 2);
    // V of ranks 0 and 1 every 10 ms.
    let totals = [
        [0, 0],
        [4, 10],
        [9, 10],
        [15, 12],
        [15, 13],
        [18, 20],
        [25, 30],
        [27, 31],
        [30, 40],
    ];
    for (step, of_ranks) in (0_u64..).zip(totals) {
        for (rank, total) in (0..).zip(of_ranks) {
            bench.cpu_time(rank, step * 10, total);
        }
    }
    // Both ranks are in the region from 10 to 30 ms and from 40 to 60 ms.
    let regions = [(1.0, 0, 10.0), (1.0, 1, 10.0), (2.0, 0, 40.0), (2.0, 1, 40.0)];
    for (vt, rank, begin) in regions {
        let end = begin + 20.0;
        bench.hit("begin", rank, begin, 0.0, &[vt]);
        bench.hit("end", rank, end, 0.0, &[vt]);
    }
    bench.until(200.0);
    let shut = bench.shut();
    // M_i = V(t_i^e) - V(t_i^b) of each rank separately, then over ranks (§3.2.2: per process, separately).
    let expected = [((2.0, 11.0), 13.0, 13.0), ((10.0, 17.0), 27.0, 40.0)];
    for (shut, ((low, high), total, ever)) in shut.iter().zip(expected) {
        let (least, most) = shut.rows("gain");
        near!(least * 1e3 => low, 6, "S2 §3.2.2 M_i, the least rank");
        near!(most * 1e3 => high, 6, "S2 §3.2.2 M_i, the greatest rank");
        near!(shut.value("total") * 1e3 => total, 6, "S2 §3.2.2 M_i");
        near!(shut.value("ever") * 1e3 => ever, 6, "S2 §3.2.2 M");
        // Erratum: the printed formula has begin minus end, which is negative for a counter.
        assert!(shut.value("total") > 0.0);
    }
    assert_eq!(shut.len(), 2);
}

/// Regions of one rank, with readings at calls of a function; the value is time.
const READINGS: &str = "\
rule: readings
about: Time inside a region, between two readings.
roles:
  rank: rank >= 0
probes:
  read:   {role: rank, entry: read_now}
  region: {role: rank, span: [region_begin_event, region_end_event]}
windows:
  reading: {from: read, straddle: split}
metrics:
  inside: sum(region.duration)
  ever:   sum(inside over run)
";

/// The correction (S2 §3.2.2); begins and ends of regions; M between the readings, in ms.
type Case = (&'static str, &'static [(f64, f64)], &'static [f64]);

#[test]
fn s2_3_2_2_corrections_when_a_reading_falls_into_a_region_or_the_measurement_starts_in_one() {
    let cases: [Case; 5] = [
        ("no correction", &[(110.0, 130.0), (150.0, 180.0)], &[50.0, 0.0]),
        (
            "(a) read between begin and end: + V(t_read) - V(t_b)",
            &[(110.0, 130.0), (190.0, 220.0)],
            &[30.0, 20.0],
        ),
        (
            "(b) start between begin and end: V(t_e) - V(ts)",
            &[(60.0, 130.0), (150.0, 180.0)],
            &[60.0, 0.0],
        ),
        ("(c) both", &[(60.0, 130.0), (190.0, 220.0)], &[40.0, 20.0]),
        ("(c) in one region", &[(60.0, 220.0)], &[100.0, 20.0]),
    ];
    for (what, regions, expected) in cases {
        let mut bench = Bench::new(READINGS, 1);
        for read in [100.0, 200.0, 300.0, 400.0, 500.0] {
            bench.hit("read", 0, read, 0.0, &[]);
        }
        for (begin, end) in regions {
            bench.hit("region", 0, *end, end - begin, &[]);
        }
        bench.until(1000.0);
        let shut = bench.shut();
        let mut sum = 0.0;
        for (shut, expected) in shut.iter().zip(expected) {
            near!(shut.value("inside") * 1e3 => *expected, 6, "S2 §3.2.2 {what}");
            sum += expected;
            near!(shut.value("ever") * 1e3 => sum, 6, "S2 §3.2.2 {what}: since the start");
        }
        assert!(shut.len() >= 2, "{what}: {}", bench.why());
    }
}

#[test]
fn s2_3_2_2_a_measurement_that_starts_inside_a_region_leaves_it_out_and_counts_it() {
    let mut bench = Bench::new(REGIONS, 1);
    for (step, total) in (0_u64..).zip([0, 5, 20, 30]) {
        bench.cpu_time(0, step * 10, total);
    }
    bench.hit("end", 0, 5.0, 0.0, &[6.0]);
    bench.hit("begin", 0, 10.0, 0.0, &[7.0]);
    bench.until(15.0);
    // A reading inside an open region has no value, rather than a partial one.
    assert!(bench.shut().is_empty());
    bench.hit("end", 0, 20.0, 0.0, &[7.0]);
    bench.until(30.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 1);
    near!(shut[0].value("total") * 1e3 => 15.0, 6, "S2 §3.2.2");
    assert!(bench.why().contains("outside: 1"), "{}", bench.why());
}

#[test]
fn s2_3_2_3_a_call_that_cannot_be_looked_into_gives_nothing_until_it_returns() {
    let rule = "\
rule: writing
about: How fast a call of write is.
roles:
  rank: rank >= 0
probes:
  write: {role: rank, span: write}
capture:
  write.bytes: arg(2) * 1B
windows:
  second: {every: 1s}
metrics:
  rate: sum(write.bytes) / sum(write.duration)
";
    // S2 §3.2.3: 900 MB in 6 s, evaluated every second.
    let mut bench = Bench::new(rule, 1);
    bench.totals("write", 0, 0.0, 0, 0.0);
    for second in 1..=7 {
        let returned = u64::from(second == 7);
        bench.totals(
            "write",
            0,
            f64::from(second) * 1000.0,
            returned,
            6000.0 * returned as f64,
        );
        if second == 7 {
            bench.hit("write", 0, 6500.0, 6000.0, &[900e6]);
        }
        bench.tick(f64::from(second) * 1000.0);
        let shut = bench.shut().remove(0);
        if second < 7 {
            assert!(
                shut.reported("rate").starts_with("none"),
                "S2 §3.2.3 second {second}"
            );
        } else {
            near!(shut.value("rate") => 150e6, 0, "S2 §3.2.3 900 MB / 6 s");
            // Not 900 MB in the second in which the call returned.
            assert!(shut.value("rate") < 900e6);
        }
    }
}
