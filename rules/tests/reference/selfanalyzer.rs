//! S4, SelfAnalyzer (chapter 4 of Corbalán's thesis): speedup from two measurements, Amdahl's factor, smoothing, prediction.

use crate::bench::{Bench, last_of, near, shipped, table};

#[test]
fn s4_fig_4_1_to_4_3_speedup_and_efficiency() {
    table(
        &["T1: 60s", "T8: 10s", "T4: 9s"],
        &[
            ("S4 Fig. 4.1 S(P) = T(1)/T(P)", "T1 / T8", 6.0, 9),
            ("S4 Fig. 4.2 E(P) = S(P)/P", "T1 / T8 / 8", 0.75, 9),
            // A ratio of two measurements can be superlinear.
            ("S4 §4.2 S(4) above 4", "T1 / T4", 6.666_667, 6),
            ("S4 §4.2 E(4) above 1", "T1 / T4 / 4", 1.666_667, 6),
        ],
    );
    // Fig. 4.3, Nguyen et al.: 1 - (WT - UT)/WT - IT/WT - PST/WT, which is never above 1.
    let shares = ["WT: 10s", "UT: 9s", "IT: 1.5s", "PST: 0.5s", "p: 8"];
    table(
        &shares,
        &[
            (
                "S4 Fig. 4.3 efficiency",
                "1 - (WT - UT) / WT - IT / WT - PST / WT",
                0.7,
                9,
            ),
            (
                "S4 Fig. 4.3 speedup",
                "(1 - (WT - UT) / WT - IT / WT - PST / WT) * p",
                5.6,
                9,
            ),
            (
                "S4 Fig. 4.3 nothing lost",
                "(1 - (WT - WT) / WT - 0s / WT - 0s / WT) * p",
                8.0,
                9,
            ),
        ],
    );
}

#[test]
fn s4_fig_4_5_and_4_6_amdahls_factor() {
    let given = [
        "AF(f): 1 / (f + (1 - f) / 4)",
        "AF1(f): 1 / (f + (1 - f) / 1)",
        "sequential: 1s",
        "parallel: 2s",
    ];
    table(
        &given,
        &[
            ("S4 §4.3.1 AF(4) with f = 0.1", "AF(0.1)", 3.077, 3),
            ("S4 §4.3.1 AF(4) with f = 0", "AF(0)", 4.0, 9),
            ("S4 §4.3.1 AF(4) with f = 0.5", "AF(0.5)", 1.6, 9),
            ("S4 §4.3.1 AF(4) with f = 1", "AF(1)", 1.0, 9),
            ("S4 Fig. 4.5 AF(1) is 1 whatever f is", "AF1(0.3)", 1.0, 9),
            (
                "S4 Fig. 4.6 f = S/(S + P·CPUS)",
                "sequential / (sequential + parallel * 4)",
                0.111_111,
                6,
            ),
            (
                "S4 Fig. 4.5 S(16) from T(4) = 2 s, f = 0.1, T(16) = 0.7 s",
                "2s / 0.7s * AF(0.1)",
                8.791,
                3,
            ),
            (
                "S4 Fig. 4.5 with baseline 1, T(1)/T(p)",
                "2s / 0.7s * AF1(0.1)",
                2.857_143,
                6,
            ),
        ],
    );
    // S4 §4.6.4: what is superlinear below the baseline is lost: swim's true S(4) is 6.5 and AF(4) at most 4.
    near(
        last_of(&["lost: 1 / (0 + (1 - 0) / 4) / 6.5"]),
        0.62,
        2,
        "S4 §4.6.4",
    );
}

#[test]
fn s4_fig_4_7_and_4_8_smoothing_and_prediction() {
    let given = ["AF: 1 / (0.1 + 0.9 / 4)", "TB: 2s", "Tp: 0.7s", "S: TB / Tp * AF"];
    table(
        &given,
        &[
            ("S4 Fig. 4.7 0.6·old + 0.4·new", "0.6 * 4 + 0.4 * 5", 4.4, 9),
            (
                "S4 Fig. 4.8 AF·T(B)/S(p) is T(p) when S is not smoothed",
                "AF * TB / S / 1s",
                0.7,
                9,
            ),
            (
                "S4 Fig. 4.8 30 s consumed, 100 iterations left",
                "(30s + AF * TB / S * 100) / 1s",
                100.0,
                9,
            ),
        ],
    );
}

/// What is read at a region is the name of its function, which nobody asks for, and the size of the team.
/// Iterations of a program that computes `sequential` ms by itself and `parallel` ms in two regions, with so many threads.
fn iterations(bench: &mut Bench, at: &mut f64, count: u32, (sequential, parallel, threads): (f64, f64, u32)) {
    for _ in 0..count {
        bench.hit("step", 0, *at, 0.0, &[]);
        let end = *at + sequential + parallel;
        bench.hit(
            "loop",
            0,
            end - parallel / 2.0 - sequential / 2.0,
            parallel / 2.0,
            &[0.0, threads.into()],
        );
        bench.hit("loop", 0, end - 0.5, parallel / 2.0, &[0.0, threads.into()]);
        *at = end;
        bench.until(end - 0.25);
    }
}

#[test]
fn s4_fig_4_5_to_4_8_the_speedup_of_a_running_program() {
    // S4 Fig. 4.5 and 4.6: T(4) = 2 s with f = 0.1, so that s + p = 2 and s/(s + 4p) = 0.1; then T(16) = 0.7 s.
    let parallel = 2000.0 * 0.9 / 1.3;
    let sequential = 2000.0 - parallel;
    let mut bench = Bench::with(shipped("speedup"), &[("iterations", "14")], 1);
    let mut at = 1000.0;
    iterations(&mut bench, &mut at, 3, (sequential, parallel, 4));
    iterations(&mut bench, &mut at, 4, (300.0, 400.0, 16));
    bench.hit("step", 0, at, 0.0, &[]);
    bench.until(at + 100.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 7);
    for shut in &shut[..3] {
        near(shut.value("f"), 0.1, 6, "S4 Fig. 4.6 f");
        near(shut.value("AF"), 3.076_923, 6, "S4 Fig. 4.5 AF(4)");
        near(
            shut.value("measured"),
            shut.value("AF"),
            9,
            "S4 §4.3.1 S(B) = AF(B)",
        );
    }
    let last = &shut[6];
    near(last.value("T_B"), 2.0, 9, "S4 Fig. 4.5 T(4)");
    near(last.value("measured"), 8.791, 3, "S4 Fig. 4.5 S(16)");
    near(last.value("S"), 8.791, 3, "S4 Fig. 4.7 of equal values");
    near(last.value("efficiency"), 8.791 / 16.0, 4, "S4 Fig. 4.2 E(16)");
    // Fig. 4.8: 3·2 + 4·0.7 s are consumed, seven iterations of 0.7 s are left.
    near(last.value("consumed"), 8.8, 6, "S4 Fig. 4.8 consumed");
    near(last.value("predicted"), 8.8 + 7.0 * 0.7, 6, "S4 Fig. 4.8");
}

#[test]
fn s4_3_2_without_the_number_of_iterations_nothing_is_predicted_and_without_a_reference_nothing_is_known() {
    let mut bench = Bench::new(shipped("speedup"), 1);
    let mut at = 1000.0;
    iterations(&mut bench, &mut at, 2, (300.0, 400.0, 16));
    iterations(&mut bench, &mut at, 2, (600.0, 1400.0, 4));
    iterations(&mut bench, &mut at, 1, (300.0, 400.0, 16));
    let shut = bench.shut();
    assert!(
        shut[0].told("S").starts_with("none"),
        "S4 §4.5 PNC: {}",
        shut[0].told("S")
    );
    let last = &shut[shut.len() - 1];
    assert!(last.told("predicted").starts_with("none"), "S4 §4.3.2");
    assert!(last.value("S") > 1.0);
}

#[test]
fn s4_fig_4_7_the_speedup_is_smoothed_for_each_number_of_threads() {
    // S4 §4.2: 0.6·4.0 + 0.4·5.0 = 4.4, with baseline 1: T(1) = 20 s, T(8) = 5 s and then 4 s; between them four threads.
    let mut bench = Bench::with(shipped("speedup"), &[("baseline", "1")], 1);
    let mut at = 1000.0;
    iterations(&mut bench, &mut at, 1, (0.0, 20_000.0, 1));
    iterations(&mut bench, &mut at, 1, (0.0, 5000.0, 8));
    iterations(&mut bench, &mut at, 1, (0.0, 10_000.0, 4));
    iterations(&mut bench, &mut at, 1, (0.0, 4000.0, 8));
    bench.hit("step", 0, at, 0.0, &[]);
    bench.until(at + 100.0);
    let shut = bench.shut();
    let found: Vec<f64> = shut.iter().map(|shut| shut.value("S")).collect();
    for (found, expected) in found.iter().zip([1.0, 4.0, 2.0, 4.4]) {
        near(*found, expected, 6, "S4 Fig. 4.7");
    }
    near(shut[3].value("AF"), 1.0, 12, "S4 Fig. 4.5 AF(1)");
    near(
        shut[3].value("measured"),
        5.0,
        6,
        "S4 Fig. 4.5 with baseline 1: T(1)/T(p)",
    );
}

#[test]
fn s4_4_1_an_iteration_in_which_the_threads_change_is_left_out() {
    let mut bench = Bench::new(shipped("speedup"), 1);
    let mut at = 1000.0;
    iterations(&mut bench, &mut at, 2, (600.0, 1400.0, 4));
    // Four threads in the first region, sixteen in the second.
    bench.hit("step", 0, at, 0.0, &[]);
    bench.hit("loop", 0, at + 800.0, 700.0, &[0.0, 4.0]);
    bench.hit("loop", 0, at + 9000.0, 300.0, &[0.0, 16.0]);
    at += 9900.0;
    iterations(&mut bench, &mut at, 2, (600.0, 1400.0, 4));
    bench.hit("step", 0, at, 0.0, &[]);
    bench.until(at + 100.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 4, "{}", bench.why());
    near(shut[3].value("T_B"), 2.0, 9, "S4 §4.4.1");
    assert!(bench.why().contains("discarded: 1"));
}

#[test]
fn s4_4_6_4_more_than_the_threads_explain_is_marked() {
    let mut bench = Bench::new(shipped("speedup"), 1);
    let mut at = 1000.0;
    iterations(&mut bench, &mut at, 1, (100.0, 1900.0, 4));
    // Eight threads are more than twice as fast: the data fits their caches.
    iterations(&mut bench, &mut at, 1, (100.0, 700.0, 8));
    iterations(&mut bench, &mut at, 1, (100.0, 1100.0, 8));
    bench.hit("step", 0, at, 0.0, &[]);
    bench.until(at + 100.0);
    let marks: Vec<String> = bench
        .shut()
        .iter()
        .map(|shut| shut.told("superlinear").to_string())
        .collect();
    assert_eq!(marks, ["false", "true", "false"]);
}
