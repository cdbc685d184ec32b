//! References beyond the closing instance: all instances so far, the newest hits, boundaries, and calls by
//! name.

use super::probed::{FRAME, Farm, Sent};
use super::*;

/// One process with steps of different lengths and numbers of threads.
const STEPS: &str = "\
rule: steps
about: what is remembered of steps
roles:
  one: rank == 0
probes:
  step: {role: one, entry: step}
  work: {role: one, span: work}
capture:
  step.threads: threads
windows:
  steps: {from: step}
metrics:
  length: sum(work.duration)
  mean_length: mean(length over run)
  total: sum(work.duration over run)
  smooth: ewma(length, 0.5)
  by_threads: ewma(length, 0.5 by step.threads over run)
  recent: mean(work.duration over 3 work)
";

fn steps(lengths: &[(f64, &[u64])]) -> Vec<Sent> {
    let mut hits: Vec<Sent> = Vec::new();
    for (number, (threads, works)) in (0u64..).zip(lengths) {
        let start = 100 + number * 100;
        hits.push(("step", 0, start, 0, vec![*threads]));
        for (index, length) in (1u64..).zip(*works) {
            hits.push(("work", 0, start + 20 * index, *length, vec![]));
        }
    }
    hits.push(("step", 0, 100 + lengths.len() as u64 * 100, 0, vec![1.0]));
    hits
}

#[test]
fn folds_go_over_all_of_the_run_and_over_complete_instances_until_there_are_enough_hits() {
    let mut farm = Farm::new(STEPS, 1);
    farm.hits(&steps(&[
        (1.0, &[2, 4]),
        (2.0, &[10]),
        (1.0, &[8, 4]),
        (2.0, &[2]),
    ]));
    farm.all_until(1000);
    let closed = farm.closed();
    // Halves: 6; (6+10)/2 = 8; (8+12)/2 = 10; (10+2)/2 = 6. With 1 thread 6 and 12, with 2 threads 10 and 2.
    let expected = [
        "length 6 ms, mean_length 6 ms, total 6 ms, smooth 6 ms, by_threads 6 ms over 1 row, recent 3 ms",
        "length 10 ms, mean_length 8 ms, total 16 ms, smooth 8 ms, by_threads 6 ms to 10 ms over 2 rows, recent 5.33 ms",
        // 8, 4 and 10 are three hits: the first step is not needed.
        "length 12 ms, mean_length 9.33 ms, total 28 ms, smooth 10 ms, by_threads 9 ms to 10 ms over 2 rows, recent 7.33 ms",
        // 2, then 8 and 4: a complete instance, although two hits would suffice.
        "length 2 ms, mean_length 7.5 ms, total 30 ms, smooth 6 ms, by_threads 6 ms to 9 ms over 2 rows, recent 4.67 ms",
    ];
    for (number, (found, expected)) in closed.iter().zip(expected).enumerate() {
        assert_eq!(*found, format!("steps {number}: {expected}"));
    }
    assert_eq!(closed.len(), 4);
}

#[test]
fn a_tune_is_looked_at_at_each_hit_with_what_the_window_has_up_to_it() {
    let tune = "\
tune:
  - set: chunk
    role: master
    every: send
    value: sum(send.bytes) / 1B
";
    let mut farm = Farm::new(&format!("{FRAME}{tune}"), 3);
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    farm.hits(&[
        ("begin", 0, 100, 0, vec![1.0, 2.0]),
        ("send", 0, 110, 5, vec![100.0]),
        ("send", 0, 120, 5, vec![200.0]),
        ("end", 0, 190, 0, vec![1.0]),
    ]);
    let outputs = farm.all_until(1000);
    let values = |output: &Output| match output {
        Output::Decision(decision) => decision.changes[0].action.value().cloned(),
        _ => None,
    };
    let values: Vec<Scalar> = outputs.iter().filter_map(values).collect();
    // The second decision is made after the first was carried out, with the newest value.
    assert_eq!(values, [Scalar::Number(100.0)], "{outputs:?}");
}

#[test]
fn counters_of_mpi_are_chosen_by_the_function_called() {
    let source = "\
rule: barriers
about: time in barriers
roles:
  rank: rank >= 0
windows:
  pulse: {every: 500ms}
metrics:
  barrier: sum(mpi.time where call == \"MPI_Barrier\") by process
  sends: sum(mpi.calls where call in [\"MPI_Send\", \"MPI_Isend\"])
";
    let mut farm = Farm::new(source, 2);
    for (process, call, measure, totals) in [
        (0, "MPI_Barrier", Measure::MpiTime, (0, 100 * MS)),
        (1, "MPI_Barrier", Measure::MpiTime, (50 * MS, 90 * MS)),
        (1, "MPI_Send", Measure::MpiTime, (0, 500 * MS)),
        (0, "MPI_Send", Measure::MpiCalls, (0, 3)),
        (0, "MPI_Isend", Measure::MpiCalls, (7, 11)),
        (0, "MPI_Recv", Measure::MpiCalls, (0, 99)),
        (1, "MPI_Barrier", Measure::MpiCalls, (0, 1)),
    ] {
        for (ms, total) in [(0, totals.0), (500, totals.1)] {
            farm.engine.observe(Observation::CallCounter {
                process: ProcessId(process),
                measure,
                call: call.to_string(),
                time: Time(ms * MS),
                total,
            });
        }
    }
    farm.engine.tick(Time(500 * MS));
    assert_eq!(
        farm.closed(),
        ["pulse 0: barrier 40 ms to 100 ms over 2 processes, sends 7"]
    );
}

#[test]
fn a_level_is_known_at_the_boundaries_of_an_instance() {
    let metrics =
        "  grown: sum(memory.resident at iteration.end) - sum(memory.resident at iteration.begin)\n";
    let mut farm = Farm::new(&format!("{FRAME}{metrics}"), 3);
    for process in 0..3 {
        for (ms, value) in [(50, 1e6), (150, 2e6), (250, 5e6)] {
            farm.engine
                .observe(gauge(process, Measure::MemoryResident, Time(ms * MS), value));
        }
    }
    farm.hits(&super::probed::iteration(1, 100));
    farm.all_until(1000);
    let closed = farm.closed();
    assert!(closed[0].contains("grown 2.86 MiB"), "{closed:?}");
}
