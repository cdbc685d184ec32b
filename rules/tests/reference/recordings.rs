//! Each shipped model and metric on a recording made from the numbers of its work: windows, metrics and
//! decisions are those of the reference. The recordings are files, also for `tuneagent replay`;
//! `TUNEAGENT_UPDATE=1` rewrites them.

use crate::bench::{shipped, written};
use crate::tape::replayed;
use crate::tapes::ALL;

fn file(name: &str) -> String {
    format!("{}/tests/recordings/{name}.rec", env!("CARGO_MANIFEST_DIR"))
}

#[expect(clippy::disallowed_methods, reason = "a test may read what it is about")]
fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the files are made by the test that compares them"
)]
fn every_recording_is_what_the_numbers_of_its_work_make() {
    let writes = std::env::var("TUNEAGENT_UPDATE").is_ok();
    for (name, tape) in ALL {
        let made = tape().bytes();
        assert!(made.len() < 50_000, "{name}: {} bytes", made.len());
        if writes {
            std::fs::write(file(name), &made).unwrap();
        }
        assert!(
            recorded(name) == made,
            "{name}.rec is another: TUNEAGENT_UPDATE=1 makes it anew"
        );
    }
}

#[test]
fn every_shipped_model_and_metric_has_a_recording_on_which_its_formulas_have_values() {
    for (name, text) in rules::models() {
        assert!(
            ALL.iter().any(|(known, _)| known == name),
            "{name} has no recording"
        );
        let shut = replayed(text, &recorded(name)).shut();
        let last = shut.last().unwrap_or_else(|| panic!("{name}: no window closed"));
        for (metric, reported) in last.all() {
            // The number of iterations is a parameter that the user sets.
            let is_unknown = *name == "speedup" && ["remaining", "predicted"].contains(&metric);
            assert!(
                is_unknown || !reported.starts_with("none"),
                "{name}: {metric} is {reported}"
            );
        }
    }
}

#[test]
fn s0_5_1_optimal_workers_on_its_recording() {
    let mut bench = replayed(shipped("optimal-workers"), &recorded("optimal-workers"));
    // T(n) = 10n + 250/n ms: 111.25 ms with eight workers, 100 ms with five.
    let first = bench.shut().remove(0);
    near!(first.value("t_comm") * 1e3 => 90.0, 6, "S0 §5.1.1 communication time");
    near!(first.value("lambda") * first.value("V") * 1e3 => 90.0, 6, "S0 §5.1.1 λV");
    near!(first.value("Tc") * 1e3 => 160.0, 6, "S0 §5.1.1 Tc");
    assert_eq!(first.value("best"), 5.0);
    let decided = bench.decided();
    assert_eq!(decided.len(), 1, "{}", bench.why());
    assert_eq!(written(decided[0], "NOptWorkers"), Some(5.0));
    assert_eq!(decided[0].expect.as_deref(), Some("100 ms"));
    assert_eq!(bench.verdicts(), [true], "the guard keeps it");
}

#[test]
fn s1_5_4_2_workers_by_index_on_its_recording() {
    let bench = replayed(shipped("workers-by-index"), &recorded("workers-by-index"));
    let decided = bench.decided();
    assert_eq!(
        decided.first().and_then(|first| written(first, "NW")),
        Some(63.0),
        "{}",
        bench.why()
    );
    assert_eq!(decided[0].expect.as_deref(), Some("16.2 ms"));
}

/// Each visit is one call, and is reverted once nothing is left to measure or the loss is beyond the budget.
#[test]
fn s4_4_3_1_scaling_visits_sizes_within_its_budget_on_its_recording() {
    let bench = replayed(shipped("scaling"), &recorded("scaling"));
    let decided = bench.decided();
    let made: Vec<String> = decided
        .iter()
        .map(|decision| format!("{:?}", decision.changes[0].action))
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(
        made[0].contains("[Integer(4)]") && made[1].contains("[Integer(2)]"),
        "{made:?}"
    );
    // Both are reverted: no guard judges them.
    assert_eq!(bench.verdicts(), [false, false], "{}", bench.why());
}

/// The program that scales gets all CPUs but one; what both have then stays.
#[test]
fn s4_4_5_cpu_shares_decides_each_quantum_from_what_was_measured_last() {
    let mut bench = replayed(shipped("cpu-shares"), &recorded("cpu-shares"));
    let decided = bench.decided();
    let made: Vec<String> = decided
        .iter()
        .flat_map(|decision| {
            decision
                .changes
                .iter()
                .map(|change| format!("{:?}", change.action))
        })
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(
        made[0].contains("[Integer(15)]") && made[1].contains("[Integer(1)]"),
        "{made:?}"
    );
    let shut = bench.shut();
    let quantum = |name| {
        shut.iter()
            .rev()
            .find(|shut| shut.window == "quantum")
            .map(|shut| shut.value(name))
    };
    assert_eq!(quantum("divided"), Some(16.0));
}

#[test]
fn s1_5_4_1_adjusting_factoring_on_its_recording() {
    let mut bench = replayed(shipped("adjusting-factoring"), &recorded("adjusting-factoring"));
    // C = 2.0, 2.5, 1.5, 3.0 ms: μ = 2.25, σ = 0.559017.
    for shut in bench.shut().iter().filter(|shut| shut.window == "iteration") {
        near!(shut.value("spread") => 0.351_364, 6, "S1 §9.1 c");
    }
    let of = |name: &str| -> Vec<f64> {
        let all = bench.decided();
        all.iter()
            .filter_map(|decision| written(decision, name))
            .collect()
    };
    for (name, expected) in [("F0", 0.739_993), ("F1", 0.425_285), ("F2", 0.425_285)] {
        let values = of(name);
        assert_eq!(values[0], 0.5, "{name} at the start");
        near!(values[1] => expected, 6, "{name}");
    }
}

#[test]
fn s1_5_4_3_balanced_workers_on_its_recording() {
    let mut bench = replayed(shipped("balanced-workers"), &recorded("balanced-workers"));
    let shut = bench.shut();
    let last = shut.iter().rev().find(|shut| shut.window == "iteration");
    let last = last.unwrap_or_else(|| panic!("{}", bench.why()));
    // The spread of four workers is 0.1 * sqrt(2); sending and answering take 18 ms, computing 600 ms.
    let share = 1.0 / (1.0 + 0.1 * 2_f64.sqrt());
    let evened = (600.0 + 18.0 + (1.0 + 1.5 * share) * 18.0) / 4.0;
    near!(last.value("per_task") * 1e3 => 0.03, 6, "cost of a task in a message, ms");
    near!(last.value("latency") * 1e3 => 0.2, 6, "latency, ms");
    near!(last.value("predicted") * 1e3 => 4.0 * 0.2 + evened, 6, "S1 Eq. 4.7, with batches");
    assert_eq!(last.value("best"), 4.0);
    let first: Vec<f64> = bench
        .decided()
        .iter()
        .filter_map(|decision| written(decision, "F0"))
        .collect();
    near!(first[first.len() - 1] => share, 6, "S1 Eq. 4.3");
    // With the least index already, the number of workers stays.
    assert!(
        bench
            .decided()
            .iter()
            .all(|decision| written(decision, "NW").is_none())
    );
}

#[test]
fn s0_5_2_factoring_on_its_recording() {
    let mut bench = replayed(shipped("factoring"), &recorded("factoring"));
    let shut = bench.shut();
    let batches: Vec<_> = shut.iter().filter(|shut| shut.window == "batch").collect();
    // After each batch of the second iteration, the chunk size of the next batch.
    let found: Vec<f64> = batches[4..11].iter().map(|shut| shut.value("F")).collect();
    assert_eq!(found, [15.0, 8.0, 5.0, 3.0, 2.0, 1.0, 1.0]);
    let iteration = shut.iter().rfind(|shut| shut.window == "iteration").unwrap();
    near!(iteration.value("mu") * 1e3 => 10.0, 6, "S0 §5.2 μ");
    near!(iteration.value("sigma") * 1e3 => 2.0, 6, "S0 §5.2 σ");
    assert_eq!(iteration.value("F_0"), 89.0);
    let first = bench
        .decided()
        .iter()
        .find_map(|decision| written(decision, "globalSizeFirst"));
    assert_eq!(first, Some(89.0));
}

#[test]
fn boundaries_are_as_wide_as_the_slowest_rank_and_the_exchange_ask_for() {
    // The minimum of 4/b + (63 + b)/16 ms is at b = sqrt(4 · 16) = 8.
    let bench = replayed(shipped("halo-width"), &recorded("halo-width"));
    let decided = bench.decided();
    assert_eq!(decided.len(), 1, "{}", bench.why());
    assert_eq!(written(decided[0], "block"), Some(8.0));
    assert_eq!(decided[0].expect.as_deref(), Some("4.94 ms"));
    assert!(decided[0].together.as_ref().is_some_and(Result::is_ok));
    assert_eq!(bench.verdicts(), [true], "the guard keeps it");
}

/// For a rule, metrics of its last window: the factor of the unit, the value, and decimal places.
///
/// Of `efficiencies`, U = 80, 60, 100, 40 ms of 120: LB = U_avg/U_max, CE = U_max/E, PE = LB·CE = ΣU/(E·P). Of
/// `network`, N are the trips of 20 iterations. Of `mean-iteration-time`, recent is the mean of 24, 20, 20 and 22 ms.
/// Of `send-volume`, 8 B × vt × (1 + 2 + 3) × (1 + 2) for vt = 3, and for all three.
const LAST_WINDOWS: &str = "\
speedup T_B 1 2 9
speedup AF 1 3.077 3
speedup S 1 8.791 3
speedup efficiency 100 54.95 2
network N 1 40 9
network latency 1e3 0.2 4
network per_byte 1e9 8 3
iteration-time T_Ini 1e3 10 6
iteration-time T_Proc 1e3 55 6
iteration-time T_Fin 1e3 7 6
iteration-time T_Send 1e3 11 6
iteration-time T_Recv 1e3 4 6
iteration-time T_Ex 1e3 87 6
barrier-imbalance imbalance 1 0.32 9
communication-share worst 100 25 6
communication-share highest 100 25 6
loop-counter rate 1 140 6
mean-iteration-time ranks 1e3 22 6
mean-iteration-time recent 1e3 21.5 6
send-volume volume 1 432 6
send-volume recent 1 864 6
efficiencies load_balance 100 70 6
efficiencies communication_efficiency 100 83.333333 6
efficiencies parallel_efficiency 100 58.333333 6
workers-by-index V 1 2e6 6
workers-by-index alpha 1 0.5 9
workers-by-index Tc 1e3 500 6
workers-by-index best 1 63 9
halo-width cost 1e3 4 6
halo-width per_cell 1e3 0.0625 9
halo-width taken 1e3 39.5 6
halo-width best 1 8 9
";

#[test]
fn the_last_windows_of_rules_on_their_recordings_have_the_numbers_of_their_works() {
    for row in LAST_WINDOWS.lines() {
        let cells: Vec<&str> = row.split(' ').collect();
        let [name, metric, factor, value, digits] = cells[..] else {
            panic!("{row}")
        };
        let (factor, value): (f64, f64) = (factor.parse().unwrap(), value.parse().unwrap());
        let shut = replayed(shipped(name), &recorded(name)).shut();
        let found = shut[shut.len() - 1].value(metric) * factor;
        near!(found => value, digits.parse().unwrap(), "{row}");
    }
}
