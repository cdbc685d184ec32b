//! S4, SelfAnalyzer (chapter 4 of Corbalán's thesis): speedup from two measurements, Amdahl's factor, smoothing, prediction.

use crate::bench::{last_of, near, table};

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
