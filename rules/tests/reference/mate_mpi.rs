//! S1, MATE for MPI (2010): adjusting factoring, the index for the number of workers, and what its tables give.

use rules::{Site, Target};

use crate::bench::{Bench, formulas, last_of, near, shipped, table, written};

#[test]
fn s1_eq_4_1_the_bound_of_the_greatest_of_n_samples() {
    // S1 Eq. 4.1: (N-1)/sqrt(2N-1) <= sqrt(N/2), the same σ on both sides; closest for many workers.
    let given = [
        "room(N): sqrt(N / 2) - (N - 1) / sqrt(2 * N - 1)",
        "share(N): (N - 1) / sqrt(2 * N - 1) / sqrt(N / 2)",
    ];
    table(
        &given,
        &[
            ("S1 Eq. 4.1 one worker", "room(1)", 0.5_f64.sqrt(), 12),
            ("S1 Eq. 4.1 two workers", "room(2)", 0.422_650, 6),
            (
                "S1 Eq. 4.1 a million workers, one by the other",
                "share(1000000)",
                1.0,
                5,
            ),
        ],
    );
    let least = last_of(&[given[0], "least: min(room(N) for N in 1 to 10000)"]);
    assert!(least > 0.0, "S1 Eq. 4.1: {least}");
}

#[test]
fn s1_eq_4_2_to_4_4_the_factors_make_the_bound_the_optimum() {
    let given = [
        "N: 4",
        "M: 1000",
        "mu: 2ms",
        "sigma: 0.5ms",
        "x_0: 1 + sigma * sqrt(N / 2) / mu",
        "F_0: M / (x_0 * N)",
        "R: M - F_0 * N",
        "x_j: 2 + sigma * sqrt(N / 2) / mu",
        "F_j: R / (x_j * N)",
        "bound(F): (mu * F + sigma * F * sqrt(N / 2)) / 1ms",
    ];
    table(
        &given,
        &[
            (
                "S1 Eq. 4.2 with 4.3 is the optimum μ·M/N, ms",
                "bound(F_0)",
                500.0,
                9,
            ),
            (
                "S1 Eq. 4.4 leaves as much as a chunk takes, ms",
                "bound(F_j) - mu * (R / N - F_j) / 1ms",
                0.0,
                9,
            ),
            // §4.2.1 prints μ·N/2 where the sentence before has the optimum, μ·M/N.
            ("S1 §4.2.1 as printed, ms", "mu * N / 2 / 1ms", 4.0, 9),
        ],
    );
}

/// Workers, tasks, μ and σ of a task's time (ms), c, f_0, f_j, tasks of a chunk of each batch, least chunk, what is left.
type Vector = (u32, u32, f64, f64, f64, f64, f64, &'static [u32], u32, u32);

/// S1, the digest's test vectors of adjusting factoring (§9.1), for Eq. 4.3 and 4.4.
const FACTORS: [Vector; 4] = [
    (
        4,
        1000,
        2.0,
        0.5,
        0.353_553,
        0.738_796,
        0.424_889,
        &[184, 28, 16, 9, 5],
        5,
        32,
    ),
    (4, 1000, 2.0, 0.0, 0.0, 1.0, 0.5, &[250], 5, 0),
    (
        2,
        1000,
        1.0,
        1.0,
        1.0,
        0.5,
        0.333_333,
        &[250, 83, 55, 37, 25, 16, 11, 7, 5],
        5,
        22,
    ),
    (
        7,
        786_420,
        1.0,
        0.25,
        0.467_707,
        0.681_335,
        0.405_234,
        &[76545, 14507, 8628, 5132, 3052, 1816, 1080, 642, 382, 227, 135],
        100,
        1398,
    ),
];

#[test]
fn s1_eq_4_3_and_4_4_factors() {
    for (workers, tasks, mu, sigma, c, f_0, f_j, ..) in FACTORS {
        let given = [
            format!("N: {workers}"),
            format!("mu: {mu}ms"),
            format!("sigma: {sigma}ms"),
        ];
        let mut lines: Vec<&str> = given.iter().map(String::as_str).collect();
        lines.extend([
            "c: sigma * sqrt(N / 2) / mu",
            "f_0: 1 / (1 + c)",
            "f_j: 1 / (2 + c)",
        ]);
        let shut = formulas(&lines);
        let what = format!("S1 §9.1 N = {workers}, M = {tasks}, σ = {sigma}");
        near(shut.value("c"), c, 6, &what);
        near(shut.value("f_0"), f_0, 6, &what);
        near(shut.value("f_j"), f_j, 6, &what);
    }
    // The digest has 0.405235 in its last row: 1 / 2.467707 is 0.405234.
    assert!((last_of(&["f_j: 1 / (2 + 25% * sqrt(7 / 2))"]) - 0.405_235).abs() > 0.5e-6);
}

/// A master that makes batches of the shares that the rule sets, and workers of these task times (ms).
struct Farm {
    bench: Bench,
    times: Vec<f64>,
    number: u32,
    shares: [f64; 3],
    /// In which iteration each share was written, and what.
    writes: Vec<(u32, usize, f64)>,
}

impl Farm {
    fn new(times: Vec<f64>) -> Farm {
        Farm {
            bench: Bench::new(shipped("adjusting-factoring"), times.len() as u32 + 1).applying(),
            times,
            number: 0,
            shares: [f64::NAN; 3],
            writes: Vec::new(),
        }
    }

    /// An iteration of so many tasks and at most so many batches: tasks of the chunks of each, and what is left.
    fn iteration(&mut self, tasks: u32, least: u32, most: usize) -> (Vec<u32>, u32) {
        let workers = self.times.len() as u32;
        let start = 1000.0 + f64::from(self.number) * 1e6;
        self.told(start);
        let number = f64::from(self.number);
        let (mut at, mut left, mut sizes) = (start + 1.0, tasks, Vec::new());
        self.bench.hit("begin", 0, start, 0.0, &[number, workers.into()]);
        while left > 0 && sizes.len() < most {
            let share = self.shares[sizes.len().min(2)];
            let chunk = (share * f64::from(left) / f64::from(workers)) as u32;
            if chunk < least {
                break;
            }
            let batch = sizes.len() as f64;
            at += 1.0;
            self.bench.hit("batch", 0, at, 0.0, &[batch, workers.into()]);
            let mut longest: f64 = 0.0;
            for (worker, time) in (1..).zip(&self.times) {
                let took = f64::from(chunk) * time;
                self.bench.hit(
                    "send",
                    0,
                    at + 0.1 * f64::from(worker),
                    0.0,
                    &[worker.into(), batch, chunk.into()],
                );
                self.bench
                    .hit("compute", worker, at + 5.0 + took, took, &[number, batch]);
                longest = longest.max(took);
            }
            at += longest + 10.0;
            (0..=workers).for_each(|rank| self.bench.watermark(rank, at));
            self.told(at);
            left -= chunk * workers;
            sizes.push(chunk);
        }
        self.bench.hit("end", 0, at + 10.0, 0.0, &[]);
        (0..=workers).for_each(|rank| self.bench.watermark(rank, at + 20.0));
        self.told(at + 20.0);
        self.number += 1;
        (sizes, left)
    }

    fn told(&mut self, at: f64) {
        for decision in self.bench.tick(at) {
            for (place, name) in ["F0", "F1", "F2"].into_iter().enumerate() {
                if let Some(value) = written(&decision, name) {
                    self.shares[place] = value;
                    self.writes.push((self.number, place, value));
                }
            }
        }
    }
}

#[test]
fn s1_4_2_1_the_batches_of_adjusting_factoring() {
    for (workers, tasks, mu, sigma, _, f_0, f_j, chunks, least, left) in FACTORS {
        // Half of the workers below μ and half above, one at μ where their number is odd.
        let half = f64::from(workers / 2 * 2);
        let away = sigma * (f64::from(workers) / half).sqrt();
        let time = |worker: u32| match worker % 2 {
            _ if worker == workers && workers % 2 == 1 => mu,
            0 => mu + away,
            _ => mu - away,
        };
        let mut farm = Farm::new((1..=workers).map(time).collect());
        let what = format!("S1 §9.1 N = {workers}, M = {tasks}, σ = {sigma}");
        // S1 §4.2.1 step 1: all batches of the first iteration are halves of what is left.
        let (first, _) = farm.iteration(64 * workers, 1, 3);
        assert_eq!(first, [32, 16, 8], "{what}: {}", farm.bench.why());
        assert_eq!(
            farm.writes[..3],
            [(0, 0, 0.5), (0, 1, 0.5), (0, 2, 0.5)],
            "{what}"
        );
        let later: Vec<usize> = farm.writes[3..].iter().map(|(_, place, _)| *place).collect();
        assert!(!later.contains(&2), "{what}: F2 is kept in the first iteration");
        let (found, rest) = farm.iteration(tasks, least, 100);
        near(farm.shares[0], f_0, 6, &what);
        near(farm.shares[1], f_j, 6, &what);
        near(farm.shares[2], f_j, 6, &what);
        assert_eq!((found.as_slice(), rest), (chunks, left), "{what}");
    }
}

/// An iteration of `workers-by-index` in which this was sent, received and computed.
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

/// m0 in ms, λ in ms/B, V in B, α, Tc in ms; A, B and x* of the closed form; the best whole number with its time and index.
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

/// The rule with formulas that it need not have.
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
        near(shut.value("V"), volume, 3, &what);
        near(shut.value("alpha"), share, 9, &what);
        near(shut.value("Tc") * 1e3, tc, 6, &what);
        near(shut.value("A") * 1e3, a, 6, &what);
        near(shut.value("B") * 1e3, b, 6, &what);
        near(shut.value("best_x"), x, 4, &what);
        assert_eq!(shut.value("best"), best, "{what}");
        near(shut.value("t") * 1e3, time, 4, &what);
        near(shut.value("pi") * 1e3, pi, 4, &what);
        // At x* the time is 2A, the index 4AB/Tc, the efficiency Tc/(2B): never above one half.
        near(shut.value("at_x") / shut.value("A"), 2.0, 9, &what);
        near(shut.value("index") / shut.value("least"), 1.0, 9, &what);
        near(shut.value("efficiency"), shut.value("half"), 9, &what);
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
    // §4.3 leaves a bracket out, so that only λV or only T_c is divided; and says that the index maximises performance.
    more.push_str("  unbalanced: 2 * latency + ((8 - 1) * alpha + 1) * per_byte * V + Tc / 8\n  right: T(8)\n  worst: argmax(Pi(x) for x in 1 to 100)\n  fastest: argmin(T(x) for x in 1 to 100)\n");
    let parameters = [
        ("latency", "0.1ms"),
        ("per_byte", "10ns / 1B"),
        ("max_workers", "100"),
    ];
    let shut = indexed(&with_metrics(&more), &parameters, 25e6, 25e6, 8000.0);
    for (x, pi, digits) in points {
        near(
            shut.value(&format!("pi_{x}")) * 1e3,
            pi,
            digits,
            &format!("S1 §9.2 Pi({x})"),
        );
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
    assert!(shut.told("alpha").starts_with("none"));
    assert_eq!(shut.value("best"), 40.0, "S1 §9.2 V = 0");
    // Tc = 0: there is no index.
    let shut = indexed(shipped("workers-by-index"), &free, 1e6, 1e6, 0.0);
    assert!(shut.told("best").starts_with("none"), "S1 §9.2 Tc = 0");
    // A = 0: no finite optimum, so every worker there is.
    let nothing = [("latency", "0s"), ("per_byte", "0s / 1B"), ("max_workers", "50")];
    let shut = indexed(shipped("workers-by-index"), &nothing, 1e6, 1e6, 8000.0);
    assert_eq!(shut.value("best"), 50.0, "S1 §9.2 A = 0");
    // By itself the rule counts the workers: two.
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
    let at = decision.at.as_ref().unwrap();
    assert_eq!(
        (at.site, &at.target),
        (Site::Entry, &Target::Function("global_sendreceive".into()))
    );
    assert_eq!(decision.expect.as_deref(), Some("500 ms"));
}

#[test]
fn s1_5_4_2_1_latency_and_cost_per_byte_are_measured_from_round_trips() {
    // Both works ask for a refresh and use constants. Here every round trip takes 2·0.2 ms + 8e-6 ms for each byte, and what
    // the worker computes; its chunks are of many sizes.
    let mut bench = Bench::new(shipped("network"), 3);
    for number in 0..25_u32 {
        let start = f64::from(number) * 1000.0;
        bench.hit("begin", 0, start, 0.0, &[number.into(), 100.0]);
        for worker in 1..=2_u32 {
            let tasks = f64::from(100 + 37 * ((number * worker) % 11) + 500 * worker);
            let computed = f64::from(40 + number % 7 + 3 * worker);
            let away = 2.0 * 0.2 + 8e-6 * (2.0 * tasks * 100.0);
            let sent = start + 10.0 * f64::from(worker);
            bench.hit("send", 0, sent, 0.0, &[worker.into(), tasks]);
            bench.hit(
                "compute",
                worker,
                sent + 0.3 + computed,
                computed,
                &[number.into()],
            );
            bench.hit("receive", 0, sent + away + computed, 0.0, &[worker.into(), tasks]);
        }
        bench.hit("end", 0, start + 200.0, 0.0, &[]);
        bench.until(start + 500.0);
    }
    let shut = bench.shut().pop().unwrap();
    near(shut.value("N"), 40.0, 9, "S1 §5.4.2.1 the trips of 20 iterations");
    near(shut.value("latency") * 1e3, 0.2, 4, "S1 §5.4.2.1 m0, ms");
    near(shut.value("per_byte") * 1e9, 8.0, 3, "S1 §5.4.2.1 λ, 1e-6 ms/B");
}

#[test]
fn s1_9_3_events_of_an_iteration() {
    // S1 §9.3: master 2 + B + 2K events, workers 2K in all, with seven workers, eleven batches and 77 chunks; a span is two.
    table(
        &["B: 11", "K: 7 * B"],
        &[("S1 §9.3 events", "2 + B + 2 * K + 2 * K", 321.0, 9)],
    );
}

#[test]
fn s1_5_5_tables_5_5_and_5_6() {
    // S1 Table 5.5, s: workers, Xfire, observed, tuned; then in percent the overhead, the gain over observed, over Xfire; the speedup
    // over two workers.
    let plain = [
        (2, 529.6, 559.99, 545.14, 30.39, 5.74, 2.65, -2.93, 1.00),
        (3, 381.61, 414.5, 391.83, 32.89, 8.62, 5.47, -2.68, 1.39),
        (4, 305.06, 336.5, 305.96, 31.44, 10.31, 9.08, -0.30, 1.74),
        (5, 264.95, 299.46, 257.9, 34.51, 13.03, 13.88, 2.66, 2.00),
        (6, 229.27, 261.46, 226.27, 32.19, 14.04, 13.46, 1.31, 2.31),
        (7, 209.94, 242.27, 203.59, 32.33, 15.40, 15.97, 3.02, 2.52),
    ];
    for (workers, xfire, observed, tuned, seconds, overhead, over_observed, over_xfire, speedup) in plain {
        let given = [
            format!("xfire: {xfire}s"),
            format!("observed: {observed}s"),
            format!("tuned: {tuned}s"),
        ];
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let what = format!("S1 Table 5.5, {workers} workers");
        let rows = [
            (what.as_str(), "(observed - xfire) / 1s", seconds, 2),
            (&what, "100 * (observed - xfire) / xfire", overhead, 2),
            (&what, "100 * (observed - tuned) / observed", over_observed, 2),
            (&what, "100 * (xfire - tuned) / xfire", over_xfire, 2),
            (&what, "529.6s / xfire", speedup, 2),
        ];
        table(&given, &rows);
    }
    // S1 Table 5.6, s: the same with an imbalance; the gain as printed is cut off, not rounded.
    let heavy = [
        (2, 648.28, 629.63, 2.9, 2.88, 18.65),
        (3, 460.34, 453.16, 1.5, 1.56, 7.18),
        (4, 393.37, 360.03, 8.4, 8.48, 33.34),
        (5, 322.82, 290.23, 10.09, 10.10, 32.59),
        (6, 276.17, 246.97, 10.57, 10.57, 29.20),
        (7, 252.74, 220.8, 12.63, 12.64, 31.94),
    ];
    for (workers, slow, tuned, printed, gain, seconds) in heavy {
        let given = [format!("slow: {slow}s"), format!("tuned: {tuned}s")];
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let what = format!("S1 Table 5.6, {workers} workers");
        let rows = [
            (what.as_str(), "100 * (slow - tuned) / slow", gain, 2),
            (&what, "(slow - tuned) / 1s", seconds, 2),
        ];
        table(&given, &rows);
        let found: f64 = gain;
        assert!((found - printed).abs() < 0.1, "{what}");
    }
}
