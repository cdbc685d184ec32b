//! S1, MATE for MPI (2010): the index for the number of workers, its closed form, and its components.

use crate::bench::{Bench, shipped, written};

/// An iteration of `workers-by-index` with this sent and received data and this computation.
fn indexed(
    source: &str,
    parameters: &[(&str, &str)],
    sent: f64,
    received: f64,
    tc: f64,
) -> crate::bench::Shut {
    let mut bench = Bench::with(source, parameters, 3);
    bench.hit("begin", 0, 100.0, 0.0, &[1.0, 2.0, 1.0]);
    for worker in 1..=2 {
        bench.hit("send", 0, 100.0 + f64::from(worker), 0.0, &[sent / 2.0]);
        bench.hit("compute", worker, 200.0 + tc / 2.0, tc / 2.0, &[1.0]);
        bench.hit(
            "receive",
            0,
            300.0 + tc / 2.0 + f64::from(worker),
            0.0,
            &[received / 2.0],
        );
    }
    bench.hit("end", 0, 400.0 + tc, 0.0, &[]);
    bench.until(1000.0 + tc);
    bench.shut().remove(0)
}

/// m0 in ms, λ in ms/B, V in B, α, Tc in ms; A, B and x* of the closed form; the best integer with its time
/// and index.
type Index = (
    &'static str,
    &'static str,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
);

/// S1, the digest's test vectors of the index (§9.2), for Eq. 4.5 to 4.7.
const INDICES: [Index; 2] = [
    (
        "0.1ms",
        "10ns / 1B",
        50e6,
        0.5,
        8000.0,
        250.2,
        8250.0,
        32.9736,
        33.0,
        500.2,
        1032.0752,
    ),
    (
        "0.05ms", "8ns / 1B", 2e6, 0.5, 500.0, 8.1, 508.0, 62.7160, 63.0, 16.1635, 32.9186,
    ),
];

/// The rule with additional metrics.
fn with_metrics(more: &str) -> String {
    shipped("workers-by-index").replacen("metrics:\n", &format!("metrics:\n{more}"), 1)
}

#[test]
fn s1_eq_4_5_to_4_7_the_index_and_its_closed_form() {
    let more = "  A: 2 * latency + alpha * per_byte * V\n  B: (1 - alpha) * per_byte * V + Tc\n  best_x: B / A\n  t: T(best)\n  pi: Pi(best)\n  at_x: (A + B / best_x)\n  efficiency: Tc / (best_x * at_x)\n  half: Tc / (2 * B)\n  least: 4 * A * B / Tc\n  index: best_x * at_x ^ 2 / Tc\n";
    for (latency, per_byte, volume, share, tc, a, b, x, best, time, pi) in INDICES {
        let parameters = [
            ("latency", latency),
            ("per_byte", per_byte),
            ("max_workers", "100"),
        ];
        let shut = indexed(
            &with_metrics(more),
            &parameters,
            volume * share,
            volume * (1.0 - share),
            tc,
        );
        let what = format!("S1 §9.2 m0 = {latency}");
        near!(shut.value("V") => volume, 3, "{what}");
        near!(shut.value("alpha") => share, 9, "{what}");
        near!(shut.value("Tc") * 1e3 => tc, 6, "{what}");
        near!(shut.value("A") * 1e3 => a, 6, "{what}");
        near!(shut.value("B") * 1e3 => b, 6, "{what}");
        near!(shut.value("best_x") => x, 4, "{what}");
        assert_eq!(shut.value("best"), best, "{what}");
        near!(shut.value("t") * 1e3 => time, 4, "{what}");
        near!(shut.value("pi") * 1e3 => pi, 4, "{what}");
        // At x* the time is 2A, the index 4AB/Tc, and the efficiency Tc/(2B), which is at most one half.
        near!(shut.value("at_x") / shut.value("A") => 2.0, 9, "{what}");
        near!(shut.value("index") / shut.value("least") => 1.0, 9, "{what}");
        near!(shut.value("efficiency") => shut.value("half"), 9, "{what}");
        assert!(shut.value("efficiency") <= 0.5, "{what}");
    }
}

#[test]
fn s1_eq_4_6_the_index_at_other_numbers_of_workers_and_the_errors_of_the_print() {
    let points = [
        (1, 9031.675, 3),
        (8, 1642.1141, 4),
        (16, 1172.9759, 4),
        (32, 1032.3068, 4),
        (34, 1032.3174, 4),
        (64, 1149.7724, 4),
    ];
    let mut more: String = points
        .iter()
        .map(|(x, ..)| format!("  pi_{x}: Pi({x})\n"))
        .collect();
    // Errata: Eq. 4.7 of §4.3 lacks a bracket, so that only one of λV and Tc is divided; and §4.3 states that
    // the index maximises performance.
    more.push_str("  unbalanced: 2 * latency + ((8 - 1) * alpha + 1) * per_byte * V + Tc / 8\n  right: T(8)\n  worst: argmax(Pi(x) for x in 1 to 100)\n  fastest: argmin(T(x) for x in 1 to 100)\n");
    let parameters = [
        ("latency", "0.1ms"),
        ("per_byte", "10ns / 1B"),
        ("max_workers", "100"),
    ];
    let shut = indexed(&with_metrics(&more), &parameters, 25e6, 25e6, 8000.0);
    for (x, pi, digits) in points {
        near!(shut.value(&format!("pi_{x}")) * 1e3 => pi, digits, "S1 §9.2 Pi({x})");
    }
    assert!(
        shut.value("unbalanced") > 2.0 * shut.value("right"),
        "S1 §4.3 Eq. 4.7 as printed"
    );
    assert_eq!(
        shut.value("worst"),
        1.0,
        "S1 §4.3: the greatest index is that of one worker"
    );
    assert_eq!(
        shut.value("fastest"),
        100.0,
        "S1 §9.2: the time alone asks for every worker"
    );
}

#[test]
fn s1_9_2_without_messages_or_work_and_never_more_workers_than_there_are() {
    let free = [
        ("latency", "0.1ms"),
        ("per_byte", "10ns / 1B"),
        ("max_workers", "50"),
    ];
    // V = 0: α is 0/0, and x* = Tc / (2 m0) = 40.
    let shut = indexed(shipped("workers-by-index"), &free, 0.0, 0.0, 8.0);
    assert!(shut.reported("alpha").starts_with("none"));
    assert_eq!(shut.value("best"), 40.0, "S1 §9.2 V = 0");
    // Tc = 0: the index is undefined.
    let shut = indexed(shipped("workers-by-index"), &free, 1e6, 1e6, 0.0);
    assert!(shut.reported("best").starts_with("none"), "S1 §9.2 Tc = 0");
    // A = 0: no finite optimum, so all available workers.
    let nothing = [("latency", "0s"), ("per_byte", "0s / 1B"), ("max_workers", "50")];
    let shut = indexed(shipped("workers-by-index"), &nothing, 1e6, 1e6, 8000.0);
    assert_eq!(shut.value("best"), 50.0, "S1 §9.2 A = 0");
    // Without a parameter the rule counts the workers, which are two.
    let shut = indexed(shipped("workers-by-index"), &[], 25e6, 25e6, 8000.0);
    assert_eq!(shut.value("best"), 2.0, "S1 §9.2 clamped");
}

#[test]
fn s1_5_4_2_1_the_number_is_set_at_the_start_of_an_iteration_from_the_one_before() {
    let parameters = [("latency", "0.1ms"), ("per_byte", "10ns / 1B")];
    let mut bench = Bench::with(shipped("workers-by-index"), &parameters, 65).applying();
    let mut decided = Vec::new();
    for number in 0..6_u32 {
        let start = f64::from(number) * 10_000.0;
        bench.hit("begin", 0, start, 0.0, &[number.into(), 8.0, 1.0]);
        for worker in 1..=8_u32 {
            bench.hit("send", 0, start + f64::from(worker), 0.0, &[25e6 / 8.0]);
            bench.hit("compute", worker, start + 1100.0, 1000.0, &[number.into()]);
            bench.hit(
                "receive",
                0,
                start + 1200.0 + f64::from(worker),
                0.0,
                &[25e6 / 8.0],
            );
        }
        assert!(
            bench.until(start + 1500.0).is_empty(),
            "before the iteration is complete"
        );
        bench.hit("end", 0, start + 1600.0, 0.0, &[]);
        decided.extend(bench.until(start + 9000.0));
    }
    let decision = decided.first().unwrap_or_else(|| panic!("{}", bench.why()));
    assert_eq!(written(decision, "NW"), Some(33.0), "S1 §9.2");
    assert_eq!(decision.at, "entry:global_sendreceive".parse().ok());
    assert_eq!(decision.expect.as_deref(), Some("500 ms"));
}

#[test]
fn s1_5_4_2_work_that_grows_while_a_number_is_on_trial_asks_for_another() {
    let parameters = [("latency", "0.1ms"), ("per_byte", "10ns / 1B")];
    let mut bench = Bench::with(shipped("workers-by-index"), &parameters, 65).applying();
    let (mut workers, mut decided) = (8.0, Vec::new());
    let mut start = 0.0;
    for number in 0..30_u32 {
        // From the third of the five windows of the trial on.
        let tc: f64 = if number < 4 { 8000.0 } else { 24_000.0 };
        let time = 250.2 + (250.0 + tc) / workers;
        bench.hit("begin", 0, start, 0.0, &[number.into(), workers, 1.0]);
        for worker in 1..=8_u32 {
            bench.hit("send", 0, start + f64::from(worker), 0.0, &[25e6 / 8.0]);
            let end = start + time - 2.0;
            bench.hit("compute", worker, end, tc / 8.0, &[number.into()]);
            let received = end + f64::from(worker) / 8.0;
            bench.hit("receive", 0, received, 0.0, &[25e6 / 8.0]);
        }
        bench.hit("end", 0, start + time, 0.0, &[]);
        start += time + 100.0;
        for decision in bench.until(start - 50.0) {
            workers = written(&decision, "NW").unwrap();
            decided.push((number, workers));
        }
    }
    // x* = 8250 / 250.2 = 33, then 24250 / 250.2 = 97, of 64 workers.
    assert_eq!(decided, [(0, 33.0), (4, 64.0)], "S1 §9.2: {}", bench.why());
    assert_eq!(bench.verdicts(), [true, true], "{}", bench.why());
}
