//! S4, SelfAnalyzer (chapter 4 of Corbalán's thesis): speedup from two measurements, Amdahl's factor,
//! smoothing, prediction.

use rules::IterationTeams;

use crate::bench::{Bench, Shut, shipped, teams};

/// A program whose loop is detected.
struct Program {
    bench: Bench,
    at: f64,
    number: u64,
}

impl Program {
    fn under(parameters: &[(&str, &str)]) -> Program {
        Program {
            bench: Bench::with(shipped("speedup"), parameters, 1),
            at: 1000.0,
            number: 0,
        }
    }

    /// Iterates: ms of sequential code and in parallel regions, and threads.
    fn iterate(&mut self, count: u32, times: (f64, f64, u32)) {
        for _ in 0..count {
            self.next(times.0 + times.1, Ok(teams(times)));
        }
    }

    fn next(&mut self, took: f64, teams: Result<IterationTeams, String>) {
        let range = (self.at, self.at + took);
        self.bench.iteration(self.number, range, teams);
        self.at += took;
        self.number += 1;
    }

    /// The closed windows, once nothing more of them can come.
    fn shut(&mut self) -> Vec<Shut> {
        self.bench.loop_until(self.at + 1.0);
        self.bench.shut()
    }
}

#[test]
fn s4_fig_4_5_to_4_8_the_speedup_of_a_running_program() {
    // S4 Fig. 4.5 and 4.6: T(4) = 2 s with f = 0.1, so s + p = 2 and s/(s + 4p) = 0.1; then T(16) = 0.7 s.
    let parallel = 2000.0 * 0.9 / 1.3;
    let sequential = 2000.0 - parallel;
    let mut program = Program::under(&[("iterations", "14")]);
    program.iterate(3, (sequential, parallel, 4));
    program.iterate(4, (300.0, 400.0, 16));
    let shut = program.shut();
    assert_eq!(shut.len(), 7);
    for shut in &shut[..3] {
        near!(shut.value("f") => 0.1, 6, "S4 Fig. 4.6 f");
        near!(shut.value("AF") => 3.076_923, 6, "S4 Fig. 4.5 AF(4)");
        near!(shut.value("measured") => shut.value("AF"), 9, "S4 §4.3.1 S(B) = AF(B)");
    }
    let last = &shut[6];
    near!(last.value("T_B") => 2.0, 9, "S4 Fig. 4.5 T(4)");
    near!(last.value("measured") => 8.791, 3, "S4 Fig. 4.5 S(16)");
    near!(last.value("S") => 8.791, 3, "S4 Fig. 4.7 of equal values");
    near!(last.value("efficiency") => 8.791 / 16.0, 4, "S4 Fig. 4.2 E(16)");
    // Fig. 4.8: 3·2 + 4·0.7 s are consumed, and seven iterations of 0.7 s remain.
    near!(last.value("consumed") => 8.8, 6, "S4 Fig. 4.8 consumed");
    near!(last.value("predicted") => 8.8 + 7.0 * 0.7, 6, "S4 Fig. 4.8");
}

#[test]
fn s4_fig_4_5_and_4_6_amdahls_factor_follows_the_sequential_share() {
    for (f, factor, digits) in [(0.1, 3.077, 3), (0.0, 4.0, 9), (0.5, 1.6, 9), (1.0, 1.0, 9)] {
        // For an iteration of 2 s with four threads: s / (s + 4p) = f, s + p = 2.
        let sequential = 2000.0 * 4.0 * f / (1.0 + 3.0 * f);
        let mut program = Program::under(&[]);
        program.iterate(1, (sequential, 2000.0 - sequential, 4));
        let shut = program.shut().remove(0);
        near!(shut.value("f") => f, 6, "S4 Fig. 4.6 f = S/(S + P·CPUS)");
        near!(shut.value("AF") => factor, digits, "S4 §4.3.1 AF(4)");
    }
}

#[test]
fn s4_4_2_a_speedup_may_be_above_the_threads_and_an_efficiency_above_1() {
    let mut program = Program::under(&[]);
    program.iterate(1, (0.0, 2000.0, 4));
    program.iterate(1, (0.0, 800.0, 8));
    let shut = program.shut().remove(1);
    near!(shut.value("S") => 10.0, 6, "S4 §4.2 S(8) above 8");
    near!(shut.value("efficiency") => 1.25, 6, "S4 §4.2 E(8) above 1");
}

#[test]
fn s4_3_2_without_the_number_of_iterations_nothing_is_predicted_and_without_a_reference_nothing_is_known() {
    let mut program = Program::under(&[]);
    program.iterate(2, (300.0, 400.0, 16));
    program.iterate(2, (600.0, 1400.0, 4));
    program.iterate(1, (300.0, 400.0, 16));
    let shut = program.shut();
    assert!(
        shut[0].reported("S").starts_with("none"),
        "S4 §4.5 PNC: {}",
        shut[0].reported("S")
    );
    let last = &shut[shut.len() - 1];
    assert!(last.reported("predicted").starts_with("none"), "S4 §4.3.2");
    assert!(last.value("S") > 1.0);
}

#[test]
fn s4_fig_4_7_the_speedup_is_smoothed_for_each_number_of_threads() {
    // S4 §4.2: 0.6·4.0 + 0.4·5.0 = 4.4, with baseline 1: T(1) = 20 s, T(8) = 5 s and then 4 s, with four
    // threads in between.
    let mut program = Program::under(&[("baseline", "1")]);
    program.iterate(1, (0.0, 20_000.0, 1));
    program.iterate(1, (0.0, 5000.0, 8));
    program.iterate(1, (0.0, 10_000.0, 4));
    program.iterate(1, (0.0, 4000.0, 8));
    let shut = program.shut();
    let found: Vec<f64> = shut.iter().map(|shut| shut.value("S")).collect();
    for (found, expected) in found.iter().zip([1.0, 4.0, 2.0, 4.4]) {
        near!(*found => expected, 6, "S4 Fig. 4.7");
    }
    near!(shut[3].value("AF") => 1.0, 12, "S4 Fig. 4.5 AF(1)");
    near!(shut[3].value("measured") => 5.0, 6, "S4 Fig. 4.5 with baseline 1: T(1)/T(p)");
}

#[test]
fn s4_4_1_an_iteration_in_which_the_threads_change_is_left_out() {
    let mut program = Program::under(&[]);
    program.iterate(2, (600.0, 1400.0, 4));
    program.next(9900.0, Err("the size of a team changed".to_owned()));
    program.iterate(2, (600.0, 1400.0, 4));
    let shut = program.shut();
    assert_eq!(shut.len(), 4, "{}", program.bench.why());
    near!(shut[3].value("T_B") => 2.0, 9, "S4 §4.4.1");
    assert!(program.bench.why().contains("discarded: 1"));
}

#[test]
fn s4_4_6_4_more_than_the_threads_explain_is_marked() {
    let mut program = Program::under(&[]);
    program.iterate(1, (100.0, 1900.0, 4));
    // Superlinear speedup: with eight threads the data fits into the caches.
    program.iterate(1, (100.0, 700.0, 8));
    program.iterate(1, (100.0, 1100.0, 8));
    let marks: Vec<String> = program
        .shut()
        .iter()
        .map(|shut| shut.reported("superlinear").to_string())
        .collect();
    assert_eq!(marks, ["false", "true", "false"]);
}
