//! Tests with a synthetic program whose losses are known, and with test vectors of the formulas.

mod visits;

use proptest::prelude::*;

use super::*;

/// A loop whose iterations have known parts, in microseconds.
#[derive(Clone, Copy)]
struct Program {
    sequential: u64,
    /// Work of a single thread.
    work: u64,
    /// Additional work of each thread beyond the first, in percent of the work.
    inflation_percent: u64,
    starting: u64,
    ending: u64,
    /// Time by which the first thread works longer than the mean.
    imbalance: u64,
}

const PROGRAM: Program = Program {
    sequential: 2_000,
    work: 48_000,
    inflation_percent: 0,
    starting: 100,
    ending: 50,
    imbalance: 0,
};

/// Feeds the regions and iterations of a program to `Scaling`.
#[derive(Default)]
struct Watched {
    scaling: Scaling,
    now_ns: u64,
    iteration: u64,
}

impl Program {
    /// The parts of a region with `threads` threads, and its length in nanoseconds.
    fn region(&self, threads: u64) -> (u64, TeamParts) {
        let work = self.work * (100 + self.inflation_percent * (threads - 1)) / 100;
        let mean = work / threads;
        // The other threads work less, so that the sum does not change.
        let longest = mean + self.imbalance;
        let parts = TeamParts {
            threads: threads as u32,
            working_ns: 1_000 * mean * threads,
            starting_ns: 1_000 * self.starting * threads,
            waiting_ns: 1_000 * (longest * threads - mean * threads),
            ending_ns: 1_000 * self.ending * threads,
            ..TeamParts::default()
        };
        (1_000 * (self.starting + longest + self.ending), parts)
    }
}

impl Watched {
    /// Adds `count` iterations of one region with `threads` threads.
    fn run(&mut self, program: Program, threads: u64, count: u64) {
        for _ in 0..count {
            let begin = self.now_ns;
            let (length, parts) = program.region(threads);
            self.scaling.region(1, (begin, begin + length), Ok(&parts), 0);
            self.now_ns = begin + length + 1_000 * program.sequential;
            self.iteration += 1;
            self.scaling.iteration(1, &(begin..self.now_ns)).ok();
        }
        self.scaling.trim();
    }

    /// Time of an iteration.
    fn time_ns(program: Program, threads: u32) -> f64 {
        let (length, _) = program.region(u64::from(threads));
        (length + 1_000 * program.sequential) as f64
    }

    fn view(&self) -> ScalingView {
        self.scaling.view(self.now_ns).unwrap()
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6 * other.abs().max(1.0)
}

fn sum(losses: &Losses) -> f64 {
    losses.speedup + losses.causes().iter().map(|(_, threads)| threads).sum::<f64>()
}

#[test]
fn one_size_gives_the_lost_threads_and_an_upper_bound_of_the_speedup() {
    let mut watched = Watched::default();
    let program = Program {
        imbalance: 1_000,
        ..PROGRAM
    };
    watched.run(program, 4, 20);
    let view = watched.view();
    let now = view.now().unwrap();
    let losses = now.losses;
    // T = 2 000 + 100 + 12 000 + 1 000 + 50 us.
    let time = 15_150.0;
    assert_eq!(
        (now.threads, now.time_ns, now.within_ns),
        (4, 1_000.0 * time, Some(0.0))
    );
    assert_eq!(losses.inflation, Inflation::Unknown);
    assert!(near(losses.speedup, 50_000.0 / time));
    assert!(near(losses.sequential, 3.0 * 2_000.0 / time));
    assert!(near(losses.imbalance, 4.0 * 1_000.0 / time));
    assert!(near(losses.starting_and_ending, 4.0 * 150.0 / time));
    assert!(near(sum(&losses), 4.0));
    assert_eq!(now.ratio, None);
    assert_eq!(losses.causes()[0].0, "code outside parallel regions");
}

#[test]
fn two_sizes_give_the_ratio_and_extrapolate_the_work_of_a_single_thread() {
    let mut watched = Watched::default();
    let program = Program {
        inflation_percent: 5,
        ..PROGRAM
    };
    watched.run(program, 4, 20);
    watched.run(program, 16, 20);
    let view = watched.view();
    // The first iteration with a new team size is not used.
    assert_eq!(view.left_out, [(UnusedIteration::TeamChanged, 1)]);
    assert_eq!(view.threads, 16);
    let [four, sixteen] = &view.sizes[..] else {
        panic!("{view:?}")
    };
    assert_eq!((four.iterations, sixteen.iterations), (20, 19));
    let Inflation::Extrapolated(inflation) = sixteen.losses.inflation else {
        panic!("{sixteen:?}")
    };
    let time = 2_000.0 + 150.0 + 48_000.0 * 1.75 / 16.0;
    assert!(near(inflation, 48_000.0 * 0.75 / time));
    assert!(near(sixteen.losses.speedup, 50_000.0 / time));
    assert!(near(sum(&sixteen.losses), 16.0));
    let ratio = sixteen.ratio.unwrap();
    assert_eq!(ratio.baseline, 4);
    assert!(near(ratio.sequential, 2_000.0 / (2_000.0 + 48_000.0 * 1.15)));
    assert!(near(ratio.speedup, four.time_ns / sixteen.time_ns * ratio.amdahl));
    assert!(!ratio.is_superlinear);
}

#[test]
fn a_measured_single_thread_gives_the_classical_speedup() {
    let mut watched = Watched::default();
    let program = Program {
        starting: 0,
        ending: 0,
        inflation_percent: 10,
        ..PROGRAM
    };
    watched.run(program, 1, 10);
    watched.run(program, 8, 10);
    let view = watched.view();
    let [one, eight] = &view.sizes[..] else {
        panic!("{view:?}")
    };
    assert!(near(eight.losses.speedup, one.time_ns / eight.time_ns));
    assert!(matches!(eight.losses.inflation, Inflation::Measured(threads) if threads > 0.0));
    assert!(near(one.losses.speedup, 1.0));
    assert_eq!(one.ratio.unwrap().amdahl, 1.0);
}

#[test]
fn a_program_whose_threads_work_less_is_superlinear() {
    let mut watched = Watched::default();
    watched.run(PROGRAM, 4, 60);
    watched.run(
        Program {
            sequential: 0,
            work: 16_000,
            ..PROGRAM
        },
        8,
        60,
    );
    let view = watched.view();
    let eight = view.now().unwrap();
    let ratio = eight.ratio.unwrap();
    assert!(ratio.is_superlinear && ratio.relative > 2.0);
    // The shape needs no law.
    let [four, _] = &view.sizes[..] else {
        panic!("{view:?}")
    };
    assert!(near(ratio.relative, four.time_ns / eight.time_ns));
    assert!(eight.losses.inflation.threads().unwrap() < 0.0);
    assert!(near(sum(&eight.losses), 8.0));
}

#[test]
fn a_reference_that_a_larger_team_preceded_is_known() {
    for (sizes, expected) in [
        (&[4, 8][..], None),
        (&[8, 4], Some(8)),
        (&[2, 16, 8, 4], Some(16)),
        (&[4, 16, 8], None),
    ] {
        let mut watched = Watched::default();
        for threads in sizes {
            watched.run(PROGRAM, *threads, 60);
        }
        assert_eq!(watched.view().reference_after, expected, "{sizes:?}");
    }
}

/// Imbalance and the start and end of regions count as serial: T(4) = 2 000 + 100 + 12 000 + 1 000 + 50 us.
#[test]
fn the_serial_fraction_is_that_of_the_largest_measured_size() {
    let program = Program {
        imbalance: 1_000,
        ..PROGRAM
    };
    let mut watched = Watched::default();
    assert_eq!(watched.scaling.serial_fraction(), None);
    watched.run(program, 1, 20);
    let of_one_thread = 2_000.0 / 50_000.0;
    assert!(near(watched.scaling.serial_fraction().unwrap(), of_one_thread));
    watched.run(program, 4, 20);
    // By Amdahl's law with this fraction, four threads take as long as they did.
    let fraction = watched.scaling.serial_fraction().unwrap();
    assert!(
        near(50_000.0 * (fraction + (1.0 - fraction) / 4.0), 15_150.0),
        "{fraction}"
    );
    // It stays while fewer threads run.
    watched.run(program, 1, 20);
    assert!(near(watched.scaling.serial_fraction().unwrap(), fraction));
}

#[test]
fn smaller_teams_in_an_iteration_leave_threads_out() {
    let mut watched = Watched::default();
    for _ in 0..20 {
        let begin = watched.now_ns;
        let (eight, parts) = PROGRAM.region(8);
        watched.scaling.region(1, (begin, begin + eight), Ok(&parts), 0);
        let (two, parts) = PROGRAM.region(2);
        watched
            .scaling
            .region(2, (begin + eight, begin + eight + two), Ok(&parts), 0);
        watched.now_ns = begin + eight + two;
        watched.scaling.iteration(1, &(begin..watched.now_ns)).ok();
    }
    let view = watched.view();
    let losses = view.now().unwrap().losses;
    let (eight, two) = (6_150.0, 24_150.0);
    assert!(near(losses.small_teams, 6.0 * two / (eight + two)));
    assert!(near(sum(&losses), 8.0));
    assert!(view.left_out.is_empty());
}

#[test]
fn a_region_inside_another_one_is_part_of_its_work() {
    let mut watched = Watched::default();
    for _ in 0..20 {
        let begin = watched.now_ns;
        let (length, parts) = PROGRAM.region(4);
        let (inner, parts_of_inner) = (length / 2, TeamParts::default());
        let scaling = &mut watched.scaling;
        scaling.region(2, (begin + 10, begin + 10 + inner), Ok(&parts_of_inner), 0);
        scaling.region(1, (begin, begin + length), Ok(&parts), 0);
        watched.now_ns = begin + length;
        watched.scaling.iteration(1, &(begin..watched.now_ns)).ok();
    }
    let losses = watched.view().now().unwrap().losses;
    assert_eq!(losses.sequential, 0.0);
    assert!(near(sum(&losses), 4.0));
}

#[test]
fn iterations_are_left_out_by_reason() {
    let mut watched = Watched::default();
    watched.run(PROGRAM, 4, 5);
    let begin = watched.now_ns;
    let scaling = &mut watched.scaling;
    let unseen = Err(&UnusedIteration::CallsMissed);
    scaling.region(1, (begin, begin + 100), unseen, 0);
    scaling.iteration(1, &(begin..begin + 200)).ok();
    scaling.iteration(1, &(begin + 200..begin + 300)).ok();
    scaling.iteration(1, &(begin..begin + 50)).ok();
    let (length, parts) = PROGRAM.region(4);
    scaling.region(1, (begin + 1_000, begin + 1_000 + length), Ok(&parts), 0);
    scaling.waiting(0.3, begin + 900);
    scaling.waiting(0.3, begin + 2_000);
    scaling
        .iteration(1, &(begin + 1_000..begin + 1_000 + length))
        .ok();
    let (stripped, unknown) = (begin + 2_000 + length, Err(&UnusedIteration::BodiesUnknown));
    scaling.region(1, (stripped, stripped + 100), unknown, 0);
    scaling.iteration(1, &(stripped..stripped + 200)).ok();
    scaling.gap();
    scaling.iteration(1, &(begin..begin + 400)).ok();
    assert_eq!(
        scaling.left_out(),
        [
            (UnusedIteration::Preempted, 1),
            (UnusedIteration::CallsMissed, 1),
            (UnusedIteration::BodiesUnknown, 1),
            (UnusedIteration::NotParallel, 2),
            (UnusedIteration::TooMany, 1),
        ]
    );
}

/// Data moves after a change of the team (S4-27).
#[test]
fn iterations_after_a_change_are_left_out_until_two_in_a_row_agree() {
    let mut watched = Watched::default();
    watched.run(PROGRAM, 4, 20);
    for work in [96_000, 72_000, 60_000, 48_000, 48_000, 48_000] {
        watched.run(Program { work, ..PROGRAM }, 8, 1);
    }
    let view = watched.view();
    let expected = [(UnusedIteration::TeamChanged, 1), (UnusedIteration::Settling, 3)];
    assert_eq!(view.left_out, expected);
    assert!(near(view.sizes[0].time_ns, Watched::time_ns(PROGRAM, 4)));
    // A program whose iterations are never alike is measured all the same.
    for number in 0..40 {
        let work = 48_000 + 24_000 * (number % 2);
        watched.run(Program { work, ..PROGRAM }, 2, 1);
    }
    let two = &watched.view().sizes[0];
    assert_eq!((two.threads, two.iterations), (2, 35));
}

#[test]
fn a_loop_that_was_left_keeps_its_results_until_the_next_one_has_some() {
    let mut watched = Watched::default();
    watched.run(PROGRAM, 4, 20);
    let begin = watched.now_ns;
    watched.scaling.iteration(2, &(begin..begin + 10)).ok();
    assert_eq!(watched.view().now().unwrap().iterations, 20);
}

#[test]
fn an_outer_loop_that_is_found_later_uses_the_regions_of_the_inner_one() {
    let mut watched = Watched::default();
    watched.run(PROGRAM, 4, 40);
    let length = watched.now_ns / 40;
    // Ten iterations of the inner loop are one iteration of the outer loop.
    for outer in 0..4 {
        let range = 10 * outer * length..10 * (outer + 1) * length;
        watched.scaling.iteration(2, &range).ok();
    }
    let view = watched.view();
    let now = view.now().unwrap();
    assert_eq!((now.iterations, now.time_ns), (4, 10.0 * length as f64));
    assert!(near(sum(&now.losses), 4.0));
}

#[test]
fn values_of_a_size_are_smoothed_with_the_weights_of_the_source() {
    let parts = |time: f64| IterationParts {
        time: 1e9 * time,
        ..IterationParts::default()
    };
    let mut size = Size::default();
    (0..3).for_each(|_| size.add(&parts(4.0), 1));
    (0..3).for_each(|_| size.add(&parts(5.0), 2));
    assert!(near(size.mean.time, 4.4e9));
}

#[test]
fn the_ratio_has_the_values_of_the_reference() {
    let there = IterationParts {
        time: 2e9,
        sequential: 0.615_384_615e9,
        working: 5.538_461_535e9,
        ..IterationParts::default()
    };
    let here = IterationParts {
        time: 0.7e9,
        ..IterationParts::default()
    };
    let ratio = Ratio::of((4, &there), (16, &here));
    assert!((ratio.sequential - 0.1).abs() < 1e-6 && (ratio.sequential_of_source - 0.1).abs() < 1e-6);
    assert!((ratio.amdahl - 3.077).abs() < 1e-3);
    assert!((ratio.speedup - 8.791).abs() < 1e-3);
}

proptest! {
    /// For any program, the sum of speedup and losses is the number of threads.
    #[test]
    fn losses_add_up(
        teams in prop::collection::vec(1_u64..64, 1..6),
        sequential in 0_u64..100_000, work in 1_000_u64..1_000_000, imbalance in 0_u64..10_000,
        inflation_percent in 0_u64..20,
    ) {
        let program = Program { sequential, work, imbalance, inflation_percent, ..PROGRAM };
        let mut watched = Watched::default();
        for threads in teams {
            watched.run(program, threads, 120);
        }
        for size in watched.view().sizes {
            let unknown = size.losses.inflation == Inflation::Unknown;
            prop_assert!(near(sum(&size.losses), f64::from(size.threads)), "{size:?} {unknown}");
        }
    }
}
