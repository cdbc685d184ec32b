//! Nested windows: batches that a condition ends, chains of them, and references between them.

use super::probed::{Farm, Sent};
use super::*;

/// A master that distributes batches of tasks; a batch ends when all of its chunks were computed.
const BATCHES: &str = "\
rule: batches
about: batches within iterations
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin:   {role: master, entry: begin}
  end:     {role: master, return: end}
  batch:   {role: master, return: next_batch}
  send:    {role: master, entry: send}
  compute: {role: worker, span: compute}
capture:
  begin.number: iteration
  begin.tasks: tasks
  batch.id: batch_id
  batch.chunks: chunks
  send.to: worker_id
  send.batch: batch_id
  send.tasks: n
  compute.number: iteration
  compute.batch: batch_id
join:
  chunk:
    of: [send, compute]
    by: [send.to = compute.process, send.batch = compute.batch]
windows:
  iteration: {from: begin, to: end, key: number}
  batches:
    within: iteration
    from: batch
    until: count(chunk) == batch.chunks
    key: {batch: id, chunk: send.batch}
metrics:
  mean_time: {in: batches, value: mean(chunk.compute.duration)}
  left: {in: batches, value: begin.tasks - sum(send.tasks over iteration)}
  which: {in: batches, value: iteration.index}
  before: {in: batches, value: 'total[-1]'}
  total: {in: iteration, value: sum(compute.duration)}
  longest: {in: iteration, value: max(mean_time)}
  how_many: {in: iteration, value: count(batches)}
";

/// An iteration of 200 ms with two batches of two chunks; the second batch begins before the first is done.
fn batched(number: u64, start: u64) -> Vec<Sent> {
    let n = number as f64;
    let mut hits: Vec<Sent> = vec![("begin", 0, start, 0, vec![n, 100.0])];
    for (batch, at) in [(1.0, start + 10), (2.0, start + 30)] {
        hits.push(("batch", 0, at, 0, vec![batch, 2.0]));
        hits.push(("send", 0, at + 1, 0, vec![1.0, batch, 20.0]));
        hits.push(("send", 0, at + 2, 0, vec![2.0, batch, 10.0]));
    }
    hits.push(("compute", 1, start + 20, 8, vec![n, 1.0]));
    hits.push(("compute", 1, start + 50, 16, vec![n, 2.0]));
    hits.push(("compute", 2, start + 60, 40, vec![n, 1.0]));
    hits.push(("compute", 2, start + 90, 20, vec![n, 2.0]));
    hits.push(("end", 0, start + 200, 0, vec![n]));
    hits.sort_by_key(|hit| hit.2);
    hits
}

#[test]
fn batches_lie_within_their_iteration_and_each_sees_the_other() {
    let mut farm = Farm::new(BATCHES, 3);
    for number in 1..=2 {
        farm.hits(&batched(number, number * 1000));
    }
    farm.all_until(5000);
    assert_eq!(
        farm.closed(),
        [
            "batches 0: mean_time 24 ms, left 40, which 0, before none (there were not 1 windows before the one around it)",
            "batches 1: mean_time 18 ms, left 40, which 0, before none (there were not 1 windows before the one around it)",
            "iteration 0: total 84 ms, longest 24 ms, how_many 2",
            "batches 0: mean_time 24 ms, left 40, which 1, before 84 ms",
            "batches 1: mean_time 18 ms, left 40, which 1, before 84 ms",
            "iteration 1: total 84 ms, longest 24 ms, how_many 2",
        ]
    );
    assert_eq!(farm.dropped(), Dropped::default());
}

#[test]
fn a_batch_that_its_iteration_cuts_off_is_partial_and_the_iteration_says_so() {
    let mut farm = Farm::new(BATCHES, 3);
    let mut hits = batched(1, 1000);
    // The last chunk of the second batch is never computed.
    hits.retain(|hit| hit.2 != 1090);
    farm.hits(&hits);
    farm.all_until(5000);
    let closed = farm.closed();
    let cut = "none (the window is partial: the window around it ended before)";
    assert!(
        closed[1].starts_with(&format!("batches 1: mean_time {cut}")),
        "{closed:?}"
    );
    assert!(closed[2].contains("longest none ("), "{closed:?}");
    assert_eq!(farm.dropped().partial, 1);
}

/// A batch begins with the iteration and again when the last one has ended.
const CHAINED: &str = "\
rule: chained
about: batches that follow each other
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin: {role: master, entry: begin}
  end:   {role: master, return: end}
  send:  {role: master, entry: send}
capture:
  begin.number: iteration
  begin.workers: nw
  send.tasks: n
windows:
  iteration: {from: begin, to: end, key: number}
  batch:
    within: iteration
    from: [iteration, batch]
    until: count(send) >= begin.workers
metrics:
  tasks: {in: batch, value: sum(send.tasks)}
  so_far: {in: batch, value: sum(send.tasks over iteration)}
  batches: {in: iteration, value: count(batch)}
";

#[test]
fn a_chain_begins_with_the_window_around_it_and_again_when_the_last_one_ends() {
    let mut farm = Farm::new(CHAINED, 3);
    for number in 1..=2_u64 {
        let start = number * 1000;
        farm.hit(("begin", 0, start, 0, vec![number as f64, 2.0]));
        for (index, tasks) in [8.0, 8.0, 4.0, 4.0, 2.0, 2.0].into_iter().enumerate() {
            farm.hit(("send", 0, start + 10 + index as u64, 0, vec![tasks]));
        }
        farm.hit(("end", 0, start + 100, 0, vec![]));
    }
    farm.all_until(5000);
    let expected = |number: u64| {
        [
            "batch 0: tasks 16, so_far 16".to_string(),
            "batch 1: tasks 8, so_far 24".to_string(),
            "batch 2: tasks 4, so_far 28".to_string(),
            format!("iteration {number}: batches 3"),
        ]
    };
    assert_eq!(farm.closed(), [expected(0), expected(1)].concat());
    assert_eq!(farm.dropped(), Dropped::default());
}

/// Spans across the boundary between two steps.
fn across(straddle: &str) -> String {
    format!(
        "\
rule: across
about: spans across a border
roles:
  one: rank == 0
probes:
  step: {{role: one, entry: step}}
  work: {{role: one, span: work}}
windows:
  steps: {{from: step, straddle: {straddle}}}
metrics:
  hits: count(work)
  time: sum(work.duration)
"
    )
}

#[test]
fn a_span_across_a_boundary_belongs_where_the_rule_says() {
    for (straddle, first, second) in [
        ("end", "hits 1, time 10 ms", "hits 1, time 40 ms"),
        ("begin", "hits 2, time 50 ms", "hits 0, time 0 s"),
        ("split", "hits 2, time 20 ms", "hits 1, time 30 ms"),
        ("drop", "hits 1, time 10 ms", "hits 0, time 0 s"),
    ] {
        let mut farm = Farm::new(&across(straddle), 1);
        farm.hits(&[
            ("step", 0, 100, 0, vec![]),
            ("work", 0, 150, 10, vec![]),
            ("step", 0, 200, 0, vec![]),
            // From 190 to 230.
            ("work", 0, 230, 40, vec![]),
            ("step", 0, 300, 0, vec![]),
            ("step", 0, 400, 0, vec![]),
            ("step", 0, 500, 0, vec![]),
        ]);
        farm.all_until(600);
        let closed = farm.closed();
        assert_eq!(closed[0], format!("steps 0: {first}"), "{straddle}");
        assert_eq!(closed[1], format!("steps 1: {second}"), "{straddle}");
    }
}

#[test]
fn a_window_that_is_cut_off_ends_with_the_outer_one_whenever_that_is_observed() {
    let metric = "  waited: {in: batches, value: 'sum(cpu.time)'}\n";
    for tick in [1400, 9000] {
        let mut farm = Farm::new(&format!("{BATCHES}{metric}"), 1);
        for ms in [900, 1000, 1100, 1200, 1300, 5000] {
            farm.engine.observe(cpu_time(0, Time(ms * MS), ms * MS / 2));
        }
        // Its batch continues, from 1010 to 1200.
        farm.hits(&[
            ("begin", 0, 1000, 0, vec![1.0, 100.0]),
            ("batch", 0, 1010, 0, vec![1.0, 2.0]),
            ("end", 0, 1200, 0, vec![1.0]),
        ]);
        farm.all_until(tick);
        let closed = farm.closed();
        assert!(closed[0].contains("waited 95 ms"), "{closed:?}");
    }
}

#[test]
fn a_condition_on_the_window_around_ends_a_window_at_the_hit_that_makes_it_true() {
    let source = BATCHES
        .replace(
            "until: count(chunk) == batch.chunks",
            "until: count(compute over iteration) >= 3",
        )
        .replace("key: {batch: id, chunk: send.batch}", "key: {batch: id}");
    let (head, _) = source.split_once("join:").unwrap();
    let (_, windows) = source.split_once("windows:").unwrap();
    let (windows, _) = windows.split_once("metrics:").unwrap();
    let metrics = "  sent: {in: batches, value: sum(send.tasks)}\n  length: {in: batches, value: batches.duration}\n  total: {in: iteration, value: sum(compute.duration)}\n";
    let mut farm = Farm::new(&format!("{head}windows:{windows}metrics:\n{metrics}"), 3);
    let mut hits = batched(1, 1000);
    // One batch, from 1010 to the third computation at 1060.
    hits.retain(|(probe, _, ms, ..)| *probe != "batch" || *ms == 1010);
    farm.hits(&hits);
    farm.all_until(5000);
    assert_eq!(
        farm.closed(),
        ["batches 0: sent 60, length 50 ms", "iteration 0: total 84 ms"]
    );
}
