//! The kernel side's table of threads: time inside MPI, open calls, threads that have ended.

use super::*;

/// Reads these threads at this second; `system` knows which of them exist.
fn read(process: &mut Metered, at_s: u64, threads: &[(u64, Thread)], system: &dyn Threads) {
    process.read(&Inputs {
        system,
        threads,
        has_waits: true,
        ..Inputs::busy(at_s * S)
    });
}

#[test]
fn each_process_finds_its_threads_in_the_table_of_all() {
    let thread = |key: u64, process: u32| {
        let thread = Thread {
            process,
            ..Thread::default()
        };
        (key, thread)
    };
    let table = [thread(7, 0), thread(9, 0), thread(3, 2), thread(1, 5)];
    let of = |slot| -> Vec<u64> { threads_of(&table, slot).iter().map(|(key, _)| *key).collect() };
    let found: Vec<Vec<u64>> = (0..7).map(of).collect();
    assert_eq!(
        found,
        [vec![7, 9], vec![], vec![3], vec![], vec![], vec![1], vec![]]
    );
}

#[test]
fn a_call_that_has_not_returned_counts_up_to_now() {
    let mut process = process();
    let threads = [(7, thread(3 * S, 9 * S)), (8, thread(S, 0)), (9, thread(0, 0))];
    read(&mut process, 10, &threads, &Living(&[7, 8, 9], 0));
    let last = process.last().unwrap();
    assert_eq!((last.mpi_ns, last.open.as_slice()), (5 * S, &[(0, S)][..]));
    assert_eq!(last.callers, 2, "the third has called nothing");
    assert_eq!(last.time_ns(0), S);
}

#[test]
fn time_inside_never_shrinks() {
    let mut process = process();
    let system = Living(&[7], 0);
    read(&mut process, 10, &[(7, thread(3 * S, 5 * S))], &system);
    // The call has returned, but its record is not written yet.
    read(&mut process, 11, &[(7, thread(3 * S, 0))], &system);
    assert_eq!(process.last().unwrap().mpi_ns, 8 * S);
    read(&mut process, 12, &[(7, thread(9 * S, 0))], &system);
    assert_eq!(process.last().unwrap().mpi_ns, 9 * S);
}

#[test]
fn of_a_thread_that_has_ended_an_open_call_is_left_open() {
    let mut process = process();
    read(&mut process, 10, &[(7, thread(3 * S, 9 * S))], &Living(&[], 0));
    let last = process.last().unwrap();
    assert_eq!((last.mpi_ns, last.open.len()), (3 * S, 0));
    assert_eq!(last.left_open, [0]);
    // Without information about threads the call is taken to go on.
    let mut other = super::process();
    read(&mut other, 10, &[(7, thread(3 * S, 9 * S))], &UnknownThreads);
    assert_eq!(other.last().unwrap().mpi_ns, 4 * S);
}

#[test]
fn a_call_whose_function_was_detached_meanwhile_is_not_open() {
    let mut process = process();
    process.read(&Inputs {
        threads: &[(7, thread(3 * S, 9 * S))],
        is_stale: &|frame| frame.probe == 0,
        ..Inputs::busy(10 * S)
    });
    let last = process.last().unwrap();
    assert_eq!((last.mpi_ns, last.open.len()), (3 * S, 0));
}

#[test]
fn waiting_for_a_cpu_is_shown_where_the_kernel_measures_it() {
    let waiting = Thread {
        waited_ns: 10,
        waited_before_ns: 100,
        ..thread(3 * S, 9 * S)
    };
    for (has_waits, waited_ns) in [(true, Some(10 + 50)), (false, None)] {
        let mut process = process();
        process.read(&Inputs {
            system: &Living(&[7], 150),
            threads: &[(7, waiting)],
            has_waits,
            ..Inputs::busy(10 * S)
        });
        assert_eq!(process.last().unwrap().mpi_waited_ns, waited_ns);
    }
}

#[test]
fn the_record_of_a_thread_goes_when_it_has_ended_and_what_it_was_stays() {
    let mut process = process();
    let record = thread(3 * S, 9 * S);
    process.count(calls(4));
    read(&mut process, 10, &[(7, record)], &Living(&[7], 0));
    assert!(!process.retire(7, &record, &Living(&[7], 0)));
    read(&mut process, 11, &[(7, record)], &Living(&[], 0));
    assert!(process.retire(7, &record, &Living(&[], 0)));
    let unreturned = |process: &Metered| process.view(&[probe("MPI_Send")], |_| None).functions[0].unreturned;
    assert_eq!(unreturned(&process), 1, "it is counted once");
    read(&mut process, 12, &[], &Living(&[], 0));
    assert_eq!(process.last().unwrap().mpi_ns, 4 * S);
    assert_eq!(unreturned(&process), 1);
}

#[test]
fn of_a_process_that_has_ended_all_records_go() {
    let mut process = process();
    process.ended = true;
    assert!(process.retire(7, &thread(S, 0), &Living(&[7], 0)));
}

#[test]
fn the_table_is_kept_while_no_total_moves_and_nothing_is_taken_out() {
    let mut profile = Profile::new(0, Baseline::default());
    assert!(profile.take_threads(false).is_none(), "it was never read");
    for (has_moved, is_forgotten, is_kept) in
        [(false, false, true), (true, false, false), (false, true, false)]
    {
        profile.keep_threads(vec![(7, thread(0, 0))]);
        if is_forgotten {
            profile.forget_threads();
        }
        assert_eq!(profile.take_threads(has_moved).is_some(), is_kept);
    }
}
