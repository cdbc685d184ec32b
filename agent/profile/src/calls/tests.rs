//! Tests with synthetic sequences of calls of one process.

use rules::pseudo_random::mixed;

use super::*;

/// A program of one thread. Each call has a site, a computing time before it, and a duration.
struct Program {
    now_ns: u64,
    mpi_ns: u64,
    calls: Vec<Option<Call>>,
}

impl Program {
    fn new() -> Program {
        Program {
            now_ns: 1_000,
            mpi_ns: 0,
            calls: Vec::new(),
        }
    }

    fn call(&mut self, site: u64, computes_ns: u64, takes_ns: u64) {
        self.now_ns += computes_ns;
        self.mpi_ns += takes_ns;
        self.calls.push(Some(Call {
            site,
            entered_ns: self.now_ns,
            duration_ns: takes_ns,
            closed_ns: self.mpi_ns,
            thread: 7,
            ..Call::default()
        }));
        self.now_ns += takes_ns;
    }
}

fn looked_at(program: &Program) -> Sequence {
    let mut sequence = Sequence::default();
    for (calls, looks) in program.calls.chunks(10).zip(1..) {
        sequence.take(calls.iter().copied(), 0, |_| true);
        sequence.look(looks * LOOK_AGAIN_NS, &mut { usize::MAX });
    }
    sequence
}

#[test]
fn iterations_are_timed_and_their_useful_share_is_exact() {
    let mut program = Program::new();
    for _ in 0..50 {
        program.call(1, 300, 50);
        program.call(2, 100, 50);
    }
    let sequence = looked_at(&program);
    let iterations = sequence.current().unwrap();
    assert_eq!(iterations.calls(), 2.0);
    assert_eq!(iterations.recent_ns(), Some(500.0));
    assert_eq!(iterations.overall().count, 49);
    assert_eq!(iterations.useful(), Some(0.8));
    let times: std::collections::BTreeMap<u64, u64> = sequence
        .sites()
        .iter()
        .map(|(site, totals)| (site.address, totals.time_ns))
        .collect();
    assert_eq!(times, [(1, 2_500), (2, 2_500)].into());
    let ended = looked_at(&program).take_ended();
    assert_eq!(ended.len(), 49);
    let is_whole = |ended: &EndedIteration| ended.range.end - ended.range.start == 500;
    assert!(
        ended
            .iter()
            .all(|ended| (ended.thread, ended.loop_number) == (7, 1) && is_whole(ended))
    );
}

#[test]
fn calls_that_were_overwritten_are_counted_and_leave_the_useful_share_exact() {
    let mut program = Program::new();
    for _ in 0..100 {
        program.call(1, 300, 50);
        program.call(2, 100, 50);
    }
    for call in &mut program.calls[71..90] {
        *call = None;
    }
    let sequence = looked_at(&program);
    let iterations = sequence.current().unwrap();
    assert_eq!((sequence.unseen(), sequence.next()), (19, 200));
    assert_eq!(iterations.useful(), Some(0.8));
    assert_eq!(iterations.recent_ns(), Some(500.0));
    assert!(iterations.overall().count < 99 && iterations.overall().count > 80);
}

/// The ends of windows cut more of the long iterations than of the short ones.
#[test]
fn iterations_that_are_seen_in_windows_have_the_mean_time_of_all() {
    let mut program = Program::new();
    for number in 0..10_000 {
        // One in five is thirty times as long as the others.
        let ms = if mixed(number).is_multiple_of(5) { 30 } else { 1 };
        program.call(1, ms * 700_000, ms * 300_000);
    }
    let mean_ns = (program.now_ns - 1_000) as f64 / 10_000.0;
    let mut sequence = Sequence::default();
    let (mut calls, mut now_ns) = (program.calls.iter().flatten().copied().peekable(), 0);
    // Windows of 40 ms, a tenth of the time.
    while calls.peek().is_some() {
        let until_ns = now_ns + 40_000_000;
        let mut recorded = Vec::new();
        let mut is_inside = false;
        while let Some(call) = calls.next_if(|call| call.entered_ns < now_ns + 400_000_000) {
            let ended_ns = call.entered_ns + call.duration_ns;
            is_inside |= (call.entered_ns..ended_ns).contains(&until_ns);
            if call.entered_ns >= now_ns && ended_ns <= until_ns {
                recorded.push(Some(call));
            }
        }
        sequence.open(now_ns);
        sequence.take(recorded, 0, |_| true);
        sequence.look(until_ns, &mut { usize::MAX });
        sequence.close_window(until_ns, is_inside);
        now_ns += 400_000_000;
    }
    let iterations = sequence.current().unwrap();
    let ratio = |ns: f64| ns / mean_ns;
    assert!(ratio(iterations.overall().mean_ns()) < 0.85, "{iterations:?}");
    assert!(
        (ratio(iterations.mean_ns()) - 1.0).abs() < 0.05,
        "{} of {mean_ns}",
        iterations.mean_ns()
    );
}

#[test]
fn a_pace_that_changes_over_the_run_is_reported() {
    let mut program = Program::new();
    // In milliseconds; the first second, in which probes are attached, does not count.
    for round in 0..400 {
        let ms = match round {
            ..20 => 10,
            20..200 => 90,
            _ => 190,
        };
        program.call(1, ms * 1_000_000, 10_000_000);
    }
    let sequence = looked_at(&program);
    let iterations = sequence.current().unwrap();
    assert_eq!(iterations.change(), Some(2.0));
    assert!(iterations.parts().len() <= 64);
    assert_eq!(iterations.parts().iter().map(|part| part.count).sum::<u64>(), 399);
    let overall = iterations.overall();
    assert_eq!((overall.least_ns, overall.most_ns), (20_000_000, 200_000_000));
    // Merged parts keep the extremes of what they contain.
    let parts = iterations.parts();
    assert_eq!(
        parts.iter().map(|part| part.least_ns).min(),
        Some(overall.least_ns)
    );
    assert_eq!(parts.iter().map(|part| part.most_ns).max(), Some(overall.most_ns));
    assert!(
        parts
            .iter()
            .all(|part| part.least_ns as f64 <= part.mean_ns() && part.mean_ns() <= part.most_ns as f64)
    );
}

#[test]
fn a_loop_that_was_left_is_reported_at_the_end() {
    let mut program = Program::new();
    for _ in 0..100 {
        program.call(1, 900, 100);
        program.call(2, 900, 100);
    }
    for site in 10..60 {
        program.call(site, 1, 1);
    }
    let sequence = looked_at(&program);
    assert_eq!(sequence.current(), None);
    assert_eq!(sequence.iterations().unwrap().overall().mean_ns(), 2_000.0);
}

#[test]
fn of_nested_loops_that_go_fast_no_iteration_of_the_outer_one_is_lost() {
    let mut program = Program::new();
    for _ in 0..150 {
        for _ in 0..20 {
            program.call(1, 300, 50);
            program.call(2, 100, 50);
        }
        program.call(3, 300, 50);
    }
    let mut sequence = Sequence::default();
    for (calls, looks) in program.calls.chunks(10).zip(1..) {
        sequence.take(calls.iter().copied(), 0, |_| true);
        // All within a second: far less than the time after which a known loop is searched again.
        sequence.look(looks * 1_000_000, &mut { usize::MAX });
    }
    let iterations = sequence.current().unwrap();
    assert_eq!(iterations.calls(), 41.0);
    assert_eq!(iterations.overall().count, 149);
    // The inner loop, which is found first, was not left.
    assert_eq!(sequence.before(), None);
}

#[test]
fn a_loop_that_goes_on_is_looked_at_ever_more_seldom_and_one_that_was_left_as_soon_as_before() {
    const SECOND: u64 = 1_000_000_000;
    let mut program = Program::new();
    for _ in 0..100 {
        program.call(1, 300, 50);
        program.call(2, 100, 50);
    }
    let mut sequence = Sequence::default();
    sequence.take(program.calls.iter().copied(), 0, |_| true);
    let mut looked_at = |from: u64, calls: &[Option<Call>]| {
        sequence.take(calls.iter().copied(), 0, |_| true);
        let times = (from..from + 30).filter(|now| {
            sequence.look(now * SECOND, &mut { usize::MAX });
            sequence.threads[&7].looked_ns == now * SECOND
        });
        times.collect::<Vec<u64>>()
    };
    assert_eq!(looked_at(10, &[]), [10, 12, 16, 24, 32]);
    let mut others = Program::new();
    (10..60).for_each(|site| others.call(site, 300, 50));
    // The next search would be due eight seconds after the last.
    assert_eq!(looked_at(34, &others.calls)[0], 34);
}

/// After a gap a search sees few iterations, of which one may take another path.
#[test]
fn the_number_of_calls_of_an_iteration_is_the_mean_over_all_that_were_seen() {
    let mut sequence = Sequence::default();
    let mut program = Program::new();
    for number in 0..200 {
        (0..12).for_each(|site| program.call(site, 300, 50));
        let more = if mixed(number).is_multiple_of(10) { 30 } else { 0 };
        (0..more).for_each(|_| program.call(12, 300, 50));
    }
    let mean = program.calls.len() as f64 / 200.0;
    sequence.take(std::mem::take(&mut program.calls), 0, |_| true);
    sequence.look(1_000_000_000, &mut { usize::MAX });
    let before = sequence.current().unwrap().calls();
    assert!((before - mean).abs() < 0.3, "{before} of {mean}");
    sequence.gap();
    for more in [30, 0, 0, 0] {
        (0..12).for_each(|site| program.call(site, 300, 50));
        (0..more).for_each(|_| program.call(12, 300, 50));
    }
    sequence.take(program.calls, 0, |_| true);
    sequence.look(60_000_000_000, &mut { usize::MAX });
    let after = sequence.current().unwrap().calls();
    assert!((after - mean).abs() < 0.4, "{after} of {mean}");
}
