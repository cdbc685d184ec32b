//! Processes that join and leave in large numbers.

use super::probed::Farm;
use super::*;

#[test]
fn a_process_that_joins_or_leaves_does_not_copy_what_is_known_of_the_others() {
    let mut job = Job::busy_wait(2.0);
    let of_all = |job: &Job| (Arc::as_ptr(&job.engine.joined), Arc::as_ptr(&job.engine.ranks));
    let before = of_all(&job);
    job.join(6);
    job.join(6);
    job.engine.process_learned(ProcessId(6), ProcessFacts::of_rank(7));
    assert_eq!(job.engine.ranks.get(&ProcessId(6)), Some(&7));
    job.engine.process_learned(ProcessId(6), ProcessFacts::default());
    assert_eq!(job.engine.ranks.get(&ProcessId(6)), None);
    job.engine.process_left(ProcessId(6), job.now);
    assert!(!job.engine.joined.contains_key(&ProcessId(6)));
    assert_eq!(of_all(&job), before);
}

#[test]
fn processes_that_come_or_go_within_a_window_are_left_out_and_named() {
    let mut job = Job::busy_wait(2.0);
    job.window(SPINNING);
    job.now = Time(job.now.0 + 100 * MS);
    job.join(6);
    job.engine.process_left(ProcessId(0), job.now);
    job.now = Time(job.now.0 - 100 * MS);
    job.window(SPINNING);
    let left_out = job.engine.status().remove(0).left_out;
    assert_eq!(
        left_out,
        ["rank 0 left within the window", "rank 6 joined within the window"]
    );
    job.window(SPINNING);
    assert_eq!(job.engine.status().remove(0).left_out, [] as [String; 0]);
    assert_eq!(job.engine.members(RuleId(0)).len(), 6);
    assert!(job.engine.findings()[0].text.starts_with("6 ranks share 2 CPUs"));
}

#[test]
fn a_process_that_joins_after_the_change_gets_it_too() {
    let mut job = Job::busy_wait(2.0).applying();
    job.until_applied(SPINNING);
    job.windows(6, YIELDING);
    job.join(6);
    let late = job.until_applied(YIELDING);
    assert_eq!(
        late.changes
            .iter()
            .map(|change| change.process)
            .collect::<Vec<_>>(),
        [ProcessId(6)]
    );
}

#[test]
fn a_window_whose_boundaries_each_rank_hits_has_values_for_any_number_of_ranks() {
    const RANKS: u32 = 20_000;
    let (_, text) = crate::models()
        .iter()
        .find(|(name, _)| *name == "halo-width")
        .unwrap();
    let mut farm = Farm::new(text, RANKS);
    for rank in 0..RANKS {
        farm.hits(&[
            ("begin", rank, 100, 0, vec![1.0]),
            ("exchange", rank, 120, 10, vec![1.0]),
            ("compute", rank, 170, 40, vec![1.0, 1.0, 1000.0]),
            ("end", rank, 180, 0, vec![]),
        ]);
    }
    farm.all_until(200);
    let closed = farm.closed();
    assert!(closed[0].contains("taken 50 ms"), "{}", &closed[0][..200]);
    assert_eq!(farm.engine.dropped(RuleId(0)), Dropped::default());
}
