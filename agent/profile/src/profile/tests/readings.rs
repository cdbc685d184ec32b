//! Readings of one process: the first, the last, recent ones.

use std::time::Duration;

use super::*;

#[test]
fn the_first_reading_stays_and_rates_are_of_the_last_second() {
    let mut process = process();
    for half in 0..10 {
        process.count(calls(10 * half));
        process.read(&Inputs::busy(half * S / 2));
    }
    let at = |reading: Option<&Reading>| reading.map(|reading| reading.at_ns);
    assert_eq!(at(process.first()), Some(0));
    assert_eq!(at(process.last()), Some(9 * S / 2));
    assert_eq!(at(process.oldest()), Some(7 * S / 2));
    assert_eq!(process.period(), Duration::from_secs(1));
}

#[test]
fn before_the_first_reading_nothing_is_known() {
    let process = process();
    assert!(process.first().is_none() && process.last().is_none());
    assert_eq!((process.period(), process.usage()), (Duration::ZERO, None));
    assert_eq!((process.useful(), process.recent_useful()), (None, None));
    let view = process.view(&[], |_| None);
    assert_eq!(
        (view.pid, view.rank, view.functions.len(), view.rates),
        (100, Some(0), 0, None)
    );
}

#[test]
fn one_reading_is_no_rate() {
    let mut process = process();
    process.count(calls(5));
    process.read(&Inputs::busy(S));
    let view = process.view(&[probe("MPI_Send")], |_| None);
    assert_eq!((view.rates, view.watched_ns), (None, 0));
    assert_eq!(view.functions[0].calls, 5);
}

#[test]
fn a_rank_that_came_late_has_the_rates_of_its_own_time() {
    let mut process = process();
    for (at_s, count) in [(100, 0), (101, 50)] {
        process.count(calls(count));
        process.read(&Inputs::busy(at_s * S));
    }
    let view = process.view(&[probe("MPI_Send")], |_| None);
    assert_eq!(view.rates.map(|rates| rates.calls_per_s), Some(50.0));
    assert_eq!((view.watched_ns, view.functions[0].calls_per_s), (S, 50.0));
}

#[test]
fn a_process_that_has_ended_keeps_its_totals_and_has_no_rate() {
    let mut process = process();
    for at_s in 0..3 {
        process.count(calls(10 * at_s));
        process.read(&Inputs::busy(at_s * S));
    }
    process.ended = true;
    process.count(calls(25));
    process.read(&Inputs::at(9 * S));
    let view = process.view(&[probe("MPI_Send")], |_| None);
    assert_eq!((view.ended, view.rates, view.watched_ns), (true, None, 2 * S));
    assert_eq!(
        view.functions[0].calls, 20,
        "the time it did not live does not count"
    );
    assert_eq!(view.counters.map(|counters| counters.cpu_ns), Some(2 * S));
    assert_eq!((process.recent_usage(), process.recent_useful()), (None, None));
    assert_eq!(process.usage().map(|usage| usage.cpu_ns), Some(2 * S));
}

#[test]
fn the_last_reading_stays_where_proc_has_none() {
    let mut process = process();
    process.read(&Inputs::busy(S));
    process.read(&Inputs::at(2 * S));
    let last = process.last().unwrap();
    assert_eq!(last.counters.map(|counters| counters.cpu_ns), Some(S));
    assert_eq!(last.moment().cpu_ns, S);
}

#[test]
fn a_process_is_still_that_uses_no_cpu_and_calls_nothing() {
    for (has_run, more, is_still) in [
        (Some(false), None, true),
        (Some(false), calls(1), false),
        (Some(true), None, false),
        (None, None, false),
    ] {
        let mut process = process();
        process.count(more.clone());
        process.read(&Inputs {
            has_run,
            ..Inputs::at(S)
        });
        assert_eq!(process.is_still(), is_still, "{has_run:?} {more:?}");
        assert_eq!(process.has_run, has_run != Some(false));
        process.ended = true;
        assert!(process.is_still(), "it does nothing any more");
    }
}

#[test]
fn that_it_has_run_is_known_until_it_was_looked_at() {
    let mut process = process();
    let read = |process: &mut Metered, has_run| {
        process.read(&Inputs {
            has_run: Some(has_run),
            ..Inputs::at(S)
        });
    };
    read(&mut process, true);
    read(&mut process, false);
    assert!(std::mem::take(&mut process.has_run));
    read(&mut process, false);
    assert!(!process.has_run);
}

#[test]
fn only_what_moved_is_counted() {
    let mut process = process();
    assert!(process.count(calls(7)));
    assert!(!process.count(None));
    assert_eq!(process.counted()[0].calls, 7);
}

#[test]
fn who_was_not_looked_into_is_known_to_no_rule() {
    let gone = Metered::unknown(7, 3);
    assert_eq!(
        (gone.is_known, gone.is_foreign, gone.is_watched()),
        (false, true, false)
    );
    let refused = Metered::refused(7, Some(1), 3);
    assert_eq!(
        (refused.is_known, refused.is_foreign, refused.is_watched()),
        (false, false, false)
    );
    let mut profile = Profile::new(0, Baseline::default());
    profile.processes = vec![process(), gone, refused];
    assert_eq!(profile.known_slots(), [0]);
}

#[test]
fn cpu_time_of_those_that_run_is_added_up() {
    let mut profile = Profile::new(0, Baseline::default());
    for slot in 0..3 {
        let mut process = Metered::new(100, None, slot);
        process.read(&Inputs::busy(S));
        process.ended = slot == 1;
        profile.processes.push(process);
    }
    assert_eq!(profile.running_cpu_ns(), 2 * S);
    assert_eq!(profile.running().count(), 2);
    assert!(!profile.are_still());
    assert_eq!(profile.find_mut(2).map(|process| process.slot), Some(2));
    assert!(profile.find_mut(3).is_none());
}

#[test]
fn the_clock_of_the_cpus_is_read_every_two_seconds_even_where_there_is_none() {
    let mut profile = Profile::new(0, Baseline::default());
    assert!(profile.is_frequency_due(0));
    profile.take_frequency(None, S);
    for (now_ns, is_due) in [(S, false), (3 * S - 1, false), (3 * S, true)] {
        assert_eq!(profile.is_frequency_due(now_ns), is_due, "{now_ns}");
    }
    assert!(profile.frequency().is_none());
}

#[test]
fn the_matrix_is_read_when_there_is_more_and_a_hundred_times_as_seldom_as_it_takes() {
    let mut matrix = Matrix::default();
    assert!(!matrix.is_due(S), "nothing was counted");
    matrix.has_more = true;
    assert!(matrix.is_due(S));
    for (took_ns, next_ns) in [(0, 2 * S), (S / 50, 3 * S + S / 50)] {
        matrix.take(Vec::new(), (S, S + took_ns));
        assert!(!matrix.is_due(next_ns), "nothing was counted since");
        matrix.has_more = true;
        assert!(!matrix.is_due(next_ns - 1) && matrix.is_due(next_ns));
    }
}

#[test]
fn of_a_rank_that_may_hang_inside_mpi_no_time_is_known_until_a_call_of_it_is_seen() {
    let probes = [probe("MPI_Allreduce")];
    let mut process = process();
    let read = |at_s: u64, process: &mut Metered| {
        process.count(calls(0));
        process.read(&Inputs {
            probes: &probes,
            may_be_in_mpi: true,
            ..Inputs::busy(at_s * S)
        });
        let view = process.view(&probes, |_| None);
        let overall = view.overall.and_then(|rates| rates.mpi);
        (view.is_mpi_unknown, view.mpi_ns, overall, process.useful())
    };
    for at_s in 0..4 {
        assert_eq!(read(at_s, &mut process), (true, None, None, None), "{at_s}");
        assert_eq!(process.recent_useful(), None);
    }
    // Its time is that since the last reading before its first call.
    let thread = [(0, thread(S / 2, 0))];
    process.count(calls(1));
    process.read(&Inputs {
        probes: &probes,
        may_be_in_mpi: true,
        threads: &thread,
        ..Inputs::busy(4 * S)
    });
    let view = process.view(&probes, |_| None);
    assert_eq!((view.is_mpi_unknown, view.mpi_ns), (false, Some(S / 2)));
    assert_eq!((view.watched_ns, view.mpi_unknown_ns), (4 * S, 3 * S));
    assert_eq!(view.overall.and_then(|rates| rates.mpi), Some(0.5));
    assert_eq!(process.useful(), Some((0.5, false)));
    let parts: Vec<_> = process.load(&probes, 0).iter().map(|part| part.mpi).collect();
    assert_eq!(parts, [None, None, None, Some(0.5)]);
}

#[test]
fn a_call_that_was_under_way_at_the_start_is_inside_mpi_until_it_ends() {
    let probes = [probe("MPI_Allreduce")];
    let mut process = process();
    let mut read = |at_ns: u64, left_unseen_ns: u64, closed_ns: u64, runqueue_ns: u64| {
        process.count(calls(u64::from(closed_ns > 0)));
        let thread = Thread {
            left_unseen_ns,
            ..thread(closed_ns, 0)
        };
        let threads = [(0, thread)];
        process.read(&Inputs {
            probes: &probes,
            may_be_in_mpi: true,
            threads: if left_unseen_ns > 0 { &threads } else { &[] },
            counters: Some(Counters {
                runqueue_ns,
                ..Counters::default()
            }),
            has_waits: true,
            ..Inputs::busy(at_ns)
        });
        let view = process.view(&probes, |_| None);
        (view.is_mpi_unknown, view.mpi_ns, view.mpi_waited_ns)
    };
    assert_eq!(read(S, 0, 0, 0), (true, None, None));
    // It left the call after 0.4 s, and waited for a CPU for half of the second.
    let under_way = (false, Some(2 * S / 5), Some(S / 5));
    assert_eq!(read(2 * S, 7 * S / 5, 0, S / 2), under_way);
    // It counts once.
    assert_eq!(read(3 * S, 7 * S / 5, 0, S), under_way);
    let later = read(4 * S, 7 * S / 5, S / 10, S);
    assert_eq!(later, (false, Some(S / 2), Some(S / 5)));
}
