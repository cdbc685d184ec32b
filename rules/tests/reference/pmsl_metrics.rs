//! S2, PMSL and G-PM (2009): its example metrics A to E, its three probes, and the join by virtual time of
//! events that arrive in any order.

use proptest::prelude::*;
use rules::{Observation, ProcessId, Time};

use crate::bench::{Bench, shipped};

const MS: u64 = 1_000_000;

/// Ranks p1 to p3 of Fig. 6.10: begin and end of the loop, and time in barriers, by virtual time.
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
    // A barrier outside the loop, which is not counted.
    bench.hit("barrier", 1, 180.0, 15.0, &[]);
    bench.until(1000.0);
    let shut = bench.shut();
    // (max ΔB - min ΔB) / ΔT of rank 0, by virtual time.
    let expected = [(20.0 - 4.0) / 50.0, (30.0 - 9.0) / 60.0];
    assert_eq!(shut.len(), expected.len());
    for (shut, expected) in shut.iter().zip(expected) {
        near!(shut.value("imbalance") => expected, 9, "S2 Fig. 6.7");
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
        near!(shut.value("imbalance") => expected, 9, "S2 Fig. 6.7");
    }
}

#[test]
fn s2_6_8_what_is_lost_at_one_virtual_time_does_not_move_the_others() {
    // Erratum: S2 §6.8.1 joins by position in a queue, so one missing token shifts all later joins. By
    // virtual time, the loop without its begin in one rank has no value, and the next loop is right.
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
    let reported: Vec<&str> = shut.iter().map(|shut| shut.reported("imbalance")).collect();
    assert_eq!(reported.len(), 2, "{reported:?}");
    // An explicit error value that propagates (§6.8.2), with its reason.
    assert!(reported[0].starts_with("none ("), "{reported:?}");
    near!(shut[1].value("imbalance") => 21.0 / 60.0, 9, "S2 §6.8.1");
}

#[test]
fn s2_fig_7_1_listing_b_iterations_in_an_interval() {
    let mut bench = Bench::new(shipped("loop-counter"), 3);
    // S2 §7.2: 400 events per second from one rank, three in the second interval.
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

#[test]
fn s2_fig_7_1_listing_b_counts_complete_iterations_and_each_once_wherever_the_totals_are_read() {
    let mut bench = Bench::new(shipped("loop-counter"), 1);
    // One iteration every 37 ms. The totals are read some milliseconds before a window closes, never at its
    // boundary.
    for (read, closes) in [(10_u32, 20), (1007, 1020), (2013, 2040), (3048, 3050)] {
        bench.totals("iteration", 0, f64::from(read), u64::from(read / 37), 0.0);
        bench.tick(f64::from(closes));
    }
    let counted: Vec<f64> = bench
        .shut()
        .iter()
        .map(|shut| shut.rows("iterations").0)
        .collect();
    assert_eq!(counted, [27.0, 27.0, 28.0], "of {} in all", 3048 / 37);
}

/// Listings C and D as printed: from the end of the previous iteration, found by virtual time minus one.
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
    // Ends of iterations of two ranks: the time at vt minus the time at vt - 1.
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
        shut[0].reported("time").starts_with("none"),
        "there is no vt - 1 of the first"
    );
    let expected = [(20.0, 28.0), (15.0, 25.0), (15.0, 25.0)];
    for (shut, (least, most)) in shut[1..].iter().zip(expected) {
        let (low, high) = shut.rows("time");
        near!(low * 1e3 => least, 6, "S2 Fig. 7.6");
        near!(high * 1e3 => most, 6, "S2 Fig. 7.6");
    }
}

#[test]
fn s2_fig_7_8_listing_d_the_greatest_share_of_communication() {
    let mut bench = Bench::new(SHIFTED, 2);
    for vt in 1..=4_u32 {
        for rank in 0..2 {
            let end = f64::from(vt) * 100.0 + f64::from(rank) * 7.0;
            bench.hit("end", rank, end, 0.0, &[vt.into()]);
            // 10 vt ms of sends, and 5 ms of receives in rank 1.
            let sending = 10.0 * f64::from(vt);
            bench.hit("send", rank, end + 50.0, sending, &[]);
            bench.hit("receive", rank, end + 60.0, 5.0 * f64::from(rank), &[]);
        }
    }
    bench.until(1000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 3);
    // For vt = 2: the time between the ends of 1 and 2, which is 100 ms.
    for (shut, (rank_0, rank_1)) in shut[1..].iter().zip([(10.0, 15.0), (20.0, 25.0)]) {
        let (low, high) = shut.rows("share");
        near!(low * 100.0 => rank_0, 6, "S2 Fig. 7.8, percent");
        near!(high * 100.0 => rank_1, 6, "S2 Fig. 7.8, percent");
        near!(shut.value("worst") * 100.0 => rank_1, 6, "S2 Fig. 7.8, percent");
    }
}

/// The three probes of Fig. 6.3: empty functions that mark places, shared by several metrics.
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
    assert!(shut[0].reported("convergence").starts_with("none"));
    for (vt, shut) in (1_u32..).zip(&shut) {
        assert_eq!(
            shut.rows("turns"),
            (vt.into(), (vt + 1).into()),
            "S2 Fig. 6.3 probe_in_iteration"
        );
        assert_eq!(shut.value("last_turn"), f64::from(vt + 1));
        let (least, most) = shut.rows("took");
        near!(least * 1e3 => 40.0, 6, "S2 Fig. 6.3 begin and end");
        near!(most * 1e3 => 41.0, 6, "S2 Fig. 6.3 begin and end");
        near!(shut.value("residuum") => 1.0 / f64::from(1 << vt), 12, "S2 Fig. 6.3 residuum");
        if vt > 1 {
            // S2 §6.2.1: `probe(p, vt-1)`.
            near!(shut.value("convergence") => 0.5, 12, "S2 §6.4 shifted virtual time");
        }
    }
}

/// Imbalance of barriers, with windows that wait for all ranks.
fn awaited() -> String {
    let complete = "key: vt, complete: {rank: count(barrier) == 2}}";
    shipped("barrier-imbalance").replace("key: vt}", complete)
}

/// All hits: probe, rank, end, duration, captures.
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
        // S0 §4.5.2 (completion conditions) and S2 §4.5 (join of asynchronous arrivals).
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

#[test]
fn s2_6_3_2_a_parameter_that_no_formula_uses_changes_nothing() {
    let unused = "parameters:\n  spare: {value: 3ms, about: nobody uses it}\n";
    let source = shipped("send-volume").replacen("parameters:\n", unused, 1);
    assert_ne!(source, shipped("send-volume"));
    let volume = |parameters: &[(&str, &str)]| {
        let mut bench = Bench::with(&source, parameters, 1);
        bench.hit("begin", 0, 100.0, 0.0, &[1.0]);
        bench.hit("send", 0, 101.0, 0.0, &[5.0]);
        bench.hit("end", 0, 102.0, 0.0, &[]);
        bench.until(1000.0);
        bench.shut()[0].value("volume")
    };
    assert_eq!((volume(&[]), volume(&[("spare", "9ms")])), (40.0, 40.0));
}
