//! S2, PMSL and G-PM (2009): how values of intervals and regions are measured, its example metrics, its probes, and how what
//! arrives in any order is joined by virtual time.

use proptest::prelude::*;
use rules::{Measure, Observation, ProcessId, Time};

use crate::bench::{Bench, near, shipped};

const MS: u64 = 1_000_000;

/// A rank that counts CPU time while it runs.
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
        let (process, time) = (Some(ProcessId(0)), Time(step * 100 * MS));
        let (measure, total) = (Measure::CpuTime, total * MS);
        bench.observe(Observation::Counter {
            process,
            measure,
            time,
            total,
        });
        bench.tick(step as f64 * 100.0);
    }
    let shut = bench.shut();
    let all = |window: &str, metric: &str| -> Vec<f64> {
        let of = shut.iter().filter(|shut| shut.window == window);
        of.map(|shut| (shut.value(metric) * 1e9).round() / 1e6).collect()
    };
    // SINCE_LAST_READ of both readers: each has its own, and reading takes nothing from the other (§6.4).
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
        near(shut.value("rate"), expected, 9, "S2 §3.2.1 M'");
    }
    // SINCE_START and SINCE_START_DIVIDE_BY_TIME of §6.4: M(ts, now), M(ts, now) / (now - ts).
    assert_eq!(all("short", "since"), [20.0, 70.0, 75.0, 75.0, 160.0, 250.0]);
    for (shut, expected) in
        shut.iter()
            .filter(|shut| shut.window == "short")
            .zip([0.2, 0.35, 0.25, 0.1875, 0.32, 250.0 / 600.0])
    {
        near(
            shut.value("since_rate"),
            expected,
            9,
            "S2 §6.4 since the start, by time",
        );
    }
    let whole = shut.iter().find(|shut| shut.window == "long").unwrap();
    near(whole.value("mean_rate"), 0.25, 9, "S2 §3.2.1 M'");
}

/// Regions of each rank with the change of a counter in them.
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
    // V of rank 0 and 1 at each 10 ms.
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
            let (process, time) = (Some(ProcessId(rank)), Time(step * 10 * MS));
            let (measure, total) = (Measure::CpuTime, total * MS);
            bench.observe(Observation::Counter {
                process,
                measure,
                time,
                total,
            });
        }
    }
    // Both ranks are in the region from 10 to 30 and from 40 to 60.
    let regions = [(1.0, 0, 10.0), (1.0, 1, 10.0), (2.0, 0, 40.0), (2.0, 1, 40.0)];
    for (vt, rank, begin) in regions {
        let end = begin + 20.0;
        bench.hit("begin", rank, begin, 0.0, &[vt]);
        bench.hit("end", rank, end, 0.0, &[vt]);
    }
    bench.until(200.0);
    let shut = bench.shut();
    // M_i = V(t_i^e) - V(t_i^b) of each rank by itself, then over ranks (§3.2.2: per process, separately).
    let expected = [((2.0, 11.0), 13.0, 13.0), ((10.0, 17.0), 27.0, 40.0)];
    for (shut, ((low, high), total, ever)) in shut.iter().zip(expected) {
        let (least, most) = shut.rows("gain");
        near(least * 1e3, low, 6, "S2 §3.2.2 M_i, the least rank");
        near(most * 1e3, high, 6, "S2 §3.2.2 M_i, the greatest rank");
        near(shut.value("total") * 1e3, total, 6, "S2 §3.2.2 M_i");
        near(shut.value("ever") * 1e3, ever, 6, "S2 §3.2.2 M");
        // The print has the begin less the end, which is negative of a counter.
        assert!(shut.value("total") > 0.0);
    }
    assert_eq!(shut.len(), 2);
}

/// Regions of one rank, read at calls of a function; the value is time.
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

#[test]
fn s2_3_2_2_corrections_when_a_reading_falls_into_a_region_or_the_measurement_starts_in_one() {
    // Begins and ends of regions, readings, and M between the readings, ms: S2 §3.2.2 (a), (b), (c).
    let cases: [(&str, &[(f64, f64)], &[f64]); 5] = [
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
            near(
                shut.value("inside") * 1e3,
                *expected,
                6,
                &format!("S2 §3.2.2 {what}"),
            );
            sum += expected;
            near(
                shut.value("ever") * 1e3,
                sum,
                6,
                &format!("S2 §3.2.2 {what}: since the start"),
            );
        }
        assert!(shut.len() >= 2, "{what}: {}", bench.why());
    }
}

#[test]
fn s2_3_2_2_a_measurement_that_starts_inside_a_region_leaves_it_out_and_counts_it() {
    let mut bench = Bench::new(REGIONS, 1);
    for (step, total) in (0_u64..).zip([0, 5, 20, 30]) {
        let (process, time) = (Some(ProcessId(0)), Time(step * 10 * MS));
        let (measure, total) = (Measure::CpuTime, total * MS);
        bench.observe(Observation::Counter {
            process,
            measure,
            time,
            total,
        });
    }
    bench.hit("end", 0, 5.0, 0.0, &[6.0]);
    bench.hit("begin", 0, 10.0, 0.0, &[7.0]);
    bench.until(15.0);
    // Reading inside an open region gives no value, not a part of one.
    assert!(bench.shut().is_empty());
    bench.hit("end", 0, 20.0, 0.0, &[7.0]);
    bench.until(30.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 1);
    near(shut[0].value("total") * 1e3, 15.0, 6, "S2 §3.2.2");
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
    // S2 §3.2.3: 900 MB in 6 s, looked at every second.
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
            assert!(shut.told("rate").starts_with("none"), "S2 §3.2.3 second {second}");
        } else {
            near(shut.value("rate"), 150e6, 0, "S2 §3.2.3 900 MB / 6 s");
            // Not 900 MB in the second in which it was told.
            assert!(shut.value("rate") < 900e6);
        }
    }
}

/// The ranks of Fig. 6.10, p1 to p3: begin and end of the loop and time in barriers, by virtual time.
const LOOPS: [[(f64, f64, f64); 3]; 2] = [
    [(100.0, 150.0, 12.0), (105.0, 152.0, 4.0), (98.0, 149.0, 20.0)],
    [(200.0, 260.0, 30.0), (201.0, 261.0, 24.0), (203.0, 258.0, 9.0)],
];

fn loops(bench: &mut Bench) {
    for (vt, ranks) in (1_u32..).zip(LOOPS) {
        for (rank, (begin, end, barrier)) in (0..).zip(ranks) {
            bench.hit("start", rank, begin, 0.0, &[vt.into()]);
            bench.hit("barrier", rank, end - 1.0, barrier / 2.0, &[]);
            bench.hit("barrier", rank, begin + barrier / 2.0 + 1.0, barrier / 2.0, &[]);
            bench.hit("stop", rank, end, 0.0, &[]);
        }
    }
}

#[test]
fn s2_fig_6_7_listing_a_load_imbalance_at_a_barrier() {
    let mut bench = Bench::new(shipped("barrier-imbalance"), 3);
    loops(&mut bench);
    // What is outside of the loop does not count.
    bench.hit("barrier", 1, 180.0, 15.0, &[]);
    bench.until(1000.0);
    let shut = bench.shut();
    // (max ΔB - min ΔB) / ΔT of rank 0, by virtual time.
    let expected = [(20.0 - 4.0) / 50.0, (30.0 - 9.0) / 60.0];
    assert_eq!(shut.len(), expected.len());
    for (shut, expected) in shut.iter().zip(expected) {
        near(shut.value("imbalance"), expected, 9, "S2 Fig. 6.7");
    }
}

#[test]
fn s2_fig_6_7_as_the_language_writes_it_with_the_time_of_one_mpi_call() {
    let printed = include_str!("../rules/barrier-imbalance.yaml");
    let mut bench = Bench::new(printed, 3);
    for (vt, ranks) in (1_u32..).zip(LOOPS) {
        for (rank, (begin, end, barrier)) in (0..).zip(ranks) {
            bench.hit("loop.entry", rank, begin, 0.0, &[vt.into()]);
            bench.call("MPI_Barrier", rank, end - 1.0, barrier);
            bench.call("MPI_Send", rank, begin + 5.0, 3.0);
            bench.hit("loop", rank, end, end - begin, &[vt.into()]);
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 2, "{}", bench.why());
    for (shut, expected) in shut.iter().zip([16.0 / 50.0, 21.0 / 60.0]) {
        near(shut.value("imbalance"), expected, 9, "S2 Fig. 6.7");
    }
}

#[test]
fn s2_6_8_what_is_lost_at_one_virtual_time_does_not_move_the_others() {
    // S2 §6.8.1 joins by the place in a queue: one token less and all that follow are joined wrongly. By virtual time the
    // loop that lacks its begin in a rank has no value, and the next is right.
    let mut bench = Bench::new(
        &shipped("barrier-imbalance").replace("key: vt}", "key: vt, timeout: 5s}"),
        3,
    );
    for (vt, ranks) in (1_u32..).zip(LOOPS) {
        for (rank, (begin, end, barrier)) in (0..).zip(ranks) {
            if (vt, rank) == (1, 1) {
                bench.observe(Observation::Lost {
                    process: ProcessId(1),
                    from: Time(100 * MS),
                    to: Time(120 * MS),
                });
            } else {
                bench.hit("start", rank, begin, 0.0, &[vt.into()]);
            }
            bench.hit("barrier", rank, end - 1.0, barrier, &[]);
            bench.hit("stop", rank, end, 0.0, &[]);
        }
    }
    bench.until(10_000.0);
    let shut = bench.shut();
    let told: Vec<&str> = shut.iter().map(|shut| shut.told("imbalance")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    // An explicit error value that spreads (§6.8.2), with its reason.
    assert!(told[0].starts_with("none ("), "{told:?}");
    near(shut[1].value("imbalance"), 21.0 / 60.0, 9, "S2 §6.8.1");
}

#[test]
fn s2_fig_7_1_listing_b_iterations_in_an_interval() {
    let mut bench = Bench::new(shipped("loop-counter"), 3);
    // S2 §7.2: 400 events a second from one rank, three in the second interval.
    for (second, counts) in (0_u32..).zip([[0, 0, 0], [400, 0, 20], [403, 0, 20]]) {
        for (rank, count) in (0..).zip(counts) {
            bench.totals("iteration", rank, f64::from(second) * 1000.0, count, 0.0);
        }
        bench.tick(f64::from(second) * 1000.0);
    }
    let shut = bench.shut();
    assert_eq!(shut.len(), 2, "one value for each interval, however many events");
    for (shut, iterations) in shut.iter().zip([400.0, 3.0]) {
        assert_eq!(
            shut.rows("iterations"),
            (0.0, iterations),
            "S2 Fig. 7.1: {shut:?}"
        );
        assert_eq!(shut.rows("rate"), (0.0, iterations));
    }
}

/// Listings C and D as they are printed: from the end of the iteration before, by the virtual time less one.
const SHIFTED: &str = "\
rule: shifted
about: Iteration time and share of communication.
roles:
  rank: rank >= 0
probes:
  end:     {role: rank, entry: iteration_end}
  send:    {role: rank, span: MPI_Send}
  receive: {role: rank, span: MPI_Recv}
capture:
  end.vt: arg(0)
windows:
  turn: {from: end, key: vt}
metrics:
  communicating: sum(send.duration) by process + sum(receive.duration) by process
  stamp: first(end.time) by process
  time:  stamp - stamp[-1]
  share: 100% * communicating[-1] / time
  worst: max(share)
";

#[test]
fn s2_fig_7_6_listing_c_mean_iteration_time() {
    let mut bench = Bench::new(SHIFTED, 2);
    // Ends of iterations of two ranks: the time at vt less the time at vt - 1.
    let ends = [
        [10.0, 12.0],
        [30.0, 40.0],
        [45.0, 65.0],
        [70.0, 80.0],
        [95.0, 99.0],
    ];
    for (vt, of_ranks) in (1_u32..).zip(ends) {
        for (rank, end) in (0..).zip(of_ranks) {
            bench.hit("end", rank, end, 0.0, &[vt.into()]);
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 4);
    assert!(
        shut[0].told("time").starts_with("none"),
        "there is no vt - 1 of the first"
    );
    let expected = [(20.0, 28.0), (15.0, 25.0), (15.0, 25.0)];
    for (shut, (least, most)) in shut[1..].iter().zip(expected) {
        let (low, high) = shut.rows("time");
        near(low * 1e3, least, 6, "S2 Fig. 7.6");
        near(high * 1e3, most, 6, "S2 Fig. 7.6");
    }
}

#[test]
fn s2_fig_7_8_listing_d_the_greatest_share_of_communication() {
    let mut bench = Bench::new(SHIFTED, 2);
    for vt in 1..=4_u32 {
        for rank in 0..2 {
            let end = f64::from(vt) * 100.0 + f64::from(rank) * 7.0;
            bench.hit("end", rank, end, 0.0, &[vt.into()]);
            // 10 vt ms of sending, and 5 ms of receiving for rank 1.
            let sending = 10.0 * f64::from(vt);
            bench.hit("send", rank, end + 50.0, sending, &[]);
            bench.hit("receive", rank, end + 60.0, 5.0 * f64::from(rank), &[]);
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 3);
    // Of vt 2: what was between the ends of 1 and 2, in 100 ms.
    for (shut, (rank_0, rank_1)) in shut[1..].iter().zip([(10.0, 15.0), (20.0, 25.0)]) {
        let (low, high) = shut.rows("share");
        near(low * 100.0, rank_0, 6, "S2 Fig. 7.8, percent");
        near(high * 100.0, rank_1, 6, "S2 Fig. 7.8, percent");
        near(shut.value("worst") * 100.0, rank_1, 6, "S2 Fig. 7.8, percent");
    }
}

#[test]
fn s2_fig_6_6_listing_e_send_volume_of_an_interaction() {
    let mut bench = Bench::new(shipped("send-volume"), 3);
    for vt in 1..=3_u32 {
        for rank in 0..3 {
            let at = f64::from(vt) * 100.0 + f64::from(rank);
            bench.hit("begin", rank, at, 0.0, &[vt.into()]);
            for message in 1..=2_u32 {
                bench.hit(
                    "send",
                    rank,
                    at + f64::from(message),
                    0.0,
                    &[(vt * (rank + 1) * message).into()],
                );
            }
            bench.hit("end", rank, at + 10.0, 0.0, &[]);
            // Between two interactions.
            bench.hit("send", rank, at + 20.0, 0.0, &[1000.0]);
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 3);
    let mut sum = 0.0;
    for (vt, shut) in (1_u32..).zip(&shut) {
        // 8 B × vt × (1 + 2 + 3) × (1 + 2)
        let volume = f64::from(8 * vt * 18);
        sum += volume;
        near(
            shut.value("volume"),
            volume,
            6,
            "S2 Fig. 6.6, of one virtual time",
        );
        near(shut.value("recent"), sum, 6, "S2 Fig. 6.6, of an interval");
    }
}

/// The three probes of Fig. 6.3: empty functions that mark places, which several metrics use.
const PROBES: &str = "\
rule: probes
about: A region with a residuum, and iterations in it.
roles:
  rank: rank >= 0
probes:
  begin: {role: rank, entry: region_begin_event}
  end:   {role: rank, entry: region_end_event}
  turn:  {role: rank, entry: probe_in_iteration}
capture:
  begin.vt:     arg(0) as i32
  end.vt:       arg(0) as i32
  end.residuum: residuum as f64        # an argument of this type is in a register that no probe can read
  turn.number:  arg(0) as i32
windows:
  region: {from: begin, to: end, key: vt}
metrics:
  turns:       count(turn) by process
  last_turn:   max(turn.number)
  took:        last(end.time) by process - first(begin.time) by process
  residuum:    max(end.residuum)
  convergence: residuum / residuum[-1]
";

#[test]
fn s2_fig_6_3_three_probes_serve_many_metrics_and_carry_data() {
    let mut bench = Bench::new(PROBES, 2);
    for vt in 1..=3_u32 {
        for rank in 0..2_u32 {
            let at = f64::from(vt) * 100.0 + f64::from(rank);
            bench.hit("begin", rank, at, 0.0, &[vt.into()]);
            for turn in 1..=vt + rank {
                bench.hit("turn", rank, at + f64::from(turn), 0.0, &[turn.into()]);
            }
            bench.hit(
                "end",
                rank,
                at + 40.0 + f64::from(rank),
                0.0,
                &[vt.into(), 1.0 / f64::from(1 << vt)],
            );
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 3);
    assert!(shut[0].told("convergence").starts_with("none"));
    for (vt, shut) in (1_u32..).zip(&shut) {
        assert_eq!(
            shut.rows("turns"),
            (vt.into(), (vt + 1).into()),
            "S2 Fig. 6.3 probe_in_iteration"
        );
        assert_eq!(shut.value("last_turn"), f64::from(vt + 1));
        let (least, most) = shut.rows("took");
        near(least * 1e3, 40.0, 6, "S2 Fig. 6.3 begin and end");
        near(most * 1e3, 41.0, 6, "S2 Fig. 6.3 begin and end");
        near(
            shut.value("residuum"),
            1.0 / f64::from(1 << vt),
            12,
            "S2 Fig. 6.3 residuum",
        );
        if vt > 1 {
            // S2 §6.2.1: `probe(p, vt-1)`.
            near(shut.value("convergence"), 0.5, 12, "S2 §6.4 shifted virtual time");
        }
    }
}

/// Barriers of each rank, awaited.
fn awaited() -> String {
    let complete = "key: vt, complete: {rank: count(barrier) == 2}}";
    shipped("barrier-imbalance").replace("key: vt}", complete)
}

/// What a rank hands in at a place of the order: a hit by its number, or its watermark.
fn hits_of_loops() -> Vec<(&'static str, u32, f64, f64, Vec<f64>)> {
    let mut hits = Vec::new();
    for (vt, ranks) in (1_u32..).zip(LOOPS) {
        for (rank, (begin, end, barrier)) in (0..).zip(ranks) {
            hits.push(("start", rank, begin, 0.0, vec![vt.into()]));
            hits.push((
                "barrier",
                rank,
                begin + barrier / 2.0 + 1.0,
                barrier / 2.0,
                vec![],
            ));
            hits.push(("barrier", rank, end - 1.0, barrier / 2.0, vec![]));
            hits.push(("stop", rank, end, 0.0, vec![]));
        }
    }
    hits
}

proptest! {
    #[test]
    fn s2_4_5_and_s0_4_5_2_completion_in_any_order_of_arrival(
        order in Just((0..24).collect::<Vec<usize>>()).prop_shuffle(),
        ticks in prop::collection::vec(prop::bool::weighted(0.3), 24),
    ) {
        // S0 §4.5.2 (completion conditions) and S2 §4.5 (join of what arrives asynchronously).
        let hits = hits_of_loops();
        let mut bench = Bench::new(&awaited(), 3);
        for (place, tick) in order.iter().zip(&ticks) {
            let (probe, rank, end, took, reads) = &hits[*place];
            bench.hit(probe, *rank, *end, *took, reads);
            if *tick {
                bench.tick(10_000.0);
            }
        }
        prop_assert!(bench.shut().is_empty(), "nothing closes before every rank has said that it is all");
        for rank in [2, 0, 1] {
            bench.watermark(rank, 20_000.0);
            bench.tick(20_000.0 + f64::from(rank));
        }
        let shut = bench.shut();
        let found: Vec<f64> = shut.iter().map(|shut| shut.value("imbalance")).collect();
        prop_assert_eq!(found.len(), 2);
        prop_assert!((found[0] - 0.32).abs() < 1e-9 && (found[1] - 0.35).abs() < 1e-9, "{:?}", found);
    }
}

#[test]
fn s0_4_5_2_a_region_without_all_its_barriers_is_not_complete() {
    let mut bench = Bench::new(&awaited(), 3);
    let mut hits = hits_of_loops();
    hits.remove(1);
    for (probe, rank, end, took, reads) in &hits {
        bench.hit(probe, *rank, *end, *took, reads);
    }
    bench.until(20_000.0);
    assert!(bench.shut().is_empty(), "one of rank 0's barriers is missing");
    assert!(bench.shut().is_empty(), "and the next region waits for it");
}
