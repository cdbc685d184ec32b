//! Tests with programs on a simulated clock that are sampled in windows: compares estimates with the truth.

use proptest::prelude::*;

use super::*;

mod variable;

/// One thread that calls function 0.
struct Program {
    now_ns: f64,
    calls: u64,
    /// Time between two calls, in nanoseconds; a call itself takes no time.
    between: fn(f64) -> f64,
    /// The program would wait anyway, so that the price costs no additional time.
    absorbs: bool,
}

impl Program {
    /// Runs up to that time, and returns the number of calls.
    fn run(&mut self, until_ns: f64, price_ns: f64) -> u64 {
        let before = self.calls;
        while self.now_ns < until_ns {
            let price = if self.absorbs { 0.0 } else { price_ns };
            self.now_ns += (self.between)(self.now_ns) + price;
            self.calls += 1;
        }
        self.calls - before
    }
}

/// The time of a program that never waits.
fn at(ns: u64) -> CountTime {
    CountTime {
        at_ns: ns,
        cpu_ns: ns,
        waited_ns: 0,
    }
}

fn totals(calls: u64) -> Vec<Totals> {
    vec![Totals {
        calls,
        timed: calls,
        ..Totals::default()
    }]
}

/// Samples the program in windows and gaps of these lengths. The estimator gets the true price times
/// `estimated`. Returns the estimated calls and their uncertainty.
fn watched(program: &mut Program, windows: &[(f64, f64)], price_ns: f64, estimated: f64) -> (u64, Estimate) {
    let mut unwatched = Unwatched::default();
    let functions = BTreeSet::from([0]);
    let mut counted = 0;
    unwatched.open(at(program.now_ns as u64), &totals(0));
    for (window_ns, gap_ns) in windows {
        let (began, before) = (program.now_ns, counted);
        for part in [0.25, 0.5, 0.75, 1.0] {
            counted += program.run(began + part * window_ns, price_ns);
            unwatched.mark(at(program.now_ns as u64), &totals(counted));
        }
        let window = ProcessWindow {
            length: at((program.now_ns - began) as u64),
            threads: 1,
            cost_ns: (counted - before) as f64 * price_ns * estimated,
            ..ProcessWindow::default()
        };
        unwatched.close_window(
            at(program.now_ns as u64),
            &totals(counted),
            &[],
            &functions,
            window,
        );
        let until = program.now_ns + gap_ns;
        program.run(until, 0.0);
        unwatched.open(at(program.now_ns as u64), &totals(counted));
    }
    let now = program.now_ns as u64;
    let estimated = unwatched.estimated(at(now), &totals(counted))[0].calls;
    (
        estimated,
        unwatched
            .estimate(0, at(now), now, &totals(counted))
            .unwrap_or_default(),
    )
}

fn program(between: fn(f64) -> f64) -> Program {
    Program {
        now_ns: 0.0,
        calls: 0,
        between,
        absorbs: false,
    }
}

/// Lengths of windows and gaps, in nanoseconds.
fn lengths() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((1e6..4e6_f64, 10e6..40e6_f64), 12..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_calls_of_a_loop_that_polls_are_estimated_within_two_percent_and_within_their_range(windows in lengths(), price in 100.0..700.0_f64) {
        let mut polling = program(|_| 4_000.0);
        let (estimated, estimate) = watched(&mut polling, &windows, price, 1.0);
        let truth = polling.calls as f64;
        prop_assert!((estimated as f64 / truth - 1.0).abs() < 0.02, "{estimated} of {truth}");
        prop_assert!(estimate.from as f64 <= truth && estimate.to.is_some_and(|to| to as f64 >= truth), "{estimate:?} of {truth}");
        // The pace of the windows would be too low; it is the lower bound of the range.
        prop_assert!(estimate.from <= estimated);
    }

    #[test]
    fn a_price_that_is_off_by_a_fifth_leaves_the_truth_within_the_range(
        windows in lengths(), price in 100.0..1_000.0_f64, off in 0.8..1.2_f64,
    ) {
        let mut polling = program(|_| 4_000.0);
        let (_, estimate) = watched(&mut polling, &windows, price, off);
        let truth = polling.calls as f64;
        prop_assert!(estimate.from as f64 <= truth * 1.01, "{estimate:?} of {truth}");
        prop_assert!(estimate.to.is_none_or(|to| to as f64 >= truth * 0.99), "{estimate:?} of {truth}");
    }

    #[test]
    fn a_loop_that_waits_anyway_is_within_its_range(windows in lengths(), price in 100.0..700.0_f64) {
        let mut paced = program(|_| 5_000.0);
        paced.absorbs = true;
        let (_, estimate) = watched(&mut paced, &windows, price, 1.0);
        let truth = paced.calls as f64;
        prop_assert!((estimate.from as f64 / truth - 1.0).abs() < 0.02, "{estimate:?} of {truth}");
        prop_assert!(estimate.to.is_some_and(|to| to as f64 >= truth * 0.99), "{estimate:?} of {truth}");
    }

    #[test]
    fn an_estimate_never_shrinks_and_is_never_less_than_was_counted(
        steps in prop::collection::vec((0_u64..5_000_000, 0_u64..2_000, 0_u64..50), 1..30),
    ) {
        let functions = BTreeSet::from([0]);
        let mut unwatched = Unwatched::default();
        let (mut now, mut counted, mut before) = (0, 0, 0);
        unwatched.open(at(now), &totals(counted));
        for (ns, calls, late) in steps {
            (now, counted) = (now + ns, counted + calls);
            let window = ProcessWindow { length: at(ns), threads: 1, cost_ns: calls as f64 * 500.0, ..ProcessWindow::default() };
            unwatched.close_window(at(now), &totals(counted), &[], &functions, window);
            // Probes are detached a moment later, and attached a moment before a window begins.
            for part in [1, 2, 1] {
                (now, counted) = (now + part * ns / 2, counted + late);
                let estimated = unwatched.estimated(at(now), &totals(counted))[0].calls;
                prop_assert!(estimated >= before && estimated >= counted, "{estimated} after {before}, counted {counted}");
                before = estimated;
            }
            unwatched.open(at(now), &totals(counted));
            let estimated = unwatched.estimated(at(now), &totals(counted))[0].calls;
            prop_assert!(estimated >= before, "{estimated} after {before}");
            before = estimated;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn phases_are_met_as_often_as_they_come(
        windows in prop::collection::vec((1e6..4e6_f64, 10e6..40e6_f64), 5_000..5_001),
    ) {
        // In three of every ten milliseconds it calls ten times as often.
        let mut program = program(|now| if now % 1e7 < 3e6 { 2_000.0 } else { 20_000.0 });
        let (estimated, _) = watched(&mut program, &windows, 200.0, 1.0);
        let truth = program.calls as f64;
        // Of windows that begin at random the mean varies by 2 %: five times that never happens by chance.
        prop_assert!((estimated as f64 / truth - 1.0).abs() < 0.1, "{estimated} of {truth}");
    }
}

#[test]
fn a_long_window_at_the_start_counts_for_no_more_than_those_after_it() {
    // The program slows down to a quarter of its pace when the first window, of 30 ms, has ended.
    let mut program = program(|now_ns| if now_ns < 30e6 { 1_000.0 } else { 4_000.0 });
    let mut windows = vec![(30e6, 30e6)];
    windows.resize(9, (1e6, 30e6));
    let (estimated, _) = watched(&mut program, &windows, 0.0, 1.0);
    let of_truth = estimated as f64 / program.calls as f64;
    assert!((1.0..1.5).contains(&of_truth), "{of_truth}");
}

#[test]
fn a_pace_that_the_probe_sets_is_estimated_as_a_lower_bound_only() {
    // 50 ns of its own and 800 ns of ours: the measurement cannot distinguish 30 from 80 ns.
    let mut tight = program(|_| 50.0);
    let (estimated, estimate) = watched(&mut tight, &[(1e6, 1e6); 5], 800.0, 1.0);
    assert!(
        estimate.to.is_none() && estimate.from <= estimated,
        "{estimate:?}"
    );
    assert!(estimated < tight.calls / 2, "{estimated} of {}", tight.calls);
}

#[test]
fn ranks_that_may_wait_for_each_other_have_the_price_of_all_in_their_range() {
    let alone = ProcessWindow {
        length: at(1_000_000),
        threads: 1,
        cost_ns: 50_000.0,
        inside_ns: 900_000,
        ..ProcessWindow::default()
    };
    let with = |window: ProcessWindow| Pace::of([(window, 1.0)].into_iter(), ProgramClock::Cpu);
    let of_three = with(ProcessWindow {
        others_ns: 100_000.0,
        ..alone
    });
    assert_eq!(with(alone).estimated, of_three.estimated);
    assert!(of_three.most > with(alone).most, "{of_three:?}");
    // A process that is hardly ever inside does not wait for others.
    let computing = with(ProcessWindow {
        others_ns: 100_000.0,
        inside_ns: 1_000,
        ..alone
    });
    assert!(computing.most < of_three.most, "{computing:?}");
    assert_eq!(
        with(ProcessWindow {
            others_ns: 900_000.0,
            ..alone
        }),
        Pace {
            estimated: 1.0,
            most: None
        }
    );
}

#[test]
fn no_calls_are_estimated_for_a_gap_in_which_a_process_was_kept_from_its_cpu() {
    let mut unwatched = Unwatched::default();
    unwatched.open(at(0), &totals(0));
    let window = ProcessWindow {
        length: at(1_000_000),
        threads: 1,
        cost_ns: 100_000.0,
        ..ProcessWindow::default()
    };
    unwatched.close_window(at(1_000_000), &totals(900), &[], &BTreeSet::from([0]), window);
    let later = CountTime {
        at_ns: 11_000_000,
        cpu_ns: 2_000_000,
        waited_ns: 9_000_000,
    };
    assert_eq!(unwatched.estimated(later, &totals(900))[0].calls, 900 + 1_000);
}

#[test]
fn the_time_in_a_function_is_that_of_all_threads_that_call_it() {
    let mut unwatched = Unwatched::default();
    unwatched.open(at(0), &totals(0));
    let window = ProcessWindow {
        length: at(1_000),
        threads: 1,
        probed: 3,
        ..ProcessWindow::default()
    };
    let open = [(0, 1_000), (0, 1_000), (0, 1_000)];
    unwatched.close_window(at(1_000), &totals(3), &open, &BTreeSet::from([0]), window);
    let time_ns = unwatched.estimated(at(3_000), &totals(3))[0].time_ns;
    assert_eq!(time_ns, 3 * 3_000);
}

/// A program that computes for 20 us, sleeps for 3 ms and calls; the price of a probe is 50 us.
#[test]
fn a_program_that_sleeps_between_its_calls_is_estimated_by_the_time_in_which_it_runs_or_sleeps() {
    let moment = |cycles: u64, watched: u64| CountTime {
        at_ns: cycles * 3_020_000 + watched * 50_000,
        cpu_ns: cycles * 20_000 + watched * 50_000,
        waited_ns: 0,
    };
    let mut unwatched = Unwatched::default();
    unwatched.open(moment(0, 0), &totals(0));
    unwatched.mark(moment(15, 15), &totals(15));
    let window = ProcessWindow {
        length: moment(30, 30),
        threads: 1,
        cost_ns: 1_500_000.0,
        ..ProcessWindow::default()
    };
    unwatched.close_window(moment(30, 30), &totals(30), &[], &BTreeSet::from([0]), window);
    let end = moment(330, 30);
    let calls = unwatched.estimated(end, &totals(30))[0].calls;
    let range = unwatched.estimate(0, end, end.at_ns, &totals(30)).unwrap();
    assert!(calls.abs_diff(330) <= 3, "{calls}");
    assert!(
        range.from <= 330 && range.to.is_some_and(|to| to >= 330),
        "{range:?}"
    );
    // Had it waited for a CPU in place of sleeping, its pace would be that of its CPU time, whose price is too high.
    let waited = CountTime {
        waited_ns: 300 * 3_000_000,
        ..end
    };
    let range = unwatched.estimate(0, waited, end.at_ns, &totals(30)).unwrap();
    assert!(range.from < 180, "{range:?}");
}

#[test]
fn returns_without_entries_at_the_ends_of_windows_are_no_loss_and_others_are() {
    let counted = |unpaired| {
        [Totals {
            unpaired,
            ..Totals::default()
        }]
    };
    let mut unwatched = Unwatched::default();
    let estimated =
        |unwatched: &Unwatched, counted: &[Totals]| unwatched.estimated(at(9), counted)[0].unpaired;
    unwatched.open(at(0), &counted(0));
    unwatched.close_window(
        at(1_000),
        &counted(2),
        &[],
        &BTreeSet::from([0]),
        ProcessWindow::default(),
    );
    assert_eq!(estimated(&unwatched, &counted(40)), 2);
    unwatched.open(at(2_000), &counted(50));
    assert_eq!(estimated(&unwatched, &counted(50)), 2);
    assert_eq!(estimated(&unwatched, &counted(53)), 5);
}

#[test]
fn of_one_that_came_between_windows_it_is_said_that_nothing_bounds_it() {
    let mut unwatched = Unwatched::default();
    unwatched.close_window(
        at(1_000),
        &[],
        &[],
        &BTreeSet::from([0]),
        ProcessWindow::default(),
    );
    unwatched.open(at(3_000), &totals(0));
    let estimate = unwatched.estimate(0, at(5_000), 4_000, &totals(7)).unwrap();
    assert_eq!(
        (estimate.counted, estimate.from, estimate.to, estimate.watched),
        (7, 7, None, 0.5)
    );
    assert_eq!(unwatched.estimated(at(5_000), &totals(7)), totals(7));
}

#[test]
fn time_inside_keeps_its_share_and_calls_that_were_open_count_up_to_the_gap() {
    let functions = BTreeSet::from([1]);
    let mut unwatched = Unwatched::default();
    let counted = |calls, time_ns| {
        let of = Totals {
            calls,
            timed: calls,
            time_ns,
            ..Totals::default()
        };
        [Totals::default(), of]
    };
    unwatched.open(at(0), &counted(0, 0));
    let window = ProcessWindow {
        length: at(1_000),
        threads: 1,
        inside_ns: 400,
        waited_ns: 100,
        ..ProcessWindow::default()
    };
    unwatched.close_window(
        at(1_000),
        &counted(10, 300),
        &[(1, 100), (0, 7)],
        &functions,
        window,
    );
    assert_eq!(
        unwatched.inside_ns(at(1_000), &counted(10, 300), |_| true),
        (100, 0)
    );
    let estimated = unwatched.estimated(at(3_000), &counted(10, 300));
    assert_eq!((estimated[1].calls, estimated[1].time_ns), (30, 300 + 100 + 800));
    assert_eq!(estimated[0], Totals::default());
    let inside = |is_of_mpi: fn(usize) -> bool| unwatched.inside_ns(at(3_000), &counted(10, 300), is_of_mpi);
    assert_eq!(inside(|_| true), (900, 200));
    assert_eq!(inside(|index| index != 1), (0, 0));
    let estimate = unwatched
        .estimate(1, at(4_000), 4_000, &counted(10, 300))
        .unwrap();
    assert_eq!((estimate.counted, estimate.watched), (10, 0.25));
    assert_eq!(unwatched.estimate(0, at(4_000), 4_000, &counted(10, 300)), None);
}

/// After a change that makes a program 40 times as fast, a gap has the pace of the window before it. With the
/// windows before the change it would have that of a mixture.
#[test]
fn after_the_pace_is_forgotten_gaps_follow_the_last_window() {
    let calls_in_gap = |forgets: bool| {
        let mut unwatched = Unwatched::default();
        let (mut now, mut counted) = (0, 0);
        for (calls, has_changed) in [(10, false), (10, false), (10, false), (400, true)] {
            unwatched.open(at(now), &totals(counted));
            (now, counted) = (now + 1_000, counted + calls);
            if forgets && has_changed {
                unwatched.forget_pace();
            }
            let window = ProcessWindow {
                length: at(1_000),
                threads: 1,
                ..ProcessWindow::default()
            };
            unwatched.close_window(at(now), &totals(counted), &[], &BTreeSet::from([0]), window);
            now += 1_000;
        }
        let before = unwatched.estimated(at(now - 1_000), &totals(counted))[0].calls;
        unwatched.estimated(at(now), &totals(counted))[0].calls - before
    };
    assert_eq!((calls_in_gap(true), calls_in_gap(false)), (400, 107));
}

/// A program that was watched at all times became 100 times as fast by a change, and is sampled from then on: the
/// range of the first gap has the pace after the change, which hardly varies.
#[test]
fn the_pace_before_a_change_does_not_widen_the_range_after_it() {
    let range = |forgets: bool| {
        let mut unwatched = Unwatched::default();
        unwatched.open(at(0), &totals(0));
        let (mut now, mut counted) = (0, 0);
        for step in 0..8 {
            if step == 4 && forgets {
                unwatched.forget_marks();
            }
            now += 1_000;
            counted += if step < 4 { 10 } else { 1_000 };
            unwatched.mark(at(now), &totals(counted));
        }
        unwatched.open(at(7_500), &totals(counted - 500));
        let window = ProcessWindow {
            length: at(500),
            threads: 1,
            ..ProcessWindow::default()
        };
        unwatched.close_window(at(now), &totals(counted), &[], &BTreeSet::from([0]), window);
        let after = now + 4_000;
        let estimate = unwatched
            .estimate(0, at(after), after, &totals(counted))
            .expect("there is a gap");
        let in_gap = |calls: u64| calls.saturating_sub(counted);
        (in_gap(estimate.from), estimate.to.map(in_gap))
    };
    assert_eq!(range(true), (3_996, Some(4_004)));
    let (least, most) = range(false);
    assert!(least < 2_000 && most > Some(6_000), "{least} to {most:?}");
}

/// A compute function whose process was preempted in the gap, read late at the end of the window: calls times
/// mean remain its time, which grows in the gap by no more than the elapsed time.
#[test]
fn calls_and_time_of_a_preempted_process_agree() {
    let mut unwatched = Unwatched::default();
    let functions = BTreeSet::from([0]);
    let read_late = vec![Totals {
        calls: 100,
        timed: 100,
        time_ns: 15_000,
        ..Totals::default()
    }];
    unwatched.open(at(0), &totals(0));
    let window = ProcessWindow {
        length: at(10_000),
        threads: 1,
        ..ProcessWindow::default()
    };
    unwatched.close_window(at(10_000), &read_late, &[], &functions, window);
    let preempted = CountTime {
        at_ns: 110_000,
        cpu_ns: 60_000,
        waited_ns: 50_000,
    };
    let of = unwatched.estimated(preempted, &read_late)[0];
    assert_eq!((of.calls, of.timed, of.time_ns), (600, 600, 115_000));
}
