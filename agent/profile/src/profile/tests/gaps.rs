//! Functions that are sampled in windows: the estimates for their gaps.

use super::*;

/// A reading at this second, with `count` calls of function 0.
fn read(profile: &mut Profile, at_s: u64, count: u64) {
    read_at(profile, at_s * S, count);
}

fn read_at(profile: &mut Profile, at_ns: u64, count: u64) {
    for process in &mut profile.processes {
        process.count(calls(count));
        process.read(&Inputs::busy(at_ns));
    }
    profile.read_ns = at_ns;
}

/// Two processes that make 100 calls a second, all counted for two seconds. A call of the first costs a
/// millisecond.
fn watched() -> Profile {
    let mut profile = Profile::new(0, Baseline::default());
    profile.processes = vec![Metered::new(100, Some(0), 0), Metered::new(101, Some(1), 1)];
    (0..=4).for_each(|halves| read_at(&mut profile, halves * S / 2, 50 * halves));
    profile
}

/// The same, and then a gap of functions without a price begins for the processes that have not ended.
fn in_gap_of(mut profile: Profile) -> Profile {
    profile.begin_sampling();
    let windows = profile.windows(&BTreeMap::new(), |_| true);
    profile.begin_gap(&[0].into(), windows, true);
    profile
}

fn in_gap() -> Profile {
    in_gap_of(watched())
}

fn estimate(process: &Metered) -> Option<crate::cost::Estimate> {
    process
        .estimates()
        .find(|(probe, _)| *probe == 0)
        .map(|(_, estimate)| estimate)
}

fn total(process: &Metered) -> u64 {
    process.last().unwrap().totals[0].calls
}

#[test]
fn what_was_always_watched_is_not_estimated() {
    let profile = watched();
    assert!(
        profile
            .processes
            .iter()
            .all(|process| estimate(process).is_none())
    );
    let view = profile.processes[0].view(&[probe("MPI_Send")], |_| None);
    assert_eq!((view.functions[0].calls, view.functions[0].estimate), (200, None));
}

#[test]
fn in_a_gap_calls_go_on_at_the_pace_of_the_window_and_are_marked_as_estimated() {
    let mut profile = in_gap();
    read(&mut profile, 12, 200);
    let process = &profile.processes[0];
    assert_eq!(total(process), 200 + 1_000);
    let estimate = estimate(process).unwrap();
    // Up to one call more or less is in the window, which is a tenth of the gap.
    assert_eq!((estimate.counted, estimate.from), (200, 1_200 - 5));
    assert!((estimate.watched - 2.0 / 12.0).abs() < 1e-9, "{estimate:?}");
    let view = process.view(&[probe("MPI_Send")], |_| None);
    assert_eq!(view.functions[0].estimate, Some(estimate));
    // The part of the time of the rates: nothing of the last ten seconds, two of all twelve.
    let sampled = |rates: Option<crate::Rates>| rates.and_then(|rates| rates.sampled);
    assert_eq!(sampled(view.rates), Some(0.0));
    assert_eq!(sampled(view.overall), Some(1.0 - 10.0 / 12.0));
}

/// A function of the program may contain MPI calls: its time would be counted as theirs, too.
#[test]
fn only_functions_of_mpi_are_estimated_to_be_inside_mpi_in_a_gap() {
    for (name, inside_ns) in [("MPI_Send", S), ("residual", 0)] {
        let mut profile = in_gap();
        let probes = [probe(name)];
        let inputs = Inputs {
            probes: &probes,
            ..Inputs::busy(12 * S)
        };
        profile.processes[0].count(calls(200));
        profile.processes[0].read(&inputs);
        assert_eq!(profile.processes[0].last().unwrap().mpi_ns, inside_ns, "{name}");
    }
}

#[test]
fn what_a_gap_is_estimated_to_have_had_is_fixed_when_it_ends() {
    let mut profile = in_gap();
    read(&mut profile, 12, 200);
    profile.end_gap(false);
    // From here on each call is counted: half as many.
    read(&mut profile, 14, 300);
    assert_eq!(total(&profile.processes[0]), 200 + 1_000 + 100);
    assert_eq!(estimate(&profile.processes[0]).unwrap().counted, 300);
}

#[test]
fn a_rank_that_ended_in_a_gap_has_no_calls_after_its_end() {
    let mut profile = in_gap();
    read(&mut profile, 4, 200);
    profile.processes[1].ended = true;
    read(&mut profile, 12, 200);
    let totals: Vec<u64> = profile.processes.iter().map(total).collect();
    assert_eq!(totals, [1_200, 400]);
}

#[test]
fn a_gap_begins_for_no_process_that_has_ended() {
    let mut watched = watched();
    watched.processes[1].ended = true;
    let mut profile = in_gap_of(watched);
    read(&mut profile, 12, 200);
    let are_estimated: Vec<bool> = profile
        .processes
        .iter()
        .map(|process| estimate(process).is_some())
        .collect();
    assert_eq!(are_estimated, [true, false]);
}

#[test]
fn of_who_joins_in_a_gap_nothing_bounds_the_calls_before_its_first_window() {
    let mut late = process();
    late.count(calls(0));
    let at = CountTime {
        at_ns: 10 * S,
        cpu_ns: 10 * S,
        ..CountTime::default()
    };
    late.join(at, Some(&[0].into()));
    assert!(late.counted_at_window().is_none());
    late.read(&Inputs::busy(10 * S));
    late.read(&Inputs::busy(12 * S));
    let known = estimate(&late).unwrap();
    assert_eq!((known.counted, known.from, known.to), (0, 0, None));
}

#[test]
fn who_joins_while_all_is_watched_is_counted_from_there_on() {
    let mut late = process();
    late.join(CountTime::default(), None);
    assert_eq!(late.counted_at_window().map(<[Totals]>::len), Some(0));
    late.count(calls(5));
    late.read(&Inputs::busy(S));
    assert_eq!((total(&late), estimate(&late)), (5, None));
}

#[test]
fn a_window_has_what_hits_cost_each_process_and_what_they_cost_the_others() {
    let mut profile = watched();
    profile.end_gap(false);
    read(&mut profile, 3, 300);
    let prices = BTreeMap::from([(0, 1_000.0)]);
    for is_of_mpi in [true, false] {
        let windows = profile.windows(&prices, |_| is_of_mpi);
        for window in &windows {
            assert_eq!(
                (window.length.at_ns, window.length.cpu_ns, window.threads),
                (S, S, 1)
            );
            assert_eq!((window.cost_ns, window.others_ns), (100_000.0, 100_000.0));
            assert_eq!(window.inside_ns, if is_of_mpi { 100_000_000 } else { 0 });
        }
    }
}

#[test]
fn who_has_no_reading_has_no_window() {
    let mut profile = watched();
    profile.processes.push(Metered::new(102, Some(2), 2));
    let windows = profile.windows(&BTreeMap::new(), |_| true);
    assert_eq!(windows[2], ProcessWindow::default());
}

#[test]
fn usage_is_what_was_counted_and_never_what_was_estimated() {
    let mut profile = in_gap();
    read(&mut profile, 12, 200);
    let usage = profile.processes[0].usage().unwrap();
    assert_eq!(
        (usage.calls, usage.cpu_ns, usage.unhindered_ns, usage.wanted),
        (vec![(0, 200)], 12 * S, 12 * S, 1.0)
    );
}

#[test]
fn calls_that_are_counted_while_probes_rest_are_not_of_the_time_in_which_they_were_watched() {
    let mut profile = Profile::new(0, Baseline::default());
    profile.processes = vec![Metered::new(100, None, 0)];
    let mut probe = probe("GOMP_parallel");
    // Per second: number of calls, and whether the probe is paused from then on. Its links are closed a while
    // later.
    let readings = [
        (0, 0, false),
        (1, 600, true),
        (2, 1_400, true),
        (9, 1_400, false),
        (10, 2_000, false),
    ];
    let mut shown = Vec::new();
    for (at_s, count, rests) in readings {
        probe.is_resting = rests;
        let process = &mut profile.processes[0];
        process.count(calls(count));
        process.read(&Inputs {
            probes: std::slice::from_ref(&probe),
            ..Inputs::busy(at_s * S)
        });
        let view = process.view(std::slice::from_ref(&probe), |_| None);
        let function = view
            .functions
            .first()
            .map(|function| (function.calls, function.counted));
        shown.extend(function);
    }
    assert_eq!(
        shown,
        [
            (600, None),
            (600, Some(0.5)),
            (600, Some(1.0 - 8.0 / 9.0)),
            (1_200, Some(1.0 - 8.0 / 10.0)),
        ]
    );
}

/// An estimate that became greater is of the time before the first of two readings, too.
#[test]
fn an_estimated_share_inside_mpi_is_no_more_than_the_time_of_the_threads_that_call_it() {
    let reading = |at_ns, mpi_ns, gaps_ns| Reading {
        at_ns,
        mpi_ns,
        gaps_ns,
        callers: 1,
        ..Reading::default()
    };
    let share = |last: &Reading| view::mpi_shares(&reading(0, 0, 0), last).unwrap().0;
    assert_eq!(share(&reading(100, 104, 90)), 1.0);
    // Several threads that were watched all the time.
    assert_eq!(share(&reading(100, 150, 0)), 1.5);
}
