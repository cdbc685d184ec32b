//! S3, performance contracts of ASSIST programs: rates, service times, utilisation and links. The language can say these
//! formulas; graphs, degrees of freedom and projection (§5 to §8, §10) belong to contracts, which come later.

use crate::bench::{Bench, last_of, near, table};

#[test]
fn s3_eq_24_and_25_a_rate_is_a_difference_of_counts_over_a_window_behind_the_transient() {
    let rule = "\
rule: rates
about: Items in and out of a computation.
roles:
  sink: rank == 0
probes:
  begin: {role: sink, entry: first_item}
  items: {role: sink, entry: receive}
  done:  {role: sink, span: compute}
windows:
  phase: {from: begin, skip: 1}
metrics:
  i: count(items) / phase.duration
  e: count(done) / phase.duration
  o: e / 12
  t: sum(done.duration) / count(done)
  used: e * t
  remaining: (100 - 1) / e
";
    let mut bench = Bench::new(rule, 1);
    for phase in 0..4_u32 {
        let start = f64::from(phase) * 2000.0;
        bench.hit("begin", 0, start, 0.0, &[]);
        // The first phase fills the buffers: it is left out (S3 §5).
        let items = if phase == 0 { 3 } else { 20 };
        for item in 1..=items {
            let at = start + 90.0 * f64::from(item);
            bench.hit("items", 0, at, 0.0, &[]);
            bench.hit("done", 0, at + 80.0, 60.0, &[]);
        }
    }
    bench.until(10_000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 2);
    for shut in shut {
        near(shut.value("i"), 10.0, 9, "S3 (25) rate of an input, items/s");
        near(shut.value("e"), 10.0, 9, "S3 (28) e = i");
        near(shut.value("o"), 10.0 / 12.0, 9, "S3 (26) o = i/12");
        near(shut.value("used"), 0.6, 9, "S3 (47) e·t");
        // T ≈ t0 + (n-1)/e: the print multiplies by the rate, which has the wrong dimension.
        near(shut.value("remaining"), 9.9, 9, "S3 §5 completion of 100 items");
        assert!((shut.value("remaining") - 99.0 * shut.value("e")).abs() > 900.0);
    }
}

#[test]
fn s3_eq_45_to_49_service_times_and_their_combination() {
    // A task of 1 MFLOP and 1 MB on two machines (§9).
    let given = [
        "a: 1s / 1000 + 1s / 100",
        "b: 1s / 100 + 1s / 1000",
        "overlapped_a: max(1s / 1000, 1s / 100)",
        "overlapped_b: max(1s / 100, 1s / 1000)",
    ];
    table(
        &given,
        &[
            ("S3 (45) one metric, ms", "1s / 1000 / 1ms", 1.0, 9),
            ("S3 (46) one after the other, ms", "a / 1ms", 11.0, 9),
            ("S3 §9 overlapped, ms", "overlapped_a / 1ms", 10.0, 9),
            (
                "S3 (49) together, items/s",
                "1s / (1 / (1 / overlapped_a + 1 / overlapped_b))",
                200.0,
                6,
            ),
            // Adding up the powers of the machines promises what no machine has.
            (
                "S3 §9 powers added up, items/s",
                "1 / max(1 / 1100, 1 / 1100)",
                1100.0,
                6,
            ),
            (
                "S3 §9 with an efficiency of 0.8, items/s",
                "0.8 * 1s * (1 / overlapped_a + 1 / overlapped_b)",
                160.0,
                6,
            ),
        ],
    );
}

/// S3 Table 4: machine, MFLOPS, MB/s; and the service time of C2 (3307 MFLOP, 302 MB), s.
const MACHINES: [(&str, f64, f64, f64, i32); 8] = [
    ("pianosa", 176.14, 614.0, 19.27, 2),
    ("c1", 317.56, 1185.0, 10.67, 2),
    ("pegaso", 617.83, 961.0, 5.667, 3),
    ("quanto", 267.39, 1185.0, 12.62, 2),
    ("pacifico", 442.41, 1743.0, 7.648, 3),
    ("izar", 236.84, 1634.0, 14.15, 2),
    ("marte", 349.84, 1536.0, 9.650, 3),
    ("fuji", 642.43, 795.0, 5.528, 3),
];

/// Metrics `NAME: s` with the service time of this work on each machine.
fn machines(mflop: f64, mb: f64) -> Vec<String> {
    let time = |(name, mflops, mbs, ..): &(&str, f64, f64, f64, i32)| {
        format!("{name}: {mflop} / {mflops} + {mb} / {mbs}")
    };
    MACHINES.iter().map(time).collect()
}

#[test]
fn s3_table_4_service_times_and_mappings() {
    let c2 = machines(3307.0, 302.0);
    let given: Vec<&str> = c2.iter().map(String::as_str).collect();
    for (name, _, _, time, digits) in MACHINES {
        table(
            &given,
            &[(&format!("S3 (46) C2 on {name}, s"), name, time, digits)],
        );
    }
    let rows = [
        ("S3 §11.3 mapping 1, s", "1 / (20 / pianosa)", 0.963, 3),
        (
            "S3 §11.3 mapping 2, s",
            "1 / (1 / pegaso + 1 / pacifico + 1 / marte + 7 / c1)",
            0.937,
            3,
        ),
        ("S3 §11.3 mapping 3, s", "1 / (6 / fuji)", 0.921, 3),
        // One machine less is too slow for a frame a second.
        ("S3 §11.3 mapping 1 with 19, s", "1 / (19 / pianosa)", 1.014, 3),
        (
            "S3 §11.3 mapping 2 with 6 of c1, s",
            "1 / (1 / pegaso + 1 / pacifico + 1 / marte + 6 / c1)",
            1.027,
            3,
        ),
        ("S3 §11.3 mapping 3 with 5, s", "1 / (5 / fuji)", 1.106, 3),
    ];
    table(&given, &rows);
    // C4: the printed work of 52 MFLOP gives 0.465, 0.282 and 0.212, not the printed 0.5, 0.31 and 0.22; 58.5 fits all three.
    for (mflop, expected) in [(52.0, [0.465, 0.282, 0.212]), (58.5, [0.502, 0.307, 0.222])] {
        let c4 = machines(mflop, 104.0);
        let given: Vec<&str> = c4.iter().map(String::as_str).collect();
        for ((name, time), printed) in ["pianosa", "quanto", "fuji"]
            .iter()
            .zip(expected)
            .zip([0.5, 0.31, 0.22])
        {
            table(&given, &[(&format!("S3 §11.3 C4 on {name}, s"), name, time, 3)]);
            assert_eq!(
                (time - printed).abs() < 0.006,
                mflop > 52.0,
                "{name}: {time} as printed {printed}"
            );
        }
    }
}

#[test]
fn s3_eq_48_links() {
    // S3 Table 2 (bytes of a picture and of a group of twelve), §11.3: megabits are of 2^20 bits.
    let given = [
        "picture: 1244164B",
        "group: 14929924B",
        "mbit: 2 ^ 20 * 1B / 8",
        "limit: 100 * mbit",
    ];
    table(
        &given,
        &[
            (
                "S3 Table 2 a picture",
                "(720 * 576 * 3 + 4) * 1B / picture",
                1.0,
                12,
            ),
            (
                "S3 Table 2 a group",
                "(12 * 720 * 576 * 3 + 4) * 1B / group",
                1.0,
                12,
            ),
            ("S3 §11.3 S2, hard, Mbit/s", "12 * picture / mbit", 113.9, 1),
            (
                "S3 §11.3 S2, hard, 10^6 bit/s",
                "12 * picture * 8 / 1MB",
                119.4,
                1,
            ),
            ("S3 §11.3 S3, hard, Mbit/s", "group / mbit", 113.9, 1),
            ("S3 §11.3 S2, easy, Mbit/s", "picture / mbit", 9.5, 1),
            (
                "S3 §11.3 frames a second at most",
                "floor(limit / picture)",
                10.0,
                9,
            ),
        ],
    );
    // S3 Table 3: C2 = C3 in, 12·C3 out = 12·C4 = 12·C5, easy and hard.
    for (frames, groups) in [(1.0, 1.0 / 12.0), (12.0, 1.0)] {
        near(
            last_of(&[&format!("out: {frames} / 12")]),
            groups,
            12,
            "S3 Table 1, C3: o = i/12",
        );
    }
}
